//! What the agent's tools are told: where they may work, what is out of their reach, and how commands are confined.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use windlass_process::adopt_orphans;
use windlass_tools::{Environments, ShellSettings};

use super::leftovers;
use crate::cli::note;
use crate::{config, data, sandbox};

/// The settings of the tools.
pub(crate) struct Tools<'a> {
    pub(crate) environments: &'a Environments,
    pub(crate) shell: ShellSettings,
}

impl<'a> Tools<'a> {
    /// Ends what commands of an earlier daemon on this data directory left behind, and hides the daemon's own files from
    /// all tools. The lock on the directory must be held: commands of another daemon are not ours.
    pub(crate) fn of<'b>(
        directory: &Path,
        own_files: impl IntoIterator<Item = &'b Path>,
        configured: &config::Shell,
        environments: &'a Environments,
    ) -> anyhow::Result<Self> {
        environments.hide(directory);
        // What the user trusts, and the tokens of another daemon, may be in the usual place.
        if let Some(usual) = data::of_user() {
            environments.hide(usual);
        }
        if let Some(directory) = config::user_directory() {
            // It needs no trust, so no tool may make one. A path can be hidden for sure once something is there.
            let _ = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&directory);
            environments.hide(directory);
        }
        for file in own_files {
            environments.hide(file);
        }
        if let Some(home) = std::env::home_dir() {
            environments.hide_keys_of(home);
        }
        leftovers::end(directory);
        // The daemon starts programs in no other way than its tools do.
        if let Err(error) = adopt_orphans() {
            note(&format!(
                "what commands without a sandbox leave behind cannot be told from other processes: {error}"
            ));
        }
        let mut shell = ShellSettings {
            owner: Some(leftovers::owner(directory)),
            records: leftovers::records(directory),
            ..ShellSettings::default()
        }
        .with_variables_of(std::env::vars_os());
        shell.ways = sandbox::ways(configured.sandbox);
        shell.home = sandbox::home(configured, directory)?;
        shell.has_terminals = configured.terminals;
        let set = |limit: &mut Option<u64>, configured: Option<u64>, unit: u64| {
            if let Some(configured) = configured {
                *limit = Some(configured.saturating_mul(unit)).filter(|limit| *limit > 0);
            }
        };
        set(
            &mut shell.max_memory_bytes,
            configured.max_memory_mb,
            1024 * 1024,
        );
        set(&mut shell.max_processes, configured.max_processes, 1);
        if let Some(count) = configured.max_background {
            shell.max_background_of_session = count;
        }
        if let Some(minutes) = configured.background_minutes {
            shell.max_background_time = Duration::from_secs(minutes.saturating_mul(60));
        }
        Ok(Self {
            environments,
            shell,
        })
    }
}

/// Says so when no tool can work in the workspace; the daemon serves other things too.
pub(crate) fn warn_of_hidden(workspace: &Path, environments: &Environments) {
    if environments.hides(workspace).unwrap_or(false) {
        note(&format!(
            "the workspace {} lies where the daemon keeps its own data or keys, which are out of the reach of tools: none will \
             work in it; name another with --workspace, or keep the data elsewhere with --data",
            workspace.display()
        ));
    }
}
