//! Compacts the history that the model reads.

use windlass_protocol::api::Call;
use windlass_protocol::operations as op;
use windlass_protocol::{StartTurn, ThreadAndTurn};

use super::RequestContext;
use super::create::filled;
use super::start::TurnPurpose;
use crate::error::Result;
use crate::handle::Handle;
use crate::service::Service;

/// The default reason.
const REASON: &str = "Manual context compaction";

/// Starts a turn that compacts the history.
impl Handle<op::CompactThread> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::CompactThread>,
    ) -> Result<ThreadAndTurn> {
        let id = &call.path.id;
        let request = call.request;
        let found = self.find(id).await?;
        if let Some(answer) = self.started_before(context, &found).await? {
            return Ok(answer);
        }
        let reason = filled(request.reason).unwrap_or_else(|| REASON.to_owned());
        let input = self.input(context, &found.record, &reason, StartTurn::default())?;
        Ok(self
            .begin(context, found, input, TurnPurpose::Compact)
            .await?
            .1)
    }
}
