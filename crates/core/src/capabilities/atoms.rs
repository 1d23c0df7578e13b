//! Hooks of capabilities into a turn.

use async_trait::async_trait;
use serde_json::Value;

use crate::message::Message;
use crate::tool_types::{ToolCall, ToolDefinition, ToolResult};
use crate::traits::ToolContext;
use crate::typed_id::{SessionId, TurnId};

/// A hook's decision about a call before it runs.
#[derive(Debug, Clone, PartialEq)]
pub enum PreToolUseDecision {
    /// Run this call.
    Continue(ToolCall),
    /// Do not run it; the model reads the reason.
    Block {
        tool_call: ToolCall,
        reason: String,
        /// The message for the user.
        user_message: Option<String>,
    },
}

/// Inspects a call before it runs. The first hook that blocks the call decides.
#[async_trait]
pub trait PreToolUseHook: Send + Sync {
    /// Decides about a call; may change it.
    async fn before_exec(
        &self,
        call: ToolCall,
        def: &ToolDefinition,
        ctx: &ToolContext,
    ) -> PreToolUseDecision;
}

/// Inspects a result before it is recorded.
#[async_trait]
pub trait PostToolExecHook: Send + Sync {
    /// May change the result.
    async fn after_exec(
        &self,
        call: &ToolCall,
        def: &ToolDefinition,
        result: &mut ToolResult,
        ctx: &ToolContext,
    );
}

/// Changes the tools that the model is offered.
pub trait ToolDefinitionHook: Send + Sync {
    /// Returns the tools to offer.
    fn transform(&self, tools: Vec<ToolDefinition>) -> Vec<ToolDefinition>;
}

/// Rewrites a call of the model before any other check.
pub trait ToolCallHook: Send + Sync {
    /// Returns the call to run.
    fn transform(&self, call: ToolCall) -> ToolCall;
}

/// The context of a model view.
#[derive(Debug, Clone, Copy)]
pub struct ModelViewContext<'a> {
    pub session_id: SessionId,
    /// The provider's name of the model.
    pub model: &'a str,
    /// The number of the turn's model call, from 1.
    pub iteration: usize,
}

/// Rewrites the model's view of the conversation; the stored messages do not change.
pub trait ModelViewProvider: Send + Sync {
    /// Returns the messages to send.
    fn apply_model_view(
        &self,
        messages: Vec<Message>,
        config: &Value,
        ctx: &ModelViewContext<'_>,
    ) -> Vec<Message>;
}

/// The context of a guardrail.
#[derive(Debug, Clone, Copy)]
pub struct OutputGuardrailContext<'a> {
    pub session_id: SessionId,
    pub turn_id: TurnId,
    /// The prompt of the turn.
    pub system_prompt: &'a str,
}

/// A guardrail's decision about streamed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputGuardrailVerdict {
    /// Show the text unchanged.
    Pass,
    /// Stop the answer and show this instead.
    Replace {
        /// The replacement text.
        text: String,
        reason: String,
    },
}

/// Checks one answer while it streams.
pub trait OutputGuardrailRun: Send {
    /// Checks the text so far and the new delta.
    fn check(&mut self, accumulated: &str, delta: &str) -> OutputGuardrailVerdict;
}

/// Creates a check for each answer.
pub trait OutputGuardrail: Send + Sync {
    /// Returns the ID of the guardrail.
    fn id(&self) -> &str;
    /// Creates the check of an answer; `None` if no check is needed.
    fn arm(&self, ctx: &OutputGuardrailContext<'_>) -> Option<Box<dyn OutputGuardrailRun>>;
}
