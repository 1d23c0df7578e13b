//! Parameters in paths.

use serde::{Deserialize, Serialize};

/// Fills the parameters of a path.
pub trait Path {
    /// Returns the names with their values, not yet percent-encoded.
    fn parameters(&self) -> Vec<(&'static str, &str)>;
}

impl Path for () {
    fn parameters(&self) -> Vec<(&'static str, &str)> {
        Vec::new()
    }
}

macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident { $($field:ident),* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct $name { $(#[doc = concat!("The parameter `{", stringify!($field), "}`.")] pub $field: String,)* }

        impl Path for $name {
            fn parameters(&self) -> Vec<(&'static str, &str)> {
                vec![$((stringify!($field), self.$field.as_str())),*]
            }
        }
    )*};
}

paths! {
    /// A thread, saved session, task, automation, environment, snapshot or provider.
    IdPath { id }
    /// A turn of a thread.
    TurnPath { id, turn_id }
    /// A client's tool call in a turn.
    CallPath { id, turn_id, call_id }
    /// ID of an approval, `appr_…`.
    ApprovalPath { approval_id }
    /// A question of a thread.
    InputPath { thread_id, input_id }
    /// A fleet run, or an agent that a model started.
    RunPath { run_id }
    /// An agent that works for a thread.
    AgentRunPath { id, agent_id }
    /// A worker of a fleet run.
    WorkerPath { worker_id }
    /// Name of a skill.
    NamePath { name }
}
