//! Replays the decisions recorded in a thread.

use windlass_protocol::{Divergence, ReplayedThread};
use windlass_runtime::Replay;

use crate::operations::prelude::*;

/// Replays all records of a thread in the turn machine. It makes no calls and records nothing.
impl Handle<op::ReplayThread> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::ReplayThread>,
    ) -> Result<ReplayedThread> {
        let found = self.find(&call.path.id).await?;
        let mut replay = Replay::of(&self.runtime, found.id);
        if let Some(name) = &call.request.turn_id {
            replay = replay.until(self.find_turn(&found, name).await?.view.id);
        }
        let report = replay.run().await?;
        let turns = report.reconfigured.iter();
        Ok(ReplayedThread {
            records: report.events,
            turns: report.turns,
            reconfigured: turns.map(ToString::to_string).collect(),
            divergence: report.divergence.map(|it| Divergence {
                index: it.index,
                recorded: it.expected.map(|event| event.event_type.clone()),
                came_out: it.got.map(|event| event.event_type.clone()),
                detail: it.detail,
            }),
        })
    }
}
