//! What waits for a person, and the person's answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// It may run.
    Allow,
    /// It must not run.
    Deny,
}

/// A call that needs an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PendingApproval {
    /// Identifies the approval.
    pub id: String,
    /// Same as `id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// Name of the tool, with its namespace.
    pub tool_name: String,
    /// What the call would do.
    pub description: String,
    /// What the agent wants with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_summary: Option<String>,
    /// ID of the call, `call_…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The item that shows the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// Time at which it is denied automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// A question of the agent to the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PendingUserInput {
    /// Identifies the question.
    pub id: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// The questions: `{questions: [{header, id, question, options, allow_free_text, multi_select}]}`.
    pub request: Value,
    /// The item that shows the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// When it is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// The body of `POST /v1/approvals/{id}`. The decision is text, so that the error can quote a wrong one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecideApproval {
    /// `allow` or `deny`.
    pub decision: String,
    /// Whether all later calls of this thread are allowed too.
    #[serde(default)]
    pub remember: bool,
    /// How long it is remembered: for the `thread`, or for the rest of the `turn`; with `project` this very call alone, with exactly its arguments, in the
    /// directory where the turn works.
    #[serde(default)]
    pub remember_for: RememberFor,
    /// Why the call is denied, at most 2,000 characters. The model reads it. Not allowed with `allow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How long an answer is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RememberFor {
    /// In all turns of the thread that are to come.
    #[default]
    Thread,
    /// Until the turn is over.
    Turn,
    /// This call alone, in all threads that work in the same directory of the same root.
    Project,
}

/// The answer of `POST /v1/approvals/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalAnswered {
    /// `true`.
    pub ok: bool,
    /// ID of the approval, `appr_…`.
    pub approval_id: String,
    /// What was decided.
    pub decision: ApprovalDecision,
    /// `true`.
    pub delivered: bool,
}

/// One answer to one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserAnswer {
    /// ID of the question within the request.
    pub id: String,
    /// The option's name.
    pub label: String,
    /// What is answered.
    pub value: String,
    /// Whether the user chose none; `value` may then contain a reason, whatever the options are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// The body of `POST /v1/user-input/{thread_id}/{input_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserInputAnswers {
    /// One answer for each question of the request.
    pub answers: Vec<UserAnswer>,
}

/// The answer of `POST /v1/user-input/{thread_id}/{input_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserInputAnswered {
    /// `true`.
    pub ok: bool,
    /// ID of the request, `input_…`.
    pub input_id: String,
    /// `true`.
    pub delivered: bool,
}
