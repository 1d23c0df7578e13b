//! Saved sessions: bookmarks of threads. Saving copies nothing; resuming creates a fork.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::mode::Mode;

/// A saved session without what was said in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionMetadata {
    /// The version of this record.
    pub schema_version: u32,
    /// Identifies the session.
    pub id: String,
    /// The name to show; never empty.
    pub title: String,
    /// When it was first saved.
    pub created_at: String,
    /// When it was last saved, named or archived.
    pub updated_at: String,
    /// How many messages of the user and the agent it has.
    pub message_count: u64,
    /// How many tokens its turns read and wrote.
    pub total_tokens: u64,
    /// The model of the thread at that moment.
    pub model: String,
    /// Who served the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    /// The directory of the thread at that moment.
    pub workspace: String,
    /// How freely the agent worked.
    pub mode: Mode,
    /// Whether lists leave it out.
    pub archived: bool,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// The last turn that it has.
    pub turn_id: String,
    /// The agent that the thread belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The answer of `GET /v1/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionList {
    /// Sessions in the requested order.
    pub sessions: Vec<SessionMetadata>,
}

/// One line of `GET /v1/sessions/summary`, with the names that a line of threads has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionLine {
    /// Identifies the session.
    pub id: String,
    /// The name to show.
    pub title: String,
    /// The title again: a list reads no messages.
    pub preview: String,
    /// Model, without its provider.
    pub model: String,
    /// How freely the agent worked.
    pub mode: Mode,
    /// Absolute path of the working directory.
    pub workspace: String,
    /// Whether lists leave it out.
    pub archived: bool,
    /// When it was last saved, named or archived.
    pub updated_at: String,
    /// When it was first saved.
    pub created_at: String,
    /// How many messages it has.
    pub message_count: u64,
    /// How many tokens its turns read and wrote.
    pub total_tokens: u64,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
}

/// The body of `POST /v1/sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SaveSession {
    /// The thread to save.
    pub thread_id: String,
    /// The name to show; without it, that of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The answer of `POST /v1/sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SavedSession {
    /// ID of the saved session, `sess_…`.
    pub session_id: String,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// How many messages were saved.
    pub message_count: u64,
    /// The name to show.
    pub title: String,
}

/// The body of `PUT /v1/sessions`: at least one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UpdateSession {
    /// The thread to save; without it, that of the session.
    pub thread_id: Option<String>,
    /// The session to save over; without it, the newest of the thread, or a new one.
    pub session_id: Option<String>,
}

/// The answer of `PUT /v1/sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UpdatedSession {
    /// The session's id.
    pub session_id: String,
    /// Metadata of the session.
    pub session: SessionMetadata,
}

/// The body of `PATCH /v1/sessions/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct PatchSession {
    /// The name to show.
    pub title: Option<String>,
    /// Whether lists leave it out.
    pub archived: Option<bool>,
}

/// The answer of `PATCH /v1/sessions/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PatchedSession {
    /// Metadata of the session.
    pub session: SessionMetadata,
    /// What is different now, by name.
    pub changes: Map<String, Value>,
}

/// The body of `POST /v1/sessions/{id}/resume-thread`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ResumeSession {
    /// The model of the new thread, if not that of the old one.
    pub model: Option<String>,
    /// How freely the agent works in it.
    pub mode: Option<Mode>,
}

/// The answer of `POST /v1/sessions/{id}/resume-thread`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResumedSession {
    /// The new thread.
    pub thread_id: String,
    /// ID of the saved session, `sess_…`.
    pub session_id: String,
    /// How many messages it begins with.
    pub message_count: u64,
    /// What happened, for people.
    pub summary: String,
}

/// Who said a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionRole {
    /// A message of the user.
    User,
    /// A message of the agent.
    Assistant,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionContent {
    /// Plain text in UTF-8.
    Text {
        /// What it says.
        text: String,
    },
}

/// One message of a saved session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionMessage {
    /// Who said it.
    pub role: SessionRole,
    /// What was said.
    pub content: Vec<SessionContent>,
    /// The turn of the thread.
    pub turn_id: String,
}

/// The answer of `GET /v1/sessions/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionDetail {
    /// Metadata of the session.
    pub metadata: SessionMetadata,
    /// What the user and the agent said, oldest first. The thread's detail has the rest.
    pub messages: Vec<SessionMessage>,
    /// System prompt of the thread.
    pub system_prompt: Option<String>,
}

/// The beginning of one message, with what looks like a credential taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionEntry {
    /// Who said it.
    pub kind: SessionRole,
    /// What was said, in at most 400 characters.
    pub text: String,
    /// Whether more was said.
    pub truncated: bool,
    /// Whether something that looks like a credential was taken out.
    pub redacted: bool,
    /// The turn of the thread.
    pub turn_id: String,
}

/// The answer of `GET /v1/sessions/{id}?peek=true`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionPeek {
    /// ID of the saved session, `sess_…`.
    pub session_id: String,
    /// What it is called.
    pub title: String,
    /// Where its thread works.
    pub workspace: String,
    /// The model of its thread.
    pub model: String,
    /// How freely the agent works in it.
    pub mode: Mode,
    /// Whether it is put away.
    pub archived: bool,
    /// How many messages it has.
    pub message_count: u64,
    /// When it was changed last.
    pub updated_at: String,
    /// The last messages, oldest first.
    pub entries: Vec<SessionEntry>,
    /// How many messages come before them.
    pub omitted_before: u64,
    /// Never true: a saved session is no thread that works.
    pub live: bool,
    /// The thread that it is a place of.
    pub thread_id: String,
}

/// A saved session, in the form that the query selects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum SessionView {
    /// The session with all its messages.
    Detail(SessionDetail),
    /// The beginnings of the last messages.
    Peek(SessionPeek),
}
