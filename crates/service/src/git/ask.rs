//! Asking git, which does what a repository's configuration says: in a sandbox, and with everything turned off by which a
//! repository has programs run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_protocol::WorkspaceStatus;
use windlass_tools::{Environments, Look, LookError, LookOutput, ShellSettings};

use super::parse::parsed;

/// How long git may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much git may say.
const MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;
/// How many settings of filters are turned off; a repository with more is not looked at.
const MAX_FILTER_SETTINGS: usize = 256;
/// How much of a complaint is told.
const MAX_TOLD_CHARS: usize = 200;
/// Where the program may be. The daemon's own `PATH` may lead into a workspace.
const PLACES: &[&str] = &[
    "/usr/bin/git",
    "/usr/local/bin/git",
    "/bin/git",
    "/run/current-system/sw/bin/git",
    "/opt/homebrew/bin/git",
];
/// Settings that win over the repository's.
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
/// All variables that git gets. Those of the daemon, its keys among them, stay behind.
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

/// Why the state of git is not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    #[error("git is not installed")]
    NotInstalled,
    #[error(transparent)]
    Look(#[from] LookError),
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
        // There are none.
        (Some(1), true) => Vec::new(),
        _ => return failed(workspace, &filters),
    };
    // The state of a submodule would be asked of another git, by the submodule's own configuration.
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
    fn look(&self, words: &[&str], empty_settings: &[String]) -> Look {
        let mut arguments: Vec<_> = ["--no-pager", "--no-optional-locks"].map(Into::into).into();
        for setting in SETTINGS {
            arguments.extend(["-c", setting].map(Into::into));
        }
        arguments.extend(words.iter().map(Into::into));
        let own = VARIABLES.iter();
        let own = own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut variables: BTreeMap<_, _> = own.collect();
        // As variables, because a filter's name may hold what `-c` takes for the end of a name.
        variables.insert(
            "GIT_CONFIG_COUNT".to_owned(),
            empty_settings.len().to_string(),
        );
        for (number, name) in empty_settings.iter().enumerate() {
            variables.insert(format!("GIT_CONFIG_KEY_{number}"), name.clone());
            variables.insert(format!("GIT_CONFIG_VALUE_{number}"), String::new());
        }
        Look {
            program: self.program.to_owned(),
            arguments,
            variables,
            directory: PathBuf::from(self.workspace),
            time: PATIENCE,
            max_output_bytes: MAX_OUTPUT_BYTES,
        }
    }
}

/// Names the settings by which the repository has files pass through programs, to be emptied. `required` goes with them: a
/// filter that is required and does nothing is an error.
fn filter_settings(listed: &str) -> Result<Vec<String>, Unknown> {
    let mut names: Vec<_> = listed
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    match names.len() > MAX_FILTER_SETTINGS {
        true => Err(Unknown::TooManyFilters),
        false => Ok(names),
    }
}

/// Tells a directory that is no repository, which is known, from a failure.
fn failed(workspace: &str, seen: &LookOutput) -> Result<WorkspaceStatus, Unknown> {
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
