//! A capability made of a list of tools.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use windlass_core::capabilities::Capability;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::tools::Tool;

/// Maximum length of a tool name that all providers accept.
const MAX_NAME_BYTES: usize = 64;

/// A capability that consists of tools.
///
/// ```
/// use serde_json::json;
/// use windlass_core::capabilities::Capability;
/// use windlass_runtime::{ToolSet, tool_fn};
///
/// let set = ToolSet::new("greetings")
///     .tool(tool_fn("hello", "Greets", json!({ "type": "object" }), |_, _| async { Ok("hello") }));
/// assert_eq!((set.id(), set.tools().len()), ("greetings", 1));
/// ```
#[derive(Clone)]
pub struct ToolSet {
    id: String,
    description: String,
    tools: Vec<Arc<dyn Tool>>,
}

impl ToolSet {
    /// Creates an empty set; records enable it by this ID.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            description: String::new(),
            tools: Vec::new(),
        }
    }

    /// Sets the description of the set.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools. Names must be unique within a conversation.
    #[must_use]
    pub fn with_tools<T: Tool + 'static>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        let tools = tools
            .into_iter()
            .map(|tool| Arc::new(tool) as Arc<dyn Tool>);
        self.tools.extend(tools);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Rejects tools that no model could call, before any is offered.
    pub(super) fn check(&self) -> Result<()> {
        let mut names = HashSet::new();
        for tool in &self.tools {
            let name = tool.name();
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if !(1..=MAX_NAME_BYTES).contains(&name.len()) || !name.bytes().all(is_valid) {
                return Err(AgentLoopError::config(format!(
                    "{name:?} cannot be the name of a tool: models take 1 to {MAX_NAME_BYTES} letters, digits, `_` and `-`"
                )));
            }
            if !names.insert(name) {
                return Err(AgentLoopError::config(format!(
                    "there are two tools `{name}`; rename one"
                )));
            }
            let schema = tool.parameters_schema();
            let is_object = schema.is_object()
                && schema
                    .get("type")
                    .is_none_or(|kind| kind.as_str() == Some("object"));
            if !is_object {
                return Err(AgentLoopError::config(format!(
                    "the schema of the tool `{name}` describes no object: {schema}; arguments always are one"
                )));
            }
        }
        Ok(())
    }
}

impl Capability for ToolSet {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.id
    }
    fn description(&self) -> &str {
        &self.description
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        let shared = |tool: &Arc<dyn Tool>| Box::new(Arc::clone(tool)) as Box<dyn Tool>;
        self.tools.iter().map(shared).collect()
    }
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.tools.iter().map(|tool| tool.name()).collect();
        f.debug_struct("ToolSet")
            .field("id", &self.id)
            .field("tools", &names)
            .finish()
    }
}
