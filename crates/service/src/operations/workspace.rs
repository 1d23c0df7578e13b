//! The daemon's directory.

use windlass_protocol::WorkspaceStatus;

use crate::service::Service;

impl Service {
    /// Returns the state of the daemon's directory.
    pub async fn workspace_status(&self) -> WorkspaceStatus {
        let workspace = self.fixed.local.root.display().to_string();
        self.git.read(&workspace).await
    }
}
