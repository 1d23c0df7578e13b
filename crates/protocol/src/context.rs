//! How much of a model's window a conversation takes.

use serde::{Deserialize, Serialize};

/// The answer of `GET /v1/threads/{id}/context` and `GET /v1/sessions/{id}/context`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ContextUsage {
    /// The thread; of a saved session, the one that it was saved from.
    pub thread_id: String,
    /// Who serves the model; empty if unknown.
    pub provider: String,
    /// The thread's model.
    pub model: String,
    /// Tokens of the next model call: prompt, tools and conversation.
    pub estimated_input_tokens: u64,
    /// Tokens that the model's window has; 64,000 if it is unknown.
    pub context_window_tokens: u64,
    /// Tokens that are left in the window.
    pub remaining_context_tokens: u64,
    /// How much of the window is used: 0 to 100.
    pub used_percent: f64,
    /// Whether the history is compacted automatically.
    pub auto_compact_enabled: bool,
    /// Above how many tokens it is.
    pub auto_compact_threshold_tokens: u64,
    /// The same in percent of the window.
    pub auto_compact_threshold_percent: f64,
    /// `estimated_current_messages`.
    pub source: String,
}
