//! Checks that an external agent can be started before a thread is created for it.

use std::path::Path;

use anyhow::{Result, bail};

use super::BUILT_IN_AGENTS;
use super::built_in;
use crate::cli::printable;
use crate::config::Config;
use crate::model;

/// Returns an error if the agent is unknown or its program is missing.
pub(crate) fn check_installed(name: &str, config: &Config) -> Result<()> {
    let apis = model::api_backends(config, |name| std::env::var(name).ok());
    if apis.contains_key(name) {
        return Ok(());
    }
    let entry = config.backends.get(name);
    let built_in_agent = BUILT_IN_AGENTS
        .iter()
        .find(|names| names.kind.name() == name);
    if entry.is_none() && built_in_agent.is_none() {
        let names = BUILT_IN_AGENTS.iter().map(|names| names.kind.name());
        let mut names: Vec<_> = names
            .chain(config.backends.keys().map(String::as_str))
            .chain(apis.keys().map(String::as_str))
            .collect();
        names.sort_unstable();
        names.dedup();
        bail!(
            "there is no backend `{name}`; available: {}",
            names.join(", ")
        );
    }
    let kind = entry.and_then(|entry| entry.kind).and_then(built_in::find);
    let program = kind
        .or(built_in_agent)
        .map(|names| Path::new(names.program));
    let program = entry.and_then(|entry| entry.command.as_deref()).or(program);
    match program {
        Some(program) if !is_installed(program) => bail!(
            "the backend `{name}` is not installed: there is no program `{}`; install it, or set `command` in [backends.{name}] of the configuration",
            printable(program)
        ),
        // An incomplete configuration entry is reported when the backend is created.
        _ => Ok(()),
    }
}

/// Checks whether a program exists, by its path or in `PATH`.
pub(crate) fn is_installed(program: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_else(|| super::PATH.into());
    let is_path = program.components().count() > 1;
    if is_path {
        program.is_file()
    } else {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    }
}
