//! Answering a question of the agent.

use windlass_core::error::AgentLoopError;
use windlass_protocol::{ErrorCode, UserInputAnswered, UserInputAnswers};

use crate::app::App;
use crate::error::ApiError;

impl App {
    /// Answers a question that waits for that.
    pub(crate) async fn answer_input(
        &self,
        id: &str,
        input_id: String,
        answers: &UserInputAnswers,
    ) -> Result<UserInputAnswered, ApiError> {
        let found = self.find(id).await?;
        let answer = serde_json::to_value(answers).map_err(ApiError::internal)?;
        let answered = self.runtime.answer_user_input(found.id, &input_id, answer);
        match answered.await {
            Ok(_) | Err(AgentLoopError::NoActiveTurn(_)) => Ok(UserInputAnswered {
                ok: true,
                input_id,
                delivered: true,
            }),
            Err(AgentLoopError::NoPendingCall { .. }) => Err(ApiError::new(
                ErrorCode::UserInputNotPending,
                format!("no pending user-input request with id '{input_id}'"),
            )),
            Err(error) => Err(error.into()),
        }
    }
}
