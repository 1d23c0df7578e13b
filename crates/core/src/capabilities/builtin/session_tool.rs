//! Common code of the built-in tools: arguments as a struct, failures as a value.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::AgentLoopError;
use crate::tools::{SideEffectClass, Tool, ToolExecutionResult, ToolHints};
use crate::traits::{SessionFileSystem, ToolContext};
use crate::typed_id::SessionId;

/// Why a call failed.
#[derive(Debug)]
pub(super) enum ToolFailure {
    /// The model reads the text and can act on it.
    Error(String),
    /// The host failed; the model learns only that something did.
    Internal(AgentLoopError),
}

/// Fails a call with a text that the model reads.
pub(super) fn fail<T>(text: impl Into<String>) -> Result<T, ToolFailure> {
    Err(ToolFailure::Error(text.into()))
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

/// The arguments of a tool that takes none.
#[derive(Deserialize)]
pub(super) struct NoArguments {}

/// A tool of a built-in capability.
#[async_trait]
pub(super) trait SessionTool: Send + Sync + 'static {
    type Args: DeserializeOwned + Send;
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    fn schema(&self) -> Value;
    fn hints(&self) -> ToolHints;
    async fn run(&self, args: Self::Args, ctx: &ToolContext) -> Result<Value, ToolFailure>;
}

pub(super) fn boxed(tool: impl SessionTool) -> Box<dyn Tool> {
    Box::new(ToolAdapter(tool))
}

struct ToolAdapter<T>(T);

#[async_trait]
impl<T: SessionTool> Tool for ToolAdapter<T> {
    fn name(&self) -> &str {
        T::NAME
    }
    fn description(&self) -> &str {
        T::DESCRIPTION
    }
    fn parameters_schema(&self) -> Value {
        self.0.schema()
    }
    fn hints(&self) -> ToolHints {
        self.0.hints()
    }
    fn requires_context(&self) -> bool {
        true
    }
    /// A tool that needs a session fails without one.
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        let no_session = ToolContext::new(SessionId::from_uuid(uuid::Uuid::nil()));
        self.execute_with_context(arguments, &no_session).await
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

/// The schema of an object that takes these properties and no others.
pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}

/// The hints of a tool that changes nothing.
pub(super) fn reads() -> ToolHints {
    ToolHints::default()
        .with_readonly(true)
        .with_side_effect_class(SideEffectClass::Pure)
}

/// The hints of a tool that changes something; calls of one class run in order.
pub(super) fn writes(class: &str, side_effects: SideEffectClass) -> ToolHints {
    ToolHints::default()
        .with_readonly(false)
        .with_concurrency_class(class)
        .with_idempotent(side_effects == SideEffectClass::Idempotent)
        .with_side_effect_class(side_effects)
}

/// Returns a service of the host, or an error if the host does not offer it.
pub(super) fn offered<'a, T: ?Sized>(
    part: &'a Option<Arc<T>>,
    what: &str,
) -> Result<&'a Arc<T>, ToolFailure> {
    part.as_ref()
        .map_or_else(|| fail(format!("this host offers no {what}")), Ok)
}

/// Returns the session's files.
pub(super) fn files(ctx: &ToolContext) -> Result<&Arc<dyn SessionFileSystem>, ToolFailure> {
    offered(&ctx.file_store, "session files")
}

/// Reads a capability's configuration; `null` is the default.
pub(super) fn config<T: DeserializeOwned + Default>(config: &Value) -> Result<T, String> {
    if config.is_null() {
        return Ok(T::default());
    }
    T::deserialize(config).map_err(|error| error.to_string())
}
