//! The way out of a connection: a queue with an end.

use tokio::sync::mpsc;

/// Something for the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// A text.
    Text(String),
    /// The end, with a code and a reason.
    Close(u16, String),
}

/// The way out of a connection. Whoever sends waits for room; when the other side is gone, nothing is sent any more.
#[derive(Debug, Clone)]
pub struct Outbox(mpsc::Sender<Outgoing>);

impl Outbox {
    /// Makes a queue of that length, and the end that a transport reads.
    #[must_use]
    pub fn new(length: usize) -> (Self, mpsc::Receiver<Outgoing>) {
        let (sender, receiver) = mpsc::channel(length.max(1));
        (Self(sender), receiver)
    }

    /// Sends a text; tells whether somebody is still there.
    pub(crate) async fn send(&self, text: String) -> bool {
        self.0.send(Outgoing::Text(text)).await.is_ok()
    }

    /// Ends the connection after what was sent before.
    pub async fn close(&self, code: u16, reason: impl Into<String>) {
        let _ = self.0.send(Outgoing::Close(code, reason.into())).await;
    }
}
