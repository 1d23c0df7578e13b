//! Records that a running step may add: progress, output, and custom events.

use windlass_core::derived_id::child_of_step;
use windlass_core::events::EventData;
use windlass_core::typed_id::ExecId;

use crate::decision::Rejected;
use crate::draft::Draft;

impl Draft<'_> {
    pub(super) fn emit(&mut self, exec_id: ExecId, data: EventData) -> Result<(), Rejected> {
        let allowed = match &data {
            EventData::ToolProgress(_)
            | EventData::ToolOutputDelta(_)
            | EventData::Custom(_)
            | EventData::FileWritten(_)
            | EventData::CapabilityUsage(_)
            | EventData::TaskCreated(_)
            | EventData::TaskUpdated(_) => true,
            // A step has one child, which is stopped with its turn. It must not report another session.
            EventData::SubagentStarted(data) => data.child_session_id == child_of_step(exec_id),
            EventData::SubagentCompleted(data) => data.child_session_id == child_of_step(exec_id),
            _ => false,
        };
        if !allowed {
            return Err(Rejected::NotEmittable(data.event_type()));
        }
        if self.running_call(exec_id).is_none() {
            return Err(Rejected::Stale(exec_id));
        }
        self.record_step(exec_id, data);
        Ok(())
    }
}
