//! The turn machine: the state of a conversation and its next step.
//!
//! [`Thread`] is the state of one session. [`Thread::decide`] maps the state and an [`Input`] to events and commands, without changing the state.
//! When the events are durable, [`Thread::commit`] applies them. After a crash [`Thread::evolve`] folds the journal into the same state, and
//! [`Thread::pending_commands`] returns the commands to start.
//!
//! This crate does no IO, reads no clock and makes no random choice. A [`DecisionContext`] supplies the time and one UUID, from which all further IDs
//! are derived.

mod call_approval;
mod decide;
mod decision;
mod discovered_tools;
mod draft;
mod evolve;
mod evolve_run;
mod input;
mod plan;
mod prompt;
mod run;
mod size;
mod state;
mod transcript;
mod validate;

pub use call_approval::{CallApproval, ChangeRefused};
pub use decision::{Command, Decision, Rejected};
pub use input::{
    Answer, Approval, DecisionContext, FailureDetails, Input, OnBusy, QueueEdit, RecordMask,
    RequestedCall, RequiredWait, ToolOutcome, UnflushedText,
};
pub use plan::{BackendPlan, CompactionPlan, Limits, ToolSpec, TurnPlan};
pub use prompt::PromptText;
pub use run::{KnownSession, LimitWait, Run};
pub use state::{
    Act, Call, CallState, Child, Compaction, Phase, Queued, Reason, Text, Thread, Turn, TurnEnd,
};
pub use validate::InvalidEvent;
pub use windlass_core::derived_id::derive;
pub use windlass_core::runs::PROCESS_STOPPED;

/// The error code of a turn whose answer does not match its schema, even after the repair.
pub const OUTPUT_SCHEMA_MISMATCH: &str = "output_schema_mismatch";
/// Why a wait ends if its turn must not resume after a restart.
pub const PROCESS_RESTART: &str = "process_restart";
