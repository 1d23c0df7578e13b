//! Takes checkpoints around calls, including calls whose caller stops waiting.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::turn_environment::TurnEnvironment;

use super::{CheckpointedCall, CheckpointedTurn};
use crate::environments::Environments;
use crate::workspace::ResolvedWorkspace;

/// Begins a call that changes files; blocking. `None` if no checkpoint is taken: without a store, outside a turn, or if the policy forbids changes.
pub(crate) fn begin_call(
    environments: &Environments,
    at: &Arc<ResolvedWorkspace>,
    turn: Option<CheckpointedTurn>,
) -> Result<Option<CheckpointedCall>, String> {
    let (Some(checkpoints), Some(turn), true) =
        (environments.checkpoints(), turn, at.policy().write)
    else {
        return Ok(None);
    };
    checkpoints
        .begin(Arc::clone(at), turn)
        .map(Some)
        .map_err(|error| format!("nothing was done, because it could not be undone: {error}"))
}

/// A future that must complete before the final checkpoint is taken.
type WorkEnd = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Long work of a turn that changes files, such as a command or an external agent. If it is dropped, the final checkpoint is taken once the future of
/// `until` has completed.
pub struct CheckpointedWork {
    call: Option<CheckpointedCall>,
    work_end: Option<WorkEnd>,
}

impl CheckpointedWork {
    /// Takes a checkpoint before the work begins.
    pub async fn begin(
        environments: &Environments,
        environment: Option<TurnEnvironment>,
        turn: Option<CheckpointedTurn>,
    ) -> Result<Self, String> {
        let environments = environments.clone();
        let work = tokio::task::spawn_blocking(move || {
            let mut work = Self {
                call: None,
                work_end: None,
            };
            if environments.checkpoints().is_some() {
                let at = environments.resolve(environment.as_ref());
                let at = Arc::new(at.map_err(|error| error.to_string())?);
                work.call = begin_call(&environments, &at, turn)?;
            }
            // If the caller stops waiting, the value is dropped and the work counts as ended.
            Ok(work)
        });
        work.await.map_err(|error| error.to_string())?
    }

    /// Sets the future to wait for if the caller stops waiting for the work.
    pub(crate) fn until(&mut self, work_end: impl Future<Output = ()> + Send + Sync + 'static) {
        self.work_end = Some(Box::pin(work_end));
    }

    /// Takes a checkpoint after the work has ended.
    pub async fn end(mut self) {
        if let Some(call) = self.call.take() {
            // The blocking task completes even if the caller stops waiting.
            let _ = tokio::task::spawn_blocking(move || call.end()).await;
        }
    }
}

impl Drop for CheckpointedWork {
    fn drop(&mut self) {
        let (Some(call), Ok(runtime)) = (self.call.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let work_end = self.work_end.take();
        runtime.spawn(async move {
            if let Some(work_end) = work_end {
                work_end.await;
            }
            let _ = tokio::task::spawn_blocking(move || call.end()).await;
        });
    }
}
