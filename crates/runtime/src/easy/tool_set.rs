//! A capability made of a list of tools.

use std::fmt;
use std::sync::Arc;

use windlass_core::capabilities::Capability;
use windlass_core::tools::Tool;

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
    /// Begins a set with the id that records enable it by.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            description: String::new(),
            tools: Vec::new(),
        }
    }

    /// Says what the set is for.
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

    /// Adds tools.
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
