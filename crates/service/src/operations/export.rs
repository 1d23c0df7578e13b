//! Exports a thread with all its events.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;
use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;
use windlass_protocol::api::{Call, CallFuture, Parts, Stream};
use windlass_protocol::operations as op;
use windlass_protocol::{ErrorCode, Item, RuntimeEventEnvelope, Thread, Turn};
use windlass_store::StreamKey;

use super::RequestContext;
use super::follow::{FollowOptions, included};
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::service::Service;
use crate::subscribers::Subscriber;
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
#[derive(Default, Serialize)]
struct SharedTurns {
    turns: Vec<Turn>,
    items: Vec<Item>,
}

/// The events of a thread up to the newest at the start of the export. Pages are read on demand, so memory use does not depend on the length of the
/// thread.
struct Export {
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
        context: &RequestContext,
        call: Call<op::ExportThread>,
    ) -> Result<Stream<Vec<u8>>> {
        let wanted = FollowOptions {
            since: call.query.since_seq.unwrap_or(0),
            newest: None,
            include: included(call.query.include.as_deref()),
        };
        let export = self.export(context, &call.path.id, wanted).await?;
        Ok(Box::new(export))
    }
}

impl Parts<Vec<u8>> for Export {
    fn next(&mut self) -> CallFuture<'_, Option<Vec<u8>>> {
        Box::pin(async {
            let line = match self.head_line.take() {
                Some(head) => Some(line(&head)?),
                None => self
                    .next_event()
                    .await?
                    .map(|event| line(&event))
                    .transpose()?,
            };
            Ok(line)
        })
    }
}

fn line(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(ApiError::internal)?;
    line.push(b'\n');
    Ok(line)
}

impl Service {
    /// Starts an export of the events after a number.
    async fn export(
        &self,
        context: &RequestContext,
        id: &str,
        wanted: FollowOptions,
    ) -> Result<Export> {
        let found = self.find(id).await?;
        let shared = if wanted.since < found.shared() {
            Some(self.shared_part(&found).await?)
        } else {
            None
        };
        Ok(Export {
            app: Service::clone(self),
            session_id: found.id,
            include: wanted.include,
            page: VecDeque::new(),
            read: wanted.since.max(found.shared()),
            head: found.row.seq,
            previous: wanted.since,
            head_line: Some(HeadLine {
                thread: found.thread,
                shared,
            }),
            reader: Subscriber::take(self, &context.caller)?,
        })
    }

    async fn shared_part(&self, found: &FoundThread) -> Result<SharedTurns> {
        let mut open = self.open_thread_turns(&found.thread.id, usize::MAX).await?;
        open.turns.retain(|turn| turn.is_shared);
        let mut shared = SharedTurns {
            turns: open.shown_turns().collect(),
            items: Vec::new(),
        };
        let head = open.found.row.seq;
        let mut items = self.read_items(open.found.id, open.turns, head);
        while let Some(item) = items.next().await? {
            shared.items.push(item);
        }
        Ok(shared)
    }
}

impl Export {
    /// Returns the next event; `None` after the last.
    async fn next_event(&mut self) -> Result<Option<RuntimeEventEnvelope>> {
        loop {
            if self.page.is_empty() && !self.turn_page().await? {
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
    async fn turn_page(&mut self) -> Result<bool> {
        if self.read >= self.head {
            return Ok(false);
        }
        if self.reader.revoked().is_cancelled() || self.app.stopping.is_cancelled() {
            let text = "the export was cut off: the daemon stops, or the token was taken back";
            return Err(ApiError::new(ErrorCode::ShuttingDown, text));
        }
        let journal = self.app.runtime.journal();
        let key = StreamKey::from(self.session_id);
        let page = journal
            .read_within(&key, self.read, PAGE, PAGE_BYTES)
            .await?;
        let head = self.head;
        self.page = page
            .events
            .into_iter()
            .filter(|event| event.seq() <= head)
            .collect();
        self.read = self.page.back().map_or(head, |event| event.seq());
        Ok(!self.page.is_empty())
    }
}
