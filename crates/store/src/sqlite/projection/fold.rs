//! The fold of a stream's events into rows.

use std::sync::Arc;

use windlass_core::events::{Event, EventData};
use windlass_core::items::{TurnLog, TurnStatus, TurnView};
use windlass_core::transcript::Transcript;
use windlass_core::typed_id::TurnId;

use super::rows::{Base, ItemRow, Mark, MessageRow, Rows, ThreadRow, TurnRow};
use super::{FLUSH_AFTER, FLUSH_BYTES};

/// What the events behind a place between turns fold to.
#[derive(Debug, Clone, Default)]
pub(super) struct Fold {
    /// Where the fold began, or what has been taken out since.
    taken: Mark,
    /// The last place where no turn was open.
    settled: Base,
    now: Mark,
    /// How much there was at the newest event that the thread's row must show.
    news: Mark,
    /// Rows behind `taken`; those up to `settled` come first.
    rows: Rows,
    open: Vec<OpenTurn>,
    transcript: Transcript,
    is_waiting: bool,
    activity: i64,
    latest: Option<(TurnId, TurnStatus)>,
    /// The newest event that the thread's row must show; 0 when there was none.
    changed: u64,
    /// The record for which the thread's row was shown last; 0 when there is none.
    shown: u64,
    /// How many events have been folded since rows were taken out, and how many of them up to `settled`.
    events: (u64, u64),
    /// Their size, likewise.
    bytes: (usize, usize),
}

/// A turn without an end. Each has a log of its own, which goes when the turn ends.
#[derive(Debug, Clone)]
struct OpenTurn {
    id: TurnId,
    place: u64,
    first: u64,
    log: TurnLog,
}

impl OpenTurn {
    fn view(&self) -> Option<&TurnView> {
        self.log.turn(self.id)
    }
}

impl Fold {
    /// Begins behind a place between turns.
    pub(super) fn after(base: Base) -> Self {
        Self {
            taken: base.mark,
            settled: base,
            now: base.mark,
            news: base.mark,
            latest: base.latest,
            activity: base.activity,
            ..Self::default()
        }
    }

    /// Goes on from what is stored.
    pub(super) fn resume(row: &ThreadRow) -> Self {
        Self {
            news: row.now,
            shown: row.now.seq,
            ..Self::after(Base {
                mark: row.upto,
                latest: row.latest,
                activity: row.activity,
            })
        }
    }

    /// Counts the size of the event that comes next.
    pub(super) fn weigh(&mut self, bytes: usize) {
        self.bytes.0 += bytes;
    }

    /// Returns the size of the events that it holds.
    pub(super) fn size(&self) -> usize {
        self.bytes.0
    }

    /// Moves on by one event. Text chunks change nothing.
    pub(super) fn apply(&mut self, event: &Arc<Event>) {
        if event.is_ephemeral() {
            return;
        }
        self.now.seq = event.seq();
        self.events.0 += 1;
        let messages = self.now.messages;
        let (rows, now) = (&mut self.rows.messages, &mut self.now);
        self.transcript.apply(event, |placed| {
            rows.push(MessageRow::new(placed, now.messages));
            now.messages += 1;
        });
        // What is said between turns is news at once; the rest is counted when the turn ends.
        let mut is_news = self.open.is_empty() && self.now.messages > messages;
        match &event.data {
            EventData::TurnStarted(data) => is_news |= self.start(data.turn_id, event),
            _ => {
                let logs = self.open.iter_mut();
                logs.for_each(|turn| turn.log.apply(event));
                if event.data.ends_turn() {
                    is_news |= self.close_ended();
                }
            }
        }
        let is_waiting = self.is_waiting_now();
        is_news |=
            is_waiting != self.is_waiting || (self.taken.seq | self.changed | self.shown) == 0;
        self.is_waiting = is_waiting;
        if is_news {
            self.changed = event.seq();
            self.news = self.now;
            self.activity = event.ts.timestamp_micros();
        }
        if self.open.is_empty() {
            self.settled = Base {
                mark: self.now,
                latest: self.latest,
                activity: self.activity,
            };
            (self.events.1, self.bytes.1) = (self.events.0, self.bytes.0);
        }
    }

    fn start(&mut self, id: TurnId, event: &Arc<Event>) -> bool {
        if self.open.iter().any(|turn| turn.id == id) {
            return false;
        }
        self.open.push(OpenTurn {
            id,
            place: self.now.turns,
            first: event.seq(),
            log: TurnLog::fold([event]),
        });
        self.now.turns += 1;
        self.latest = Some((id, TurnStatus::InProgress));
        true
    }

    /// Makes the rows of turns that have ended; from then on nothing changes them.
    fn close_ended(&mut self) -> bool {
        let ended = |turn: &OpenTurn| turn.view().is_none_or(TurnView::is_ended);
        let Some(at) = self.open.iter().position(ended) else {
            return false;
        };
        let turn = self.open.remove(at);
        if let Some((row, items)) = turn_rows(&turn, self.now.items, self.now.seq) {
            if let Some(usage) = &row.detail.usage {
                self.now.usage.get_or_insert_default().add(usage);
            }
            if let Some((id, status)) = &mut self.latest
                && *id == row.id
            {
                *status = row.status;
            }
            self.now.items += row.items;
            self.rows.turns.push(row);
            self.rows.items.extend(items);
        }
        true
    }

    fn is_waiting_now(&self) -> bool {
        let mut views = self.open.iter().filter_map(OpenTurn::view);
        views.any(|view| !view.waiting_for.is_empty())
    }

    /// Tells whether enough has come together for the tables.
    pub(super) fn is_due(&self) -> bool {
        self.events.1 >= FLUSH_AFTER || self.bytes.1 >= FLUSH_BYTES
    }

    /// Tells whether the thread's row shows less than it must.
    pub(super) fn is_news(&self) -> bool {
        self.changed > self.shown || (self.shown == 0 && self.is_begun())
    }

    /// Tells whether there is something to show.
    pub(super) fn is_begun(&self) -> bool {
        self.now.seq > 0
    }

    /// Returns the newest event that the thread's row must show.
    pub(super) fn changed(&self) -> u64 {
        self.changed
    }

    /// Returns how far rows have been taken out.
    pub(super) fn taken(&self) -> &Mark {
        &self.taken
    }

    /// Returns the last place where no turn was open.
    pub(super) fn settled(&self) -> &Mark {
        &self.settled.mark
    }

    /// Returns the same, with what the thread's row shows there.
    pub(super) fn base(&self) -> &Base {
        &self.settled
    }

    /// Tells whether a turn is open.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Takes out the rows up to the last place where no turn was open.
    pub(super) fn take(&mut self) -> Rows {
        let settled = self.settled.mark;
        let (turns, items, messages) = (
            settled.turns - self.taken.turns,
            settled.items - self.taken.items,
            settled.messages - self.taken.messages,
        );
        self.taken = settled;
        self.events = (self.events.0 - self.events.1, 0);
        self.bytes = (self.bytes.0 - self.bytes.1, 0);
        let mut rows = Rows {
            turns: head(&mut self.rows.turns, turns),
            items: head(&mut self.rows.items, items),
            messages: head(&mut self.rows.messages, messages),
        };
        rows.turns.sort_by_key(|turn| turn.place);
        rows
    }

    /// Returns the row of the thread.
    pub(super) fn thread(&self) -> ThreadRow {
        ThreadRow {
            is_open: !self.open.is_empty(),
            is_waiting: self.is_waiting,
            activity: self.activity,
            latest: self.latest,
            now: self.news,
            upto: self.taken,
        }
    }

    /// Notes that the thread's row is shown.
    pub(super) fn note_shown(&mut self) {
        self.shown = self.now.seq;
    }

    /// Returns all rows that are not taken out, those of open turns included, and gives up the fold.
    pub(super) fn into_rows(mut self) -> Rows {
        let mut items = self.now.items;
        for turn in &self.open {
            if let Some((row, of_turn)) = turn_rows(turn, items, self.now.seq) {
                items += row.items;
                self.rows.turns.push(row);
                self.rows.items.extend(of_turn);
            }
        }
        self.rows.turns.sort_by_key(|turn| turn.place);
        self.rows
    }
}

/// Makes the rows of a turn and its items.
fn turn_rows(turn: &OpenTurn, first_item: u64, last: u64) -> Option<(TurnRow, Vec<ItemRow>)> {
    let items = turn.log.items_of(turn.id).zip(first_item..);
    let items: Vec<_> = items
        .filter_map(|(item, place)| {
            let seqs = turn.log.item_seqs(item.id)?;
            Some(ItemRow::new(&item, place, seqs))
        })
        .collect();
    let mut row = TurnRow::new(turn.view()?, turn.place, (turn.first, last));
    (row.first_item, row.items) = (first_item, items.len() as u64);
    Some((row, items))
}

/// Takes the first rows out of a list.
fn head<T>(rows: &mut Vec<T>, count: u64) -> Vec<T> {
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(rows.len());
    let rest = rows.split_off(count);
    std::mem::replace(rows, rest)
}
