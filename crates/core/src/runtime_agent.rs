//! The agent as one turn sees it, all layers added up.

use crate::network_access::NetworkAccessList;
use crate::tool_types::ToolDefinition;

/// How many model calls a turn may make when nothing says otherwise.
pub const DEFAULT_MAX_ITERATIONS: usize = 500;

/// The agent as one turn sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeAgent {
    /// The tools that the model is offered.
    pub tools: Vec<ToolDefinition>,
    /// The prompt.
    pub system_prompt: String,
    /// The provider's name of the model.
    pub model: String,
    /// How many model calls a turn may make.
    pub max_iterations: usize,
    /// How free the choice of words is.
    pub temperature: Option<f32>,
    /// How long an answer may get.
    pub max_tokens: Option<u32>,
    /// Where tools may connect to.
    pub network_access: Option<NetworkAccessList>,
}
