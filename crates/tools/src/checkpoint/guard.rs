//! Keeping the files of a call that is waited for, or not any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::turn_environment::TurnEnvironment;

use super::{Changing, ChangingTurn};
use crate::environments::Environments;
use crate::workspace::ResolvedWorkspace;

/// Begins a call that changes files, where blocking does no harm. `None` where nothing is kept: without a store, outside of any turn, and where
/// nothing may be changed.
pub(crate) fn changing_now(
    environments: &Environments,
    at: &Arc<ResolvedWorkspace>,
    turn: Option<ChangingTurn>,
) -> Result<Option<Changing>, String> {
    let (Some(checkpoints), Some(turn), true) =
        (environments.checkpoints(), turn, at.policy().write)
    else {
        return Ok(None);
    };
    let begun = checkpoints.begin(Arc::clone(at), turn);
    begun
        .map(Some)
        .map_err(|error| format!("nothing was done, because it could not be taken back: {error}"))
}

/// What has to end before files are looked at.
type Ending = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Work of a turn that changes files and takes its time, such as a command or a whole agent. When it is dropped, and what it waits for has ended, what
/// is there then is kept.
pub struct ChangingFiles {
    changing: Option<Changing>,
    ending: Option<Ending>,
}

impl ChangingFiles {
    /// Keeps what is there before the work begins.
    pub async fn begin(
        environments: &Environments,
        environment: Option<TurnEnvironment>,
        turn: Option<ChangingTurn>,
    ) -> Result<Self, String> {
        let environments = environments.clone();
        let begun = tokio::task::spawn_blocking(move || {
            let mut begun = Self {
                changing: None,
                ending: None,
            };
            if environments.checkpoints().is_some() {
                let at = environments.resolve(environment.as_ref());
                let at = Arc::new(at.map_err(|error| error.to_string())?);
                begun.changing = changing_now(&environments, &at, turn)?;
            }
            // Where nobody waits for it any more, it is dropped, and so ended.
            Ok(begun)
        });
        begun.await.map_err(|error| error.to_string())?
    }

    /// Says what has to end first when nobody waits for the work any more.
    pub(crate) fn until(&mut self, ending: impl Future<Output = ()> + Send + Sync + 'static) {
        self.ending = Some(Box::pin(ending));
    }

    /// Keeps what is there after the work, which has ended.
    pub async fn end(mut self) {
        if let Some(changing) = self.changing.take() {
            // A task goes on when nobody waits for it.
            let _ = tokio::task::spawn_blocking(move || changing.end()).await;
        }
    }
}

impl Drop for ChangingFiles {
    fn drop(&mut self) {
        let (Some(changing), Ok(runtime)) =
            (self.changing.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let ending = self.ending.take();
        runtime.spawn(async move {
            if let Some(ending) = ending {
                ending.await;
            }
            let _ = tokio::task::spawn_blocking(move || changing.end()).await;
        });
    }
}
