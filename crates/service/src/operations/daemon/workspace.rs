//! The daemon's directory.

use windlass_protocol::WorkspaceStatus;

use crate::operations::prelude::*;

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
