//! Text that a step has streamed and the journal does not contain yet.

use std::task::{Context, Poll};
use std::time::Duration;

use windlass_core::bounds::prefix;
use windlass_core::{Clock, Sleep};
use windlass_turn::UnflushedText;

/// Streamed text is recorded after this time at the latest.
pub(crate) const CHUNK_SPAN: Duration = Duration::from_millis(32);
/// Streamed text is recorded at this many bytes at the latest.
pub(crate) const CHUNK_BYTES: usize = 16 * 1024;

/// The kind of streamed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Answer,
    Thinking,
}

/// The text of one step. It belongs to the step, so that it is dropped with it and cannot be recorded under another.
#[derive(Default)]
pub(crate) struct StreamBuffer {
    pub(crate) tail: UnflushedText,
    pub(crate) flush: Option<Sleep>,
}

impl StreamBuffer {
    /// Returns whether a piece can be added without exceeding a chunk.
    pub(crate) fn fits(&self, piece: &str) -> bool {
        self.tail.len() + piece.len() <= CHUNK_BYTES
    }

    pub(crate) fn is_full(&self) -> bool {
        self.tail.len() >= CHUNK_BYTES
    }

    /// Adds a piece, which is recorded within [`CHUNK_SPAN`].
    pub(crate) fn push(&mut self, kind: StreamKind, piece: &str, clock: &dyn Clock) {
        match kind {
            StreamKind::Answer => self.tail.text.push_str(piece),
            StreamKind::Thinking => self.tail.thinking.push_str(piece),
        }
        self.flush.get_or_insert_with(|| clock.sleep(CHUNK_SPAN));
    }

    /// Is ready when the text is to be recorded.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.flush {
            Some(due) => due.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// Cuts text into pieces of at most a chunk, at character boundaries: a provider may send any amount at once.
pub(crate) fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let piece = prefix(text, CHUNK_BYTES);
        text = &text[piece.len()..];
        (!piece.is_empty()).then_some(piece)
    })
}
