//! Taking up what an earlier life of the process left behind.
//!
//! A thread that is brought into memory for a look, a note or a removal leaves its open turn alone. It is taken up when
//! somebody asks for work: then its context is made, and the record that it goes on marks that this process is at work on
//! it. Only from there on is the end of this process a crash of the turn, unless the turn was released before.

use windlass_core::error::Result;
use windlass_core::typed_id::TurnId;
use windlass_turn::{Input, Thread};

use super::PROCESS_STOPPED;
use super::actor::Actor;
use super::mail::Reply;
use super::prepare::Preparing;
use crate::settings::RecoveryPolicy;
use crate::turn_result::TurnHandle;

/// Somebody who asked to go on with a turn, and hears of it when that is on record.
pub(super) struct ResumeCaller {
    turn: Option<TurnHandle>,
    pub(super) reply: Reply<Option<TurnHandle>>,
}

impl Actor {
    /// Somebody asks to go on with what is open.
    pub(super) async fn resume(&mut self, reply: Reply<Option<TurnHandle>>) -> Result<()> {
        // Before anything is taken up: that may end the turn.
        let turn = self.handle_on_open_turn();
        self.take_up().await?;
        self.asked.push(ResumeCaller { turn, reply });
        if !self.is_recovering() {
            self.answer_asked();
        }
        Ok(())
    }

    /// Takes up what an earlier life left behind, once.
    pub(super) async fn take_up(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.has_taken_up, true) {
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

    /// The context of the turn is made: goes on with it.
    pub(super) async fn recover(&mut self) -> Result<()> {
        // The same process was at work on it when the store failed. That was no crash.
        if self.debt.released {
            self.decide(Input::Release).await?;
            self.debt.released = false;
        }
        // From here on, also if the store fails without saying whether it has recorded that.
        self.is_at_work = true;
        self.decide(Input::Recover).await?;
        self.restart_steps();
        self.answer_asked();
        Ok(())
    }

    /// Whoever asked hears that what can go on does.
    pub(super) fn answer_asked(&mut self) {
        // A turn that waits already waits on without a record.
        self.waiters.settle(&self.thread, &[]);
        for ResumeCaller { mut turn, reply } in self.asked.drain(..) {
            if let Some(turn) = &mut turn {
                turn.goes_on = is_to_end(&self.thread, turn.turn_id);
            }
            let _ = reply.send(Ok(turn));
        }
    }

    /// Returns a handle on the turn that is open, or on the first that waits for its place.
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
            goes_on: true,
            result: self.waiters.wait_for(turn_id),
        })
    }

    /// What becomes of the turn that an earlier life left behind: the turn itself may have said so.
    fn recovery(&self) -> RecoveryPolicy {
        let input = self.thread.turn().map(|turn| turn.input_message_id);
        let mut newest_first = self.thread.history().iter().rev();
        let input = newest_first.find(|message| Some(message.id) == input);
        let request = input.and_then(|input| input.turn_request());
        match request.is_some_and(|request| request.interrupt_on_restart) {
            true => RecoveryPolicy::Interrupt,
            false => self.inner.settings.recovery,
        }
    }
}

/// Tells whether a turn is open or waits for its place.
pub(super) fn is_to_end(thread: &Thread, turn_id: TurnId) -> bool {
    let open = thread.turn().map(|turn| turn.id);
    let queued = thread.queue().iter().map(|next| next.turn_id);
    open.into_iter().chain(queued).any(|id| id == turn_id)
}
