//! A shell in an environment.

mod background;
mod edges;
mod error;
mod filtered;
mod home;
mod home_programs;
mod look;
mod output_tool;
mod place;
mod run;
mod settings;
mod slice;
mod stop_tool;

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::capabilities::{Capability, RiskLevel};
use windlass_core::tools::{
    SideEffectClass, Tool, ToolExecutionResult, ToolHints, ToolPolicy, ToolShape,
};
use windlass_core::traits::ToolContext;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::typed_id::SessionId;

pub use home::{HomeAccess, HomePathError, UserHome};
pub use home_programs::SHARED_HOME_DIRECTORIES;
pub use look::{Look, LookError, LookOutput};
pub use place::PlaceRefused;
pub(crate) use run::code_and_signal;
pub use settings::{ALLOWED_VARIABLES, ShellSettings};

use background::{Background, Commands};
use output_tool::ShellOutput;
use stop_tool::ShellStop;

use crate::approval::Approval;
use crate::environments::Environments;
use crate::tool::{arguments_of, changes, nowhere, object};

/// What the model calls.
const NAME: &str = "shell";

/// Commands in the turn's environment.
#[derive(Debug, Clone)]
pub struct ShellCapability {
    environments: Environments,
    settings: Arc<ShellSettings>,
    background: Background,
}

impl ShellCapability {
    /// Runs commands in these environments.
    #[must_use]
    pub fn new(environments: Environments, settings: ShellSettings) -> Self {
        Self {
            environments,
            settings: Arc::new(settings),
            background: Background::default(),
        }
    }

    fn tools_for(&self, approval: Approval) -> Vec<Box<dyn Tool>> {
        let mut tools: Vec<Box<dyn Tool>> = vec![Box::new(Shell {
            environments: self.environments.clone(),
            settings: Arc::clone(&self.settings),
            background: self.background.clone(),
            policy: approval.policy(),
            description: description(&self.settings.secret_names),
        })];
        // Without a place for their output, no command runs in the background.
        if let Some(outputs) = self.environments.outputs() {
            let max_bytes = self.settings.max_output_bytes;
            let commands = Commands {
                outputs,
                background: self.background.clone(),
                max_bytes,
            };
            tools.push(Box::new(ShellOutput(commands.clone())));
            tools.push(Box::new(ShellStop(commands)));
        }
        tools
    }
}

#[async_trait]
impl Capability for ShellCapability {
    fn id(&self) -> &str {
        NAME
    }
    fn name(&self) -> &str {
        "Shell"
    }
    fn description(&self) -> &str {
        "Runs commands in the environment of the turn, in a sandbox."
    }
    fn category(&self) -> Option<&str> {
        Some("Shell")
    }
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::High
    }
    fn config_schema(&self) -> Option<Value> {
        Some(Approval::schema())
    }
    fn validate_config(&self, config: &Value) -> Result<(), String> {
        Approval::of(config).map(drop)
    }
    fn knows_environment(&self, environment: &TurnEnvironment) -> bool {
        self.environments.get(&environment.environment_id).is_some()
    }
    fn tools_revision(&self) -> Option<u64> {
        Some(self.environments.outputs_revision())
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        self.tools_for(Approval::Ask)
    }
    fn tools_with_config(&self, config: &Value) -> Vec<Box<dyn Tool>> {
        // What cannot be read was refused before; here it asks rather than not.
        self.tools_for(Approval::of(config).unwrap_or_default())
    }
    async fn session_removed(&self, session_id: SessionId) {
        self.background.end_all(Some(session_id)).await;
    }
    async fn close(&self) {
        self.background.end_all(None).await;
    }
}

struct Shell {
    environments: Environments,
    settings: Arc<ShellSettings>,
    background: Background,
    policy: ToolPolicy,
    description: String,
}

/// Says what it does, and which secrets there are by name.
fn description(secrets: &[String]) -> String {
    let base = "Run a shell command in the working directory and return its exit code and output. It has no input, may be confined to \
                the environment, and what it leaves running in the background ends with it.";
    match secrets {
        [] => base.to_owned(),
        names => format!(
            "{base} Secrets are in these variables, where the operator gives them: {}; use them by name, their values are never shown.",
            names.join(", ")
        ),
    }
}

/// What the model asks for.
#[derive(Debug, Deserialize)]
struct Args {
    command: String,
    cwd: Option<String>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    background: bool,
}

#[async_trait]
impl Tool for Shell {
    fn name(&self) -> &str {
        NAME
    }
    fn description(&self) -> &str {
        &self.description
    }
    fn parameters_schema(&self) -> Value {
        let has_background = self.environments.outputs().is_some();
        let max = match has_background {
            true => self
                .settings
                .max_timeout
                .max(self.settings.max_background_time),
            false => self.settings.max_timeout,
        };
        let max = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
        let mut properties = json!({
            "command": { "type": "string", "minLength": 1, "description": "The command, as a shell takes it" },
            "cwd": { "type": "string", "description": "The directory to run in; the working directory unless said otherwise" },
            "timeout_ms": { "type": "integer", "minimum": 1, "maximum": max, "description": "How long it may take" }
        });
        if has_background {
            properties["background"] = json!({
                "type": "boolean",
                "description": "Whether to leave it running and return at once, such as for a server; shell_output shows what it prints, shell_stop ends it"
            });
        }
        object(properties, &["command"])
    }
    fn hints(&self) -> ToolHints {
        let longest = self.settings.longest_call().as_millis();
        changes(SideEffectClass::AtMostOnce)
            .with_destructive(true)
            .with_open_world(true)
            .with_long_running(true)
            .with_shape(ToolShape::Command)
            .with_timeout_ms(u64::try_from(longest).unwrap_or(u64::MAX))
    }
    fn policy(&self) -> ToolPolicy {
        self.policy
    }
    fn requires_context(&self) -> bool {
        true
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        self.execute_with_context(arguments, &nowhere()).await
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        let args: Args = match arguments_of(NAME, arguments) {
            Ok(args) => args,
            Err(told) => return told,
        };
        let done = match args.background {
            false => self.run(args, context).await,
            true => self.run_behind(args, context).await,
        };
        match done {
            Ok(result) => ToolExecutionResult::success(result),
            Err(error) => ToolExecutionResult::tool_error(error.to_string()),
        }
    }
}
