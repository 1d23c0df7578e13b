//! Removing a thread with all that is recorded of it.

use windlass_core::typed_id::SessionId;

use super::Asked;
use crate::error::{ApiError, Result};

impl Asked {
    /// Removes a thread in which nothing runs. What a fork shares with it stays until the last such fork goes.
    pub(crate) async fn remove_thread(&self, id: &str) -> Result<()> {
        let found = self.find(id).await?;
        let _alone = self.changing.lock(&found.id.to_string()).await;
        // As it is now: somebody else may have removed it, or said something, in the meantime.
        let found = self.find(id).await?;
        if let Some(active) = found.row.open_turn() {
            return Err(ApiError::turn_active(active.id));
        }
        self.runtime.remove_session(found.id).await?;
        if let Some(agent) = found.thread.agent.filter(|_| !found.thread.archived) {
            self.rooms.give_back(&agent);
        }
        self.forget_files(found.id).await;
        Ok(())
    }

    /// Removes what was kept of the files that its turns changed. The thread is gone, so what goes wrong is told in the log.
    async fn forget_files(&self, id: SessionId) {
        let Some(checkpoints) = self.settings.environments.checkpoints() else {
            return;
        };
        let forgetting = tokio::task::spawn_blocking(move || checkpoints.forget(id));
        if let Ok(Err(error)) = forgetting.await {
            tracing::warn!(%error, "files of a removed thread are still kept");
        }
    }
}
