//! One input, one answer: an archived thread with a single turn.

use windlass_protocol::stream::{OneShot, OneShotStarted};
use windlass_protocol::{CreateThread, StartTurn};
use windlass_runtime::OnBusy;

use super::Asked;
use super::one_shot_frames::OneTurn;
use super::start::{TurnPurpose, said};
use crate::error::Result;
use crate::subscribers::Subscriber;

impl Asked {
    /// Makes a thread for one turn, and starts that.
    pub async fn one_shot(&self, request: OneShot) -> Result<OneTurn> {
        let prompt = said(&request.prompt)?;
        let place = Subscriber::take(&self.app, &self.caller)?;
        let draft = CreateThread {
            model: request.model,
            mode: request.mode,
            workspace: request.workspace,
            allow_shell: request.allow_shell,
            trust_mode: request.trust_mode,
            auto_approve: request.auto_approve,
            archived: Some(true),
            ..CreateThread::default()
        };
        let draft = self.draft(draft)?;
        let input = self.input(&draft, prompt, StartTurn::default())?;
        let found = self.open_thread(draft).await?;
        let id = found.id;
        let (turn_id, begun) = self
            .begin(found, input, TurnPurpose::Answer(OnBusy::Refuse))
            .await?;
        let started = OneShotStarted {
            thread_id: begun.thread.id,
            turn_id: begun.turn.id,
            model: begun.thread.model,
            mode: begun.thread.mode,
            workspace: begun.thread.workspace,
        };
        let events = self.runtime.subscribe_after(id, 0).await?;
        Ok(OneTurn::new(&started, turn_id, events, place))
    }
}
