//! Bundles of prompt, tools, commands, hooks and files that records enable by name.

pub mod atoms;
mod builtin;
pub mod capability_types;
pub mod platform_definition;
mod registry;
mod resolve;

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

pub use crate::message_filter::MessageFilterProvider;
pub use atoms::{
    ModelViewContext, ModelViewProvider, OutputGuardrail, OutputGuardrailContext,
    OutputGuardrailRun, OutputGuardrailVerdict, PostToolExecHook, PreToolUseDecision,
    PreToolUseHook, ToolCallHook, ToolDefinitionHook,
};
pub use builtin::*;
pub use capability_types::{
    AgentCapabilityConfig, CapabilityId, CapabilityStatus, MountAccess, MountEntry, MountPoint,
    MountSource, RiskLevel, SkillContribution,
};
pub use registry::CapabilityRegistry;
pub use resolve::{ResolvedCapability, resolve_capabilities};

/// The context in which a capability writes its part of the prompt.
#[derive(Clone)]
pub struct SystemPromptContext {
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
    /// Returns its purpose.
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
    /// Runs one of its commands.
    async fn execute_command(
        &self,
        request: &ExecuteCommandRequest,
        _ctx: &CommandExecutionContext,
    ) -> Result<CommandResult> {
        Err(AgentLoopError::config(format!(
            "capability {} declares command /{} but does not implement it",
            self.id(),
            request.name
        )))
    }

    /// Returns alternative IDs that records may use.
    fn aliases(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Returns the capabilities that it needs.
    fn dependencies(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Returns the user interface features that it contributes.
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
    /// Returns the potential harm of its tools.
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
    /// Returns a preview of its part of the prompt, without a session.
    fn system_prompt_preview(&self) -> Option<String> {
        self.system_prompt_addition().map(str::to_owned)
    }

    /// Returns its tools for a configuration.
    fn tools_with_config(&self, _config: &Value) -> Vec<Box<dyn Tool>> {
        self.tools()
    }
    /// Returns a revision of everything, apart from the configuration, on which its tools depend. While the revision and the configuration stay the
    /// same, the tools and their definitions are cached and shared by the turns of all sessions. `None` disables the cache.
    fn tools_revision(&self) -> Option<u64> {
        None
    }
    /// Returns definitions of tools that it does not run itself.
    fn tool_definitions(&self) -> Vec<ToolDefinition> {
        Vec::new()
    }
    /// Returns whether it can work in the environment of a turn. A turn is neither started nor resumed if one of its capabilities returns `false`.
    fn knows_environment(&self, _environment: &TurnEnvironment) -> bool {
        true
    }
    /// Returns instructions from the environment of a turn for the model, such as those of a repository. Called before a turn begins; the result is
    /// recorded with the turn. The text comes from outside, so it must name its own source.
    async fn environment_instructions(
        &self,
        _environment: Option<&TurnEnvironment>,
        _config: &Value,
    ) -> Option<String> {
        None
    }
    /// Describes the environment of a turn for the model, such as its directory and the state of its repository. Called before the first turn of a
    /// conversation in an environment; the result is recorded, and later turns reuse it.
    async fn describe_environment(
        &self,
        _environment: Option<&TurnEnvironment>,
        _config: &Value,
    ) -> Option<String> {
        None
    }
    /// Drops its state of a removed session. Called for every removed session, even one that never used the capability.
    async fn session_removed(&self, _session_id: SessionId) {}
    /// Ends its background work when the host shuts down.
    async fn close(&self) {}
    /// Returns the files that it mounts in the session.
    fn mounts(&self) -> Vec<MountPoint> {
        Vec::new()
    }
    /// Returns the skills that it contributes.
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
    /// Returns the MCP servers that it contributes.
    fn mcp_servers(&self) -> ScopedMcpServers {
        ScopedMcpServers::new()
    }
    /// Returns the MCP servers that it contributes for a configuration.
    fn mcp_servers_with_config(&self, _config: &Value) -> ScopedMcpServers {
        self.mcp_servers()
    }

    /// Returns the filter of the messages that the model sees.
    fn message_filter_provider(&self) -> Option<Arc<dyn MessageFilterProvider>> {
        None
    }
    /// Returns the provider that rewrites the model's view of the conversation.
    fn model_view_provider(&self) -> Option<Arc<dyn ModelViewProvider>> {
        None
    }
    /// Returns the hooks that inspect calls before they run.
    fn pre_tool_use_hooks(&self) -> Vec<Arc<dyn PreToolUseHook>> {
        Vec::new()
    }
    /// Returns the hooks that inspect calls before they run, for a configuration. Called once per turn.
    fn pre_tool_use_hooks_with_config(&self, _config: &Value) -> Vec<Arc<dyn PreToolUseHook>> {
        self.pre_tool_use_hooks()
    }
    /// Returns the hooks that inspect results before they are recorded.
    fn post_tool_exec_hooks(&self) -> Vec<Arc<dyn PostToolExecHook>> {
        Vec::new()
    }
    /// Returns the hooks that change the offered tools.
    fn tool_definition_hooks(&self) -> Vec<Arc<dyn ToolDefinitionHook>> {
        Vec::new()
    }
    /// Returns the hooks that change the offered tools, for a configuration.
    fn tool_definition_hooks_with_config(
        &self,
        _config: &Value,
    ) -> Vec<Arc<dyn ToolDefinitionHook>> {
        self.tool_definition_hooks()
    }
    /// Returns the hooks that rewrite the model's calls.
    fn tool_call_hooks(&self) -> Vec<Arc<dyn ToolCallHook>> {
        Vec::new()
    }
    /// Returns the guardrails of answers.
    fn output_guardrails(&self) -> Vec<Arc<dyn OutputGuardrail>> {
        Vec::new()
    }
}
