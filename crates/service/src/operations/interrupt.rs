//! Stopping a turn.

use windlass_core::error::AgentLoopError;
use windlass_protocol::Turn;

use super::Asked;
use super::steer::{no_active_turn, not_active};
use crate::error::Result;

impl Asked {
    /// Stops a turn, if it is the one that runs.
    pub async fn interrupt_turn(&self, id: &str, turn_id: &str) -> Result<Turn> {
        let found = self.find(id).await?;
        let Some(active) = found.row.open_turn().map(|turn| turn.id) else {
            return Err(no_active_turn(&found));
        };
        if active.to_string() != turn_id {
            return Err(not_active(&found, turn_id));
        }
        match self.runtime.interrupt(found.id, Some(active), None).await {
            Ok(()) => self.shown_turn(&found, turn_id).await,
            Err(AgentLoopError::NoActiveTurn(_)) => Err(no_active_turn(&found)),
            Err(error) => Err(error.into()),
        }
    }
}
