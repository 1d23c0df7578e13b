//! Reads the items of turns one after the other. Regardless of the turns' length, memory contains one page of records and, for each item of one turn,
//! its record numbers.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::items::{Change, ItemStep, TurnLog, change, item_step};
use windlass_core::typed_id::{ItemId, SessionId};
use windlass_protocol::{Item, Turn};
use windlass_store::queries::TurnRow;
use windlass_store::{Journal, StreamKey};

use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::{ids, view};

/// Records per read, and approximate bytes per read.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 128 * 1024;

/// Converts a turn of a thread, without its items.
pub(crate) fn turn_of(id: SessionId, row: &TurnRow) -> Turn {
    let mut turn = view::turn(&row.view);
    if row.is_shared {
        view::use_fork_ids(&mut turn, &mut [], id);
    }
    turn
}

/// The records of an item.
struct ItemSpan {
    id: ItemId,
    opened: u64,
    closed: Option<u64>,
    /// Whether the item has started and not ended.
    is_open: bool,
}

/// The items of one turn that are not read yet.
struct TurnItems {
    row: TurnRow,
    /// The visible ID of the turn.
    turn_id: String,
    /// The turn without items, as of its first record. That record contains the complete input, so it is not held itself.
    log: TurnLog,
    end: u64,
    left: std::vec::IntoIter<ItemSpan>,
}

/// Reads the items of turns.
pub(crate) struct ItemReader {
    journal: Arc<dyn Journal>,
    key: StreamKey,
    session_id: SessionId,
    /// Sequence numbers of the newest record to include and of the last record of the turns.
    head: u64,
    last: u64,
    turns: std::vec::IntoIter<TurnRow>,
    current: Option<TurnItems>,
    page: Vec<Arc<Event>>,
}

impl Service {
    /// Creates a reader for the items of turns, as of a record of their thread.
    pub(crate) fn read_items(
        &self,
        session_id: SessionId,
        turns: Vec<TurnRow>,
        head: u64,
    ) -> ItemReader {
        let last = turns.iter().map(|row| row.last_seq.unwrap_or(head)).max();
        ItemReader {
            journal: self.runtime.journal(),
            key: session_id.into(),
            session_id,
            head,
            last: last.unwrap_or(head),
            turns: turns.into_iter(),
            current: None,
            page: Vec::new(),
        }
    }
}

impl ItemReader {
    /// Returns the next item; `None` after the last one of the last turn.
    pub(crate) async fn next(&mut self) -> Result<Option<Item>> {
        loop {
            while let Some(span) = self.current.as_mut().and_then(|turn| turn.left.next()) {
                if let Some(item) = self.item(&span).await? {
                    return Ok(Some(item));
                }
            }
            let Some(row) = self.turns.next() else {
                self.current = None;
                return Ok(None);
            };
            self.current = self.index(row).await?;
        }
    }

    /// Returns the sequence number of the newest record to include.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Reads all items into memory.
    pub(crate) async fn collect(mut self) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        while let Some(item) = self.next().await? {
            items.push(item);
        }
        Ok(items)
    }

    /// Reads the page after a record; returns the number of the last record that is stored or pruned there.
    async fn read(&mut self, after: u64) -> Result<u64> {
        let left = usize::try_from(self.last.saturating_sub(after)).unwrap_or(usize::MAX);
        let limit = PAGE.min(left.max(1));
        let (journal, key) = (&self.journal, &self.key);
        let page = journal.read_within(key, after, limit, PAGE_BYTES).await?;
        if page.head == 0 {
            return Err(ApiError::thread_not_found(&ids::thread(self.session_id)));
        }
        let event = page.events.last().map(|event| event.seq());
        let gap = page.pruned.last().map(|gap| *gap.end());
        self.page = page.events;
        Ok(event.max(gap).unwrap_or(u64::MAX))
    }

    /// Drops the cached records. They are read again on demand.
    pub(crate) fn release(&mut self) {
        self.page = Vec::new();
    }

    /// Returns a record; `None` if it is no longer stored.
    pub(crate) async fn event(&mut self, seq: u64) -> Result<Option<Arc<Event>>> {
        if let Ok(index) = self.page.binary_search_by_key(&seq, |event| event.seq()) {
            return Ok(Some(Arc::clone(&self.page[index])));
        }
        self.read(seq.saturating_sub(1)).await?;
        let first = self.page.first().filter(|event| event.seq() == seq);
        Ok(first.cloned())
    }

    /// Finds the records of a turn's items, in the order in which the items started; `None` if the turn is no longer stored.
    async fn index(&mut self, row: TurnRow) -> Result<Option<TurnItems>> {
        let end = row.last_seq.unwrap_or(self.head);
        let Some(first) = self.event(row.first_seq).await? else {
            return Ok(None);
        };
        let log = TurnLog::fold([&first]);
        drop(first);
        let (mut spans, mut indexes) = (Vec::new(), HashMap::new());
        let mut after = row.first_seq;
        loop {
            let of_turn = self.page.iter();
            let of_turn = of_turn.filter(|event| (row.first_seq..=end).contains(&event.seq()));
            for event in of_turn {
                add_span(event, &row, &mut spans, &mut indexes);
            }
            let last = self.page.last().map_or(after, |event| event.seq());
            after = after.max(last);
            if after >= end {
                break;
            }
            let reached = self.read(after).await?;
            if self.page.is_empty() {
                after = reached;
            }
        }
        Ok(Some(TurnItems {
            turn_id: turn_of(self.session_id, &row).id,
            row,
            log,
            end,
            left: spans.into_iter(),
        }))
    }

    /// Reconstructs an item from the records of its turn.
    async fn item(&mut self, span: &ItemSpan) -> Result<Option<Item>> {
        let Some(turn) = &self.current else {
            return Ok(None);
        };
        let (mut log, end) = (turn.log.clone(), turn.end);
        for seq in std::iter::once(span.opened).chain(span.closed) {
            if let Some(event) = self.event(seq).await? {
                log.apply(&event);
            }
        }
        if span.is_open {
            self.join_deltas(&mut log, span, end).await?;
        }
        let Some(turn) = &self.current else {
            return Ok(None);
        };
        let mut item = log.item(span.id).map(|item| view::item(&item));
        if let Some(item) = item.as_mut().filter(|_| turn.row.is_shared) {
            view::use_fork_item_ids(item, &turn.turn_id, self.session_id);
        }
        Ok(item)
    }

    /// Adds the text of an open item so far.
    async fn join_deltas(&mut self, log: &mut TurnLog, span: &ItemSpan, end: u64) -> Result<()> {
        let mut after = span.opened;
        while after < end {
            let reached = self.read(after).await?;
            for event in self.page.iter().filter(|event| event.seq() <= end) {
                if let Some(ItemStep::Delta { item_id, .. }) = item_step(event)
                    && item_id == span.id
                {
                    log.apply(event);
                }
            }
            after = self.page.last().map_or(reached, |event| event.seq());
        }
        Ok(())
    }
}

/// Adds the number of a record to the span of its item, by the rules of [`TurnLog`].
fn add_span(
    event: &Event,
    row: &TurnRow,
    spans: &mut Vec<ItemSpan>,
    indexes: &mut HashMap<ItemId, usize>,
) {
    let Some(Change::Item(step)) = change(event) else {
        return;
    };
    let (item, begins) = match &step {
        ItemStep::Started(item) => (item, true),
        ItemStep::Ended(item) => (item, false),
        ItemStep::Delta { .. } => return,
    };
    if item.turn_id != row.view.id {
        return;
    }
    match indexes
        .get(&item.id)
        .and_then(|index| spans.get_mut(*index))
    {
        Some(span) if span.is_open && !begins => {
            span.closed = Some(event.seq());
            span.is_open = false;
        }
        Some(_) => {}
        None => {
            indexes.insert(item.id, spans.len());
            spans.push(ItemSpan {
                id: item.id,
                opened: event.seq(),
                closed: None,
                is_open: begins,
            });
        }
    }
}
