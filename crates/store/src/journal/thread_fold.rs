//! The fold of a stream's events into what a list of threads shows.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use windlass_core::events::{Event, EventData, TokenUsage};
use windlass_core::items::{TurnLog, TurnStatus, TurnView};
use windlass_core::transcript::Transcript;
use windlass_core::typed_id::TurnId;

use super::StreamKey;
use super::threads::{ThreadCursor, ThreadEntry};

/// How much there is.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    turns: u64,
    items: u64,
    messages: u64,
    usage: Option<TokenUsage>,
}

/// A thread, folded so far.
#[derive(Debug, Default)]
pub(crate) struct ThreadFold {
    open: Vec<(TurnId, TurnLog)>,
    transcript: Transcript,
    now: Counts,
    /// As of the newest activity.
    shown: Counts,
    is_waiting: bool,
    latest: Option<(TurnId, TurnStatus)>,
    activity: DateTime<Utc>,
    head: u64,
    newest_at: DateTime<Utc>,
}

impl ThreadFold {
    /// Returns the number of the newest event that was folded.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Moves on by one event.
    pub(crate) fn apply(&mut self, event: &Arc<Event>) {
        let is_first = self.head == 0;
        (self.head, self.newest_at) = (event.seq(), event.ts);
        if event.is_ephemeral() {
            return;
        }
        let (before, messages) = (self.now.messages, &mut self.now.messages);
        self.transcript.apply(event, |_| *messages += 1);
        let mut is_activity = is_first || (self.open.is_empty() && self.now.messages > before);
        match &event.data {
            EventData::TurnStarted(data) => is_activity |= self.start(data.turn_id, event),
            _ => {
                let logs = self.open.iter_mut();
                logs.for_each(|(_, log)| log.apply(event));
                is_activity |= event.data.ends_turn() && self.close_ended();
            }
        }
        let mut views = self.open.iter().filter_map(|(id, log)| log.turn(*id));
        let is_waiting = views.any(|view| !view.waiting_for.is_empty());
        if is_activity || is_waiting != self.is_waiting {
            (self.activity, self.shown) = (event.ts, self.now);
        }
        self.is_waiting = is_waiting;
    }

    fn start(&mut self, id: TurnId, event: &Arc<Event>) -> bool {
        if self.open.iter().any(|(open, _)| *open == id) {
            return false;
        }
        self.open.push((id, TurnLog::fold([event])));
        self.now.turns += 1;
        self.latest = Some((id, TurnStatus::InProgress));
        true
    }

    fn close_ended(&mut self) -> bool {
        let ended = |(id, log): &(TurnId, TurnLog)| log.turn(*id).is_none_or(TurnView::is_ended);
        let Some(at) = self.open.iter().position(ended) else {
            return false;
        };
        let (id, log) = self.open.remove(at);
        if let Some(view) = log.turn(id) {
            if let Some(usage) = &view.usage {
                self.now.usage.get_or_insert_default().add(usage);
            }
            if let Some((latest, status)) = &mut self.latest
                && *latest == id
            {
                *status = view.status;
            }
            self.now.items += log.items_of(id).count() as u64;
        }
        true
    }

    /// Returns what a list shows; `None` before the first event.
    pub(crate) fn entry(&self, stream: &StreamKey, number: u64) -> Option<ThreadEntry> {
        // As exact as every journal keeps them.
        let activity = self.activity.timestamp_micros();
        let newest_at = self.newest_at.timestamp_millis();
        (self.head > 0).then(|| ThreadEntry {
            stream: stream.clone(),
            is_open: !self.open.is_empty(),
            is_waiting: self.is_waiting,
            latest_turn: self.latest.map(|(turn, _)| turn),
            latest_status: self.latest.map(|(_, status)| status),
            activity: DateTime::from_timestamp_micros(activity).unwrap_or_default(),
            head: self.head,
            newest_at: DateTime::from_timestamp_millis(newest_at).unwrap_or_default(),
            turns: self.shown.turns,
            items: self.shown.items,
            messages: self.shown.messages,
            usage: self.shown.usage,
            cursor: ThreadCursor {
                activity,
                stream: number,
            },
        })
    }
}
