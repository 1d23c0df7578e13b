//! The tool trait, the result of a call, and the registry of a turn's tools.

pub mod command;
pub mod command_host;
pub mod questions;
pub mod session_tool;
pub mod tool_types;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::traits::{ToolContext, forward_arc};
pub use tool_types::{
    BuiltinTool, ClientSideTool, DeferrablePolicy, PLAN_TOOL, SideEffectClass, ToolCall,
    ToolDefinition, ToolHints, ToolPolicy, ToolResult, ToolResultImage, ToolShape,
};

/// The name of the tool that finds deferred tools.
pub const TOOL_SEARCH: &str = "tool_search";

/// The text that the model reads if a tool fails for an internal reason.
pub const INTERNAL_ERROR_TEXT: &str = "An internal error occurred while executing the tool";

/// A tool that the model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name that the model calls.
    fn name(&self) -> &str;
    /// Returns the description for the model.
    fn description(&self) -> &str;
    /// Returns the JSON schema of the arguments.
    fn parameters_schema(&self) -> Value;
    /// Runs a call.
    async fn execute(&self, arguments: Value) -> ToolExecutionResult;
    /// Runs a call that may use the session; the runtime uses this method.
    async fn execute_with_context(
        &self,
        arguments: Value,
        _context: &ToolContext,
    ) -> ToolExecutionResult {
        self.execute(arguments).await
    }
    /// Tells whether the tool needs a session.
    fn requires_context(&self) -> bool {
        false
    }
    /// Returns the name for display.
    fn display_name(&self) -> Option<&str> {
        None
    }
    /// Returns when the tool may run.
    fn policy(&self) -> ToolPolicy {
        ToolPolicy::Auto
    }
    /// Returns hints about the tool's behavior.
    fn hints(&self) -> ToolHints {
        ToolHints::default()
    }
    /// Returns the definition for the model and the runtime.
    fn to_definition(&self) -> ToolDefinition {
        let (name, description) = (self.name().to_owned(), self.description().to_owned());
        let display_name = self.display_name().map(str::to_owned);
        let (parameters, hints) = (self.parameters_schema(), self.hints());
        match self.policy() {
            ToolPolicy::ClientSide => ToolDefinition::ClientSide(ClientSideTool {
                name,
                display_name,
                description,
                parameters,
                hints,
                ..ClientSideTool::default()
            }),
            policy => ToolDefinition::Builtin(BuiltinTool {
                name,
                display_name,
                description,
                parameters,
                policy,
                hints,
                ..BuiltinTool::default()
            }),
        }
    }
}

forward_arc! { Tool {
    fn name(&self) -> &str;
    fn description(&self) -> &str;
    fn parameters_schema(&self) -> Value;
    fn requires_context(&self) -> bool;
    fn display_name(&self) -> Option<&str>;
    fn policy(&self) -> ToolPolicy;
    fn hints(&self) -> ToolHints;
    fn to_definition(&self) -> ToolDefinition;
    async fn execute(&self, arguments: Value) -> ToolExecutionResult;
    async fn execute_with_context(&self, arguments: Value, context: &ToolContext) -> ToolExecutionResult;
}}

/// An internal failure of a tool. Its details are logged, not sent to the model.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ToolInternalError {
    /// The text for the log.
    pub message: String,
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of a call.
#[derive(Debug)]
pub enum ToolExecutionResult {
    /// A value for the model.
    Success(Value),
    /// A value and images for the model.
    SuccessWithImages {
        result: Value,
        images: Vec<ToolResultImage>,
    },
    /// A value for the model, and the full output from which it was made.
    SuccessWithRawOutput {
        result: Value,
        /// The whole output.
        raw_output: String,
    },
    /// A failure that the model should read.
    ToolError(String),
    /// A failure that is logged; the model learns only that there was one.
    InternalError(ToolInternalError),
    /// The user must connect an account first.
    ConnectionRequired {
        /// ID of the provider to connect.
        provider: String,
    },
    /// The user must answer first; the answer is the call's result.
    UserInputRequired {
        /// The question, as JSON.
        request: Value,
    },
}

impl ToolExecutionResult {
    /// Makes a success.
    pub fn success(value: impl Into<Value>) -> Self {
        Self::Success(value.into())
    }
    /// Makes a failure that the model reads.
    pub fn tool_error(message: impl Into<String>) -> Self {
        Self::ToolError(message.into())
    }
    /// Makes a failure that is logged, from a text.
    pub fn internal_error_msg(message: impl Into<String>) -> Self {
        Self::InternalError(ToolInternalError {
            message: message.into(),
            source: None,
        })
    }
    /// Makes a failure that is logged, from its cause.
    pub fn internal_error(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        let (message, source) = (error.to_string(), Some(Box::new(error) as Box<_>));
        Self::InternalError(ToolInternalError { message, source })
    }
    /// Makes the request to connect an account.
    pub fn connection_required(provider: impl Into<String>) -> Self {
        Self::ConnectionRequired {
            provider: provider.into(),
        }
    }
    /// Makes a success with images.
    pub fn success_with_images(value: impl Into<Value>, images: Vec<ToolResultImage>) -> Self {
        Self::SuccessWithImages {
            result: value.into(),
            images,
        }
    }
    /// Creates a success that includes the full output.
    pub fn success_with_raw_output(value: impl Into<Value>, raw_output: String) -> Self {
        Self::SuccessWithRawOutput {
            result: value.into(),
            raw_output,
        }
    }

    /// Tells whether the call succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(
            self,
            Self::Success(_) | Self::SuccessWithImages { .. } | Self::SuccessWithRawOutput { .. }
        )
    }
    /// Tells whether the call failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::ToolError(_) | Self::InternalError(_))
    }

    /// Converts the result to the answer of a call. The text of an internal error is left out.
    #[must_use]
    pub fn into_tool_result(self, tool_call_id: &str, _tool_name: &str) -> ToolResult {
        match self {
            Self::Success(value) => ToolResult::success(tool_call_id, value),
            Self::SuccessWithImages { result, images } => ToolResult {
                images: Some(images),
                ..ToolResult::success(tool_call_id, result)
            },
            Self::SuccessWithRawOutput { result, raw_output } => ToolResult {
                raw_output: Some(raw_output),
                ..ToolResult::success(tool_call_id, result)
            },
            Self::ToolError(message) => ToolResult::failure(tool_call_id, message),
            Self::InternalError(_) => ToolResult::failure(tool_call_id, INTERNAL_ERROR_TEXT),
            Self::ConnectionRequired { provider } => ToolResult {
                tool_call_id: tool_call_id.to_owned(),
                result: Some(json!({ "connection_required": provider })),
                connection_required: Some(provider),
                ..ToolResult::default()
            },
            Self::UserInputRequired { request } => {
                ToolResult::success(tool_call_id, json!({ "user_input_required": request }))
            }
        }
    }
}

/// The tools of a turn, by name.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: HashMap<String, Arc<dyn Tool>>,
}

impl std::fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tool_names()).finish()
    }
}

impl ToolRegistry {
    /// Makes an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a tool; it replaces a tool of the same name.
    pub fn register(&mut self, tool: impl Tool + 'static) {
        self.register_arc(Arc::new(tool));
    }
    /// Adds a boxed tool.
    pub fn register_boxed(&mut self, tool: Box<dyn Tool>) {
        self.register_arc(tool.into());
    }
    /// Adds a shared tool.
    pub fn register_arc(&mut self, tool: Arc<dyn Tool>) {
        self.tools.insert(tool.name().to_owned(), tool);
    }
    /// Returns the tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }
    /// Tells whether there is a tool of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }
    /// Returns the names in order.
    #[must_use]
    pub fn tool_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.tools.keys().cloned().collect();
        names.sort();
        names
    }
    /// Returns the definitions, ordered by name.
    #[must_use]
    pub fn tool_definitions(&self) -> Vec<ToolDefinition> {
        let tools = self.tools.values();
        let mut definitions: Vec<_> = tools.map(|tool| tool.to_definition()).collect();
        definitions.sort_by(|a, b| a.name().cmp(b.name()));
        definitions
    }
}
