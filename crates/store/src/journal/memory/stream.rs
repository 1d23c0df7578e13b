//! One stream in memory.

use std::collections::VecDeque;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_core::items::TurnLog;
use windlass_core::typed_id::SessionId;

use super::super::fork::{BUSY, OpenInputs, PRUNED, TOO_SHORT};
use super::super::open_turns::{OpenTurns, TurnChange};
use super::super::{Page, StreamKey};
use super::rows::{RunPositions, StreamRows};
use super::shared::{RecordNode, SharedPrefix};
use crate::queries::usage::TurnUsage;
use crate::queries::{TurnDetail, TurnRow};

#[derive(Debug)]
pub(crate) struct MemoryStream {
    pub(crate) key: StreamKey,
    pub(super) epoch: u64,
    pub(super) removed: bool,
    /// The records at the start that other streams share.
    shared: Option<Box<SharedPrefix>>,
    /// The number before the first record below: earlier records are shared or pruned.
    pruned: u64,
    records: VecDeque<MemoryRecord>,
    pub(super) open_turns: OpenTurns,
    rows: Box<StreamRows>,
    pub(super) watchers: Option<watch::Sender<u64>>,
}

#[derive(Debug, Clone)]
pub(super) struct MemoryRecord {
    /// The position among the records of all streams.
    pub(super) position: u64,
    pub(super) event: Arc<Event>,
}

/// The next part of a stream.
pub(super) enum StreamPart {
    /// Records that retention removed.
    Gap(RangeInclusive<u64>),
    Record(MemoryRecord),
}

impl MemoryStream {
    pub(super) fn new(key: &StreamKey) -> Self {
        Self {
            key: key.clone(),
            epoch: 0,
            removed: false,
            shared: None,
            pruned: 0,
            records: VecDeque::new(),
            open_turns: OpenTurns::default(),
            rows: Box::default(),
            watchers: None,
        }
    }

    pub(super) fn head(&self) -> u64 {
        self.pruned + self.records.len() as u64
    }

    pub(super) fn push(&mut self, record: MemoryRecord, positions: &RunPositions) {
        let seq = self.head() + 1;
        self.rows.note(&record.event, seq, positions);
        self.open_turns.apply(seq, TurnChange::of(&record.event));
        self.records.push_back(record);
    }

    pub(super) fn notify(&self) {
        if let Some(watchers) = &self.watchers {
            watchers.send_replace(self.head());
        }
    }

    /// Visits the records and gaps after a number until `take` breaks.
    fn each(
        &self,
        after: u64,
        mut take: impl FnMut(StreamPart) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let shared = self.shared.as_ref().map_or(0, |shared| shared.last);
        if let Some(shared) = self.shared.as_ref().filter(|_| after < shared) {
            shared.each(after, &mut take)?;
        }
        let after = after.max(shared);
        if after < self.pruned {
            take(StreamPart::Gap(after + 1..=self.pruned))?;
        }
        let skip = usize::try_from(after.saturating_sub(self.pruned)).unwrap_or(usize::MAX);
        let own = self.records.range(skip.min(self.records.len())..);
        own.cloned().map(StreamPart::Record).try_for_each(take)
    }

    /// Visits the events after a number until `look` breaks.
    pub(super) fn each_event(
        &self,
        after: u64,
        mut look: impl FnMut(&Arc<Event>) -> ControlFlow<()>,
    ) {
        let _ = self.each(after, |part| match part {
            StreamPart::Record(record) => look(&record.event),
            StreamPart::Gap(_) => ControlFlow::Continue(()),
        });
    }

    pub(super) fn read(&self, after: u64, limit: usize) -> Page {
        let head = self.head();
        let remaining = usize::try_from(head.saturating_sub(after)).unwrap_or(usize::MAX);
        let mut page = Page {
            events: Vec::with_capacity(limit.min(remaining)),
            head,
            ..Page::default()
        };
        let _ = self.each(after, |part| {
            if page.events.len() >= limit {
                return ControlFlow::Break(());
            }
            match part {
                StreamPart::Gap(gap) => page.pruned.push(gap),
                StreamPart::Record(record) => page.events.push(record.event),
            }
            ControlFlow::Continue(())
        });
        page
    }

    /// Returns the last record that a fork has from its parent; 0 if the stream is no fork.
    fn last_forked(&self) -> u64 {
        self.shared
            .as_ref()
            .map_or(0, |shared| shared.last_forked())
    }

    /// Returns the positions of its own records among those of all streams.
    pub(super) fn own_positions(&self) -> Vec<u64> {
        let mut own = Vec::new();
        let _ = self.each(self.last_forked(), |part| {
            if let StreamPart::Record(record) = part {
                own.push(record.position);
            }
            ControlFlow::Continue(())
        });
        own
    }

    /// Returns the rows of all its own records.
    pub(crate) fn rows(&mut self) -> &StreamRows {
        let mut rows = std::mem::take(&mut self.rows);
        self.each_event(rows.seq(), |event| {
            rows.apply(&self.key, event);
            ControlFlow::Continue(())
        });
        self.rows = rows;
        &self.rows
    }

    /// Removes and returns the usage of all its own turns, before the stream is removed.
    pub(super) fn take_usage(&mut self) -> Vec<TurnUsage> {
        self.rows();
        self.rows.take_usage()
    }

    /// Visits the usage of all its own ended turns.
    pub(super) fn each_usage(&mut self, look: impl FnMut(&TurnUsage)) {
        self.rows().each_usage(look);
    }

    /// Returns the turns that a fork shares with its parent, the oldest first.
    pub(crate) fn shared_turns(&self) -> Vec<TurnRow> {
        let shared = self.last_forked();
        let mut rows = StreamRows::default();
        self.each_event(0, |event| {
            if event.seq() <= shared {
                rows.apply(&self.key, event);
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let shown = |turn: &TurnRow| TurnRow {
            is_shared: true,
            ..turn.clone()
        };
        rows.turns().map(shown).collect()
    }

    /// Folds the records of a turn.
    pub(crate) fn detail(&self, row: TurnRow) -> TurnDetail {
        let last = row.last_seq.unwrap_or(u64::MAX);
        let mut detail = TurnDetail {
            row,
            log: TurnLog::default(),
            pruned: Vec::new(),
        };
        let _ = self.each(detail.row.first_seq - 1, |part| match part {
            StreamPart::Record(record) if record.event.seq() > last => ControlFlow::Break(()),
            StreamPart::Record(record) => {
                detail.log.apply(&record.event);
                ControlFlow::Continue(())
            }
            StreamPart::Gap(gap) => {
                detail.pruned.push(gap);
                ControlFlow::Continue(())
            }
        });
        detail.pruned.retain(|gap| *gap.start() <= last);
        detail
    }

    /// Makes the records up to a number shareable with another stream, and returns the inputs that wait there. Nothing is copied: own records only
    /// move to a node that both streams reference.
    pub(super) fn share(
        &mut self,
        at_seq: u64,
    ) -> Result<(Option<Arc<RecordNode>>, OpenInputs), &'static str> {
        if at_seq > self.head() {
            return Err(TOO_SHORT);
        }
        let mut waiting = OpenInputs::default();
        let mut is_retained = false;
        self.each_event(0, |event| {
            if event.seq() > at_seq {
                return ControlFlow::Break(());
            }
            waiting.apply(&event.data);
            is_retained = event.seq() == at_seq;
            ControlFlow::Continue(())
        });
        match (is_retained, waiting.is_busy()) {
            (false, _) => Err(PRUNED),
            (true, true) => Err(BUSY),
            (true, false) => Ok((Some(self.node_at(at_seq)), waiting)),
        }
    }

    fn node_at(&mut self, at_seq: u64) -> Arc<RecordNode> {
        if at_seq > self.pruned {
            let count = usize::try_from(at_seq - self.pruned).unwrap_or(usize::MAX);
            let records = self
                .records
                .drain(..count.min(self.records.len()))
                .collect();
            self.records.shrink_to_fit();
            let shared = SharedPrefix::extend(self.shared.take(), self.pruned, records, at_seq);
            self.shared = Some(Box::new(shared));
            self.pruned = at_seq;
        }
        match &self.shared {
            Some(shared) => shared.node_at(at_seq),
            None => Arc::default(),
        }
    }

    /// Begins an empty stream with records of another one.
    pub(super) fn begin_with(&mut self, node: Arc<RecordNode>, at_seq: u64, session_id: SessionId) {
        self.shared = Some(Box::new(SharedPrefix::fork(node, at_seq, session_id)));
        self.pruned = at_seq;
        self.rows.begin_after(at_seq);
    }

    /// Removes records beyond the limit, except those of open turns and shared ones.
    pub(super) fn prune(&mut self, max_events: usize) -> Vec<MemoryRecord> {
        if self.records.len() <= max_events {
            return Vec::new();
        }
        self.rows();
        let mut retired = self.reclaim_unshared();
        let surplus = self.records.len().saturating_sub(max_events);
        let first_open = self.open_turns.first().unwrap_or(u64::MAX);
        let closed =
            usize::try_from(first_open.saturating_sub(self.pruned + 1)).unwrap_or(usize::MAX);
        let gone = surplus.min(closed);
        let own = self.records.drain(..gone);
        let before = retired.len();
        retired.extend(own);
        self.pruned += (retired.len() - before) as u64;
        let shared = self.shared.as_ref().map_or(0, |shared| shared.last);
        self.rows.forget(&(shared + 1..=self.pruned));
        retired
    }

    /// Moves records that no other stream shares any more back into this stream. If retention has removed records after them, they are older than
    /// the pruned range, so they are removed too.
    fn reclaim_unshared(&mut self) -> Vec<MemoryRecord> {
        let mut retired = Vec::new();
        while let Some(shared) = self.shared.take() {
            let last = shared.last;
            match shared.into_own() {
                Ok((before, pruned, records)) => {
                    self.shared = before.map(Box::new);
                    if self.pruned == last {
                        self.pruned = pruned;
                        for record in records.into_iter().rev() {
                            self.records.push_front(record);
                        }
                    } else {
                        retired.splice(..0, records);
                    }
                }
                Err(shared) => {
                    self.shared = Some(Box::new(shared));
                    break;
                }
            }
        }
        retired
    }
}
