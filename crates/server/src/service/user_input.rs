//! Answering a question of the agent.

use windlass_protocol::{ErrorCode, UserInputAnswered, UserInputAnswers};

use super::results::check_taken;
use crate::app::App;
use crate::error::{ApiError, Result};

impl App {
    /// Answers a question that waits for that.
    pub(crate) async fn answer_input(
        &self,
        id: &str,
        input_id: String,
        answers: &UserInputAnswers,
    ) -> Result<UserInputAnswered> {
        let found = self.find(id).await?;
        let answer = serde_json::to_value(answers).map_err(ApiError::internal)?;
        let answered = self.runtime.answer_user_input(found.id, &input_id, answer);
        check_taken(answered.await, || {
            let text = format!("no pending user-input request with id '{input_id}'");
            ApiError::new(ErrorCode::UserInputNotPending, text)
        })?;
        Ok(UserInputAnswered {
            ok: true,
            input_id,
            delivered: true,
        })
    }
}
