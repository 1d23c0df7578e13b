//! The state of directories under git, read beside requests and kept for a moment.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::sync::Notify;
use windlass_protocol::WorkspaceStatus;

/// How long a state is good.
const FRESH: Duration = Duration::from_secs(5);
/// How long git may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a first look at a directory is waited for.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How many directories are known.
const MAX_KEPT: usize = 1024;

#[derive(Default)]
struct Known {
    states: HashMap<String, (Instant, WorkspaceStatus)>,
    reading: HashSet<String>,
}

/// The states of directories.
#[derive(Clone, Default)]
pub(crate) struct GitStates {
    known: Arc<Mutex<Known>>,
    /// Says that a reading is done.
    done: Arc<Notify>,
}

impl GitStates {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of a directory, and has it read again if that is old. Waits for nothing.
    pub(crate) fn glance(&self, workspace: &str) -> WorkspaceStatus {
        let mut known = self.known();
        let state = known.states.get(workspace);
        let is_fresh = state.is_some_and(|(at, _)| at.elapsed() < FRESH);
        let state = state.map(|(_, state)| state.clone());
        if !is_fresh && known.reading.len() < MAX_KEPT && known.reading.insert(workspace.to_owned())
        {
            let (states, workspace) = (self.clone(), workspace.to_owned());
            tokio::spawn(async move {
                states.read(&workspace).await;
                states.known().reading.remove(&workspace);
                states.done.notify_waiters();
            });
        }
        state.unwrap_or_else(|| unknown(workspace))
    }

    /// Has directories read of which nothing is known, and waits a moment for it, so that the first list that a client
    /// asks for tells branches already.
    pub(crate) async fn meet(&self, workspaces: &[&str]) {
        let all_known = async {
            loop {
                let done = self.done.notified();
                let is_new = |workspace: &&&str| !self.known().states.contains_key(**workspace);
                let new: Vec<_> = workspaces.iter().filter(is_new).collect();
                if new.is_empty() {
                    return;
                }
                for workspace in new {
                    self.glance(workspace);
                }
                done.await;
            }
        };
        let _ = tokio::time::timeout(FIRST_LOOK, all_known).await;
    }

    /// Returns the state of a directory as it is now.
    pub(crate) async fn read(&self, workspace: &str) -> WorkspaceStatus {
        let state = ask(workspace).await.unwrap_or_else(|| unknown(workspace));
        let mut known = self.known();
        if known.states.len() >= MAX_KEPT {
            known.states.clear();
        }
        let entry = (Instant::now(), state.clone());
        known.states.insert(workspace.to_owned(), entry);
        state
    }
}

fn unknown(workspace: &str) -> WorkspaceStatus {
    WorkspaceStatus {
        workspace: workspace.to_owned(),
        ..WorkspaceStatus::default()
    }
}

async fn ask(workspace: &str) -> Option<WorkspaceStatus> {
    if !Path::new(workspace).is_dir() {
        return None;
    }
    let asking = Command::new("git")
        .args(["-C", workspace, "--no-optional-locks", "status"])
        .args(["--porcelain=v2", "--branch"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, asking).await.ok()?.ok()?;
    if !output.status.success() {
        return None;
    }
    Some(parsed(workspace, &String::from_utf8_lossy(&output.stdout)))
}

fn parsed(workspace: &str, text: &str) -> WorkspaceStatus {
    let mut state = WorkspaceStatus {
        git_repo: true,
        ..unknown(workspace)
    };
    for line in text.lines() {
        if let Some(branch) = line.strip_prefix("# branch.head ") {
            state.branch = Some(branch.to_owned()).filter(|name| name != "(detached)");
        } else if let Some(head) = line.strip_prefix("# branch.oid ") {
            let short = head.chars().take(7).collect();
            state.head = Some(short).filter(|_| head != "(initial)");
        } else if let Some(counts) = line.strip_prefix("# branch.ab ") {
            let mut counts = counts.split(' ').map(|count| count[1..].parse().ok());
            (state.ahead, state.behind) = (counts.next().flatten(), counts.next().flatten());
        } else if line.starts_with("? ") {
            state.untracked += 1;
        } else if let Some(changed) = line.strip_prefix("1 ").or(line.strip_prefix("2 ")) {
            let mut changes = changed.bytes();
            state.staged += u64::from(changes.next() != Some(b'.'));
            state.unstaged += u64::from(changes.next() != Some(b'.'));
        } else if line.starts_with("u ") {
            state.unstaged += 1;
        }
    }
    state.dirty = state.staged + state.unstaged + state.untracked > 0;
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_git_are_counted() {
        let text = "# branch.oid 6da3192aa0\n# branch.head master\n# branch.ab +2 -1\n1 M. N... a\n1 .M N... b\n? c\n";
        assert_eq!(
            parsed("/w", text),
            WorkspaceStatus {
                workspace: "/w".to_owned(),
                git_repo: true,
                branch: Some("master".to_owned()),
                head: Some("6da3192".to_owned()),
                dirty: true,
                staged: 1,
                unstaged: 1,
                untracked: 1,
                ahead: Some(2),
                behind: Some(1),
            }
        );
    }
}
