//! One event as text for one reader, in pieces.

use std::sync::Arc;

use bytes::Bytes;

use super::{Fanout, WireRecord};
use crate::view::Include;

/// The largest piece of an event that is sent at once, in bytes.
pub const PIECE_BYTES: usize = 8 * 1024;

/// An event with the text before and after it, read in pieces. It holds the event only while pieces are taken without a pause: before waiting for a
/// reader it is [released](Self::release), and read again for the next piece.
pub struct EventText {
    fanout: Arc<Fanout>,
    include: Include,
    seq: u64,
    record: Option<Arc<WireRecord>>,
    head: String,
    tail: String,
    json_len: usize,
    /// Bytes taken so far.
    at: usize,
}

impl EventText {
    /// Creates the text of a visible record; `None` for any other.
    pub(crate) fn new(
        fanout: Arc<Fanout>,
        include: Include,
        record: Arc<WireRecord>,
        head: String,
        tail: String,
    ) -> Option<Self> {
        Some(Self {
            fanout,
            include,
            seq: record.seq,
            json_len: record.shown.as_ref()?.json.len(),
            record: Some(record),
            head,
            tail,
            at: 0,
        })
    }

    fn len(&self) -> usize {
        self.head.len() + self.json_len + self.tail.len()
    }

    /// Returns whether all pieces were taken.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.at >= self.len()
    }

    /// Drops the event until the next piece is needed.
    pub fn release(&mut self) {
        self.record = None;
    }

    /// Returns the next piece; `None` if the event is no longer stored.
    pub async fn next(&mut self) -> Option<Bytes> {
        if self.record.is_none() {
            self.record = Some(self.fanout.record(self.seq, self.include).await?);
        }
        let record = self.record.as_ref()?;
        let json = &record.shown.as_ref()?.json;
        let end = self.len().min(self.at + PIECE_BYTES);
        let mut piece = Vec::with_capacity(end - self.at);
        let mut begin = 0;
        for part in [self.head.as_bytes(), json, self.tail.as_bytes()] {
            let from = self.at.clamp(begin, begin + part.len()) - begin;
            let to = end.clamp(begin, begin + part.len()) - begin;
            piece.extend_from_slice(&part[from..to]);
            begin += part.len();
        }
        self.at = end;
        Some(piece.into())
    }
}
