//! The thread of a session: one task that owns it while it has something to do.
//!
//! A [`Slot`] stands for the session all the time: it holds the mailbox and what readers may see. While there is
//! work, an [`actor::Actor`] owns the state, takes mail, decides, records, and runs the steps. When nothing is left
//! to do the actor puts the state back and is gone, so that an idle session costs its state and nothing else. Where the
//! journal is on disk, [`Slots`] lets go of that too.

mod actor;
mod backend;
mod commit;
mod fault;
mod fold;
mod mail;
mod masking;
mod prepare;
mod printed;
mod repeat;
mod retire;
mod settle;
mod slot;
mod slots;
mod streaming;
mod take_up;
mod user_answer;
mod waiters;

use std::sync::Arc;

use windlass_turn::Thread;
pub use windlass_turn::{PROCESS_RESTART, PROCESS_STOPPED};

use crate::inner::Inner;
use crate::turn_context::TurnContext;

pub(crate) use mail::{AbandonReason, CloseWhen, Mail, Submission, SubmissionKind};
pub(crate) use printed::Printed;
pub(crate) use slot::Slot;
pub(crate) use slots::{IdleLimits, Slots};

/// What a step is started from.
pub(crate) struct StepScope<'a> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) context: &'a Arc<TurnContext>,
    pub(crate) thread: &'a Thread,
}
