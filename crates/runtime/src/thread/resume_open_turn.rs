//! Resumes a turn that a previous process left open.
//!
//! Loading a thread for a read, a note or a removal does not resume its open turn. A request for work does: the turn's context is assembled, and an
//! event records that this process now executes the turn. Only after that event does the end of this process count as a crash of the turn, unless the
//! turn was released before.

use windlass_core::error::Result;
use windlass_core::typed_id::TurnId;
use windlass_turn::{Input, Thread};

use super::PROCESS_STOPPED;
use super::actor::Actor;
use super::command::ReplySender;
use super::prepare::Preparing;
use crate::settings::RecoveryPolicy;
use crate::subagents::open_turn_input;
use crate::turn_result::TurnHandle;

/// A caller of `resume`, answered when the resumption of the turn is recorded.
pub(super) struct ResumeCaller {
    turn: Option<TurnHandle>,
    pub(super) reply: ReplySender<Option<TurnHandle>>,
}

impl Actor {
    /// Resumes the open turn, if any, and sends its handle.
    pub(super) async fn resume(&mut self, reply: ReplySender<Option<TurnHandle>>) -> Result<()> {
        // The handle is created first, because the resumption may end the turn.
        let turn = self.handle_on_open_turn();
        self.resume_open_turn().await?;
        self.resume_callers.push(ResumeCaller { turn, reply });
        if !self.is_recovering() {
            self.answer_resume_callers();
        }
        Ok(())
    }

    /// Resumes once the turn that a previous process left open.
    pub(super) async fn resume_open_turn(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.work_requested, true) {
            return Ok(());
        }
        if self.thread.turn().is_some() {
            match self.recovery() {
                RecoveryPolicy::Resume => self.preparing = Some(Preparing::to_recover(self)),
                RecoveryPolicy::Interrupt => {
                    let reason = Some(PROCESS_STOPPED.to_owned());
                    self.decide(Input::Interrupt {
                        turn_id: None,
                        reason,
                    })
                    .await?;
                }
            }
        }
        self.restart_steps();
        Ok(())
    }

    /// Continues the turn once its context is assembled.
    pub(super) async fn recover(&mut self) -> Result<()> {
        // The same process was executing it when the store failed. That was not a crash.
        if self.leftover.released {
            self.decide(Input::Release).await?;
            self.leftover.released = false;
        }
        // From here on the turn counts as executed here, even if the store fails with an unknown outcome.
        self.executes_turn = true;
        self.decide(Input::Recover).await?;
        self.restart_steps();
        self.answer_resume_callers();
        Ok(())
    }

    /// Answers the callers of `resume` after everything that can continue does.
    pub(super) fn answer_resume_callers(&mut self) {
        // A parked turn needs no new record to stay parked.
        self.waiters.settle(&self.thread, &[]);
        for ResumeCaller { mut turn, reply } in self.resume_callers.drain(..) {
            if let Some(turn) = &mut turn {
                turn.is_open = is_open_or_queued(&self.thread, turn.turn_id);
            }
            let _ = reply.send(Ok(turn));
        }
    }

    /// Returns a handle on the open turn, or on the first queued one.
    fn handle_on_open_turn(&mut self) -> Option<TurnHandle> {
        let open = self.thread.turn();
        let open = open.map(|turn| (turn.id, turn.input_message_id));
        let next = self.thread.queue().front();
        let next = next.map(|next| (next.turn_id, next.message.id));
        let (turn_id, message_id) = open.or(next)?;
        Some(TurnHandle {
            session_id: self.slot.session_id,
            turn_id,
            message_id: Some(message_id),
            first_event: None,
            is_open: true,
            result: self.waiters.wait_for(turn_id),
        })
    }

    /// Returns the recovery policy of the open turn: its own, or else the runtime's.
    fn recovery(&self) -> RecoveryPolicy {
        let request = open_turn_input(&self.thread).and_then(|input| input.turn_request());
        if request.is_some_and(|request| request.interrupt_on_restart) {
            RecoveryPolicy::Interrupt
        } else {
            self.inner.settings.recovery
        }
    }
}

/// Returns whether a turn is open or queued.
pub(super) fn is_open_or_queued(thread: &Thread, turn_id: TurnId) -> bool {
    let open = thread.turn().map(|turn| turn.id);
    let queued = thread.queue().iter().map(|next| next.turn_id);
    open.into_iter().chain(queued).any(|id| id == turn_id)
}
