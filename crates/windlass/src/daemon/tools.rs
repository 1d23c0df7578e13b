//! The settings of the agent's tools: their environments, hidden paths and sandbox.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use windlass_process::adopt_orphans;
use windlass_tools::{Environments, ShellSettings};

use super::leftovers;
use crate::cli::note;
use crate::{config, data, sandbox};

pub(crate) struct DaemonTools<'a> {
    pub(crate) environments: &'a Environments,
    pub(crate) shell: ShellSettings,
}

impl<'a> DaemonTools<'a> {
    /// Ends processes that an earlier daemon on this data directory left behind, and hides the daemon's own files from all tools. The caller must
    /// hold the lock on the directory, because processes of another daemon must not be ended.
    pub(crate) fn prepare<'b>(
        directory: &Path,
        own_files: impl IntoIterator<Item = &'b Path>,
        configured: &config::ShellConfig,
        environments: &'a Environments,
    ) -> anyhow::Result<Self> {
        environments.hide(directory);
        // The default data directory may contain the list of trusted files and the tokens of another daemon.
        if let Some(usual) = data::user_default() {
            environments.hide(usual);
        }
        if let Some(directory) = config::user_directory() {
            // The user's own file needs no trust, so no tool may create it. Only an existing path can be hidden reliably.
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
        // The daemon starts programs only through its tools, so all orphans are theirs.
        if let Err(error) = adopt_orphans() {
            note(format!(
                "processes that outlive unsandboxed commands cannot be distinguished from others: {error}"
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

/// Warns if tools cannot work in the workspace. The daemon still starts, because it serves other requests.
pub(crate) fn warn_of_hidden(workspace: &Path, environments: &Environments) {
    if environments.hides(workspace).unwrap_or(false) {
        note(format!(
            "the workspace {} contains or is inside the daemon's data or keys, which tools cannot access, so no tool works in it; \
             name another with --workspace, or another data directory with --data",
            workspace.display()
        ));
    }
}
