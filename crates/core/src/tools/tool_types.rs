//! Tools as values: calls, results, definitions, hints.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_macros::omit_none;

/// A call that the model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

/// An image that a tool returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResultImage {
    /// The image data or its URL. A URL is not valid base64, so the two cannot be confused.
    pub base64: String,
    /// The media type; empty for a URL.
    pub media_type: String,
}

impl ToolResultImage {
    /// References an image by URL; only the model's provider fetches it.
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            base64: url.into(),
            media_type: String::new(),
        }
    }

    /// Returns the URL, if the image is referenced by one.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        let is_address = |scheme: &str| self.base64.starts_with(scheme);
        (is_address("http://") || is_address("https://")).then_some(self.base64.as_str())
    }
}

/// The answer to a call.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolResult {
    /// The provider's id of the call, or the runtime's id of the step.
    pub tool_call_id: String,
    /// The return value of the tool.
    pub result: Option<Value>,
    pub images: Option<Vec<ToolResultImage>>,
    /// Why it failed.
    pub error: Option<String>,
    /// The provider that must be connected first.
    pub connection_required: Option<String>,
    /// The output before it was shortened for the model.
    pub raw_output: Option<String>,
}

impl ToolResult {
    /// Makes the answer of a call that succeeded.
    pub fn success(tool_call_id: impl Into<String>, result: impl Into<Value>) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            result: Some(result.into()),
            ..Self::default()
        }
    }

    /// Makes the answer of a call that failed; the model reads the text.
    pub fn failure(tool_call_id: impl Into<String>, error: impl Into<String>) -> Self {
        let error = error.into();
        Self {
            tool_call_id: tool_call_id.into(),
            result: Some(serde_json::json!({ "error": error })),
            error: Some(error),
            ..Self::default()
        }
    }
}

/// When a tool may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPolicy {
    /// Runs without an approval.
    #[default]
    Auto,
    /// Waits for an approval.
    RequiresApproval,
    /// The client runs it and sends the result.
    ClientSide,
}

/// The effect of repeating a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffectClass {
    /// A repeat changes nothing, and neither does the call.
    Pure,
    /// A repeat has the same effect as one call.
    Idempotent,
    /// A repeat has a further effect: the call must not be repeated silently.
    #[default]
    AtMostOnce,
}

/// The kind of calls of a tool, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolShape {
    /// A call like any other.
    #[default]
    Call,
    /// A change of files.
    FileChange,
    /// A command in a shell.
    Command,
    /// A new state of the agent's plan; the arguments are those of [`PLAN_TOOL`].
    Plan,
}

/// The tool with which an agent states its plan. A plan that an external agent reports is recorded as a call of this tool: `entries` has the steps,
/// each with `content`, `status` (`pending`, `in_progress` or `completed`) and optionally `priority`.
pub const PLAN_TOOL: &str = "update_plan";

macro_rules! hints {
    ($($(#[$doc:meta])* $field:ident: $ty:ty, $setter:ident($arg:ty);)*) => {
        /// Hints about a tool's behavior. A missing hint promises nothing. An unknown hint is rejected: ignoring it could drop a restriction.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct ToolHints {
            $($(#[$doc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<$ty>,)*
        }
        impl ToolHints {
            $(#[doc = concat!("Sets `", stringify!($field), "`.")]
            #[must_use]
            pub fn $setter(mut self, value: $arg) -> Self {
                self.$field = Some(value.into());
                self
            })*
        }
    };
}

hints! {
    /// It changes nothing.
    readonly: bool, with_readonly(bool);
    /// It may destroy something.
    destructive: bool, with_destructive(bool);
    /// Repeating it with the same arguments changes nothing more.
    idempotent: bool, with_idempotent(bool);
    /// It reaches outside of the session.
    open_world: bool, with_open_world(bool);
    /// It needs secrets.
    requires_secrets: bool, with_requires_secrets(bool);
    /// It may run for long.
    long_running: bool, with_long_running(bool);
    /// It can continue in the background.
    supports_background: bool, with_supports_background(bool);
    /// It computes instead of waiting.
    cpu_bound: bool, with_cpu_bound(bool);
    /// Its output is stored in a file.
    persist_output: bool, with_persist_output(bool);
    /// Calls of one class run one after the other.
    concurrency_class: String, with_concurrency_class(impl Into<String>);
    /// The capability that contributes it.
    capability_id: String, with_capability_id(impl Into<String>);
    /// That capability's name.
    capability_name: String, with_capability_name(impl Into<String>);
    /// The noun for its object in a narration.
    narration_noun: String, with_narration_noun(impl Into<String>);
    /// The effect of repeating a call.
    side_effect_class: SideEffectClass, with_side_effect_class(SideEffectClass);
    /// Time limit of one call, in milliseconds.
    timeout_ms: u64, with_timeout_ms(u64);
    /// The kind of its calls, for display.
    shape: ToolShape, with_shape(ToolShape);
    /// Names of arguments that only the tool may read; records contain a mask instead.
    secret_arguments: Vec<String>, with_secret_arguments(impl Into<Vec<String>>);
}

impl ToolHints {
    /// Returns the effect of repeating a call; the default is `AtMostOnce`.
    #[must_use]
    pub fn side_effects(&self) -> SideEffectClass {
        self.side_effect_class.unwrap_or_default()
    }

    /// Tells whether no hint is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A tool that runs here.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BuiltinTool {
    /// The name that the model calls.
    pub name: String,
    /// The name for display.
    pub display_name: Option<String>,
    /// The description for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
    /// Whether a call waits for an approval.
    #[serde(default)]
    pub policy: ToolPolicy,
    /// The group that it is shown in.
    pub category: Option<String>,
    /// Whether its schema may be sent later.
    #[serde(default)]
    pub deferrable: DeferrablePolicy,
    /// Hints about its behavior.
    #[serde(default, skip_serializing_if = "ToolHints::is_empty")]
    pub hints: ToolHints,
}

/// A tool that the client runs.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSideTool {
    /// The name that the model calls.
    pub name: String,
    /// The name for display.
    pub display_name: Option<String>,
    /// The description for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
    /// The group that it is shown in.
    pub category: Option<String>,
    /// Whether its schema may be sent later.
    #[serde(default)]
    pub deferrable: DeferrablePolicy,
    /// Hints about its behavior.
    #[serde(default, skip_serializing_if = "ToolHints::is_empty")]
    pub hints: ToolHints,
}

/// Whether a tool's schema may be omitted from requests until a search finds the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeferrablePolicy {
    /// It is always sent.
    Never,
    /// It depends on how many tools there are: see `defer_above` of the runtime's settings.
    #[default]
    Automatic,
    /// It is sent only after a search.
    Always,
}

/// A tool's definition, as the model and the runtime use it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolDefinition {
    /// A tool that runs here.
    Builtin(BuiltinTool),
    /// A tool that the client runs.
    ClientSide(ClientSideTool),
}

macro_rules! of_either {
    ($definition:expr, $tool:ident => $value:expr) => {
        match $definition {
            ToolDefinition::Builtin($tool) => $value,
            ToolDefinition::ClientSide($tool) => $value,
        }
    };
}

impl ToolDefinition {
    /// Makes a tool that the client runs.
    pub fn client_side(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
    ) -> Self {
        Self::ClientSide(ClientSideTool {
            name: name.into(),
            description: description.into(),
            parameters,
            ..ClientSideTool::default()
        })
    }
    /// Returns the name that the model calls.
    #[must_use]
    pub fn name(&self) -> &str {
        of_either!(self, tool => &tool.name)
    }
    /// Returns the name for display.
    #[must_use]
    pub fn display_name(&self) -> Option<&str> {
        of_either!(self, tool => tool.display_name.as_deref())
    }
    /// Returns the description for the model.
    #[must_use]
    pub fn description(&self) -> &str {
        of_either!(self, tool => &tool.description)
    }
    /// Returns the JSON schema of the arguments.
    #[must_use]
    pub fn parameters(&self) -> &Value {
        of_either!(self, tool => &tool.parameters)
    }
    /// Returns when the tool may run.
    #[must_use]
    pub fn policy(&self) -> ToolPolicy {
        match self {
            Self::Builtin(tool) => tool.policy,
            Self::ClientSide(_) => ToolPolicy::ClientSide,
        }
    }
    /// Returns the group that the tool is shown in.
    #[must_use]
    pub fn category(&self) -> Option<&str> {
        of_either!(self, tool => tool.category.as_deref())
    }
    /// Returns whether the schema may be sent later.
    #[must_use]
    pub fn deferrable(&self) -> DeferrablePolicy {
        of_either!(self, tool => tool.deferrable)
    }
    /// Returns hints about the tool's behavior.
    #[must_use]
    pub fn hints(&self) -> &ToolHints {
        of_either!(self, tool => &tool.hints)
    }
    /// Returns a mutable reference to the hints.
    pub fn hints_mut(&mut self) -> &mut ToolHints {
        of_either!(self, tool => &mut tool.hints)
    }
    /// Sets the group.
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        *of_either!(&mut self, tool => &mut tool.category) = Some(category.into());
        self
    }
    /// Sets the hints.
    #[must_use]
    pub fn with_hints(mut self, hints: ToolHints) -> Self {
        *self.hints_mut() = hints;
        self
    }
}
