//! The events of a thread as they come.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use windlass_protocol::{EventPayload, RuntimeEventEnvelope};

use crate::error::ClientError;

/// The number of unknown names that are reported; a server that sends more gets no further reports.
const MAX_UNKNOWN: usize = 64;

/// A stream of events. It ends when the daemon stops; [`seq`](RuntimeEventEnvelope::seq) of the last one says where to go on.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    frames: Frames,
}

impl Events {
    pub(crate) fn of(body: Incoming) -> Self {
        Self {
            body,
            frames: Frames::default(),
        }
    }

    /// Returns the next event; `None` when the daemon has ended the stream.
    ///
    /// An event of a newer server has the payload [`EventPayload::Unknown`]. Its name is logged once per process.
    pub async fn next(&mut self) -> Result<Option<RuntimeEventEnvelope>, ClientError> {
        loop {
            if let Some(data) = self.frames.next() {
                let event: RuntimeEventEnvelope = serde_json::from_slice(&data)?;
                if let EventPayload::Unknown(unknown) = &event.payload
                    && UNKNOWN_NAMES.is_new(&unknown.name)
                {
                    let name = &unknown.name;
                    tracing::warn!(?name, "the server sends events that this version skips");
                }
                return Ok(Some(event));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        self.frames.push(&piece);
                    }
                }
                Some(Err(error)) => return Err(ClientError::Broken(error)),
                None => return Ok(None),
            }
        }
    }
}

static UNKNOWN_NAMES: UnknownNames = UnknownNames(Mutex::new(BTreeSet::new()));

/// The names of unknown events that were reported.
struct UnknownNames(Mutex<BTreeSet<String>>);

impl UnknownNames {
    /// Adds a name; returns whether it is to be reported.
    fn is_new(&self, name: &str) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.len() < MAX_UNKNOWN && names.insert(name.to_owned())
    }
}

/// Puts lines together from pieces. Windlass writes the data of a frame in one line; what is not data is passed over.
#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
    /// Where the next line begins.
    line: usize,
    /// How far an end of that line was looked for.
    seen: usize,
}

impl Frames {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.line);
        self.seen -= self.line;
        self.line = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Takes the next data.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let rest = &self.bytes[self.seen..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.seen = self.bytes.len();
                return None;
            };
            let end = self.seen + end;
            let line = self.bytes[self.line..end].trim_ascii_end();
            let data = line.strip_prefix(b"data:");
            let data = data.map(|data| data.trim_ascii_start().to_vec());
            (self.line, self.seen) = (end + 1, end + 1);
            if data.is_some() {
                return data;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::{Client, ToPort};

    #[tokio::test]
    async fn unknown_event_is_passed_on_and_the_stream_continues() {
        let frame = |seq: u64, name: &str, payload: Value| {
            let event = json!({
                "schema_version": 1, "seq": seq, "event": name, "kind": name, "thread_id": "thr_1", "turn_id": null,
                "item_id": null, "timestamp": "", "created_at": "", "payload": payload,
            });
            format!("id: {seq}\nevent: {name}\ndata: {event}\n\n")
        };
        let known = json!({ "approval_id": "apr_1", "timeout_secs": 1 });
        let body = frame(1, "thread.renamed", json!({})) + &frame(2, "approval.timeout", known);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await.unwrap();
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let client = Client::new(ToPort::new(address.to_string()), None);
        let mut events = client.events("thr_1", 0).await.unwrap();
        let first = events.next().await.unwrap().unwrap();
        assert!(matches!(first.payload, EventPayload::Unknown(_)));
        let second = events.next().await.unwrap().unwrap();
        assert_eq!(second.payload.name(), "approval.timeout");
        assert!(events.next().await.unwrap().is_none());
    }

    #[test]
    fn unknown_name_is_reported_once() {
        let names = UnknownNames(Mutex::default());
        assert!(names.is_new("thread.renamed"));
        assert!(!names.is_new("thread.renamed"));
        assert!(names.is_new("thread.moved"));
        for number in 2..MAX_UNKNOWN {
            assert!(names.is_new(&number.to_string()));
        }
        assert!(!names.is_new("one too many"));
    }

    #[test]
    fn data_is_found_however_the_text_is_cut() {
        let text = b": caught-up\n\nid: 1\nevent: x\ndata: {\"a\":1}\n\nid: 2\r\ndata:{}\r\n\r\n";
        for size in 1..text.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                frames.push(piece);
                while let Some(data) = frames.next() {
                    found.push(data);
                }
            }
            assert_eq!(found, [b"{\"a\":1}".to_vec(), b"{}".to_vec()], "{size}");
        }
    }
}
