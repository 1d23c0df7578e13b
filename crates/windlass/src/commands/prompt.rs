//! `windlass prompt`: shows the system prompt that a new thread of this directory would start with.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use windlass_core::bounds::lines;
use windlass_core::message::Controls;
use windlass_core::tools::ToolDefinition;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_request::TurnRequest;
use windlass_runtime::{OnLostCommits, RecoveryPolicy, SessionBuilder};
use windlass_server::Access;
use windlass_turn::CompactionPlan;

use crate::cli::{GlobalOptions, note, or_current};
use crate::config;
use crate::daemon::DaemonOptions;
use crate::data;
use crate::inert_json::json_line;

/// Shows the system prompt of a new thread in this directory, with an estimate of its tokens.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass prompt
  windlass prompt --json | jq .estimated_tokens

The prompt consists of the agent's instructions (prompt.text in windlass.toml), a description of the directory, and the instructions of the \
repository. A thread stores the description when it starts.")]
pub(crate) struct PromptCommand {
    /// Data directory, which contains the list of trusted files [default: `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl PromptCommand {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let data = data::directory(self.data)?;
        let mut config = config::load(global.config.as_deref(), &data)?;
        // Their tools are not part of the prompt, so no server is started.
        config.mcp_servers.clear();
        let workspace = or_current(global.workspace)?.canonicalize();
        let workspace = workspace.context("the working directory does not exist")?;
        // The real data may be in use, and a preview must not change it.
        let scratch = tempfile::tempdir()?;
        let options = DaemonOptions {
            source: None,
            data: scratch.path(),
            workspace: workspace.clone(),
            config: &config,
            model: None,
            secrets_key_file: None,
            own_files: Vec::new(),
            has_agents: false,
            recovery: RecoveryPolicy::Resume,
            on_lost_commits: OnLostCommits::Refuse,
        };
        let access = || Ok(Access::Open);
        let prepared = Box::pin(options.open(access)).await?;
        let session = SessionBuilder::new(prepared.settings.harness_id).build();
        let request = TurnRequest {
            environment: Some(TurnEnvironment::new("local", workspace)),
            ..TurnRequest::default()
        };
        let controls = Controls {
            turn: Some(Box::new(request)),
            ..Controls::default()
        };
        let first_turn = prepared.runtime.preview_first_turn(session, controls);
        let agent = Box::pin(first_turn).await?.runtime_agent;
        let prompt = agent.system_prompt;
        let tokens = CompactionPlan::tokens_of_bytes(prompt.len());
        let tools = serde_json::to_string(&agent.tools)?;
        let tool_tokens = CompactionPlan::tokens_of_bytes(tools.len());
        let mut out = io::stdout().lock();
        if self.json {
            let names = agent.tools.iter().map(ToolDefinition::name);
            let shown = json!({
                "prompt": prompt, "estimated_tokens": tokens,
                "tools": names.collect::<Vec<_>>(), "estimated_tokens_of_tools": tool_tokens,
            });
            writeln!(out, "{}", json_line(&shown)?)?;
        } else {
            writeln!(out, "{}", lines(&prompt))?;
            note(format!(
                "about {tokens} tokens, and {tool_tokens} for the {} tools",
                agent.tools.len()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}
