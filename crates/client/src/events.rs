//! The events of a thread as they come.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use windlass_protocol::RuntimeEventEnvelope;

use crate::error::ClientError;

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
    pub async fn next(&mut self) -> Result<Option<RuntimeEventEnvelope>, ClientError> {
        loop {
            if let Some(data) = self.frames.next() {
                return Ok(Some(serde_json::from_slice(&data)?));
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
    use super::*;

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
