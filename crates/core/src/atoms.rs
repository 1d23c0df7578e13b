//! Hooks: where a capability can step into a turn.

use async_trait::async_trait;
use serde_json::Value;

use crate::message::Message;
use crate::tool_types::{ToolCall, ToolDefinition, ToolResult};
use crate::traits::ToolContext;
use crate::typed_id::{SessionId, TurnId};

/// What a hook says about a call before it runs.
#[derive(Debug, Clone, PartialEq)]
pub enum PreToolUseDecision {
    /// Go on, with this call.
    Continue(ToolCall),
    /// Do not run it; the model reads the reason.
    Block {
        /// The call.
        tool_call: ToolCall,
        /// Why not.
        reason: String,
        /// What to tell the person.
        user_message: Option<String>,
    },
}

/// Looks at a call before it runs. The first one that blocks wins.
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

/// Looks at a result before it is recorded.
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

/// Changes which tools the model is offered.
pub trait ToolDefinitionHook: Send + Sync {
    /// Returns the tools to offer.
    fn transform(&self, tools: Vec<ToolDefinition>) -> Vec<ToolDefinition>;
}

/// Changes a call when the model has made it, before anything else looks at it.
pub trait ToolCallHook: Send + Sync {
    /// Returns the call to carry out.
    fn transform(&self, call: ToolCall) -> ToolCall;
}

/// What a model view is made for.
#[derive(Debug, Clone, Copy)]
pub struct ModelViewContext<'a> {
    /// The session.
    pub session_id: SessionId,
    /// The provider's name of the model.
    pub model: &'a str,
    /// Which model call of the turn it is, from 1.
    pub iteration: usize,
}

/// Changes how the model sees the conversation; what is stored stays.
pub trait ModelViewProvider: Send + Sync {
    /// Returns the messages to send.
    fn apply_model_view(
        &self,
        messages: Vec<Message>,
        config: &Value,
        ctx: &ModelViewContext<'_>,
    ) -> Vec<Message>;
}

/// What a guardrail watches over.
#[derive(Debug, Clone, Copy)]
pub struct OutputGuardrailContext<'a> {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The prompt of the turn.
    pub system_prompt: &'a str,
}

/// What a guardrail says about text as it streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputGuardrailVerdict {
    /// Go on.
    Pass,
    /// Stop the answer and show this instead.
    Replace {
        /// What to show.
        text: String,
        /// Why.
        reason: String,
    },
}

/// Watches one answer as it streams.
pub trait OutputGuardrailRun: Send {
    /// Looks at what was said so far and at what is new.
    fn check(&mut self, accumulated: &str, delta: &str) -> OutputGuardrailVerdict;
}

/// Watches over answers.
pub trait OutputGuardrail: Send + Sync {
    /// Names the guardrail.
    fn id(&self) -> &str;
    /// Begins to watch an answer; `None` when there is nothing to watch for.
    fn arm(&self, ctx: &OutputGuardrailContext<'_>) -> Option<Box<dyn OutputGuardrailRun>>;
}
