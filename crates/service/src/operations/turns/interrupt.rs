//! Interrupts turns.

use windlass_core::error::AgentLoopError;
use windlass_protocol::Turn;

use crate::operations::prelude::*;
use crate::operations::turns::steer::{no_active_turn, not_active};

/// Interrupts a turn if it is the running one.
impl Handle<op::InterruptTurn> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::InterruptTurn>) -> Result<Turn> {
        let turn_id = &call.path.turn_id;
        let found = self.find(&call.path.id).await?;
        let Some(active) = found.row.open_turn().map(|turn| turn.id) else {
            return Err(no_active_turn(&found));
        };
        if active.to_string() != *turn_id {
            return Err(not_active(&found, turn_id));
        }
        match self.runtime.interrupt(found.id, Some(active), None).await {
            Ok(()) => self.shown_turn(&found, turn_id).await,
            Err(AgentLoopError::NoActiveTurn(_)) => Err(no_active_turn(&found)),
            Err(error) => Err(error.into()),
        }
    }
}
