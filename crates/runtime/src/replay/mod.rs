//! Replays a recorded session.
//!
//! The turn machine is pure, so its decisions can be repeated: the inputs are derived from the recorded events. The machine decides again from those
//! and the recorded state, with the session's current configuration. No model or tool is called, and nothing is recorded.

mod answers;
mod compare;
mod inputs;
mod replayer;
mod results;

use std::fmt;
use std::sync::Arc;

use windlass_core::error::Result;
use windlass_core::events::Event;
use windlass_core::typed_id::{SessionId, TurnId};

use crate::runtime::{ForkAt, ForkOptions, InProcessRuntime};
use replayer::Replayer;

/// Replays a recorded session with its recorded answers of models and tools.
#[derive(Debug, Clone)]
pub struct Replay {
    runtime: InProcessRuntime,
    session_id: SessionId,
    until: Option<TurnId>,
}

impl Replay {
    /// Creates a replay of a session.
    #[must_use]
    pub fn of(runtime: &InProcessRuntime, session_id: SessionId) -> Self {
        Self {
            runtime: runtime.clone(),
            session_id,
            until: None,
        }
    }

    /// Sets the last turn of the replay.
    #[must_use]
    pub fn until(mut self, turn_id: TurnId) -> Self {
        self.until = Some(turn_id);
        self
    }

    /// Repeats every decision and reports the first event that differs.
    pub async fn run(&self) -> Result<ReplayReport> {
        // The future contains a whole configuration, so it is boxed.
        Box::pin(async {
            let replayer = Replayer::load(&self.runtime.inner, self.session_id, self.until).await?;
            Box::pin(replayer.play()).await
        })
        .await
    }

    /// Forks the session at the end of the replay, and returns the new session for use with a live model.
    pub async fn then_live(&self) -> Result<SessionId> {
        let at = self.until.map_or(ForkAt::Latest, ForkAt::Turn);
        let options = ForkOptions::new();
        self.runtime
            .fork_session(self.session_id, at, options)
            .await
    }
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// Number of events that are as recorded.
    pub events: usize,
    /// Number of turns that began among them.
    pub turns: usize,
    /// Turns that would have another prompt, model or tools today.
    pub reconfigured: Vec<TurnId>,
    /// The first event that differs; `None` if there is none.
    pub divergence: Option<Divergence>,
}

/// An event that differs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Divergence {
    /// Its index among the session's events, from 0.
    pub index: usize,
    /// The recorded event; `None` if the record ends before.
    pub expected: Option<Arc<Event>>,
    /// The replayed event; `None` if the machine stops before.
    pub got: Option<Arc<Event>>,
    /// The part of the event that differs, or why there is no event.
    pub detail: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |event: &Option<Arc<Event>>| match event {
            Some(event) => event.event_type.clone(),
            None => "nothing".to_owned(),
        };
        let (expected, got) = (name(&self.expected), name(&self.got));
        let (index, detail) = (self.index, &self.detail);
        write!(
            f,
            "event {index}: {expected} was recorded, {got} came out ({detail})"
        )
    }
}
