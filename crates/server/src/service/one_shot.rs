//! One input, one answer: an archived thread with a single turn.

use windlass_core::typed_id::TurnId;
use windlass_protocol::stream::{OneShot, OneShotStarted};
use windlass_protocol::{CreateThread, StartTurn};
use windlass_runtime::EventStream;

use super::Asked;
use super::start::{TurnPurpose, said};
use crate::error::Result;
use crate::subscribers::Subscriber;

/// A turn that was started, and its thread's events.
pub(crate) struct OneTurn {
    pub(crate) started: OneShotStarted,
    pub(crate) turn_id: TurnId,
    pub(crate) events: EventStream,
    pub(crate) place: Subscriber,
}

impl Asked {
    /// Makes a thread for one turn, and starts that.
    pub(crate) async fn one_shot(&self, request: OneShot) -> Result<OneTurn> {
        let prompt = said(&request.prompt)?;
        let place = Subscriber::take(&self.app, &self.caller)?;
        let draft = CreateThread {
            workspace: request.workspace.clone(),
            archived: Some(true),
            ..CreateThread::default()
        };
        let draft = self.draft(draft.with_policy(&request.policy()))?;
        let input = self.input(&draft, prompt, StartTurn::default())?;
        let found = self.open_thread(draft).await?;
        let id = found.id;
        let (turn_id, begun) = self.begin(found, input, TurnPurpose::Answer).await?;
        let started = OneShotStarted {
            thread_id: begun.thread.id,
            turn_id: begun.turn.id,
            model: begun.thread.model,
            mode: begun.thread.mode,
            workspace: begun.thread.workspace,
        };
        Ok(OneTurn {
            started,
            turn_id,
            events: self.runtime.subscribe_after(id, 0).await?,
            place,
        })
    }
}
