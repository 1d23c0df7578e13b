//! Answers questions of the agent.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::items::WaitUpdate;
use windlass_core::questions::{InvalidOption, check_answers};
use windlass_protocol::{UserAnswer, UserInputAnswered, UserInputAnswers};

use crate::operations::prelude::*;
use crate::operations::turns::results::check_taken;
use crate::threads::FoundThread;

impl Handle<op::AnswerUserInput> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::AnswerUserInput>,
    ) -> Result<UserInputAnswered> {
        let id = &call.path.thread_id;
        let input_id = call.path.input_id;
        let answers = &call.request;
        let found = self.find(id).await?;
        let answer = serde_json::to_value(answers).map_err(ApiError::internal)?;
        if let Some(prompt) = self.pending_prompt(&found, &input_id).await? {
            check_questions(&prompt, answers)?;
            check_answers(&prompt, &answer)?;
        }
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

impl Service {
    /// Returns the prompt of a question that waits for an answer.
    async fn pending_prompt(&self, found: &FoundThread, input_id: &str) -> Result<Option<Value>> {
        let Some(open) = found.row.open_turn() else {
            return Ok(None);
        };
        let detail = self.queries.turn_detail(&found.row.stream, open.id).await?;
        let waits = detail.iter().flat_map(|detail| detail.log.open_waits());
        let mut prompts = waits.filter_map(|change| match change.wait {
            WaitUpdate::InputRequired(data) if data.request_id == input_id => {
                Some(data.prompt.clone())
            }
            _ => None,
        });
        Ok(prompts.next())
    }
}

impl From<InvalidOption> for ApiError {
    fn from(misfit: InvalidOption) -> Self {
        let pointer = format!("/answers/{}/label", misfit.index);
        let error = Self::field(&pointer, misfit.to_string());
        error.with(json!({ "field": pointer, "options": misfit.options }))
    }
}

/// The part of a prompt that its answers must match.
#[derive(Default, Deserialize)]
struct Questions {
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    id: String,
}

/// Rejects answers that omit a question or belong to none, so that correct answers can still be sent.
fn check_questions(prompt: &Value, answers: &UserInputAnswers) -> Result<()> {
    // A tool of the host may use its own format, which only it can validate.
    let Questions { questions } = Questions::deserialize(prompt).unwrap_or_default();
    let ids: Vec<&str> = questions.iter().map(|it| it.id.as_str()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let refuse = |pointer: &str, text: String| {
        let error = ApiError::field(pointer, text);
        Err(error.with(json!({ "field": pointer, "known": ids })))
    };
    for (index, UserAnswer { id, .. }) in answers.answers.iter().enumerate() {
        if !ids.contains(&id.as_str()) {
            let text = format!("the request has no question `{id}`");
            return refuse(&format!("/answers/{index}/id"), text);
        }
    }
    let is_open = |id: &&&str| !answers.answers.iter().any(|answer| answer.id == **id);
    if let Some(id) = ids.iter().find(is_open) {
        return refuse("/answers", format!("the question `{id}` has no answer"));
    }
    Ok(())
}
