//! Records about the session itself, from the host.

use windlass_core::events::EventData;

use crate::decision::Rejected;
use crate::draft::Draft;

impl Draft<'_> {
    pub(super) fn note(&mut self, data: EventData) -> Result<(), Rejected> {
        if !data.is_about_session() {
            return Err(Rejected::NotEmittable(data.event_type()));
        }
        self.check_quota()?;
        self.record(data);
        Ok(())
    }
}
