//! What the agent's tools are told: where they may work, what is out of their reach, and how commands are confined.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use windlass_core::digest::Digest128;
use windlass_process::{Records, adopt_orphans, end_leftovers};
use windlass_tools::{Environments, ShellSettings};

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
    ) -> Self {
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
        let directory = directory
            .canonicalize()
            .unwrap_or_else(|_| directory.to_owned());
        let owner = Digest128::of(directory.as_os_str().as_encoded_bytes()).to_string();
        let records = records_in(&directory);
        let recorded = records.as_ref().map_or(0, end_recorded);
        let leftovers = recorded + end_leftovers(&owner);
        if leftovers > 0 {
            note(&format!(
                "{leftovers} commands of an earlier daemon were ended"
            ));
        }
        // The daemon starts programs in no other way than its tools do.
        if let Err(error) = adopt_orphans() {
            note(&format!(
                "what commands without a sandbox leave behind cannot be told from other processes: {error}"
            ));
        }
        let mut shell = ShellSettings {
            owner: Some(owner),
            records,
            ..ShellSettings::default()
        }
        .with_variables_of(std::env::vars_os());
        shell.ways = sandbox::ways(configured.sandbox);
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
        Self {
            environments,
            shell,
        }
    }
}

/// Opens where processes are recorded. A daemon that cannot record them still ends them by all other means.
fn records_in(directory: &Path) -> Option<Records> {
    let opened = Records::open(directory.join("processes"));
    opened
        .inspect_err(|error| note(&format!("processes of commands are not recorded: {error}")))
        .ok()
}

/// Ends what an earlier daemon recorded, and returns how many processes that were.
fn end_recorded(records: &Records) -> usize {
    match records.end_leftovers() {
        Ok(left) => {
            for file in &left.unreadable {
                note(&format!(
                    "{} cannot be read: processes of an earlier daemon may still run; end them and remove the file",
                    file.display()
                ));
            }
            if !left.is_whole {
                note("processes of an earlier daemon are still there after SIGKILL");
            }
            left.ended
        }
        Err(error) => {
            note(&format!(
                "what an earlier daemon left is not known: {error}"
            ));
            0
        }
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
