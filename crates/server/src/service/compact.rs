//! Making the history shorter for the model.

use windlass_protocol::{CompactThread, StartTurn, ThreadAndTurn};

use super::Asked;
use super::create::filled;
use super::start::TurnPurpose;
use crate::error::Result;

/// Why, when nobody says.
const REASON: &str = "Manual context compaction";

impl Asked {
    /// Starts a turn that makes the history shorter.
    pub(crate) async fn compact_thread(
        &self,
        id: &str,
        request: CompactThread,
    ) -> Result<ThreadAndTurn> {
        let found = self.find(id).await?;
        if let Some(answer) = self.started_before(&found).await? {
            return Ok(answer);
        }
        let reason = filled(request.reason).unwrap_or_else(|| REASON.to_owned());
        let input = self.input(&found.record, &reason, StartTurn::default())?;
        Ok(self.begin(found, input, TurnPurpose::Compact).await?.1)
    }
}
