//! Agents that a model starts: each is a session of its own, which works for the turn that began it.
//!
//! The session's id follows from the call, so a call that is made again after a crash finds the session that it began. What the
//! two share is a [`ParentTurn`](windlass_core::turn_request::ParentTurn) in the request of the child's turn: the budgets of the first
//! turn of all count for it ([`tree`]), and it ends when the turn ends that it works for ([`stop`]).

mod child;
mod end;
mod host;
mod slots;
mod stop;
mod tool;
mod tree;

use std::sync::{Arc, OnceLock, Weak};

use serde_json::Value;
use windlass_core::capabilities::Capability;
use windlass_core::tools::Tool;

use crate::inner::Inner;
pub use host::{ChildDraft, SubagentHost};
pub(crate) use slots::ChildSlots;
pub(crate) use stop::{PARENT_ENDED, is_wanted, stop_children};
pub(crate) use tree::{TreeSeat, Trees};

/// The id of the capability.
pub(crate) const SUBAGENTS: &str = "subagents";
/// The name of the tool that starts an agent.
pub(crate) const SPAWN_AGENT: &str = "spawn_agent";

/// What a model may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentSettings {
    /// How many levels of agents there may be below a turn that somebody began.
    pub max_depth: u32,
    /// How many agents of one turn work at once; further ones wait.
    pub at_once: usize,
    /// How many agents a turn may start in all.
    pub per_turn: usize,
    /// How many bytes of an agent's answer its parent reads.
    pub answer_bytes: usize,
    /// The backends that an agent may run on, by name.
    pub backends: Vec<String>,
}

impl Default for SubagentSettings {
    fn default() -> Self {
        Self {
            max_depth: 2,
            at_once: 8,
            per_turn: 32,
            answer_bytes: 16 * 1024,
            backends: Vec::new(),
        }
    }
}

/// The capability `subagents`. It starts nothing before it belongs to a runtime.
#[derive(Clone)]
pub(crate) struct Subagents(Arc<Shared>);

struct Shared {
    settings: SubagentSettings,
    runtime: OnceLock<Weak<Inner>>,
}

impl Subagents {
    pub(crate) fn new(settings: SubagentSettings) -> Self {
        let runtime = OnceLock::new();
        Self(Arc::new(Shared { settings, runtime }))
    }

    /// Makes the runtime known that the agents run in.
    pub(crate) fn attach(&self, inner: &Arc<Inner>) {
        let _ = self.0.runtime.set(Arc::downgrade(inner));
    }
}

impl Capability for Subagents {
    fn id(&self) -> &str {
        SUBAGENTS
    }
    fn name(&self) -> &str {
        "Subagents"
    }
    fn description(&self) -> &str {
        "Starts agents that work for this one, each in a session of its own."
    }
    fn category(&self) -> Option<&str> {
        Some("Work")
    }
    fn tools_revision(&self) -> Option<u64> {
        Some(0)
    }
    fn tools_with_config(&self, _config: &Value) -> Vec<Box<dyn Tool>> {
        self.tools()
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![Box::new(tool::SpawnAgent::new(Arc::clone(&self.0)))]
    }
}
