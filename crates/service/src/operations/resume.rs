//! Resuming a thread.

use windlass_protocol::Thread;

use super::Asked;
use crate::error::Result;

impl Asked {
    /// Returns a thread. A turn that a previous server left open, and that this one did not resume at its start, is resumed.
    pub async fn resume_thread(&self, id: &str) -> Result<Thread> {
        let found = self.find(id).await?;
        self.check_open_turn(&found)?;
        self.runtime.resume_open_turn(found.id).await?;
        Ok(found.thread)
    }
}
