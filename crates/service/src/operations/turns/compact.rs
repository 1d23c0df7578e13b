//! Compacts the history that the model reads.

use windlass_protocol::{StartTurn, ThreadAndTurn};

use crate::operations::prelude::*;
use crate::operations::threads::create::non_blank;
use crate::operations::turns::start::TurnPurpose;

/// The default reason.
const REASON: &str = "Manual context compaction";

/// Starts a turn that compacts the history.
impl Handle<op::CompactThread> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::CompactThread>,
    ) -> Result<ThreadAndTurn> {
        let found = self.find(&call.path.id).await?;
        if let Some(answer) = self.already_started(ctx, &found).await? {
            return Ok(answer);
        }
        let reason = non_blank(call.request.reason).unwrap_or_else(|| REASON.to_owned());
        let input = self.input(ctx, &found.record, &reason, StartTurn::default())?;
        Ok(self.begin(ctx, found, input, TurnPurpose::Compact).await?.1)
    }
}
