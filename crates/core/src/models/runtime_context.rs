//! The assembled context of a turn, for inspection.

use crate::agent::Agent;
use crate::capability_types::AgentCapabilityConfig;
use crate::config_layer::AgentConfigOverlay;
use crate::harness::Harness;
use crate::llm_models::ModelWithProvider;
use crate::message::Message;
use crate::runtime_agent::RuntimeAgent;
use crate::session::Session;
use crate::typed_id::ModelId;

/// The assembled context of a turn.
#[derive(Debug, Clone)]
pub struct AssembledTurnContext {
    /// The harness and its ancestors, root first.
    pub harness_chain: Vec<Harness>,
    /// The agent, if the session has one.
    pub agent: Option<Agent>,
    pub session: Session,
    pub messages: Vec<Message>,
    /// The agent after merging all layers.
    pub runtime_agent: RuntimeAgent,
    pub model_with_provider: ModelWithProvider,
    /// The merged layers.
    pub effective_overlay: AgentConfigOverlay,
    /// The capabilities in the order of their contributions, dependencies included.
    pub resolved_capability_configs: Vec<AgentCapabilityConfig>,
    /// The model's id, if a layer named one.
    pub resolved_model_id: Option<ModelId>,
    /// The language to answer in.
    pub resolved_locale: Option<String>,
}
