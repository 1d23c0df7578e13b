//! A new stream that begins with what another one says up to a place between two turns.

use std::ops::RangeInclusive;
use std::sync::Arc;

use windlass_core::derived_id::derive;
use windlass_core::events::{Event, EventContext, EventData, JournalPrunedData, TurnCancelledData};
use windlass_core::typed_id::{EventId, TurnId};

use super::{Batch, Journal, JournalError, StreamKey};

/// How many events are looked at together.
pub(super) const PAGE: usize = 1024;
const CANCELLED: &str = "the session was forked before its turn began";

pub(crate) const TAKEN: &str = "the new stream has records already";
pub(crate) const TOO_SHORT: &str = "it ends before";
pub(crate) const BUSY: &str = "a turn is open there";
pub(crate) const PRUNED: &str = "its record there is no longer kept";

pub(crate) fn refused(stream: &StreamKey, seq: u64, reason: &'static str) -> JournalError {
    JournalError::NotForkable {
        stream: stream.to_string(),
        seq,
        reason,
    }
}

/// What has not ended at some place of a stream.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    running: Option<TurnId>,
    queued: Vec<TurnId>,
}

impl Waiting {
    /// Moves on by one event.
    pub(crate) fn follow(&mut self, data: &EventData) {
        match data {
            EventData::InputQueued(queued) => self.queued.push(queued.turn_id),
            EventData::TurnStarted(started) => {
                self.queued.retain(|queued| *queued != started.turn_id);
                self.running = Some(started.turn_id);
            }
            EventData::TurnCompleted(end) => self.end(end.turn_id),
            EventData::TurnFailed(end) => self.end(end.turn_id),
            EventData::TurnCancelled(end) => self.end(end.turn_id),
            _ => {}
        }
    }

    fn end(&mut self, turn_id: TurnId) {
        self.queued.retain(|queued| *queued != turn_id);
        self.running.take_if(|running| *running == turn_id);
    }

    /// Tells whether a turn runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the turn that runs, and then those that wait.
    pub(crate) fn turns(self) -> Vec<TurnId> {
        self.running.into_iter().chain(self.queued).collect()
    }
}

/// Returns the records that a fork has of its own from the beginning: where it comes from, and the ends of the inputs that
/// waited in the parent. Those are the parent's.
pub(crate) fn own_records(forked: &Event, at_seq: u64, waiting: Waiting) -> Vec<Arc<Event>> {
    let sequence = Some(at_seq + 1);
    let first = Event {
        sequence,
        ..forked.clone()
    };
    let cancelled = (at_seq + 2..).zip(waiting.turns()).map(|(seq, turn_id)| {
        let data = TurnCancelledData {
            turn_id,
            reason: Some(CANCELLED.to_owned()),
            usage: None,
            iterations: None,
            duration_ms: None,
            tool_call_count: None,
            llm_call_count: None,
            final_message_id: None,
            outline: None,
        };
        derived(forked, seq, EventContext::of_turn(turn_id), data.into())
    });
    std::iter::once(first)
        .chain(cancelled)
        .map(Arc::new)
        .collect()
}

/// Makes a record that says something beside `forked`; its id follows from that one.
fn derived(forked: &Event, seq: u64, context: EventContext, data: EventData) -> Event {
    Event {
        id: EventId::from_uuid(derive(forked.id.uuid(), seq)),
        event_type: data.event_type().to_owned(),
        context,
        data,
        sequence: Some(seq),
        ..forked.clone()
    }
}

/// Copies a stream up to a record into a new one, for journals that cannot share. One batch holds it all, so that there
/// is either the whole of it or nothing.
pub(super) async fn copy<J: Journal + ?Sized>(
    journal: &J,
    parent: &StreamKey,
    at_seq: u64,
    child: &StreamKey,
    forked: Event,
) -> Result<u64, JournalError> {
    // First a look: claiming a stream that somebody writes would fence that writer off.
    if journal.read(child, 0, 0).await?.head > 0 {
        return Err(refused(child, 0, TAKEN));
    }
    let mut branch = Branch::new(&forked);
    let mut after = 0;
    while after < at_seq {
        let before = after;
        let left = usize::try_from(at_seq - after).unwrap_or(usize::MAX);
        let page = journal.read(parent, after, left.min(PAGE)).await?;
        if page.head < at_seq {
            return Err(refused(parent, at_seq, TOO_SHORT));
        }
        let mut gaps = page.pruned.into_iter().peekable();
        for event in page.events {
            while let Some(gap) = gaps.next_if(|gap| *gap.end() < event.seq()) {
                branch.note_gap(&gap);
            }
            after = event.seq();
            if after <= at_seq {
                branch.take(&event);
            }
        }
        if after == before {
            return Err(refused(parent, at_seq, "it cannot be read"));
        }
    }
    if after > at_seq {
        return Err(refused(parent, at_seq, PRUNED));
    }
    let records = branch.end(parent, at_seq)?;
    let head = records.len() as u64;
    let claim = journal.claim(child).await?;
    if claim.head > 0 {
        return Err(refused(child, 0, TAKEN));
    }
    let first_seq = 1;
    journal.append(&claim, Batch { first_seq, records }).await?;
    Ok(head)
}

/// The copy in the making.
struct Branch<'a> {
    forked: &'a Event,
    records: Vec<Arc<Event>>,
    waiting: Waiting,
}

impl<'a> Branch<'a> {
    fn new(forked: &'a Event) -> Self {
        Self {
            forked,
            records: Vec::new(),
            waiting: Waiting::default(),
        }
    }

    fn next_seq(&self) -> u64 {
        self.records.len() as u64 + 1
    }

    /// Takes a record over; one that says the same in both streams is shared.
    fn take(&mut self, event: &Arc<Event>) {
        self.waiting.follow(&event.data);
        let (session_id, sequence) = (self.forked.session_id, Some(self.next_seq()));
        let is_same = event.session_id == session_id && event.sequence == sequence;
        self.records.push(match is_same {
            true => Arc::clone(event),
            false => Arc::new(Event {
                session_id,
                sequence,
                ..Event::clone(event)
            }),
        });
    }

    /// What the parent keeps no more cannot be copied, and the new stream says so.
    fn note_gap(&mut self, gap: &RangeInclusive<u64>) {
        let data = JournalPrunedData {
            first_sequence: *gap.start(),
            last_sequence: *gap.end(),
            digest: None,
        };
        let note = derived(
            self.forked,
            self.next_seq(),
            EventContext::default(),
            data.into(),
        );
        self.records.push(Arc::new(note));
    }

    fn end(mut self, parent: &StreamKey, at_seq: u64) -> Result<Vec<Arc<Event>>, JournalError> {
        if self.waiting.is_busy() {
            return Err(refused(parent, at_seq, BUSY));
        }
        let taken = self.records.len() as u64;
        let own = own_records(self.forked, taken, self.waiting);
        self.records.extend(own);
        Ok(self.records)
    }
}
