//! The turns of a stream in memory, as runs. They go with their events.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::TurnId;

use super::turn_runs::{RunFold, RunNews, RunRow};
use crate::runs::RunFilter;

/// Gives out the places of turns among all runs. They follow the time, because runs from outside are kept elsewhere:
/// those have even places, turns have odd ones, so that no two are the same.
#[derive(Debug, Default)]
pub(super) struct Places(AtomicU64);

impl Places {
    pub(super) fn next(&self, event: &Event) -> u64 {
        let by_time = u64::try_from(event.ts.timestamp_micros()).unwrap_or(0) * 2 + 1;
        let after = |last: u64| by_time.max(last + 2);
        let update = |last| Some(after(last));
        match (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, update) {
            Ok(last) | Err(last) => after(last),
        }
    }
}

/// The runs of one stream. They follow the records when somebody asks.
#[derive(Debug, Default)]
pub(super) struct StreamRuns {
    fold: RunFold,
    /// How far the events have been folded.
    seq: u64,
    /// The places of turns that were begun, by their first events and in their order.
    places: Vec<(u64, u64)>,
    rows: BTreeMap<u64, RunRow>,
}

impl StreamRuns {
    pub(super) fn note(&mut self, event: &Event, seq: u64, places: &Places) {
        if let EventData::TurnStarted(_) = &event.data {
            self.places.push((seq, places.next(event)));
        }
    }

    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    pub(super) fn apply(&mut self, event: &Arc<Event>, stream: u64) {
        self.seq = event.seq();
        if !RunFold::concerns(&event.data) {
            return;
        }
        let place = self.places.binary_search_by_key(&self.seq, |(seq, _)| *seq);
        let position = place.map_or(0, |at| self.places[at].1);
        match self.fold.apply(event, (stream, position)) {
            Some(RunNews::Row(row)) => drop(self.rows.insert(row.position, row)),
            Some(RunNews::Forked) => self.rows.clear(),
            Some(RunNews::Owner) | None => {}
        }
    }

    /// Begins behind what another stream has: those turns are its own.
    pub(super) fn begin_behind(&mut self, seq: u64) {
        self.seq = seq;
    }

    /// Forgets the runs whose first events are gone.
    pub(super) fn forget(&mut self, gone: RangeInclusive<u64>) {
        if !gone.is_empty() {
            self.places.retain(|(seq, _)| !gone.contains(seq));
            self.rows.retain(|_, row| !gone.contains(&row.first));
        }
    }

    pub(super) fn newest(&self, filter: &RunFilter, limit: usize) -> Vec<RunRow> {
        let rows = self.rows.values().rev();
        let wanted = rows.filter(|row| row.is_wanted(filter)).take(limit);
        wanted.cloned().collect()
    }

    pub(super) fn find(&self, turn: TurnId) -> Option<&RunRow> {
        self.rows.values().rfind(|row| row.turn == turn)
    }
}
