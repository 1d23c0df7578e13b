//! Making the history shorter for the model.

use windlass_protocol::{CompactThread, StartTurn, ThreadAndTurn};

use super::Asked;
use super::create::filled;
use super::start::Work;
use crate::app::App;
use crate::error::ApiError;

/// Why, when nobody says.
const REASON: &str = "Manual context compaction";

impl App {
    /// Starts a turn that makes the history shorter.
    pub(crate) async fn compact_thread(
        &self,
        asked: &Asked,
        id: &str,
        request: CompactThread,
    ) -> Result<ThreadAndTurn, ApiError> {
        let found = self.find(id).await?;
        if let Some(answer) = self.started_before(asked, &found).await? {
            return Ok(answer);
        }
        let reason = filled(request.reason).unwrap_or_else(|| REASON.to_owned());
        let input = self.input(asked, &found.thread, &reason, StartTurn::default())?;
        Ok(self.begin(found, input, Work::Compact).await?.1)
    }
}
