//! Checkpoints of files: lists them, and restores files without changing a conversation.

use windlass_core::typed_id::{SessionId, TurnId};
use windlass_protocol::api::Page;
use windlass_protocol::workspace::{RestoredSnapshot, Snapshot};
use windlass_store::queries::TurnRow;
use windlass_tools::{CheckpointError, Checkpoints};

use crate::ids;
use crate::operations::prelude::*;
use crate::operations::threads::undo::checkpoint_error;
use crate::threads::FoundThread;

/// Default and maximum number of listed snapshots.
const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// Reverts the file changes of a turn and of all later turns in its thread.
impl Handle<op::RestoreSnapshot> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::RestoreSnapshot>,
    ) -> Result<RestoredSnapshot> {
        let id = &call.path.id;
        let not_found =
            || ApiError::turn_not_found().with_message(format!("Snapshot not found: {id}"));
        let turn_id = ids::parse_turn(id).ok_or_else(not_found)?;
        let session = self
            .query_checkpoints(move |it| it.session_of(turn_id))
            .await?;
        let session = session.flatten().ok_or_else(not_found)?;
        let found = self.find_turn_with_changes(session, turn_id).await?;
        let (found, row) = found.ok_or_else(|| {
            let text = format!(
                "Snapshot not found: {id}; its thread was removed, or retention removed the records of its turn"
            );
            not_found().with_message(text)
        })?;
        Ok(RestoredSnapshot {
            files: self.restore_files(&found, &row, false).await?,
            restored: id.to_owned(),
        })
    }
}

/// Lists the newest turns that have checkpoints of their file changes.
impl Handle<op::ListSnapshots> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::ListSnapshots>,
    ) -> Result<Page<Snapshot>> {
        let limit = limit(call.query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let turns = self
            .query_checkpoints(move |it| it.newest_turns(limit))
            .await?;
        let mut snapshots = Vec::new();
        for turn in turns.unwrap_or_default() {
            if let Some((found, row)) = self
                .find_turn_with_changes(turn.session_id, turn.turn_id)
                .await?
            {
                let outline = row.view.outline;
                let started_at = outline.started_at.or(outline.created_at);
                snapshots.push(Snapshot {
                    id: turn.turn_id.to_string(),
                    label: outline.input_summary,
                    timestamp: started_at.map_or(0, |at| at.timestamp()),
                    thread_id: found.thread.id,
                });
            }
        }
        Ok(snapshots.into())
    }
}

impl Service {
    /// Queries the checkpoints; `None` if they are disabled.
    async fn query_checkpoints<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Checkpoints) -> Result<T, CheckpointError> + Send + 'static,
    ) -> Result<Option<T>> {
        let Some(checkpoints) = self.settings.environments.checkpoints() else {
            return Ok(None);
        };
        let queried = tokio::task::spawn_blocking(move || query(&checkpoints));
        let result = queried.await.map_err(ApiError::internal)?;
        result.map(Some).map_err(checkpoint_error)
    }

    /// Finds a turn in its thread; `None` if retention removed either.
    async fn find_turn_with_changes(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
    ) -> Result<Option<(FoundThread, TurnRow)>> {
        let Some(found) = self.look_up(session_id).await? else {
            return Ok(None);
        };
        let row = self.queries.turn(&found.row.stream, turn_id).await?;
        let row = row.filter(|row| !row.is_pruned);
        Ok(row.map(|row| (found, row)))
    }
}
