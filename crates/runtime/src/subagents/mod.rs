//! Subagents: agents that a model starts, each in its own session, which works for the turn that started it.
//!
//! The session's ID is derived from the call, so a call that is repeated after a crash finds its session. The child's turn request contains a
//! [`ParentTurn`](windlass_core::turn_request::ParentTurn). Therefore the budgets of the root turn apply to it ([`tree`]), and it ends with its
//! parent's turn ([`stop`]).

mod child;
mod end;
mod host;
mod slots;
mod stop;
mod tool;
mod tree;

use std::sync::Arc;

use serde_json::Value;
use windlass_core::capabilities::Capability;
use windlass_core::constants;
use windlass_core::tools::Tool;
use windlass_macros::Defaults;

use crate::inner::Inner;
use crate::journal_views::RuntimeLink;
pub use host::{ChildDraft, SubagentHost};
pub(crate) use slots::ChildSlots;
pub(crate) use stop::{PARENT_ENDED, is_parent_open, open_turn_input, stop_children};
pub(crate) use tree::{SharedBudget, UsageTrees};

/// The id of the capability.
pub(crate) const SUBAGENTS: &str = "subagents";
/// The name of the tool that starts an agent.
pub(crate) const SPAWN_AGENT: &str = "spawn_agent";

/// Limits on the subagents that a model may start.
#[derive(Debug, Clone, PartialEq, Eq, Defaults)]
pub struct SubagentSettings {
    /// Maximum depth of subagents below a turn that a client started.
    #[default(2)]
    pub max_depth: u32,
    /// Maximum number of subagents of one turn that run at once; further ones wait.
    #[default(8)]
    pub at_once: usize,
    /// Maximum number of subagents that a turn may start in all.
    #[default(32)]
    pub per_turn: usize,
    /// Maximum bytes of a subagent's answer that its parent reads.
    #[default(16 * 1024)]
    pub answer_bytes: usize,
    /// Names of the external agents that a subagent may use.
    pub backends: Vec<String>,
}

/// The capability `subagents`. It starts nothing until it is attached to a runtime.
#[derive(Clone)]
pub(crate) struct Subagents(Arc<SubagentsState>);

struct SubagentsState {
    settings: SubagentSettings,
    runtime: RuntimeLink,
}

impl Subagents {
    pub(crate) fn new(settings: SubagentSettings) -> Self {
        let runtime = RuntimeLink::default();
        Self(Arc::new(SubagentsState { settings, runtime }))
    }

    /// Sets the runtime in which the subagents run.
    pub(crate) fn attach(&self, inner: &Arc<Inner>) {
        self.0.runtime.attach(inner);
    }
}

impl Capability for Subagents {
    constants!(
        SUBAGENTS,
        "Subagents",
        "Starts agents that work for this one, each in a session of its own.",
        "Work",
    );
    fn tools_with_config(&self, _config: &Value) -> Vec<Box<dyn Tool>> {
        self.tools()
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        let shared = Arc::clone(&self.0);
        vec![Box::new(tool::SpawnAgent { shared })]
    }
}
