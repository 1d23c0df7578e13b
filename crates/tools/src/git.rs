//! Runs git, which executes programs that a repository's configuration names: in a sandbox, and with all such settings disabled.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::environments::Environments;
use crate::shell::{HostCommand, HostCommandError, HostCommandOutput, ShellSettings};

/// Time limit of a git command.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Maximum output of a git command.
const MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of filter settings to disable; a repository with more is not inspected.
const MAX_FILTER_SETTINGS: usize = 256;
/// Maximum length of a reported error message, in characters.
const MAX_ERROR_CHARS: usize = 200;
/// Paths to search for the program. The daemon's own `PATH` may contain a workspace.
const GIT_PATHS: &[&str] = &[
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
    "core.quotePath=true",
    "log.showSignature=false",
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

/// Why a repository could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed")]
    NotInstalled,
    #[error(transparent)]
    HostCommand(#[from] HostCommandError),
    #[error("the repository has too many filters")]
    TooManyFilters,
    #[error("git failed: {0}")]
    Failed(String),
}

/// Reads repositories with git.
#[derive(Debug, Clone, Copy)]
pub struct Git<'a> {
    /// Provides the hidden paths of the sandbox.
    pub environments: &'a Environments,
    pub shell: &'a ShellSettings,
}

impl Git<'_> {
    /// Returns the output of a git command that only reads; `None` if the directory is in no repository.
    ///
    /// # Errors
    /// If git is missing, cannot run in a sandbox, or fails.
    pub async fn read(&self, directory: &Path, words: &[&str]) -> Result<Option<String>, GitError> {
        let mut paths = GIT_PATHS.iter().map(Path::new);
        let program = paths.find(|path| path.exists());
        let program = program.ok_or(GitError::NotInstalled)?;
        let run = |words: &[&str], empty_settings: &[String]| {
            let command = command(program, directory, words, empty_settings);
            async move { command.run(self.environments, self.shell).await }
        };
        let list = [
            "config",
            "--null",
            "--name-only",
            "--get-regexp",
            r"^filter\.",
        ];
        let filters = run(&list, &[]).await?;
        let filters = match (filters.exit_code, filters.errors.is_empty()) {
            (Some(0), _) => filter_settings(&filters.output)?,
            // There are no filters.
            (Some(1), true) => Vec::new(),
            _ => return failed(&filters),
        };
        let output = run(words, &filters).await?;
        match output.exit_code {
            Some(0) => Ok(Some(output.output)),
            _ => failed(&output),
        }
    }
}

/// Builds a git command with all settings disabled that would run programs, and these settings cleared.
fn command(
    program: &Path,
    directory: &Path,
    words: &[&str],
    empty_settings: &[String],
) -> HostCommand {
    let mut arguments: Vec<_> = ["--no-pager", "--no-optional-locks"].map(Into::into).into();
    for setting in SETTINGS {
        arguments.extend(["-c", setting].map(Into::into));
    }
    arguments.extend(words.iter().map(Into::into));
    let fixed = VARIABLES.iter();
    let fixed = fixed.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut variables: BTreeMap<_, _> = fixed.collect();
    // Passed as variables, because a filter's name may contain characters that `-c` treats as the end of a name.
    let count = empty_settings.len().to_string();
    variables.insert("GIT_CONFIG_COUNT".to_owned(), count);
    for (number, name) in empty_settings.iter().enumerate() {
        variables.insert(format!("GIT_CONFIG_KEY_{number}"), name.clone());
        variables.insert(format!("GIT_CONFIG_VALUE_{number}"), String::new());
    }
    HostCommand {
        program: program.to_owned(),
        arguments,
        variables,
        directory: directory.to_owned(),
        time: TIME_LIMIT,
        max_output_bytes: MAX_OUTPUT_BYTES,
    }
}

/// Returns the settings with which the repository filters files through programs. They include `required`, because a required filter without a
/// program is an error.
fn filter_settings(listed: &str) -> Result<Vec<String>, GitError> {
    let mut names: Vec<_> = listed
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    if names.len() > MAX_FILTER_SETTINGS {
        Err(GitError::TooManyFilters)
    } else {
        Ok(names)
    }
}

/// Distinguishes a directory that is not a repository from a failure.
fn failed(output: &HostCommandOutput) -> Result<Option<String>, GitError> {
    if output.exit_code == Some(128) && output.errors.contains("not a git repository") {
        return Ok(None);
    }
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let message = output.errors.trim().chars().take(MAX_ERROR_CHARS);
    let message: String = message.map(visible).collect();
    Err(GitError::Failed(match output.exit_code {
        _ if !message.is_empty() => message,
        Some(code) => format!("exit code {code}"),
        None => "a signal ended it".to_owned(),
    }))
}
