//! A sandbox without the daemon's data, to test the configured programs.

use std::path::Path;

use anyhow::Result;
use windlass_tools::{Environment, Environments, Network, Policy, ShellSettings};

use super::secrets_key;
use crate::config::Config;
use crate::{data, sandbox};

/// Opens a directory as the environment `local`, in which programs see none of the daemon's files.
pub(crate) fn environments(
    config: &Config,
    directory: &Path,
    workspace: &Path,
) -> Result<(Environments, ShellSettings)> {
    let policy = Policy {
        network: Network::Inherit,
        ..Policy::default()
    };
    let local = Environment::new("local", workspace, policy)?;
    let environments = Environments::with_default(local);
    environments.hide(directory);
    if let Some(default) = data::user_default() {
        environments.hide(default);
    }
    let key_file = secrets_key::file_from_environment().or_else(|| config.secrets_key_file.clone());
    if let Some(file) = key_file {
        environments.hide(file);
    }
    if let Some(home) = std::env::home_dir() {
        environments.hide_keys_of(home);
    }
    let shell = ShellSettings {
        ways: sandbox::ways(config.shell.sandbox),
        home: sandbox::home(&config.shell, directory)?,
        ..ShellSettings::default()
    };
    Ok((environments, shell))
}
