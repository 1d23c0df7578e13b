//! Threads as the read model has them when a request asks. Nothing of them stays in memory.

mod conversation;
mod items;

use windlass_core::thread_record::ThreadRecord;
use windlass_core::typed_id::SessionId;
use windlass_protocol::Thread;
use windlass_store::queries::{LatestTurn, Order, QueryError, ThreadRow, TurnQuery};

use crate::error::{ApiError, Result};
use crate::ids::{self, Renamed};
use crate::operations::thread_record;
use crate::service::Service;

pub(crate) use conversation::told;
pub(crate) use items::{ItemReader, turn_of};

/// A thread as it was recorded at one moment.
pub(crate) struct FoundThread {
    pub(crate) id: SessionId,
    pub(crate) row: ThreadRow,
    /// Its record, with the newest turn and time of the row.
    pub(crate) record: ThreadRecord,
    /// The thread as the wire shows it.
    pub(crate) thread: Thread,
}

impl FoundThread {
    /// Reads a row; `None` for a session that no client made.
    pub(crate) fn read(row: ThreadRow) -> Option<Self> {
        let (recorded, id) = (row.record.as_ref()?, row.stream.as_str().parse().ok()?);
        let mut record = recorded.record.clone();
        if let Some(latest) = &row.latest {
            record.latest_turn_id = Some(latest.id);
        }
        record.updated_at = row.updated_at;
        let thread = thread_record::thread(id, &record);
        Some(Self {
            id,
            row,
            record,
            thread,
        })
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
        Ok(FoundThread::read(row))
    }
}
