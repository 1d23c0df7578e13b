//! Tools whose arguments are a struct, and whose failures are values.

use std::fmt::Display;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Tool, ToolExecutionResult, ToolHints, ToolPolicy};
use crate::error::AgentLoopError;
use crate::traits::ToolContext;
use crate::typed_id::SessionId;

/// Why a call failed.
#[derive(Debug)]
pub enum ToolFailure {
    /// The model reads the text and can act on it.
    Error(String),
    /// The host failed; the model learns only that something did.
    Internal(AgentLoopError),
}

/// Fails a call with a text that the model reads.
///
/// # Errors
/// Always the text.
pub fn fail<T>(text: impl Into<String>) -> Result<T, ToolFailure> {
    Err(ToolFailure::Error(text.into()))
}

impl ToolFailure {
    /// A failure that the model reads as the text of an error.
    pub fn error(error: impl Display) -> Self {
        Self::Error(error.to_string())
    }
}

impl From<AgentLoopError> for ToolFailure {
    fn from(error: AgentLoopError) -> Self {
        match error {
            AgentLoopError::ToolExecution(text) => Self::Error(text),
            quota @ AgentLoopError::QuotaExceeded(_) => Self::Error(quota.to_string()),
            other => Self::Internal(other),
        }
    }
}

/// A tool that needs its session and deserializes its arguments into a struct.
#[async_trait]
pub trait SessionTool: Send + Sync + 'static {
    /// The arguments of a call.
    type Args: DeserializeOwned + Send;
    /// The name that the model calls.
    const NAME: &'static str;
    /// The description for the model, unless [`description`](Self::description) returns another.
    const DESCRIPTION: &'static str = "";

    /// Returns the description for the model.
    fn description(&self) -> &str {
        Self::DESCRIPTION
    }
    /// Returns the JSON schema of the arguments.
    fn schema(&self) -> Value;
    /// Returns hints about the tool's behavior.
    fn hints(&self) -> ToolHints;
    /// Returns when the tool may run.
    fn policy(&self) -> ToolPolicy {
        ToolPolicy::Auto
    }
    /// Runs a call.
    async fn run(&self, args: Self::Args, ctx: &ToolContext) -> Result<Value, ToolFailure>;
}

/// Adapts a session tool to the runtime's interface.
pub fn session_tool(tool: impl SessionTool) -> Box<dyn Tool> {
    Box::new(ToolAdapter(tool))
}

/// Returns the context of a call outside a session.
#[must_use]
pub fn no_session() -> ToolContext {
    ToolContext::new(SessionId::from_uuid(uuid::Uuid::nil()))
}

struct ToolAdapter<T>(T);

#[async_trait]
impl<T: SessionTool> Tool for ToolAdapter<T> {
    fn name(&self) -> &str {
        T::NAME
    }
    fn description(&self) -> &str {
        self.0.description()
    }
    fn parameters_schema(&self) -> Value {
        self.0.schema()
    }
    fn hints(&self) -> ToolHints {
        self.0.hints()
    }
    fn policy(&self) -> ToolPolicy {
        self.0.policy()
    }
    fn requires_context(&self) -> bool {
        true
    }
    /// A tool that needs a session fails without one.
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        self.execute_with_context(arguments, &no_session()).await
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        let arguments = if arguments.is_null() {
            json!({})
        } else {
            arguments
        };
        let args = match serde_json::from_value(arguments) {
            Ok(args) => args,
            Err(error) => {
                return ToolExecutionResult::tool_error(format!(
                    "invalid arguments for `{}`: {error}",
                    T::NAME
                ));
            }
        };
        match self.0.run(args, context).await {
            Ok(value) => ToolExecutionResult::success(value),
            Err(ToolFailure::Error(text)) => ToolExecutionResult::tool_error(text),
            Err(ToolFailure::Internal(error)) => ToolExecutionResult::internal_error(error),
        }
    }
}

/// Returns the schema of an object that takes these properties and no others.
#[must_use]
pub fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}
