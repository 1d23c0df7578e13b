//! A thread with all its events, to be kept elsewhere.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;
use windlass_protocol::{ErrorCode, RuntimeEventEnvelope, Thread};

use super::Asked;
use super::follow::Wanted;
use crate::app::Shared;
use crate::error::{ApiError, Result};
use crate::subscribers::Subscriber;
use crate::view::{self, Include};

/// How many records are read together.
const PAGE: usize = 256;

/// The events of a thread up to the newest that there was at the beginning. It reads the next page when it is asked for it, so that a long
/// thread takes no more memory than a short one.
pub(crate) struct Export {
    app: Shared,
    /// The thread as it was at the beginning.
    pub(crate) thread: Thread,
    session_id: SessionId,
    include: Include,
    page: VecDeque<Arc<Event>>,
    /// The number of the last record that was read.
    read: u64,
    head: u64,
    /// The number of the event that was shown before.
    previous: u64,
    reader: Subscriber,
}

impl Asked {
    /// Begins to read a thread from one event on to its end.
    pub(crate) async fn export(&self, id: &str, wanted: Wanted) -> Result<Export> {
        let found = self.find(id).await?;
        Ok(Export {
            app: Shared::clone(&self.app),
            session_id: found.id,
            include: wanted.include,
            page: VecDeque::new(),
            // What a fork shares is no event of it.
            read: wanted.since.max(found.shared()),
            head: found.row.seq,
            previous: wanted.since,
            thread: found.thread,
            reader: Subscriber::take(&self.app, &self.caller)?,
        })
    }
}

impl Export {
    /// Returns the next event; `None` behind the last.
    pub(crate) async fn next(&mut self) -> Result<Option<RuntimeEventEnvelope>> {
        loop {
            if self.page.is_empty() && !self.turn_page().await? {
                return Ok(None);
            }
            let Some(event) = self.page.pop_front() else {
                continue;
            };
            if let Some(mut shown) = view::view(&event, self.include) {
                shown.link(self.previous);
                self.previous = shown.seq;
                return Ok(Some(shown));
            }
        }
    }

    /// Reads the next page; tells whether there was one.
    async fn turn_page(&mut self) -> Result<bool> {
        if self.read >= self.head {
            return Ok(false);
        }
        if self.reader.revoked().is_cancelled() || self.app.stopping.is_cancelled() {
            let text = "the export was cut off: the daemon stops, or the token was taken back";
            return Err(ApiError::new(ErrorCode::ShuttingDown, text));
        }
        let runtime = &self.app.runtime;
        let events = runtime
            .events_since(self.session_id, self.read, PAGE)
            .await?;
        let head = self.head;
        self.page = events
            .into_iter()
            .filter(|event| event.seq() <= head)
            .collect();
        self.read = self.page.back().map_or(head, |event| event.seq());
        Ok(!self.page.is_empty())
    }
}
