//! The way out of a connection: a queue with an end.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How many bytes of the queue a text takes that is made while it is written.
const LAZY_BYTES: usize = 1024;

/// A text that is made piece by piece while it is written, so that one that waits holds no bytes.
#[async_trait]
pub trait TextSource: Send {
    /// Returns the next piece of UTF-8, which may end within a character; `None` when the text cannot be completed.
    async fn next_piece(&mut self) -> Option<TextPiece>;

    /// Gives back what it holds, because the next piece cannot be written yet.
    fn release(&mut self);
}

/// A part of a text.
#[derive(Debug)]
pub struct TextPiece {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether the text ends with it.
    pub is_last: bool,
}

/// Something for the other side.
pub enum Outgoing {
    /// A text.
    Text(String),
    /// A text in pieces.
    Pieces(Box<dyn TextSource>),
    /// The end, with a code and a reason.
    Close(u16, String),
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.debug_tuple("Text").field(text).finish(),
            Self::Pieces(_) => f.debug_tuple("Pieces").finish_non_exhaustive(),
            Self::Close(code, reason) => f.debug_tuple("Close").field(code).field(reason).finish(),
        }
    }
}

/// Something that waits in the queue. Its room is free once it is dropped, which a transport does when it has written the
/// message.
#[derive(Debug)]
pub struct Queued {
    /// The message.
    pub message: Outgoing,
    _room: Option<OwnedSemaphorePermit>,
}

/// The way out of a connection. Whoever sends waits for room; when the other side is gone, nothing is sent any more.
#[derive(Debug, Clone)]
pub struct Outbox {
    queue: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
    bytes: usize,
}

impl Outbox {
    /// Makes a queue of that many messages and bytes, and the end that a transport reads. A message that is larger waits until
    /// the queue is empty.
    #[must_use]
    pub fn new(length: usize, bytes: usize) -> (Self, mpsc::Receiver<Queued>) {
        let (queue, receiver) = mpsc::channel(length.max(1));
        let bytes = bytes.clamp(1, u32::MAX as usize >> 3);
        let room = Arc::new(Semaphore::new(bytes));
        let outbox = Self { queue, room, bytes };
        (outbox, receiver)
    }

    /// Sends a text; tells whether somebody is still there.
    pub(crate) async fn send(&self, text: String) -> bool {
        let bytes = text.len();
        self.put(Outgoing::Text(text), bytes).await
    }

    /// Sends a text that is made while it is written; tells whether somebody is still there.
    pub(crate) async fn send_pieces(&self, source: Box<dyn TextSource>) -> bool {
        self.put(Outgoing::Pieces(source), LAZY_BYTES).await
    }

    async fn put(&self, message: Outgoing, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes.clamp(1, self.bytes)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes);
        let room = tokio::select! {
            room = room => room.ok(),
            () = self.queue.closed() => return false,
        };
        let queued = Queued {
            message,
            _room: room,
        };
        self.queue.send(queued).await.is_ok()
    }

    /// Ends the connection after what was sent before.
    pub async fn close(&self, code: u16, reason: impl Into<String>) {
        let message = Outgoing::Close(code, reason.into());
        let _ = self
            .queue
            .send(Queued {
                message,
                _room: None,
            })
            .await;
    }
}
