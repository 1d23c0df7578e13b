//! The answer to a question of a tool.

use serde_json::Value;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::questions::{InvalidOption, check_answers};
use windlass_turn::{CallState, Input, Turn};

use super::actor::Actor;
use super::command::ReplySender;
use crate::turn_result::TurnHandle;

impl Actor {
    /// Accepts an answer if the question allows it; otherwise the question keeps waiting. This check is not part of the turn machine, so answers that
    /// were recorded before it existed stay valid.
    pub(super) async fn user_answer(
        &mut self,
        request: String,
        answer: Value,
        reply: ReplySender<TurnHandle>,
    ) -> Result<()> {
        if let Err(invalid) = self.check_answer(&request, &answer) {
            let _ = reply.send(Err(AgentLoopError::InvalidAnswer(invalid)));
            return Ok(());
        }
        let name = request.clone();
        let outcome = self.try_decide(Input::UserAnswer { request, answer });
        let outcome = outcome.await?;
        self.answer_or_repeat(outcome, Some(&name), reply).await;
        Ok(())
    }

    fn check_answer(
        &self,
        request: &str,
        answer: &Value,
    ) -> std::result::Result<(), InvalidOption> {
        let calls = self.thread.turn().map_or(&[][..], Turn::calls);
        let question = calls.iter().find_map(|call| match &call.state {
            CallState::AwaitingAnswer {
                request_id, prompt, ..
            } if request_id == request => Some(prompt),
            _ => None,
        });
        question.map_or(Ok(()), |question| check_answers(question, answer))
    }
}
