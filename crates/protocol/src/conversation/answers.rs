//! Requests that wait for a person, and their answers.

use serde_json::Value;
use windlass_macros::wire;

/// A decision about a call.
#[wire(Copy, Eq, snake_case)]
pub enum ApprovalDecision {
    /// The call may run.
    Allow,
    /// The call must not run.
    Deny,
}

/// A call that needs an approval.
#[wire(Eq, omit_none)]
pub struct PendingApproval {
    /// ID of the approval, `appr_…`.
    pub id: String,
    /// Same as `id`.
    pub approval_id: Option<String>,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// Name of the tool, with its namespace.
    pub tool_name: String,
    /// The tool and its arguments.
    pub description: String,
    /// The agent's stated purpose.
    pub intent_summary: Option<String>,
    /// ID of the call, `call_…`.
    pub call_id: Option<String>,
    /// The item that shows the call.
    pub item_id: Option<String>,
    /// Time at which it is denied automatically.
    pub expires_at: Option<String>,
}

/// A question of the agent to the user.
#[wire(omit_none)]
pub struct PendingUserInput {
    /// ID of the question, `input_…`.
    pub id: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// The questions: `{questions: [{header, id, question, options, allow_free_text, multi_select}]}`.
    pub request: Value,
    /// The item that shows the call.
    pub item_id: Option<String>,
    /// Time at which the question expires.
    pub expires_at: Option<String>,
}

/// The body of `POST /v1/approvals/{id}`. The decision is text, so that the error can quote a wrong one.
#[wire(Eq, omit_none)]
pub struct DecideApproval {
    /// `allow` or `deny`.
    pub decision: String,
    /// Whether later calls are allowed too; `remember_for` defines which.
    #[serde(default)]
    pub remember: bool,
    /// Scope of `remember`: all later calls of the `thread`, or of the rest of the `turn`; with `project` only this call with exactly its arguments, in the
    /// working directory of the turn.
    #[serde(default)]
    pub remember_for: RememberFor,
    /// Why the call is denied, at most 2,000 characters. The model reads it. Not allowed with `allow`.
    pub reason: Option<String>,
}

/// Scope of a remembered decision.
#[wire(Copy, Eq, Default, snake_case)]
pub enum RememberFor {
    /// All later turns of the thread.
    #[default]
    Thread,
    /// The rest of the turn.
    Turn,
    /// The same call with the same arguments, in all threads with the same working directory and root.
    Project,
}

/// The answer of `POST /v1/approvals/{id}`.
#[wire(Eq)]
pub struct ApprovalAnswered {
    /// `true`.
    pub ok: bool,
    /// ID of the approval, `appr_…`.
    pub approval_id: String,
    /// The recorded decision.
    pub decision: ApprovalDecision,
    /// `true`.
    pub delivered: bool,
}

/// One answer to one question.
#[wire(Eq)]
pub struct UserAnswer {
    /// ID of the question within the request.
    pub id: String,
    /// Label of the selected option.
    pub label: String,
    /// Text of the answer.
    pub value: String,
    /// Whether the user skipped the question; `value` may then contain a reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// The body of `POST /v1/user-input/{thread_id}/{input_id}`.
#[wire(Eq)]
pub struct UserInputAnswers {
    /// One answer for each question of the request.
    pub answers: Vec<UserAnswer>,
}

/// The answer of `POST /v1/user-input/{thread_id}/{input_id}`.
#[wire(Eq)]
pub struct UserInputAnswered {
    /// `true`.
    pub ok: bool,
    /// ID of the request, `input_…`.
    pub input_id: String,
    /// `true`.
    pub delivered: bool,
}
