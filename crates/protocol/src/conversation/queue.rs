//! Input for a busy thread, and the queue of inputs that wait for their turns.

use serde::{Deserialize, Serialize};

/// Handling of the input of `POST …/turns` while the thread has an open turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// The request fails with `turn_active`.
    #[default]
    Refuse,
    /// The input waits until the turns before it have ended.
    Queue,
    /// The input joins the running turn; the other options of the request do not apply.
    Steer,
    /// The running turn is interrupted, and the input starts the next one.
    Interrupt,
}

/// An input that waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueuedInput {
    /// The turn that the input will start.
    pub turn_id: String,
    /// The index in the queue, from 0: the input that starts next.
    pub position: u64,
    /// Plain text, UTF-8.
    pub prompt: String,
    /// The beginning of the text, or the client's own summary of it.
    pub input_summary: String,
    /// When the input was accepted.
    pub created_at: String,
}

/// The answer of `GET …/queue`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InputQueue {
    /// The queued inputs, the next one first.
    pub queue: Vec<QueuedInput>,
}

/// The body of `PATCH …/queue/{turn_id}`: at least one field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EditQueuedInput {
    /// The new text. It also replaces the client's own summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The new index, from 0. An index past the end is the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
}
