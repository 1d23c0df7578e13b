//! The bare loop: a program without a runtime on the same client library. It sends the same requests as
//! Windlass and reads the events of the answers.

use std::sync::{Arc, Mutex};

use reqwest::Client;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;
use windlass_core::AgentLoopError;
use windlass_testkit::Wire;

use super::server::AnswerScript;
use super::sessions::{KEY, Sessions, turn};
use super::{Result, broke};

/// The request bodies of a session of Windlass with this many turns.
pub async fn recorded(wire: Wire, script: AnswerScript, turns: usize) -> Result<Vec<Value>> {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let server = script
        .answering(wire, move |body: &[u8]| {
            if let Ok(mut bodies) = seen.lock() {
                bodies.push(serde_json::from_slice(body).unwrap_or_default());
            }
        })
        .await?;
    let sessions = Sessions::start(wire, &server.url(), 1).await?;
    for _ in 0..turns {
        turn(&sessions.runtime, sessions.ids[0]).await?;
    }
    let bodies = bodies.lock().map(|bodies| bodies.clone());
    bodies.map_err(|_| AgentLoopError::config("the recording broke"))
}

/// A client with default settings.
pub fn client() -> Result<Client> {
    let client = Client::builder().no_proxy().tls_certs_only([]).build();
    client.map_err(|error| broke("no HTTP client", error))
}

/// Makes one request of a conversation and reads the events of its answer.
pub async fn ask(client: &Client, url: &str, conversation: &Value) -> Result<usize> {
    let body = serde_json::to_vec(conversation).map_err(|error| broke("no JSON", error))?;
    let (mut rest, mut events) = (Vec::new(), 0);
    post(client, url, body, |bytes| {
        rest.extend_from_slice(bytes);
        let mut read = 0;
        while let Some(length) = rest[read..].iter().position(|byte| *byte == b'\n') {
            let line = &rest[read..read + length];
            read += length + 1;
            if let Some(data) = line.strip_prefix(b"data: ")
                && let Ok(event) = serde_json::from_slice::<Value>(data)
            {
                events += usize::from(!event.is_null());
            }
        }
        rest.drain(..read);
    })
    .await?;
    Ok(events)
}

/// Sends a request body and reads the answer.
pub async fn post(
    client: &Client,
    url: &str,
    body: Vec<u8>,
    mut taken: impl FnMut(&[u8]),
) -> Result<()> {
    let failed = |error| broke("the bare loop failed", error);
    let mut response = client
        .post(url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream")
        .header(AUTHORIZATION, format!("Bearer {KEY}"))
        .body(body)
        .send()
        .await
        .map_err(failed)?;
    while let Some(bytes) = response.chunk().await.map_err(failed)? {
        taken(&bytes);
    }
    Ok(())
}
