//! The bounded queue of outgoing messages of a connection.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes of the queue's limit that a lazily produced text occupies.
const LAZY_BYTES: usize = 1024;

/// A text that is produced in pieces while it is written, so that a queued one occupies no memory.
#[async_trait]
pub trait TextSource: Send {
    /// Returns the next piece of UTF-8, which may end within a character; `None` if the text cannot be completed.
    async fn next_piece(&mut self) -> Option<TextPiece>;

    /// Releases resources, because the next piece cannot be written yet.
    fn release(&mut self);
}

/// A part of a text.
#[derive(Debug)]
pub struct TextPiece {
    /// UTF-8 bytes, possibly ending within a character.
    pub bytes: Vec<u8>,
    /// Whether this is the last piece.
    pub is_last: bool,
}

/// A message to the client.
pub enum Outgoing {
    /// A complete text.
    Text(String),
    /// A text in pieces.
    Pieces(Box<dyn TextSource>),
    /// The close code and reason.
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

/// A queued message. Dropping it frees its room; a transport drops it after writing the message.
#[derive(Debug)]
pub struct Queued {
    /// The message to write.
    pub message: Outgoing,
    _room: Option<OwnedSemaphorePermit>,
}

/// The sending end of a connection's queue. Senders wait for room; once the connection is gone, messages are discarded.
#[derive(Debug, Clone)]
pub struct Outbox {
    queue: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
    bytes: usize,
}

impl Outbox {
    /// Creates a queue limited by messages and bytes, with the receiving end for the transport. A message over the byte limit waits until the queue
    /// is empty.
    #[must_use]
    pub fn new(length: usize, bytes: usize) -> (Self, mpsc::Receiver<Queued>) {
        let (queue, receiver) = mpsc::channel(length.max(1));
        let bytes = bytes.clamp(1, u32::MAX as usize >> 3);
        let room = Arc::new(Semaphore::new(bytes));
        let outbox = Self { queue, room, bytes };
        (outbox, receiver)
    }

    /// Sends a text; returns whether the client is still connected.
    pub(crate) async fn send(&self, text: String) -> bool {
        let bytes = text.len();
        self.put(Outgoing::Text(text), bytes).await
    }

    /// Sends a lazily produced text; returns whether the client is still connected.
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

    /// Closes the connection after the queued messages.
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
