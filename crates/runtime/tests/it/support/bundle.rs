//! Capabilities and tools made of closures.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::atoms::{
    ModelViewProvider, OutputGuardrail, PostToolExecHook, PreToolUseHook, ToolCallHook,
    ToolDefinitionHook,
};
use windlass_core::capabilities::{Capability, MountPoint, SkillContribution, SystemPromptContext};
use windlass_core::command::{
    CommandDescriptor, CommandExecutionContext, CommandResult, CommandSource, ExecuteCommandRequest,
};
use windlass_core::error::Result;
use windlass_core::mcp::ScopedMcpServers;
use windlass_core::message_filter::MessageFilterProvider;
use windlass_core::tools::{Tool, ToolDefinition, ToolExecutionResult, ToolHints, ToolPolicy};
use windlass_core::traits::ToolContext;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::typed_id::SessionId;

type ToolFuture = Pin<Box<dyn Future<Output = ToolExecutionResult> + Send>>;

/// A tool made of a closure.
#[derive(Clone)]
pub(crate) struct FnTool {
    name: String,
    schema: Value,
    policy: ToolPolicy,
    hints: ToolHints,
    runs: Arc<AtomicUsize>,
    body: Arc<dyn Fn(Value, ToolContext) -> ToolFuture + Send + Sync>,
}

/// Makes a tool that takes anything.
pub(crate) fn tool<F, R>(name: &str, body: F) -> FnTool
where
    F: Fn(Value, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = ToolExecutionResult> + Send + 'static,
{
    FnTool {
        name: name.to_owned(),
        schema: json!({"type": "object"}),
        policy: ToolPolicy::Auto,
        hints: ToolHints::default(),
        runs: Arc::default(),
        body: Arc::new(move |arguments, context| Box::pin(body(arguments, context))),
    }
}

impl FnTool {
    pub(crate) fn schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }
    pub(crate) fn policy(mut self, policy: ToolPolicy) -> Self {
        self.policy = policy;
        self
    }
    pub(crate) fn hints(mut self, hints: ToolHints) -> Self {
        self.hints = hints;
        self
    }
    /// Returns how often the tool ran.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for FnTool {
    fn name(&self) -> &str {
        &self.name
    }
    fn description(&self) -> &str {
        "a tool of the tests"
    }
    fn parameters_schema(&self) -> Value {
        self.schema.clone()
    }
    fn policy(&self) -> ToolPolicy {
        self.policy
    }
    fn hints(&self) -> ToolHints {
        self.hints.clone()
    }
    async fn execute(&self, _arguments: Value) -> ToolExecutionResult {
        unreachable!("the runtime always gives a context")
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        self.runs.fetch_add(1, Ordering::SeqCst);
        (self.body)(arguments, context.clone()).await
    }
}

/// Where a capability panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trap {
    Tools,
    Prompt,
    Commands,
    Command,
    Mounts,
    Status,
    ResolveForModel,
}

/// A capability made of parts.
#[derive(Clone, Default)]
pub(crate) struct Bundle {
    pub(crate) id: String,
    pub(crate) tools: Vec<FnTool>,
    pub(crate) mcp_servers: ScopedMcpServers,
    pub(crate) definitions: Vec<ToolDefinition>,
    pub(crate) prompt: Option<String>,
    pub(crate) mounts: Vec<MountPoint>,
    pub(crate) skills: Vec<SkillContribution>,
    pub(crate) dependencies: Vec<&'static str>,
    pub(crate) pre: Vec<Arc<dyn PreToolUseHook>>,
    pub(crate) post: Vec<Arc<dyn PostToolExecHook>>,
    pub(crate) on_call: Vec<Arc<dyn ToolCallHook>>,
    pub(crate) on_definitions: Vec<Arc<dyn ToolDefinitionHook>>,
    pub(crate) filter: Option<Arc<dyn MessageFilterProvider>>,
    pub(crate) view: Option<Arc<dyn ModelViewProvider>>,
    pub(crate) guardrails: Vec<Arc<dyn OutputGuardrail>>,
    /// The command's name and answer.
    pub(crate) command: Option<(&'static str, &'static str)>,
    /// Refuses any configuration that has this property.
    pub(crate) refuses: Option<&'static str>,
    pub(crate) trap: Arc<std::sync::Mutex<Option<Trap>>>,
    /// The environment's instructions, and the sessions whose removal was reported.
    pub(crate) environment_says: Arc<std::sync::Mutex<Option<String>>>,
    pub(crate) describes_environment: Arc<std::sync::Mutex<Option<String>>>,
    pub(crate) removed: Arc<std::sync::Mutex<Vec<SessionId>>>,
    pub(crate) closed: Arc<AtomicUsize>,
    pub(crate) tools_asked: Arc<AtomicUsize>,
}

impl Bundle {
    pub(crate) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..Self::default()
        }
    }
    pub(crate) fn tool(mut self, tool: &FnTool) -> Self {
        self.tools.push(tool.clone());
        self
    }
    pub(crate) fn set_trap(&self, trap: Option<Trap>) {
        *self.trap.lock().unwrap() = trap;
    }
    fn step_on(&self, trap: Trap) {
        let is_set = *self.trap.lock().unwrap() == Some(trap);
        assert!(!is_set, "scripted panic in {trap:?}");
    }
}

#[async_trait]
impl Capability for Bundle {
    async fn environment_instructions(
        &self,
        _environment: Option<&TurnEnvironment>,
        _config: &Value,
    ) -> Option<String> {
        self.environment_says.lock().unwrap().clone()
    }
    async fn describe_environment(
        &self,
        _environment: Option<&TurnEnvironment>,
        _config: &Value,
    ) -> Option<String> {
        self.describes_environment.lock().unwrap().clone()
    }
    async fn session_removed(&self, session_id: SessionId) {
        self.removed.lock().unwrap().push(session_id);
    }
    async fn close(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
    fn mcp_servers(&self) -> ScopedMcpServers {
        self.mcp_servers.clone()
    }
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        "Bundle"
    }
    fn description(&self) -> &str {
        "a capability of the tests"
    }
    fn status(&self) -> windlass_core::capabilities::CapabilityStatus {
        self.step_on(Trap::Status);
        windlass_core::capabilities::CapabilityStatus::Available
    }
    fn resolve_for_model(&self, _model: &str) -> Option<Arc<dyn Capability>> {
        self.step_on(Trap::ResolveForModel);
        None
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        self.tools_asked.fetch_add(1, Ordering::SeqCst);
        self.step_on(Trap::Tools);
        self.tools
            .iter()
            .map(|tool| Box::new(tool.clone()) as _)
            .collect()
    }
    fn tool_definitions(&self) -> Vec<ToolDefinition> {
        self.definitions.clone()
    }
    fn dependencies(&self) -> Vec<&'static str> {
        self.dependencies.clone()
    }
    fn validate_config(&self, config: &Value) -> std::result::Result<(), String> {
        match self.refuses {
            Some(name) if config.get(name).is_some() => Err(format!("`{name}` is not known")),
            _ => Ok(()),
        }
    }
    async fn system_prompt_contribution(&self, _ctx: &SystemPromptContext) -> Option<String> {
        self.step_on(Trap::Prompt);
        self.prompt.clone()
    }
    fn mounts(&self) -> Vec<MountPoint> {
        self.step_on(Trap::Mounts);
        self.mounts.clone()
    }
    fn contribute_skills(&self) -> Vec<SkillContribution> {
        self.skills.clone()
    }
    fn commands(&self) -> Vec<CommandDescriptor> {
        self.step_on(Trap::Commands);
        let descriptor = |name: &str| CommandDescriptor {
            name: name.to_owned(),
            description: String::new(),
            source: CommandSource::System,
            args: Vec::new(),
        };
        self.command
            .iter()
            .map(|(name, _)| descriptor(name))
            .collect()
    }
    async fn execute_command(
        &self,
        _request: &ExecuteCommandRequest,
        _ctx: &CommandExecutionContext,
    ) -> Result<CommandResult> {
        self.step_on(Trap::Command);
        Ok(CommandResult {
            success: true,
            message: self
                .command
                .map(|(_, answer)| answer.to_owned())
                .unwrap_or_default(),
            error_code: None,
            error_fields: None,
        })
    }
    fn pre_tool_use_hooks(&self) -> Vec<Arc<dyn PreToolUseHook>> {
        self.pre.clone()
    }
    fn post_tool_exec_hooks(&self) -> Vec<Arc<dyn PostToolExecHook>> {
        self.post.clone()
    }
    fn tool_call_hooks(&self) -> Vec<Arc<dyn ToolCallHook>> {
        self.on_call.clone()
    }
    fn tool_definition_hooks(&self) -> Vec<Arc<dyn ToolDefinitionHook>> {
        self.on_definitions.clone()
    }
    fn message_filter_provider(&self) -> Option<Arc<dyn MessageFilterProvider>> {
        self.filter.clone()
    }
    fn model_view_provider(&self) -> Option<Arc<dyn ModelViewProvider>> {
        self.view.clone()
    }
    fn output_guardrails(&self) -> Vec<Arc<dyn OutputGuardrail>> {
        self.guardrails.clone()
    }
}

/// A directory of text files to mount.
pub(crate) fn directory(files: &[(&str, &str)]) -> windlass_core::capabilities::MountSource {
    use windlass_core::capabilities::{MountEntry, MountSource};
    let entry = |(name, content): &(&str, &str)| {
        let file = MountEntry::File {
            content: (*content).to_owned(),
            encoding: "text".to_owned(),
        };
        ((*name).to_owned(), file)
    };
    MountSource::directory(files.iter().map(entry).collect::<HashMap<_, _>>())
}
