//! The thread of a session: one task that owns the session's state while there is work.
//!
//! A [`Slot`] always represents the session: it has the mailbox and the state that readers see. While there is work, an [`actor::Actor`] owns the
//! state, accepts commands, decides, records, and runs the steps. When no work is left, the actor returns the state to the slot and ends, so an idle
//! session costs only the memory of its state. With a journal on disk, [`Slots`] evicts that too.

mod actor;
mod backend;
mod call_output;
mod command;
mod commit;
mod fault;
mod load;
mod masking;
mod prepare;
mod repeat;
mod resume_open_turn;
mod retire;
mod settle;
mod slot;
mod slots;
mod streaming;
mod user_answer;
mod waiters;

use std::sync::Arc;

use windlass_turn::Thread;
pub use windlass_turn::{PROCESS_RESTART, PROCESS_STOPPED};

use crate::inner::Inner;
use crate::turn_context::TurnContext;

pub(crate) use call_output::CallOutputBuffer;
pub(crate) use command::{
    AbandonReason, CloseWhen, ReplySender, Submission, SubmissionKind, ThreadCommand,
};
pub(crate) use slot::Slot;
pub(crate) use slots::{IdleLimits, Slots};

/// The inputs from which a step is started.
pub(crate) struct StepScope<'a> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) context: &'a Arc<TurnContext>,
    pub(crate) thread: &'a Thread,
}
