//! `windlass backends`: the external agents that can execute turns.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use crate::backends::{self, BackendContext, ConfiguredBackend, LoginStatus};
use crate::cli::{GlobalOptions, or_current};
use crate::commands::data_options::DataOptions;
use crate::config;
use crate::daemon::probe;
use crate::inert_json::write_value;
use crate::model;

/// Lists the external agents that can execute turns, and checks whether they respond.
#[derive(Args)]
#[command(after_help = "Examples:
  windlass backends list
  windlass backends check claude-code
  windlass backends check --json")]
pub(crate) struct Backends {
    #[command(flatten)]
    options: DataOptions,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Lists all built-in and configured agents without starting them.
    List,
    /// Starts agents, asks for their versions and checks their logins; exits with 1 if one does not respond.
    Check {
        /// Names of agents [default: all].
        names: Vec<String>,
    },
}

impl Backends {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let GlobalOptions { workspace, config } = global;
        let directory = self.options.directory()?;
        let config = config::load(config.as_deref(), &directory)?;
        let workspace = or_current(workspace)?;
        let (environments, shell) = probe::environments(&config, &directory, &workspace)?;
        let context = BackendContext {
            data: &directory,
            environments: &environments,
            shell: &shell,
        };
        let all = backends::all(&config.backends, &context)?;
        match self.subcommand {
            Subcommand::List => {
                for backend in &all {
                    show(backend, None, self.options.json)?;
                }
                let apis = model::api_backends(&config, |name| std::env::var(name).ok());
                for (name, model) in &apis {
                    show_api(name, model, self.options.json)?;
                }
                Ok(ExitCode::SUCCESS)
            }
            Subcommand::Check { names } => {
                let is_unknown = |name: &&String| all.iter().all(|it| it.name != **name);
                if let Some(unknown) = names.iter().find(is_unknown) {
                    bail!("there is no backend `{unknown}`; `windlass backends list` shows all");
                }
                let is_selected =
                    |it: &&ConfiguredBackend| names.is_empty() || names.contains(&it.name);
                let mut is_good = true;
                for backend in all.iter().filter(is_selected) {
                    let spec = backend.spec(workspace.clone(), None, None)?;
                    let checked = backend.backend.check(&spec).await;
                    is_good &= checked.is_ok();
                    let login = backend.login(&spec);
                    let checked = checked.map(|found| (found.version, login));
                    let checked = checked.map_err(|error| error.to_string());
                    show(backend, Some(checked), self.options.json)?;
                }
                Ok(if is_good {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                })
            }
        }
    }
}

/// Shows an API backend, which runs turns in the daemon's own loop.
fn show_api(name: &str, model: &str, is_json: bool) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let json = json!({ "name": name, "kind": "api", "model": model });
    let line = format!("{name:<16} {:<12} {model}", "api");
    Ok(write_value(&mut stdout, is_json, &json, &line)?)
}

fn show(
    backend: &ConfiguredBackend,
    checked: Option<Result<(String, LoginStatus), String>>,
    is_json: bool,
) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let (name, kind) = (&backend.name, backend.kind.name());
    let mut json = json!({ "name": name, "kind": kind });
    let line = match checked {
        None => format!("{name:<16} {kind}"),
        Some(Ok((version, login))) => {
            let login = login.name();
            json["version"] = version.as_str().into();
            json["logged_in"] = login.into();
            format!("{name:<16} {kind:<12} {version:<28} logged in: {login}")
        }
        Some(Err(error)) => {
            json["error"] = error.as_str().into();
            format!("{name:<16} {kind:<12} does not respond: {error}")
        }
    };
    Ok(write_value(&mut stdout, is_json, &json, &line)?)
}
