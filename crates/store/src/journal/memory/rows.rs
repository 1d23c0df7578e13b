//! The rows of one stream in memory. They are brought up to date by a query, and before retention removes records. The rows of turns are removed with
//! their records.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::Utc;
use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::ExecId;

use crate::journal::StreamKey;
use crate::queries::fold::{Changed, ThreadFold};
use crate::queries::usage::{RetainedUsage, TurnUsage};
use crate::queries::{ThreadRow, TurnRow, WaitRow};

/// Assigns positions among all runs to turns. Positions follow the time, because reported runs are stored in another structure. Reported runs have
/// even positions and turns odd ones, so no two are equal.
#[derive(Debug, Default)]
pub(super) struct RunPositions(AtomicU64);

impl RunPositions {
    fn next(&self, event: &Event) -> u64 {
        let by_time = u64::try_from(event.ts.timestamp_micros()).unwrap_or(0) * 2 + 1;
        let after = |last: u64| by_time.max(last + 2);
        let update = |last| Some(after(last));
        match (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, update) {
            Ok(last) | Err(last) => after(last),
        }
    }
}

/// The rows of one stream.
#[derive(Debug, Default)]
pub(crate) struct StreamRows {
    /// The last shared record; shared records are in no row of this stream.
    after: u64,
    fold: Option<ThreadFold>,
    /// The positions of turns, by their first records.
    positions: BTreeMap<u64, u64>,
    turns: BTreeMap<u64, TurnRow>,
    waits: HashMap<ExecId, WaitRow>,
    /// The usage of turns that retention removed.
    retained: RetainedUsage,
}

impl StreamRows {
    pub(super) fn note(&mut self, event: &Event, seq: u64, positions: &RunPositions) {
        if let EventData::TurnStarted(_) = &event.data {
            self.positions.insert(seq, positions.next(event));
        }
    }

    /// Returns the newest record that the rows include.
    pub(super) fn seq(&self) -> u64 {
        self.fold.as_ref().map_or(self.after, |fold| fold.row.seq)
    }

    pub(super) fn begin_after(&mut self, seq: u64) {
        self.after = seq;
    }

    pub(super) fn apply(&mut self, key: &StreamKey, event: &Event) {
        let position = self.positions.get(&event.seq()).copied();
        let position = position.unwrap_or_default();
        let mut changed = Changed::default();
        let begin = || ThreadFold::begin(key, event.ts);
        let fold = self.fold.get_or_insert_with(begin);
        fold.apply(event, position, &mut changed);
        for wait in changed.waits {
            self.waits.insert(wait.exec_id, wait);
        }
        let ended = changed.ended.into_iter();
        self.turns.extend(ended.map(|turn| (turn.first_seq, turn)));
        if event.seq() >= fold.row.seq && !event.is_ephemeral() {
            let open = fold.open.iter().filter(|turn| turn.seq == event.seq());
            let open = open.map(|turn| (turn.first_seq, turn.clone()));
            self.turns.extend(open);
        }
    }

    /// Removes the turns whose first records were pruned.
    pub(super) fn forget(&mut self, gone: &RangeInclusive<u64>) {
        if gone.is_empty() {
            return;
        }
        self.positions.retain(|seq, _| !gone.contains(seq));
        let retained = &mut self.retained;
        self.turns.retain(|seq, turn| {
            let is_gone = gone.contains(seq);
            if is_gone {
                let usage = TurnUsage::of(turn).into_iter();
                usage.for_each(|usage| retained.add(usage));
            }
            !is_gone
        });
        self.waits.retain(|_, wait| !gone.contains(&wait.seq));
    }

    /// Returns the thread; `None` without a record.
    pub(crate) fn thread(&self) -> Option<&ThreadRow> {
        self.fold.as_ref().map(|fold| &fold.row)
    }

    /// Returns the turns, the oldest first.
    pub(crate) fn turns(&self) -> impl DoubleEndedIterator<Item = &TurnRow> {
        self.turns.values()
    }

    /// Visits the usage of all ended turns.
    pub(super) fn each_usage(&self, mut look: impl FnMut(&TurnUsage)) {
        self.retained.turns().for_each(&mut look);
        let ended = self.turns.values().filter_map(TurnUsage::of);
        ended.for_each(|usage| look(&usage));
    }

    /// Removes and returns the usage of all turns of a removed stream.
    pub(super) fn take_usage(&mut self) -> Vec<TurnUsage> {
        let at = self.fold.as_ref().map_or_else(Utc::now, |fold| fold.row.at);
        let turns = self.turns.values();
        let turns = turns.filter_map(|turn| TurnUsage::at_removal(turn, at));
        self.retained.take().chain(turns).collect()
    }

    /// Returns open and ended waits.
    pub(crate) fn waits(&self) -> &HashMap<ExecId, WaitRow> {
        &self.waits
    }
}
