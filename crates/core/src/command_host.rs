//! What the host of a command offers: the conversation, and one model call beside it.

use async_trait::async_trait;

use crate::error::{AgentLoopError, Result};
use crate::events::TokenUsage;
use crate::llm_models::ModelWithProvider;
use crate::message::{Controls, Message};
use crate::session::Session;

/// The conversation as a turn would see it.
#[derive(Debug, Clone)]
pub struct CommandTurnContext {
    /// The session.
    pub session: Session,
    /// Its messages.
    pub messages: Vec<Message>,
    /// The prompt of a turn.
    pub system_prompt: String,
    /// The model of a turn.
    pub model: ModelWithProvider,
    /// The language to answer in.
    pub resolved_locale: Option<String>,
}

/// A model call beside the conversation; nothing of it is stored.
#[derive(Debug, Clone, Default)]
pub struct SessionCompletionRequest {
    /// What to say after the conversation.
    pub messages: Vec<Message>,
    /// A prompt in place of the session's.
    pub system_prompt: Option<String>,
    /// Whether to leave the conversation out.
    pub without_history: bool,
    /// Wishes for this call.
    pub controls: Option<Controls>,
}

/// What such a call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionCompletion {
    /// The answer.
    pub text: String,
    /// What it used.
    pub usage: Option<TokenUsage>,
}

/// Why such a call failed.
#[derive(Debug, thiserror::Error)]
#[error("the side call failed: {0}")]
pub struct SessionCompletionError(#[from] pub AgentLoopError);

/// What the host of a command offers.
#[async_trait]
pub trait CommandHost: Send + Sync {
    /// Returns the conversation as a turn would see it.
    async fn turn_context(&self) -> Result<CommandTurnContext>;
    /// Makes a model call beside the conversation, without tools.
    async fn completion(
        &self,
        request: SessionCompletionRequest,
    ) -> std::result::Result<SessionCompletion, SessionCompletionError>;
}
