//! Exports a thread with all its events.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;
use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;
use windlass_protocol::api::{CallFuture, Parts, ResponseStream};
use windlass_protocol::{Item, RuntimeEventEnvelope, Thread, Turn};
use windlass_store::StreamKey;

use crate::limits::subscribers::Subscriber;
use crate::operations::prelude::*;
use crate::operations::threads::follow::included;
use crate::threads::FoundThread;
use crate::view::{self, Include};

/// Maximum number of records per read, and their approximate size in bytes.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 128 * 1024;

/// The first line of an export.
#[derive(Serialize)]
struct HeadLine {
    /// The thread at the start of the export.
    thread: Thread,
    /// The turns that a fork shares with its parent; they are not events of the fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<SharedTurns>,
}

/// Turns that a fork shares with its parent, as the fork shows them.
#[derive(Serialize)]
struct SharedTurns {
    turns: Vec<Turn>,
    items: Vec<Item>,
}

/// The events of a thread up to the newest at the start of the export. Pages are read on demand, so memory use does not depend on the length of the
/// thread.
struct ThreadExport {
    app: Service,
    /// The line before the events.
    head_line: Option<HeadLine>,
    session_id: SessionId,
    include: Include,
    page: VecDeque<Arc<Event>>,
    /// The number of the last record that was read.
    read: u64,
    head: u64,
    /// The number of the previous exported event.
    previous: u64,
    reader: Subscriber,
}

impl Handle<op::ExportThread> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ExportThread>,
    ) -> Result<ResponseStream<Vec<u8>>> {
        let since = call.query.since_seq.unwrap_or(0);
        let include = included(call.query.include.as_deref());
        let found = self.find(&call.path.id).await?;
        let shared = if since < found.shared() {
            Some(self.shared_turns(&found).await?)
        } else {
            None
        };
        Ok(Box::new(ThreadExport {
            app: Service::clone(self),
            session_id: found.id,
            include,
            page: VecDeque::new(),
            read: since.max(found.shared()),
            head: found.row.seq,
            previous: since,
            head_line: Some(HeadLine {
                thread: found.thread,
                shared,
            }),
            reader: Subscriber::take(self, &ctx.caller)?,
        }))
    }
}

impl Parts<Vec<u8>> for ThreadExport {
    fn next(&mut self) -> CallFuture<'_, Option<Vec<u8>>> {
        Box::pin(async {
            if let Some(head) = self.head_line.take() {
                return Ok(Some(line(&head)?));
            }
            let event = self.next_event().await?;
            Ok(event.map(|event| line(&event)).transpose()?)
        })
    }
}

fn line(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(ApiError::internal)?;
    line.push(b'\n');
    Ok(line)
}

impl Service {
    async fn shared_turns(&self, found: &FoundThread) -> Result<SharedTurns> {
        let mut open = self.open_thread_turns(&found.thread.id, usize::MAX).await?;
        open.turns.retain(|turn| turn.is_shared);
        let turns = open.shown_turns().collect();
        let items = self.read_items(open.found.id, open.turns, open.found.row.seq);
        let items = items.collect().await?;
        Ok(SharedTurns { turns, items })
    }
}

impl ThreadExport {
    /// Returns the next event; `None` after the last.
    async fn next_event(&mut self) -> Result<Option<RuntimeEventEnvelope>> {
        loop {
            if self.page.is_empty() && !self.read_page().await? {
                return Ok(None);
            }
            let Some(event) = self.page.pop_front() else {
                continue;
            };
            if let Some(mut shown) = view::view(&event, self.include) {
                shown.previous_seq = Some(self.previous);
                self.previous = shown.seq;
                return Ok(Some(shown));
            }
        }
    }

    /// Reads the next page; returns whether there was one.
    async fn read_page(&mut self) -> Result<bool> {
        if self.read >= self.head {
            return Ok(false);
        }
        if self.reader.revoked().is_cancelled() || self.app.stopping.is_cancelled() {
            let text =
                "the export was aborted: the daemon is shutting down, or the token was revoked";
            return Err(ApiError::new(ErrorCode::ShuttingDown, text));
        }
        let (journal, head) = (self.app.runtime.journal(), self.head);
        let key = StreamKey::from(self.session_id);
        let page = journal.read_within(&key, self.read, PAGE, PAGE_BYTES);
        let events = page.await?.events.into_iter();
        self.page = events.filter(|event| event.seq() <= head).collect();
        self.read = self.page.back().map_or(head, |event| event.seq());
        Ok(!self.page.is_empty())
    }
}
