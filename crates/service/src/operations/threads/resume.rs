//! Resumes threads.

use windlass_protocol::Thread;

use crate::operations::prelude::*;

/// Returns a thread, and resumes an open turn that an earlier server left and that this one did not resume at its start.
impl Handle<op::ResumeThread> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::ResumeThread>) -> Result<Thread> {
        let found = self.find(&call.path.id).await?;
        self.check_open_turn(&found)?;
        self.runtime.resume_open_turn(found.id).await?;
        Ok(found.thread)
    }
}
