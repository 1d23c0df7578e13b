//! A client of either server.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::Result;

pub struct RunsClient {
    ws: WebSocketStream<TcpStream>,
    next: u64,
}

impl RunsClient {
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (ws, _) = client_async(format!("ws://{address}/"), stream).await?;
        Ok(Self { ws, next: 0 })
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let frame = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.ws.send(Message::text(frame.to_string())).await?;
        loop {
            match self.ws.next().await {
                Some(Ok(Message::Text(text))) => {
                    let answer: Value = serde_json::from_str(&text)?;
                    return match answer.get("error") {
                        Some(error) => Err(format!("{method}: {error}").into()),
                        None => Ok(answer),
                    };
                }
                Some(Ok(_)) => {}
                other => return Err(format!("the socket ended: {other:?}").into()),
            }
        }
    }

    /// Starts a run and completes it. The bare server echoes frames, so its run ID is the client's own.
    pub async fn pair(&mut self, agent: &str) -> Result<()> {
        let params =
            json!({"agent_id": agent, "intent": "measure how many runs a second are recorded"});
        let started = self.call("runs.start", params).await?;
        let run_id = started["result"]["run_id"].as_str();
        let run_id = run_id.unwrap_or("935708c5-4016-403c-b5b7-7ce85c5365d9");
        let params =
            json!({"run_id": run_id, "outcome": {"status": "success", "summary": "measured"}});
        self.call("runs.complete", params).await?;
        Ok(())
    }

    pub async fn list(&mut self, agent_id: &str) -> Result<()> {
        let page = self
            .call("runs.list", json!({"agent_id": agent_id, "limit": 200}))
            .await?;
        match page["result"]["runs"].as_array().map(Vec::len) {
            Some(200) => Ok(()),
            found => Err(format!("a page has {found:?} runs, not 200").into()),
        }
    }
}
