//! A new stream that begins with what another one says up to a place between two turns.

use std::ops::RangeInclusive;
use std::sync::Arc;

use windlass_core::derived_id::derive;
use windlass_core::events::{Event, EventContext, EventData, JournalPrunedData, TurnCancelledData};
use windlass_core::typed_id::{EventId, TurnId};

use super::{Batch, Journal, JournalError, StreamKey};

/// How many events are copied at a time.
const PAGE: usize = 1024;
const CANCELLED: &str = "the session was forked before its turn began";

/// Copies a stream up to a record into a new one, which then says where it comes from. One batch holds it all, so that
/// there is either the whole of it or nothing.
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
            return Err(refused(parent, at_seq, "it ends before"));
        }
        let mut gaps = page.pruned.into_iter().peekable();
        for event in page.events {
            while let Some(gap) = gaps.next_if(|gap| *gap.end() < event.seq()) {
                branch.note_gap(&gap, at_seq);
            }
            after = event.seq();
            if after <= at_seq {
                branch.take(&event);
            }
        }
        let last = gaps.map(|gap| {
            branch.note_gap(&gap, at_seq);
            *gap.end()
        });
        after = last.max().unwrap_or(after).max(after);
        if after == before {
            return Err(refused(parent, at_seq, "it cannot be read"));
        }
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

const TAKEN: &str = "the new stream has records already";

fn refused(stream: &StreamKey, seq: u64, reason: &'static str) -> JournalError {
    JournalError::NotForkable {
        stream: stream.to_string(),
        seq,
        reason,
    }
}

/// The new stream in the making.
struct Branch<'a> {
    forked: &'a Event,
    records: Vec<Arc<Event>>,
    running: Option<TurnId>,
    queued: Vec<TurnId>,
}

impl<'a> Branch<'a> {
    fn new(forked: &'a Event) -> Self {
        Self {
            forked,
            records: Vec::new(),
            running: None,
            queued: Vec::new(),
        }
    }

    fn next_seq(&self) -> u64 {
        self.records.len() as u64 + 1
    }

    /// Takes a record over; one that says the same in both streams is shared.
    fn take(&mut self, event: &Arc<Event>) {
        self.follow(&event.data);
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

    fn follow(&mut self, data: &EventData) {
        match data {
            EventData::InputQueued(queued) => self.queued.push(queued.turn_id),
            EventData::TurnStarted(started) => {
                self.queued.retain(|queued| *queued != started.turn_id);
                self.running = Some(started.turn_id);
            }
            EventData::TurnCompleted(end) => self.end_turn(end.turn_id),
            EventData::TurnFailed(end) => self.end_turn(end.turn_id),
            EventData::TurnCancelled(end) => self.end_turn(end.turn_id),
            _ => {}
        }
    }

    fn end_turn(&mut self, turn_id: TurnId) {
        self.queued.retain(|queued| *queued != turn_id);
        self.running.take_if(|running| *running == turn_id);
    }

    /// What the parent keeps no more cannot be copied, and the new stream says so.
    fn note_gap(&mut self, gap: &RangeInclusive<u64>, at_seq: u64) {
        if *gap.start() <= at_seq {
            let data = JournalPrunedData {
                first_sequence: *gap.start(),
                last_sequence: (*gap.end()).min(at_seq),
                digest: None,
            };
            self.add(EventContext::default(), data);
        }
    }

    fn add(&mut self, context: EventContext, data: impl Into<EventData>) {
        let (seq, data) = (self.next_seq(), data.into());
        self.records.push(Arc::new(Event {
            id: EventId::from_uuid(derive(self.forked.id.uuid(), seq)),
            event_type: data.event_type().to_owned(),
            context,
            data,
            sequence: Some(seq),
            ..self.forked.clone()
        }));
    }

    /// Says where the stream comes from. Inputs that waited in the parent are the parent's: here they end.
    fn end(mut self, parent: &StreamKey, at_seq: u64) -> Result<Vec<Arc<Event>>, JournalError> {
        if self.running.is_some() {
            return Err(refused(parent, at_seq, "a turn is open there"));
        }
        let sequence = Some(self.next_seq());
        self.records.push(Arc::new(Event {
            sequence,
            ..self.forked.clone()
        }));
        for turn_id in std::mem::take(&mut self.queued) {
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
            self.add(EventContext::of_turn(turn_id), data);
        }
        Ok(self.records)
    }
}
