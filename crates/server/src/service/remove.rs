//! Removing a thread with all that is recorded of it.

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
        Ok(())
    }
}
