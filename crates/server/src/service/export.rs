//! A thread with all its events, to be kept elsewhere.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;
use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;
use windlass_protocol::{ErrorCode, Item, RuntimeEventEnvelope, Thread, Turn};
use windlass_store::queries::TurnDetail;

use super::Asked;
use super::follow::Wanted;
use crate::app::Shared;
use crate::error::{ApiError, Result};
use crate::subscribers::Subscriber;
use crate::threads::{FoundThread, told};
use crate::view::{self, Include};

/// How many records are read together.
const PAGE: usize = 256;

/// The first line of an export.
#[derive(Serialize)]
pub(crate) struct HeadLine {
    /// The thread as it was at the beginning.
    thread: Thread,
    /// What a fork has of its parent: that is no event of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<SharedTurns>,
}

/// Turns that a fork shares with its parent, as the fork shows them.
#[derive(Default, Serialize)]
struct SharedTurns {
    turns: Vec<Turn>,
    items: Vec<Item>,
}

/// The events of a thread up to the newest that there was at the beginning. It reads the next page when it is asked for it, so that a long
/// thread takes no more memory than a short one.
pub(crate) struct Export {
    app: Shared,
    pub(crate) head_line: HeadLine,
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
        let shared = match wanted.since < found.shared() {
            true => Some(self.shared_part(&found).await?),
            false => None,
        };
        Ok(Export {
            app: Shared::clone(&self.app),
            session_id: found.id,
            include: wanted.include,
            page: VecDeque::new(),
            read: wanted.since.max(found.shared()),
            head: found.row.seq,
            previous: wanted.since,
            head_line: HeadLine {
                thread: found.thread,
                shared,
            },
            reader: Subscriber::take(&self.app, &self.caller)?,
        })
    }

    async fn shared_part(&self, found: &FoundThread) -> Result<SharedTurns> {
        let whole = self.queries.thread_detail(&found.row.stream, usize::MAX);
        let turns = whole.await?.map_or_else(Vec::new, |whole| whole.turns);
        let mut shared = SharedTurns::default();
        let kept = |turn: &&TurnDetail| turn.row.is_shared && !turn.row.is_pruned;
        for turn in turns.iter().filter(kept) {
            let (turn, items) = told(found.id, turn);
            shared.turns.push(turn);
            shared.items.extend(items);
        }
        Ok(shared)
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
                shown.previous_seq = Some(self.previous);
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
