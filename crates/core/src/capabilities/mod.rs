//! Bundles of prompt, tools, commands, hooks and files that records enable by name.

mod agent_instructions;
mod ask_user;
mod btw;
mod compaction;
mod current_time;
mod infinity_context;
mod loop_detection;
mod message_metadata;
mod noop;
mod registry;
mod resolve;
mod session;
mod session_file_system;
mod session_storage;
mod session_tool;
mod skills;
mod stateless_todo_list;
mod test_math;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::command::{
    CommandDescriptor, CommandExecutionContext, CommandResult, ExecuteCommandRequest,
};
use crate::error::{AgentLoopError, Result};
use crate::mcp::ScopedMcpServers;
use crate::tools::{Tool, ToolDefinition};
use crate::traits::SessionFileSystem;
use crate::turn_environment::TurnEnvironment;
use crate::typed_id::SessionId;

pub use crate::atoms::{
    ModelViewContext, ModelViewProvider, OutputGuardrail, OutputGuardrailContext,
    OutputGuardrailRun, OutputGuardrailVerdict, PostToolExecHook, PreToolUseDecision,
    PreToolUseHook, ToolCallHook, ToolDefinitionHook,
};
pub use crate::capability_types::{
    AgentCapabilityConfig, CapabilityId, CapabilityStatus, MountAccess, MountEntry, MountPoint,
    MountSource, RiskLevel, SkillContribution,
};
pub use crate::message_filter::MessageFilterProvider;
pub use agent_instructions::AgentInstructionsCapability;
pub use ask_user::AskUserCapability;
pub use btw::BtwCapability;
pub use compaction::{CompactionCapability, CompactionConfig};
pub use current_time::CurrentTimeCapability;
pub use infinity_context::InfinityContextCapability;
pub use loop_detection::LoopDetectionCapability;
pub use message_metadata::MessageMetadataCapability;
pub use noop::NoopCapability;
pub use registry::CapabilityRegistry;
pub use resolve::{ResolvedCapability, resolve_capabilities};
pub use session::SessionCapability;
pub use session_file_system::SessionFileSystemCapability;
pub use session_storage::SessionStorageCapability;
pub use skills::{Skill, SkillsCapability, parse_skill};
pub use stateless_todo_list::StatelessTodoListCapability;
pub use test_math::TestMathCapability;

/// What a capability knows when it writes its part of the prompt.
#[derive(Clone)]
pub struct SystemPromptContext {
    /// The session.
    pub session_id: SessionId,
    /// The language to answer in.
    pub locale: Option<String>,
    /// The session's files.
    pub file_store: Option<Arc<dyn SessionFileSystem>>,
    /// The provider's name of the model.
    pub model: Option<String>,
}

/// A bundle that a harness, an agent or a session enables by its id.
#[async_trait]
pub trait Capability: Send + Sync {
    /// Returns the name that records use.
    fn id(&self) -> &str;
    /// Returns the name to show.
    fn name(&self) -> &str;
    /// Returns what it is for.
    fn description(&self) -> &str;

    /// Tells whether it contributes.
    fn status(&self) -> CapabilityStatus {
        CapabilityStatus::Available
    }
    /// Returns its tools.
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        Vec::new()
    }
    /// Returns its commands.
    fn commands(&self) -> Vec<CommandDescriptor> {
        Vec::new()
    }
    /// Carries out one of its commands.
    async fn execute_command(
        &self,
        request: &ExecuteCommandRequest,
        _ctx: &CommandExecutionContext,
    ) -> Result<CommandResult> {
        Err(AgentLoopError::config(format!(
            "capability {} declares command /{} but does not carry it out",
            self.id(),
            request.name
        )))
    }

    /// Returns other names that records may use.
    fn aliases(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Returns the capabilities that it needs.
    fn dependencies(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Returns features of a user interface that it brings.
    fn features(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Returns an icon to show.
    fn icon(&self) -> Option<&str> {
        None
    }
    /// Returns the group that it is shown in.
    fn category(&self) -> Option<&str> {
        None
    }
    /// Returns how much harm it could do.
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::Low
    }

    /// Returns a fixed part of the prompt.
    fn system_prompt_addition(&self) -> Option<&str> {
        None
    }
    /// Returns its part of the prompt for a session.
    async fn system_prompt_contribution(&self, _ctx: &SystemPromptContext) -> Option<String> {
        self.system_prompt_addition().map(str::to_owned)
    }
    /// Returns its part of the prompt for a session and a configuration.
    async fn system_prompt_contribution_with_config(
        &self,
        ctx: &SystemPromptContext,
        _config: &Value,
    ) -> Option<String> {
        self.system_prompt_contribution(ctx).await
    }
    /// Returns its part of the prompt without a session, to show.
    fn system_prompt_preview(&self) -> Option<String> {
        self.system_prompt_addition().map(str::to_owned)
    }

    /// Returns its tools for a configuration.
    fn tools_with_config(&self, _config: &Value) -> Vec<Box<dyn Tool>> {
        self.tools()
    }
    /// Names what its tools follow from beside the configuration. While that name and the configuration stay the same, so do its tools and their
    /// definitions: they are asked for once, and serve the turns of all sessions. `None` has them asked for at each turn.
    fn tools_revision(&self) -> Option<u64> {
        None
    }
    /// Returns definitions of tools that it does not run itself.
    fn tool_definitions(&self) -> Vec<ToolDefinition> {
        Vec::new()
    }
    /// Tells whether it can work in the environment of a turn. A turn does not begin, and after a restart does not go on,
    /// where one of its capabilities cannot.
    fn knows_environment(&self, _environment: &TurnEnvironment) -> bool {
        true
    }
    /// Returns what the environment of a turn has to say to the model, such as a repository's instructions. It is asked before a turn begins, and the
    /// answer is recorded with the turn. It comes from outside: the text itself has to say whose words they are.
    async fn environment_instructions(
        &self,
        _environment: Option<&TurnEnvironment>,
        _config: &Value,
    ) -> Option<String> {
        None
    }
    /// Lets go of what it keeps of a session, which is removed. It is also asked where the session never used it.
    async fn session_removed(&self, _session_id: SessionId) {}
    /// Ends what it has running, for a host that stops.
    async fn close(&self) {}
    /// Returns files that it puts into the session.
    fn mounts(&self) -> Vec<MountPoint> {
        Vec::new()
    }
    /// Returns skills that it brings.
    fn contribute_skills(&self) -> Vec<SkillContribution> {
        Vec::new()
    }
    /// Returns the JSON schema of its configuration.
    fn config_schema(&self) -> Option<Value> {
        None
    }
    /// Checks a configuration.
    fn validate_config(&self, _config: &Value) -> std::result::Result<(), String> {
        Ok(())
    }
    /// Returns the capability to use with a model; `None` is this one.
    fn resolve_for_model(&self, _model: &str) -> Option<Arc<dyn Capability>> {
        None
    }
    /// Returns MCP servers that it brings.
    fn mcp_servers(&self) -> ScopedMcpServers {
        ScopedMcpServers::new()
    }
    /// Returns MCP servers that it brings for a configuration.
    fn mcp_servers_with_config(&self, _config: &Value) -> ScopedMcpServers {
        self.mcp_servers()
    }

    /// Returns what changes which messages the model is shown.
    fn message_filter_provider(&self) -> Option<Arc<dyn MessageFilterProvider>> {
        None
    }
    /// Returns what changes how the model sees the conversation.
    fn model_view_provider(&self) -> Option<Arc<dyn ModelViewProvider>> {
        None
    }
    /// Returns what looks at calls before they run.
    fn pre_tool_use_hooks(&self) -> Vec<Arc<dyn PreToolUseHook>> {
        Vec::new()
    }
    /// Returns what looks at calls before they run, for a configuration; asked for once per turn.
    fn pre_tool_use_hooks_with_config(&self, _config: &Value) -> Vec<Arc<dyn PreToolUseHook>> {
        self.pre_tool_use_hooks()
    }
    /// Returns what looks at results before they are recorded.
    fn post_tool_exec_hooks(&self) -> Vec<Arc<dyn PostToolExecHook>> {
        Vec::new()
    }
    /// Returns what changes which tools are offered.
    fn tool_definition_hooks(&self) -> Vec<Arc<dyn ToolDefinitionHook>> {
        Vec::new()
    }
    /// Returns what changes which tools are offered, for a configuration.
    fn tool_definition_hooks_with_config(
        &self,
        _config: &Value,
    ) -> Vec<Arc<dyn ToolDefinitionHook>> {
        self.tool_definition_hooks()
    }
    /// Returns what changes calls when the model has made them.
    fn tool_call_hooks(&self) -> Vec<Arc<dyn ToolCallHook>> {
        Vec::new()
    }
    /// Returns what watches over answers.
    fn output_guardrails(&self) -> Vec<Arc<dyn OutputGuardrail>> {
        Vec::new()
    }
}
