//! Carrying a prompt to its end, for who has no turn machine: a resume that is refused starts fresh, a crash is tried again.

use tokio::sync::mpsc;
use windlass_core::backend::{
    Attempts, Backend, BackendEvent, BackendOutcome, BackendSession, BackendSpec, Next,
    SessionChoice, SessionTotals,
};

/// What came of a prompt.
pub struct Carried {
    /// How its last turn ended.
    pub outcome: BackendOutcome,
    /// Whether a session that was to be taken up was given up for a new one.
    pub started_fresh: bool,
    /// The process, if it can take more turns.
    pub session: Option<Box<dyn BackendSession>>,
}

/// Opens a process, prompts it, and does what [`Attempts`] says, but for waiting: a limit is an outcome. `fresh_prompt` is the
/// whole prompt for a session that has to begin anew; without it a refused one stays refused. `before_start` is called with the
/// session to be begun or taken up, before each start of a process.
pub async fn carry(
    backend: &dyn Backend,
    mut spec: BackendSpec,
    prompt: &str,
    fresh_prompt: Option<&str>,
    events: mpsc::Sender<BackendEvent>,
    mut before_start: impl FnMut(&SessionChoice) + Send,
) -> Carried {
    let mut attempts = Attempts::default();
    let mut said = prompt;
    let mut started_fresh = false;
    loop {
        before_start(&spec.session);
        let session = match backend.open(spec.clone()).await {
            Ok(session) => session,
            Err(error) => {
                return Carried {
                    outcome: BackendOutcome::failed(error),
                    started_fresh,
                    session: None,
                };
            }
        };
        let outcome = session.prompt(said, events.clone()).await;
        let next = attempts.next(&spec.session, &outcome);
        match (next, fresh_prompt) {
            (Next::Again, _) => {
                // The process that died may have taken the id of a new session with it.
                if !spec.session.is_resume() {
                    spec.session = SessionChoice::New {
                        id: backend.choose_session(),
                    };
                }
            }
            (Next::StartFresh, Some(fresh)) => {
                said = fresh;
                started_fresh = true;
                spec.totals = SessionTotals::default();
                spec.session = SessionChoice::New {
                    id: backend.choose_session(),
                };
            }
            (Next::Done | Next::StartFresh | Next::WaitForLimit { .. }, _) => {
                let is_usable = outcome.exit.is_none();
                return Carried {
                    outcome,
                    started_fresh,
                    session: is_usable.then_some(session),
                };
            }
        }
        session.close().await;
    }
}
