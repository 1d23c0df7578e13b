//! `windlass backends`: the agents that can run turns.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use windlass_core::bounds::one_line;

use crate::backends::{self, ConfiguredBackend, Login, Surroundings};
use crate::cli::or_current;
use crate::config;
use crate::daemon::probe;
use crate::inert_json::json_line;
use crate::{data, model};

/// Lists the agents of others that can carry turns, and looks whether they do.
#[derive(Args)]
#[command(after_help = "Examples:
  windlass backends list
  windlass backends check claude-code
  windlass backends check --json")]
pub(crate) struct Backends {
    /// The data directory of the daemon [default: the user's own].
    #[arg(long, global = true, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Lists all that are known or configured, without starting any.
    List,
    /// Starts each and asks for its version, and looks whether it is logged in; ends with status 1 if one does not answer.
    Check {
        /// The ones to look at [default: all].
        names: Vec<String>,
    },
}

impl Backends {
    pub(crate) async fn run(
        self,
        workspace: Option<PathBuf>,
        named_config: Option<&Path>,
    ) -> Result<ExitCode> {
        let directory = data::directory(self.data)?;
        let config = config::load(named_config, &directory)?;
        let workspace = or_current(workspace)?;
        let (environments, shell) = probe::environments(&config, &directory, &workspace)?;
        let around = Surroundings {
            data: &directory,
            environments: &environments,
            shell: &shell,
        };
        let all = backends::all(&config.backends, &around)?;
        match self.subcommand {
            Subcommand::List => {
                for backend in &all {
                    show(backend, None, self.json)?;
                }
                let apis = model::api_backends(&config, |name| std::env::var(name).ok());
                for (name, model) in &apis {
                    show_api(name, model, self.json)?;
                }
                Ok(ExitCode::SUCCESS)
            }
            Subcommand::Check { names } => {
                let unknown = names
                    .iter()
                    .find(|name| all.iter().all(|it| it.name != **name));
                if let Some(unknown) = unknown {
                    bail!("there is no backend `{unknown}`; `windlass backends list` shows all");
                }
                let mut is_good = true;
                for backend in all
                    .iter()
                    .filter(|it| names.is_empty() || names.contains(&it.name))
                {
                    let spec = backend.spec(workspace.clone(), None, None)?;
                    let checked = backend.backend.check(&spec).await;
                    is_good &= checked.is_ok();
                    let login = backend.login(&spec);
                    let checked = checked.map(|found| (found.version, login));
                    let checked = checked.map_err(|error| error.to_string());
                    show(backend, Some(checked), self.json)?;
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
    if is_json {
        writeln!(
            stdout,
            "{}",
            json_line(&json!({ "name": name, "kind": "api", "model": model }))?
        )?
    } else {
        writeln!(stdout, "{name:<16} {:<12} {}", "api", one_line(model))?
    }
    Ok(())
}

fn show(
    backend: &ConfiguredBackend,
    checked: Option<Result<(String, Login), String>>,
    is_json: bool,
) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let (name, kind) = (&backend.name, backend.kind.name());
    if is_json {
        let mut shown = json!({ "name": name, "kind": kind });
        match checked {
            Some(Ok((version, login))) => {
                shown["version"] = version.into();
                shown["logged_in"] = login.name().into();
            }
            Some(Err(error)) => shown["error"] = error.into(),
            None => {}
        }
        writeln!(stdout, "{}", json_line(&shown)?)?;
        return Ok(());
    }
    let line = match checked {
        None => format!("{name:<16} {kind}"),
        Some(Ok((version, login))) => {
            let login = login.name();
            format!("{name:<16} {kind:<12} {version:<28} logged in: {login}")
        }
        Some(Err(error)) => format!("{name:<16} {kind:<12} does not answer: {error}"),
    };
    writeln!(stdout, "{}", one_line(&line))?;
    Ok(())
}
