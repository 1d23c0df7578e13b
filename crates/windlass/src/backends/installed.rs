//! Checks that an external agent can be started before a thread is created for it.

use std::path::Path;

use anyhow::{Result, bail};

use super::KNOWN;
use super::known;
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
    let usual = KNOWN.iter().find(|known| known.kind.name() == name);
    if entry.is_none() && usual.is_none() {
        let known = KNOWN.iter().map(|known| known.kind.name());
        let mut known: Vec<_> = known
            .chain(config.backends.keys().map(String::as_str))
            .chain(apis.keys().map(String::as_str))
            .collect();
        known.sort_unstable();
        known.dedup();
        bail!(
            "there is no backend `{name}`; there are: {}",
            known.join(", ")
        );
    }
    let kind = entry.and_then(|entry| entry.kind).and_then(known::of);
    let program = kind.or(usual).map(|known| Path::new(known.program));
    let program = entry.and_then(|entry| entry.command.as_deref()).or(program);
    match program {
        Some(program) if !is_here(program) => bail!(
            "the backend `{name}` is not installed: there is no program `{}`; install it, or name it by `command` in [backends.{name}] of the configuration",
            printable(program)
        ),
        // An incomplete configuration entry is reported when the backend is created.
        _ => Ok(()),
    }
}

/// Checks whether a program exists, by its path or in `PATH`.
pub(crate) fn is_here(program: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_else(|| super::PATH.into());
    let is_path = program.components().count() > 1;
    if is_path {
        program.is_file()
    } else {
        std::env::split_paths(&path).any(|place| place.join(program).is_file())
    }
}
