//! A shell in an environment.

mod background;
mod error;
mod filtered;
mod home;
mod home_programs;
mod host_command;
mod output_tool;
mod run;
mod safe_cuts;
mod sandbox;
mod settings;
mod slice;
mod stop_tool;

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::capabilities::{Capability, RiskLevel};
use windlass_core::described;
use windlass_core::session_tool::{SessionTool, ToolFailure, object, session_tool};
use windlass_core::tools::{SideEffectClass, Tool, ToolHints, ToolPolicy, ToolShape};
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;

pub use home::{HomeAccess, HomePathError, UserHome};
pub use home_programs::SHARED_HOME_DIRECTORIES;
pub use host_command::{HostCommand, HostCommandError, HostCommandOutput};
pub(crate) use run::code_and_signal;
pub use sandbox::SandboxDenied;
pub use settings::{ALLOWED_VARIABLES, ShellSettings};

use background::{BackgroundCommands, Commands};
use output_tool::ShellOutputTool;
use stop_tool::ShellStopTool;

use crate::approval::{Approval, approvable_tools};
use crate::environments::Environments;
use crate::tool::changing_hints;

/// Name of the tool for the model.
const NAME: &str = "shell";

/// The capability `shell`: commands in the turn's environment.
#[derive(Debug, Clone)]
pub struct ShellCapability {
    environments: Environments,
    settings: Arc<ShellSettings>,
    background: BackgroundCommands,
}

impl ShellCapability {
    /// Creates the capability for these environments.
    #[must_use]
    pub fn new(environments: Environments, settings: ShellSettings) -> Self {
        Self {
            environments,
            settings: Arc::new(settings),
            background: BackgroundCommands::default(),
        }
    }

    fn tools_for(&self, approval: Approval) -> Vec<Box<dyn Tool>> {
        let mut tools: Vec<Box<dyn Tool>> = vec![session_tool(ShellTool {
            environments: self.environments.clone(),
            settings: Arc::clone(&self.settings),
            background: self.background.clone(),
            policy: approval.policy(),
            description: description(&self.settings.secret_names),
        })];
        // Background commands need a store for their output.
        if let Some(outputs) = self.environments.outputs() {
            let max_bytes = self.settings.max_output_bytes;
            let commands = Commands {
                outputs,
                background: self.background.clone(),
                max_bytes,
            };
            tools.push(session_tool(ShellOutputTool(commands.clone())));
            tools.push(session_tool(ShellStopTool(commands)));
        }
        tools
    }
}

#[async_trait]
impl Capability for ShellCapability {
    described!(
        NAME,
        "Shell",
        "Runs commands in the environment of the turn, in a sandbox.",
        "Shell",
    );
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::High
    }
    approvable_tools!();
    fn tools_revision(&self) -> Option<u64> {
        Some(self.environments.outputs_revision())
    }
    async fn session_removed(&self, session_id: SessionId) {
        self.background.end_all(Some(session_id)).await;
    }
    async fn close(&self) {
        self.background.end_all(None).await;
    }
}

struct ShellTool {
    environments: Environments,
    settings: Arc<ShellSettings>,
    background: BackgroundCommands,
    policy: ToolPolicy,
    description: String,
}

/// Returns the description of the tool, with the names of the available secrets.
fn description(secrets: &[String]) -> String {
    let base = "Run a shell command in the working directory and return its exit code and output. It has no input and may be confined to \
                the environment. Processes that it leaves running end with it.";
    match secrets {
        [] => base.to_owned(),
        names => format!(
            "{base} The operator may provide secrets in these variables: {}; use them by name, their values are never shown.",
            names.join(", ")
        ),
    }
}

/// The arguments of a call.
#[derive(Debug, Deserialize)]
struct Args {
    command: String,
    cwd: Option<String>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    background: bool,
}

#[async_trait]
impl SessionTool for ShellTool {
    type Args = Args;
    const NAME: &'static str = NAME;

    fn description(&self) -> &str {
        &self.description
    }
    fn schema(&self) -> Value {
        let has_background = self.environments.outputs().is_some();
        let mut max = self.settings.max_timeout;
        if has_background {
            max = max.max(self.settings.max_background_time);
        }
        let max = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
        let mut properties = json!({
            "command": { "type": "string", "minLength": 1, "description": "The command in shell syntax" },
            "cwd": { "type": "string", "description": "The directory to run in; default: the working directory" },
            "timeout_ms": { "type": "integer", "minimum": 1, "maximum": max, "description": "How long it may take" }
        });
        if has_background {
            properties["background"] = json!({
                "type": "boolean",
                "description": "Whether to leave it running and return at once, such as for a server; shell_output shows its output, shell_stop ends it"
            });
        }
        object(properties, &["command"])
    }
    fn hints(&self) -> ToolHints {
        let longest = self.settings.longest_call().as_millis();
        changing_hints(SideEffectClass::AtMostOnce)
            .with_destructive(true)
            .with_open_world(true)
            .with_long_running(true)
            .with_shape(ToolShape::Command)
            .with_timeout_ms(u64::try_from(longest).unwrap_or(u64::MAX))
    }
    fn policy(&self) -> ToolPolicy {
        self.policy
    }
    async fn run(&self, args: Args, context: &ToolContext) -> Result<Value, ToolFailure> {
        let result = if args.background {
            self.run_in_background(args, context).await
        } else {
            self.run(args, context).await
        };
        result.map_err(ToolFailure::error)
    }
}
