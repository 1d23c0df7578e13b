//! Deciding again what is recorded of a thread.

use windlass_protocol::{Divergence, ReplayThread, ReplayedThread};
use windlass_runtime::Replay;

use super::Asked;
use crate::error::Result;

impl Asked {
    /// Asks the turn machine again for everything that is recorded of a thread. Nothing is called, run or recorded.
    pub async fn replay_thread(&self, id: &str, request: ReplayThread) -> Result<ReplayedThread> {
        let found = self.find(id).await?;
        let mut replay = Replay::of(&self.runtime, found.id);
        if let Some(name) = &request.turn_id {
            replay = replay.until(self.turn_named(&found, name).await?.view.id);
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
