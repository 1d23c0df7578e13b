//! The fold of a thread: turns its events, in order, into its rows.
//!
//! The rows contain the whole state of the fold. After a restart the fold continues from them, so no record is read twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, SubsecRound, Utc};
use windlass_core::events::Event;
use windlass_core::items::{
    Change, Item, ItemKind, ItemStep, SessionChange, TurnStatus, TurnView, WaitChange, WaitKind,
    change,
};
use windlass_core::runs::{RunStatus, end_in, intent, is_step};
use windlass_core::typed_id::{ItemId, TurnId};

use super::questions::ThreadState;
use super::rows::{LatestTurn, Origin, RecordedThread, ThreadRow, TurnRow, WaitRow};
use crate::journal::StreamKey;
use crate::journal::open_turns::TurnChange;

/// The maximum length of a preview.
const PREVIEW_CHARS: usize = 140;

/// The current state of a fold.
#[derive(Debug, Clone)]
pub(crate) struct ThreadFold {
    pub(crate) row: ThreadRow,
    /// The turns that have no end, in the order in which they began.
    pub(crate) open: Vec<TurnRow>,
}

/// The rows that some events have changed, in addition to those of the thread and its open turns.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    pub(crate) ended: Vec<TurnRow>,
    pub(crate) waits: Vec<WaitRow>,
}

impl ThreadFold {
    /// Begins before the first event.
    pub(crate) fn begin(stream: &StreamKey, at: DateTime<Utc>) -> Self {
        let at = at.trunc_subsecs(6);
        Self {
            row: ThreadRow {
                stream: stream.clone(),
                seq: 0,
                at,
                created_at: at,
                updated_at: at,
                state: ThreadState::Idle,
                latest: None,
                preview: String::new(),
                turns: 0,
                items: 0,
                usage: None,
                record: None,
                origin: None,
            },
            open: Vec::new(),
        }
    }

    /// Passes a text chunk, which no row shows.
    pub(crate) fn skip(&mut self, seq: u64, at: DateTime<Utc>) {
        self.row.seq = seq;
        self.row.at = at.trunc_subsecs(3);
    }

    /// Folds one event; `position` is its position among all records. An event that was folded before changes nothing.
    pub(crate) fn apply(&mut self, event: &Event, position: u64, changed: &mut Changed) {
        if event.seq() <= self.row.seq {
            return;
        }
        self.skip(event.seq(), event.ts);
        if event.is_ephemeral() {
            return;
        }
        self.update_open_turn(event);
        match change(event) {
            Some(Change::Session(change)) => self.note_session(event, change),
            Some(Change::TurnStarted(view)) => self.start(event, *view, position),
            Some(Change::Item(ItemStep::Started(item) | ItemStep::Ended(item))) => {
                self.note_item(event, &item, changed);
            }
            Some(Change::Wait(wait)) => self.note_wait(event, &wait, changed),
            _ => self.end(event, changed),
        }
        self.row.state = if self.open.is_empty() {
            ThreadState::Idle
        } else if self.open.iter().all(|turn| turn.waits.is_empty()) {
            ThreadState::Running
        } else {
            ThreadState::Waiting
        };
    }

    fn open_turn(&mut self, id: TurnId) -> Option<&mut TurnRow> {
        self.open.iter_mut().find(|turn| turn.view.id == id)
    }

    /// Updates an open turn after an event that does not end it.
    fn update_open_turn(&mut self, event: &Event) {
        let turn = event.context.turn_id.and_then(|id| self.open_turn(id));
        if let Some(turn) = turn.filter(|_| !event.data.ends_turn()) {
            turn.seq = event.seq();
            turn.steps += u64::from(is_step(&event.data));
            turn.view.follow(event);
        }
    }

    fn note_session(&mut self, event: &Event, change: SessionChange<'_>) {
        let record = match change {
            SessionChange::Started(data) => &data.record,
            SessionChange::Updated(data) => &data.record,
            SessionChange::Forked(data) => {
                self.row.origin = Some(Origin {
                    parent: data.parent_session_id,
                    // Some forks hold all their records themselves.
                    sequence: data.parent_sequence.min(event.seq().saturating_sub(1)),
                    dropped: data.dropped_turn_id,
                });
                &data.record
            }
        };
        if let Some(record) = record {
            self.row.record = Some(Arc::new(RecordedThread {
                seq: event.seq(),
                record: (**record).clone(),
            }));
        }
        self.row.updated_at = event.ts.trunc_subsecs(6);
    }

    fn start(&mut self, event: &Event, mut view: TurnView, position: u64) {
        if self.open_turn(view.id).is_some() {
            return;
        }
        // Its items are added as they begin.
        view.outline.item_ids.clear();
        let row = &mut self.row;
        row.latest = Some(LatestTurn {
            id: view.id,
            first_seq: event.seq(),
            status: TurnStatus::InProgress,
            input_summary: view.outline.input_summary.clone(),
            environment: view.outline.environment.clone(),
            labels: view.outline.labels.clone(),
        });
        row.turns += 1;
        row.updated_at = event.ts.trunc_subsecs(6);
        self.open.push(TurnRow {
            stream: row.stream.clone(),
            position,
            first_seq: event.seq(),
            last_seq: None,
            seq: event.seq(),
            agent: row.agent().map(str::to_owned),
            intent: intent(&view.outline),
            run_status: RunStatus::InProgress,
            outcome: None,
            steps: 0,
            waits: Vec::new(),
            is_shared: false,
            is_pruned: false,
            view,
        });
    }

    fn note_item(&mut self, event: &Event, item: &Item<'_>, changed: &mut Changed) {
        if matches!(item.kind, ItemKind::UserMessage | ItemKind::AgentMessage) {
            let text = item.detail();
            if !text.is_empty() {
                self.row.preview = text.chars().take(PREVIEW_CHARS).collect();
            }
        }
        let Some(turn) = self.open_turn(item.turn_id) else {
            return;
        };
        turn.seq = event.seq();
        let known = &mut turn.view.outline.item_ids;
        if !known.contains(&item.id) {
            known.push(item.id);
        } else if item.is_ended() {
            turn.end_waits(item.id, changed);
        }
    }

    fn note_wait(&mut self, event: &Event, change: &WaitChange<'_>, changed: &mut Changed) {
        let stream = self.row.stream.clone();
        let Some(turn) = self.open_turn(change.turn_id) else {
            return;
        };
        turn.seq = event.seq();
        turn.end_waits(change.item_id, changed);
        if let Some(kind) = change.wait.opens() {
            let wait = WaitRow {
                stream,
                turn_id: change.turn_id,
                exec_id: change.exec_id,
                kind,
                seq: event.seq(),
                is_open: true,
            };
            turn.waits.push(wait.clone());
            changed.waits.push(wait);
            turn.show_waits();
        }
    }

    fn end(&mut self, event: &Event, changed: &mut Changed) {
        let Some((run_status, outcome)) = end_in(&event.data) else {
            return;
        };
        let Some(TurnChange::Ends(id)) = TurnChange::of(event) else {
            return;
        };
        let Some(at) = self.open.iter().position(|turn| turn.view.id == id) else {
            return;
        };
        let mut turn = self.open.remove(at);
        (turn.run_status, turn.outcome) = (run_status, outcome);
        (turn.seq, turn.last_seq) = (event.seq(), Some(event.seq()));
        turn.view.follow(event);
        turn.end_all_waits(changed);
        let row = &mut self.row;
        row.updated_at = event.ts.trunc_subsecs(6);
        row.items += turn.view.outline.item_ids.len() as u64;
        if let Some(usage) = &turn.view.usage {
            row.usage.get_or_insert_default().add(usage);
        }
        if let Some(latest) = row.latest.as_mut().filter(|latest| latest.id == id) {
            latest.status = turn.view.status;
        }
        changed.ended.push(turn);
    }
}

/// A turn as of an earlier record: the fold of its records up to there.
#[derive(Debug)]
pub struct TurnFold {
    row: TurnRow,
    fold: ThreadFold,
}

impl TurnFold {
    /// Begins before the first record of a turn.
    #[must_use]
    pub fn begin(row: TurnRow) -> Self {
        let at = row.view.outline.started_at.unwrap_or_default();
        let fold = ThreadFold::begin(&row.stream, at);
        Self { row, fold }
    }

    /// Folds the next record of the turn's stream.
    pub fn apply(&mut self, event: &Event) {
        let position = self.row.position;
        self.fold.apply(event, position, &mut Changed::default());
    }

    /// Returns the turn after the folded records; `None` if it had not begun or had ended.
    #[must_use]
    pub fn row(&self) -> Option<TurnRow> {
        let mut open = self.fold.open.iter();
        let folded = open.find(|turn| turn.view.id == self.row.view.id)?;
        Some(TurnRow {
            is_shared: self.row.is_shared,
            ..folded.clone()
        })
    }
}

impl TurnRow {
    /// Ends the wait of the call that the item belongs to.
    fn end_waits(&mut self, item_id: ItemId, changed: &mut Changed) {
        let is_its = |wait: &mut WaitRow| wait.exec_id.uuid() == item_id.uuid();
        let ended = self.waits.extract_if(.., is_its);
        let closed = ended.map(|wait| WaitRow {
            is_open: false,
            ..wait
        });
        let before = changed.waits.len();
        changed.waits.extend(closed);
        if changed.waits.len() > before {
            self.show_waits();
        }
    }

    fn end_all_waits(&mut self, changed: &mut Changed) {
        for mut wait in self.waits.drain(..) {
            wait.is_open = false;
            changed.waits.push(wait);
        }
        self.view.waiting_for.clear();
    }

    fn show_waits(&mut self) {
        let kinds: BTreeSet<WaitKind> = self.waits.iter().map(|wait| wait.kind).collect();
        self.view.waiting_for = kinds.into_iter().collect();
    }
}
