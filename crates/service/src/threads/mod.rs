//! Threads as the read model has them when a request asks. Nothing of them stays in memory.

mod conversation;
mod items;

use serde::Deserialize;
use windlass_core::typed_id::SessionId;
use windlass_protocol::Thread;
use windlass_store::queries::{LatestTurn, Order, QueryError, ThreadRow, TurnQuery};

use crate::error::{ApiError, Result};
use crate::ids::{self, Renamed};
use crate::service::Service;

pub(crate) use conversation::told;
pub(crate) use items::{ItemReader, turn_of};

/// A thread as it was recorded at one moment.
pub(crate) struct FoundThread {
    pub(crate) id: SessionId,
    pub(crate) row: ThreadRow,
    /// The thread as the wire shows it.
    pub(crate) thread: Thread,
}

impl FoundThread {
    /// Reads a row; `None` for a session that no client made.
    pub(crate) fn read(row: ThreadRow) -> Result<Option<Self>> {
        let (Some(record), Ok(id)) = (&row.record, row.stream.as_str().parse()) else {
            return Ok(None);
        };
        let unreadable = |error| {
            let (stream, seq) = (&row.stream, record.seq);
            ApiError::internal(format!(
                "record {seq} of {stream} is no thread that this version knows: {error}"
            ))
        };
        let mut thread = Thread::deserialize(&record.value).map_err(unreadable)?;
        if let Some(latest) = &row.latest {
            thread.latest_turn_id = Some(latest.id.to_string());
        }
        thread.updated_at = ids::time(row.updated_at);
        Ok(Some(Self { id, row, thread }))
    }
}

impl Service {
    /// Finds a thread by the id of the wire.
    pub(crate) async fn find(&self, id: &str) -> Result<FoundThread> {
        let found = match ids::parse_thread(id) {
            Some(id) => self.look_up(id).await?,
            None => None,
        };
        found.ok_or_else(|| ApiError::thread_not_found(id))
    }

    /// Finds a thread that was there before.
    pub(crate) async fn thread(&self, id: SessionId) -> Result<FoundThread> {
        let found = self.look_up(id).await?;
        found.ok_or_else(|| ApiError::thread_not_found(&ids::thread(id)))
    }

    /// Looks a thread up; `None` where no client has made one.
    pub(crate) async fn look_up(&self, id: SessionId) -> Result<Option<FoundThread>> {
        match self.queries.thread(&id.into()).await? {
            Some(row) => self.shown(row).await,
            None => Ok(None),
        }
    }

    /// Shows a row; `None` for a session that no client made. The newest turn of a fork that has none of its own yet is one
    /// that it shares.
    pub(crate) async fn shown(&self, mut row: ThreadRow) -> Result<Option<FoundThread>> {
        if row.latest.is_none() && row.origin.is_some() {
            let shared = self.queries.turns(TurnQuery {
                stream: row.stream.clone(),
                order: Order::NewestFirst,
                after: None,
                limit: 1,
            });
            let shared = shared.await.map_err(|error| match error {
                QueryError::DamagedRow { .. } => ApiError::internal(error),
                error => error.into(),
            })?;
            let shared = shared.entries.into_iter().next();
            let fork: Option<SessionId> = row.stream.as_str().parse().ok();
            row.latest = fork.zip(shared).map(|(fork, turn)| LatestTurn {
                id: Renamed(fork).turn(turn.view.id),
                first_seq: turn.first_seq,
                status: turn.view.status,
                input_summary: turn.view.outline.input_summary,
                environment: turn.view.outline.environment,
                // The request that began it was not for this thread.
                labels: None,
            });
        }
        FoundThread::read(row)
    }
}
