//! `/diff`: the changes of the working directory since its last commit. Git reads it in a sandbox, and its output comes from the repository.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use windlass_core::bounds::lines;
use windlass_tools::{Environments, Git, ShellSettings};

use crate::terminal::{Colour, Style};

/// Maximum number of lines that are shown.
const MAX_LINES: usize = 2000;
/// Submodules have filters of their own, which Git would run.
const DIFF: [&str; 5] = [
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=dirty",
];

/// Shows the changes since the last commit, then the names of untracked files.
pub(super) async fn show(directory: &Path, data: &Path) -> Result<()> {
    let environments = Environments::new();
    environments.hide(data);
    if let Some(home) = std::env::home_dir() {
        environments.hide_keys_of(home);
    }
    let git = Git {
        environments: &environments,
        shell: &ShellSettings::default(),
    };
    // Outside of a repository, `git diff` compares files.
    let untracked = ["ls-files", "--others", "--exclude-standard"];
    let untracked = git.read(directory, &untracked).await?;
    let untracked = untracked.context("the directory is in no git repository")?;
    let since_commit = git.read(directory, &[&DIFF[..], &["HEAD"]].concat()).await;
    let changes = match since_commit {
        // There is no commit yet.
        Err(_) => {
            git.read(directory, &[&DIFF[..], &["--cached"]].concat())
                .await?
        }
        Ok(changes) => changes,
    };
    let changes = changes.unwrap_or_default();
    write(&changes, &untracked, Style::for_stdout())?;
    Ok(())
}

fn write(changes: &str, untracked: &str, style: Style) -> io::Result<()> {
    let untracked = untracked.lines().map(|path| format!("untracked: {path}"));
    let all: Vec<_> = changes
        .lines()
        .map(str::to_owned)
        .chain(untracked)
        .collect();
    let mut out = io::stdout().lock();
    if all.is_empty() {
        return writeln!(out, "nothing has changed since the last commit");
    }
    for line in all.iter().take(MAX_LINES) {
        let colour = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Colour::Bold,
            Some(b'+') => Colour::Good,
            Some(b'-') => Colour::Bad,
            Some(b'@') => Colour::Dim,
            Some(b'd') => Colour::Bold,
            _ => Colour::Plain,
        };
        let line = style.unmarked(&lines(line), &mut None);
        writeln!(out, "{}", style.paint(colour, &line))?;
    }
    match all.len().checked_sub(MAX_LINES + 1) {
        Some(more) => writeln!(out, "and {} more lines", more + 1),
        None => Ok(()),
    }
}
