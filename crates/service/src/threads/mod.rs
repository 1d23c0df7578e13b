//! Threads, read from the read model for each request. Nothing is cached.

mod conversation;
mod items;

use windlass_core::thread_record::ThreadRecord;
use windlass_core::typed_id::SessionId;
use windlass_protocol::Thread;
use windlass_store::StreamKey;
use windlass_store::queries::{LatestTurn, Order, QueryError, ThreadRow, TurnQuery, TurnRow};

use crate::error::{ApiError, Result};
use crate::ids::{self, ForkIds};
use crate::operations::threads::thread_record;
use crate::service::Service;

pub(crate) use conversation::turn_with_items;
pub(crate) use items::{ItemReader, turn_of};

/// A thread as recorded at one moment.
pub(crate) struct FoundThread {
    pub(crate) id: SessionId,
    pub(crate) row: ThreadRow,
    /// Its record, with the newest turn and time of the row.
    pub(crate) record: ThreadRecord,
    /// The thread in wire form.
    pub(crate) thread: Thread,
}

impl FoundThread {
    /// Converts a row; `None` for a session that no client created.
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
    /// Finds a thread by its wire ID.
    pub(crate) async fn find(&self, id: &str) -> Result<FoundThread> {
        let found = self.find_if_any(id).await?;
        found.ok_or_else(|| ApiError::thread_not_found(id))
    }

    /// Looks up a thread by its wire ID; `None` if the ID is invalid or unknown.
    pub(crate) async fn find_if_any(&self, id: &str) -> Result<Option<FoundThread>> {
        match ids::parse_thread(id) {
            Some(id) => self.look_up(id).await,
            None => Ok(None),
        }
    }

    /// Returns the oldest or the newest turn of a stream.
    async fn first_turn(
        &self,
        stream: &StreamKey,
        order: Order,
    ) -> Result<Option<TurnRow>, QueryError> {
        let query = TurnQuery {
            stream: stream.clone(),
            order,
            upto: None,
            after: None,
            limit: 1,
        };
        let turns = self.queries.turns(query).await?;
        Ok(turns.entries.into_iter().next())
    }

    /// Returns a thread that is known to exist.
    pub(crate) async fn thread(&self, id: SessionId) -> Result<FoundThread> {
        let found = self.look_up(id).await?;
        found.ok_or_else(|| ApiError::thread_not_found(&ids::thread(id)))
    }

    /// Looks up a thread; `None` if no client created one with this ID.
    pub(crate) async fn look_up(&self, id: SessionId) -> Result<Option<FoundThread>> {
        match self.queries.thread(&id.into()).await? {
            Some(row) => self.shown(row).await,
            None => Ok(None),
        }
    }

    /// Converts a row; `None` for a session that no client created. The newest turn of a fork without own turns is a shared one.
    pub(crate) async fn shown(&self, mut row: ThreadRow) -> Result<Option<FoundThread>> {
        if row.latest.is_none() && row.origin.is_some() {
            let shared = self.first_turn(&row.stream, Order::NewestFirst).await;
            let shared = shared.map_err(|error| match error {
                QueryError::DamagedRow { .. } => ApiError::internal(error),
                error => error.into(),
            })?;
            let fork: Option<SessionId> = row.stream.as_str().parse().ok();
            row.latest = fork.zip(shared).map(|(fork, turn)| LatestTurn {
                id: ForkIds(fork).turn(turn.view.id),
                first_seq: turn.first_seq,
                status: turn.view.status,
                input_summary: turn.view.outline.input_summary,
                environment: turn.view.outline.environment,
                // The request that started it was not for this thread.
                labels: None,
            });
        }
        Ok(FoundThread::read(row))
    }
}
