//! The daemon's directory.

use windlass_protocol::WorkspaceStatus;
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;

use crate::error::Result;
use crate::handle::Handle;
use crate::operations::RequestContext;
use crate::service::Service;

impl Handle<op::GetWorkspaceStatus> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        _: Call<op::GetWorkspaceStatus>,
    ) -> Result<WorkspaceStatus> {
        let workspace = self.fixed.local.root.display().to_string();
        Ok(self.git.read(&workspace).await)
    }
}
