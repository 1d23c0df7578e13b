//! The services of a host for commands: the conversation, and one model call outside of it.

use async_trait::async_trait;

use crate::error::{AgentLoopError, Result};
use crate::events::TokenUsage;
use crate::llm_models::ModelWithProvider;
use crate::message::{Controls, Message};
use crate::session::Session;

/// The conversation as a turn would see it.
#[derive(Debug, Clone)]
pub struct CommandTurnContext {
    pub session: Session,
    pub messages: Vec<Message>,
    /// The prompt of a turn.
    pub system_prompt: String,
    /// The model of a turn.
    pub model: ModelWithProvider,
    /// The language to answer in.
    pub resolved_locale: Option<String>,
}

/// A model call outside of the conversation; neither request nor answer is stored.
#[derive(Debug, Clone, Default)]
pub struct SessionCompletionRequest {
    /// Messages after the conversation.
    pub messages: Vec<Message>,
    /// A system prompt that replaces the session's.
    pub system_prompt: Option<String>,
    /// Whether to omit the conversation.
    pub without_history: bool,
    /// Options of this call.
    pub controls: Option<Controls>,
}

/// The result of a side call.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionCompletion {
    pub text: String,
    pub usage: Option<TokenUsage>,
}

/// Why a side call failed.
#[derive(Debug, thiserror::Error)]
#[error("the side call failed: {0}")]
pub struct SessionCompletionError(#[from] pub AgentLoopError);

/// The services of a host for commands.
#[async_trait]
pub trait CommandHost: Send + Sync {
    /// Returns the conversation as a turn would see it.
    async fn turn_context(&self) -> Result<CommandTurnContext>;
    /// Makes a model call outside of the conversation, without tools.
    async fn completion(
        &self,
        request: SessionCompletionRequest,
    ) -> std::result::Result<SessionCompletion, SessionCompletionError>;
}
