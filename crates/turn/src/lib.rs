//! The turn machine: what a conversation is, and what happens next in it.
//!
//! [`Thread`] is the state of one session. [`Thread::decide`] looks at the state and an [`Input`] and says which
//! events follow and which commands they entail; it changes nothing. When the events are durable,
//! [`Thread::commit`] moves the state on. After a crash [`Thread::evolve`] folds the journal into the same state,
//! and [`Thread::pending_commands`] says what to start.
//!
//! Nothing here does IO, reads a clock or makes a random choice: a [`Moment`] brings the time and one uuid, and all
//! further ids are derived from it.

mod call_approval;
mod decide;
mod decision;
mod draft;
mod evolve;
mod evolve_run;
mod fits;
mod found;
mod input;
mod plan;
mod prompt;
mod run;
mod size;
mod state;
mod transcript;

pub use call_approval::{CallApproval, ChangeRefused};
pub use decision::{Command, Decision, Rejected};
pub use fits::Misfit;
pub use input::{
    Answer, Failure, Input, Moment, OnBusy, QueueEdit, RecordMask, Remember, RequestedCall, Tail,
    ToolOutcome, Wait,
};
pub use plan::{BackendPlan, CompactionPlan, Limits, ToolSpec, TurnPlan};
pub use prompt::PromptText;
pub use run::{KnownSession, LimitWait, Run};
pub use state::{
    Act, Call, CallState, Child, Compaction, Phase, Queued, Reason, Text, Thread, Turn, TurnEnd,
};
pub use windlass_core::derived_id::derive;
pub use windlass_core::runs::PROCESS_STOPPED;

/// Why a wait ended with such a turn.
pub const PROCESS_RESTART: &str = "process_restart";
