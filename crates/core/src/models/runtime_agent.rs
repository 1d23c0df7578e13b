//! The effective agent of one turn, after merging all layers.

use crate::network_access::NetworkAccessList;
use crate::tool_types::ToolDefinition;

/// The default limit of model calls in a turn.
pub const DEFAULT_MAX_ITERATIONS: usize = 500;

/// The effective agent of one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeAgent {
    /// The tools that the model is offered.
    pub tools: Vec<ToolDefinition>,
    pub system_prompt: String,
    /// The provider's name of the model.
    pub model: String,
    /// The limit of model calls in a turn.
    pub max_iterations: usize,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// The maximum length of an answer, in tokens.
    pub max_tokens: Option<u32>,
    /// The hosts that tools may connect to.
    pub network_access: Option<NetworkAccessList>,
}
