//! Running a recorded session again.
//!
//! The turn machine is pure, so what it decided can be decided again: from the recorded events follow the inputs that
//! led to them, and with those and the recorded state the machine is asked anew, with the configuration that the
//! session has now. Nothing is called, nothing is run and nothing is recorded.

mod answers;
mod compare;
mod inputs;
mod player;
mod results;

use std::fmt;
use std::sync::Arc;

use windlass_core::error::Result;
use windlass_core::events::Event;
use windlass_core::typed_id::{SessionId, TurnId};

use crate::runtime::{ForkAt, ForkOptions, InProcessRuntime};
use player::Player;

/// Runs a recorded session again, with the answers of models and tools that were recorded.
#[derive(Debug, Clone)]
pub struct Replay {
    runtime: InProcessRuntime,
    session_id: SessionId,
    until: Option<TurnId>,
}

impl Replay {
    /// Begins the replay of a session.
    #[must_use]
    pub fn of(runtime: &InProcessRuntime, session_id: SessionId) -> Self {
        Self {
            runtime: runtime.clone(),
            session_id,
            until: None,
        }
    }

    /// Ends the replay with a turn.
    #[must_use]
    pub fn until(mut self, turn_id: TurnId) -> Self {
        self.until = Some(turn_id);
        self
    }

    /// Decides everything again and reports the first event that comes out differently.
    pub async fn run(&self) -> Result<ReplayReport> {
        // A whole configuration is made inside: too much for the caller's own future.
        Box::pin(async {
            let player = Player::load(&self.runtime.inner, self.session_id, self.until).await?;
            Box::pin(player.play()).await
        })
        .await
    }

    /// Forks the session where the replay ends, and returns the new one to go on with a live model.
    pub async fn then_live(&self) -> Result<SessionId> {
        let at = self.until.map_or(ForkAt::Latest, ForkAt::Turn);
        let options = ForkOptions::new();
        self.runtime
            .fork_session(self.session_id, at, options)
            .await
    }
}

/// What came of a replay.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// How many events came out as recorded.
    pub events: usize,
    /// How many turns began among them.
    pub turns: usize,
    /// The turns that would work with another prompt, model or tools today.
    pub reconfigured: Vec<TurnId>,
    /// The first event that came out differently; none when all are the same.
    pub divergence: Option<Divergence>,
}

/// An event that came out differently.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Divergence {
    /// Its place among the session's events, from 0.
    pub index: usize,
    /// What was recorded; nothing where the record ends before.
    pub expected: Option<Arc<Event>>,
    /// What came out; nothing where the machine stops before.
    pub got: Option<Arc<Event>>,
    /// Which part of the event differs, or why there is none.
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
