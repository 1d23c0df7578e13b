//! Runs git, which executes programs that a repository's configuration names: in a sandbox, and with all such settings disabled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_protocol::WorkspaceStatus;
use windlass_tools::{
    Environments, HostCommand, HostCommandError, HostCommandOutput, ShellSettings,
};

use super::parse::parsed;

/// Time limit of a git command.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum output of a git command.
const MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of filter settings to disable; a repository with more is not inspected.
const MAX_FILTER_SETTINGS: usize = 256;
/// Maximum characters reported of an error message.
const MAX_TOLD_CHARS: usize = 200;
/// Paths to search for the program. The daemon's own `PATH` may contain a workspace.
const PLACES: &[&str] = &[
    "/usr/bin/git",
    "/usr/local/bin/git",
    "/bin/git",
    "/run/current-system/sw/bin/git",
    "/opt/homebrew/bin/git",
];
/// Settings that override the repository's.
const SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.untrackedCache=false",
    "core.sshCommand=false",
    "core.askPass=",
    "core.pager=cat",
    "core.editor=false",
    "credential.helper=",
    "diff.external=",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
];
/// The complete environment of git. The daemon's variables, including its keys, are not passed on.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
];

/// Why the git state is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    #[error("git is not installed")]
    NotInstalled,
    #[error(transparent)]
    HostCommand(#[from] HostCommandError),
    #[error("the repository has too many filters")]
    TooManyFilters,
    #[error("git failed: {0}")]
    Failed(String),
}

pub(super) async fn ask(
    workspace: &str,
    environments: &Environments,
    shell: &ShellSettings,
) -> Result<WorkspaceStatus, Unknown> {
    let mut places = PLACES.iter().map(Path::new);
    let program = places.find(|place| place.exists());
    let git = Git {
        program: program.ok_or(Unknown::NotInstalled)?,
        workspace,
    };
    let list = [
        "config",
        "--null",
        "--name-only",
        "--get-regexp",
        r"^filter\.",
    ];
    let filters = git.look(&list, &[]).run(environments, shell).await?;
    let filters = match (filters.exit_code, filters.errors.is_empty()) {
        (Some(0), _) => filter_settings(&filters.output)?,
        // There are no filters.
        (Some(1), true) => Vec::new(),
        _ => return failed(workspace, &filters),
    };
    // The state of a submodule would be read by another git process, with the submodule's own configuration.
    let status = [
        "status",
        "--porcelain=v2",
        "--branch",
        "--ignore-submodules=dirty",
    ];
    let seen = git.look(&status, &filters).run(environments, shell).await?;
    match seen.exit_code {
        Some(0) => Ok(parsed(workspace, &seen.output)),
        _ => failed(workspace, &seen),
    }
}

struct Git<'a> {
    program: &'a Path,
    workspace: &'a str,
}

impl Git<'_> {
    fn look(&self, words: &[&str], empty_settings: &[String]) -> HostCommand {
        let mut arguments: Vec<_> = ["--no-pager", "--no-optional-locks"].map(Into::into).into();
        for setting in SETTINGS {
            arguments.extend(["-c", setting].map(Into::into));
        }
        arguments.extend(words.iter().map(Into::into));
        let own = VARIABLES.iter();
        let own = own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut variables: BTreeMap<_, _> = own.collect();
        // Passed as variables, because a filter's name may contain characters that `-c` treats as the end of a name.
        variables.insert(
            "GIT_CONFIG_COUNT".to_owned(),
            empty_settings.len().to_string(),
        );
        for (number, name) in empty_settings.iter().enumerate() {
            variables.insert(format!("GIT_CONFIG_KEY_{number}"), name.clone());
            variables.insert(format!("GIT_CONFIG_VALUE_{number}"), String::new());
        }
        HostCommand {
            program: self.program.to_owned(),
            arguments,
            variables,
            directory: PathBuf::from(self.workspace),
            time: PATIENCE,
            max_output_bytes: MAX_OUTPUT_BYTES,
        }
    }
}

/// Returns the settings by which the repository filters files through programs, to be cleared. `required` is cleared too: a required filter without a
/// program is an error.
fn filter_settings(listed: &str) -> Result<Vec<String>, Unknown> {
    let mut names: Vec<_> = listed
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    if names.len() > MAX_FILTER_SETTINGS {
        Err(Unknown::TooManyFilters)
    } else {
        Ok(names)
    }
}

/// Distinguishes a directory that is not a repository from a failure.
fn failed(workspace: &str, seen: &HostCommandOutput) -> Result<WorkspaceStatus, Unknown> {
    if seen.exit_code == Some(128) && seen.errors.contains("not a git repository") {
        return Ok(WorkspaceStatus {
            workspace: workspace.to_owned(),
            ..WorkspaceStatus::default()
        });
    }
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let told: String = seen
        .errors
        .trim()
        .chars()
        .take(MAX_TOLD_CHARS)
        .map(visible)
        .collect();
    Err(Unknown::Failed(match (told.is_empty(), seen.exit_code) {
        (false, _) => told,
        (true, Some(code)) => format!("exit code {code}"),
        (true, None) => "a signal ended it".to_owned(),
    }))
}
