//! The event at which a fork branches off.

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_store::queries::TurnRow;
use windlass_store::{StreamKey, StreamStatus};

use crate::errors::{from_journal, from_query};
use crate::inner::Inner;

/// Number of events after the end of a turn among which its last record is.
const LAST_RECORDS: usize = 16;
/// Number of events read at a time in search of a turn's beginning.
const PAGE: u64 = 256;
const PRUNED: &str = "the records of that turn were removed by retention";

/// The point at which a fork branches off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkAt {
    /// At the end of a turn, including one that was rewound since.
    Turn(TurnId),
    /// Just before a turn, which may be open.
    Before(TurnId),
    /// After the newest event; no turn may be open or parked.
    Latest,
    /// Before the first input.
    Start,
}

/// Returns the sequence number of the last event that a fork shares.
pub(crate) async fn fork_point(inner: &Inner, session_id: SessionId, at: ForkAt) -> Result<u64> {
    let parent = ForkParent {
        inner,
        session_id,
        key: StreamKey::from(session_id),
    };
    match at {
        ForkAt::Start => Ok(0),
        ForkAt::Turn(turn_id) => parent.last_seq_of(turn_id).await,
        ForkAt::Before(turn_id) => Ok(parent.first_seq_of(turn_id).await? - 1),
        ForkAt::Latest => {
            let status = parent.status().await?;
            let open = status.open.first();
            open.map_or(Ok(status.head), |turn_id| Err(parent.turn_busy(*turn_id)))
        }
    }
}

struct ForkParent<'a> {
    inner: &'a Inner,
    session_id: SessionId,
    key: StreamKey,
}

impl ForkParent<'_> {
    fn turn_busy(&self, turn_id: TurnId) -> AgentLoopError {
        AgentLoopError::TurnBusy {
            session_id: self.session_id,
            turn_id,
        }
    }

    fn pruned(&self) -> AgentLoopError {
        AgentLoopError::NotForkable {
            session_id: self.session_id,
            reason: PRUNED.to_owned(),
        }
    }

    async fn status(&self) -> Result<StreamStatus> {
        let status = self.inner.backends.journal.status(&self.key).await;
        status.map_err(from_journal)
    }

    async fn row(&self, turn_id: TurnId) -> Result<Option<TurnRow>> {
        let queries = self.inner.backends.queries()?;
        queries.turn(&self.key, turn_id).await.map_err(from_query)
    }

    /// Returns the sequence number of the event that ended a turn; `None` while it is open.
    async fn end_of(&self, turn_id: TurnId) -> Result<Option<u64>> {
        if let Some(end) = self.row(turn_id).await?.and_then(|turn| turn.last_seq) {
            return Ok(Some(end));
        }
        if self.status().await?.open.contains(&turn_id) {
            Ok(None)
        } else {
            Err(AgentLoopError::TurnNotFound {
                session_id: self.session_id,
                turn_id,
            })
        }
    }

    async fn last_seq_of(&self, turn_id: TurnId) -> Result<u64> {
        let end = self.end_of(turn_id).await?;
        let end = end.ok_or_else(|| self.turn_busy(turn_id))?;
        let journal = &self.inner.backends.journal;
        let reading = journal.read(&self.key, end, LAST_RECORDS).await;
        let events = reading.map_err(from_journal)?.events;
        let last = events
            .iter()
            .find(|event| is_last_record_of(event, turn_id));
        last.map(|last| last.seq()).ok_or_else(|| self.pruned())
    }

    /// Returns the sequence number of the event that began a turn, or that queued its input.
    async fn first_seq_of(&self, turn_id: TurnId) -> Result<u64> {
        match self.row(turn_id).await? {
            Some(turn) if turn.is_pruned => return Err(self.pruned()),
            Some(turn) => return Ok(turn.first_seq),
            None => {}
        }
        let journal = &self.inner.backends.journal;
        let mut before = match self.end_of(turn_id).await? {
            Some(end) => end,
            None => self.status().await?.head,
        };
        while before > 0 {
            let after = before.saturating_sub(PAGE);
            let reading = journal.read(&self.key, after, PAGE as usize).await;
            let events = reading.map_err(from_journal)?.events;
            let begins = |event: &&std::sync::Arc<Event>| begins(event, turn_id);
            if let Some(first) = events.iter().rev().find(begins) {
                return Ok(first.seq());
            }
            before = after;
        }
        Err(self.pruned())
    }
}

/// Returns whether an event is the last record of a turn; it is recorded with the end of the turn.
fn is_last_record_of(event: &Event, turn_id: TurnId) -> bool {
    matches!(event.data, EventData::SessionIdled(_)) && event.context.turn_id == Some(turn_id)
}

/// Returns whether an event begins a turn, or queues its input.
fn begins(event: &Event, turn_id: TurnId) -> bool {
    match &event.data {
        EventData::TurnStarted(started) => started.turn_id == turn_id,
        EventData::InputQueued(queued) => queued.turn_id == turn_id,
        _ => false,
    }
}
