//! Estimated use of a model's context window by a conversation.

use windlass_macros::wire;

/// The answer of `GET /v1/threads/{id}/context` and `GET /v1/sessions/{id}/context`.
#[wire]
pub struct ContextUsage {
    /// Thread of the conversation; for a saved session, the thread that it bookmarks.
    pub thread_id: String,
    /// Provider of the model; empty if unknown.
    pub provider: String,
    /// The thread's model.
    pub model: String,
    /// Tokens of the next model call: prompt, tools and conversation.
    pub estimated_input_tokens: u64,
    /// Tokens of the context window; 64,000 if unknown.
    pub context_window_tokens: u64,
    /// Tokens that are left in the window.
    pub remaining_context_tokens: u64,
    /// Used share of the window in percent: 0 to 100.
    pub used_percent: f64,
    /// Whether the history is compacted automatically.
    pub auto_compact_enabled: bool,
    /// Number of tokens above which the history is compacted.
    pub auto_compact_threshold_tokens: u64,
    /// The same threshold in percent of the window.
    pub auto_compact_threshold_percent: f64,
    /// `estimated_current_messages`.
    pub source: String,
}
