//! Saved sessions: bookmarks of threads. Saving copies nothing; resuming creates a fork.

use serde_json::{Map, Value};
use windlass_macros::wire;

use crate::mode::Mode;

/// A saved session without its messages.
#[wire(Eq, omit_none)]
pub struct SessionMetadata {
    /// The version of this record.
    pub schema_version: u32,
    /// ID of the saved session, `sess_…`.
    pub id: String,
    /// Title; never empty.
    pub title: String,
    /// Time of the first save, RFC 3339.
    pub created_at: String,
    /// Time of the last save, rename or archiving, RFC 3339.
    pub updated_at: String,
    /// Number of messages of the user and the agent.
    pub message_count: u64,
    /// Input and output tokens of all turns.
    pub total_tokens: u64,
    /// Model of the thread when it was saved.
    pub model: String,
    /// Provider of the model.
    pub model_provider: Option<String>,
    /// Directory of the thread when it was saved.
    pub workspace: String,
    /// Mode of the thread when it was saved.
    pub mode: Mode,
    /// Whether it is archived, so that lists omit it by default.
    pub archived: bool,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// Last turn of the session.
    pub turn_id: String,
    /// Agent that owns the thread.
    pub agent: Option<String>,
}

/// The answer of `GET /v1/sessions`.
#[wire(Default, Eq)]
pub struct SessionList {
    /// Sessions in the requested order.
    pub sessions: Vec<SessionMetadata>,
}

/// One line of `GET /v1/sessions/summary`, with the field names of a thread's line.
#[wire(Eq)]
pub struct SessionLine {
    /// ID of the saved session, `sess_…`.
    pub id: String,
    /// Title for display.
    pub title: String,
    /// Same as `title`: a list reads no messages.
    pub preview: String,
    /// Model, without its provider.
    pub model: String,
    /// Mode of the thread when it was saved.
    pub mode: Mode,
    /// Absolute path of the working directory.
    pub workspace: String,
    /// Whether it is archived, so that lists omit it by default.
    pub archived: bool,
    /// Time of the last save, rename or archiving, RFC 3339.
    pub updated_at: String,
    /// Time of the first save, RFC 3339.
    pub created_at: String,
    /// Number of messages.
    pub message_count: u64,
    /// Input and output tokens of all turns.
    pub total_tokens: u64,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
}

/// The body of `POST /v1/sessions`.
#[wire(Eq, omit_none)]
pub struct SaveSession {
    /// Thread to save.
    pub thread_id: String,
    /// Title. Default: the title of the thread.
    pub title: Option<String>,
}

/// The answer of `POST /v1/sessions`.
#[wire(Eq)]
pub struct SavedSession {
    /// ID of the saved session, `sess_…`.
    pub session_id: String,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// Number of saved messages.
    pub message_count: u64,
    /// Title for display.
    pub title: String,
}

/// The body of `PUT /v1/sessions`: at least one of the two.
#[wire(Default, Eq)]
#[serde(default)]
pub struct UpdateSession {
    /// Thread to save. Default: the thread of the session.
    pub thread_id: Option<String>,
    /// Session to overwrite. Default: the newest one of the thread, or a new one.
    pub session_id: Option<String>,
}

/// The answer of `PUT /v1/sessions`.
#[wire(Eq)]
pub struct UpdatedSession {
    /// ID of the saved session, `sess_…`.
    pub session_id: String,
    /// Metadata of the session.
    pub session: SessionMetadata,
}

/// The body of `PATCH /v1/sessions/{id}`.
#[wire(Default, Eq)]
#[serde(default)]
pub struct PatchSession {
    /// Title for display.
    pub title: Option<String>,
    /// Whether it is archived, so that lists omit it by default.
    pub archived: Option<bool>,
}

/// The answer of `PATCH /v1/sessions/{id}`.
#[wire(Eq)]
pub struct PatchedSession {
    /// Metadata of the session.
    pub session: SessionMetadata,
    /// Changed fields with their new values.
    pub changes: Map<String, Value>,
}

/// The body of `POST /v1/sessions/{id}/resume-thread`.
#[wire(Default, Eq)]
#[serde(default)]
pub struct ResumeSession {
    /// Model of the new thread. Default: the model of the saved one.
    pub model: Option<String>,
    /// Mode of the thread.
    pub mode: Option<Mode>,
}

/// The answer of `POST /v1/sessions/{id}/resume-thread`.
#[wire(Eq)]
pub struct ResumedSession {
    /// The new thread.
    pub thread_id: String,
    /// ID of the saved session, `sess_…`.
    pub session_id: String,
    /// Number of messages at its start.
    pub message_count: u64,
    /// Message for people.
    pub summary: String,
}

/// Author of a message.
#[wire(Copy, Eq, snake_case)]
pub enum SessionRole {
    /// A message of the user.
    User,
    /// A message of the agent.
    Assistant,
}

/// A part of a message.
#[wire(Eq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionContent {
    /// Plain text in UTF-8.
    Text {
        /// The text of the part.
        text: String,
    },
}

/// One message of a saved session.
#[wire(Eq)]
pub struct SessionMessage {
    /// Author of the message.
    pub role: SessionRole,
    /// Content of the message.
    pub content: Vec<SessionContent>,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
}

/// The answer of `GET /v1/sessions/{id}`.
#[wire(Eq)]
pub struct SessionDetail {
    /// Metadata of the session.
    pub metadata: SessionMetadata,
    /// Messages of the user and the agent, oldest first. The thread's detail contains the other items.
    pub messages: Vec<SessionMessage>,
    /// System prompt of the thread.
    pub system_prompt: Option<String>,
}

/// The beginning of one message; likely credentials are redacted.
#[wire(Eq)]
pub struct SessionEntry {
    /// Author of the message.
    pub kind: SessionRole,
    /// At most 400 characters of the message.
    pub text: String,
    /// Whether the message is longer.
    pub truncated: bool,
    /// Whether a likely credential was redacted.
    pub redacted: bool,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
}

/// The answer of `GET /v1/sessions/{id}?peek=true`.
#[wire(Eq)]
pub struct SessionPeek {
    /// ID of the saved session, `sess_…`.
    pub session_id: String,
    /// Title of the session.
    pub title: String,
    /// Directory of the thread.
    pub workspace: String,
    /// Model of the thread.
    pub model: String,
    /// Mode of the thread.
    pub mode: Mode,
    /// Whether the session is archived.
    pub archived: bool,
    /// Number of messages.
    pub message_count: u64,
    /// Time of the last change, RFC 3339.
    pub updated_at: String,
    /// The last messages, oldest first.
    pub entries: Vec<SessionEntry>,
    /// Number of older messages.
    pub omitted_before: u64,
    /// Always `false`: a saved session has no running turn.
    pub live: bool,
    /// Thread that the session bookmarks.
    pub thread_id: String,
}

/// A saved session, in the form that the query selects.
#[wire]
#[serde(untagged)]
pub enum SessionView {
    /// The session with all its messages.
    Detail(SessionDetail),
    /// The beginnings of the last messages.
    Peek(SessionPeek),
}
