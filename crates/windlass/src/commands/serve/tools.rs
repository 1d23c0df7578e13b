//! What the agent's tools are told: where they may work, and what commands do not see.

use std::path::{Path, PathBuf};

use windlass_core::digest::Digest128;
use windlass_tools::{Environments, ShellSettings, end_leftovers};

use crate::cli::note;
use crate::config;

/// The settings of the tools.
pub(super) struct Tools<'a> {
    pub(super) environments: &'a Environments,
    pub(super) shell: ShellSettings,
}

impl<'a> Tools<'a> {
    /// Ends what commands of an earlier daemon on this data directory left behind, and hides the daemon's own files from
    /// new ones. The lock on the directory must be held: commands of another daemon are not ours.
    pub(super) fn of(
        data: &Path,
        key_files: [&Option<PathBuf>; 2],
        limits: &config::Shell,
        environments: &'a Environments,
    ) -> Self {
        let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
        let owner = Digest128::of(data.as_os_str().as_encoded_bytes()).to_string();
        let leftovers = end_leftovers(&owner);
        if leftovers > 0 {
            note(&format!(
                "{leftovers} commands of an earlier daemon were ended"
            ));
        }
        let mut shell = ShellSettings {
            owner: Some(owner),
            ..ShellSettings::default()
        }
        .with_variables_of(std::env::vars_os())
        .hide(data);
        for file in key_files.into_iter().flatten() {
            shell = shell.hide(file);
        }
        let set = |limit: &mut Option<u64>, configured: Option<u64>, unit: u64| {
            if let Some(configured) = configured {
                *limit = Some(configured.saturating_mul(unit)).filter(|limit| *limit > 0);
            }
        };
        set(
            &mut shell.max_memory_bytes,
            limits.max_memory_mb,
            1024 * 1024,
        );
        set(&mut shell.max_processes, limits.max_processes, 1);
        if let Some(home) = std::env::home_dir() {
            shell = shell.hide_keys_of(&home);
        }
        Self {
            environments,
            shell,
        }
    }
}
