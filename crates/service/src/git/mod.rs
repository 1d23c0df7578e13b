//! The git status of directories, read in the background and cached briefly.

mod parse;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use windlass_protocol::WorkspaceStatus;
use windlass_tools::{Environments, Git, GitError, ShellSettings};

use parse::parse_status;

use crate::settings::Settings;

/// How long a cached status is fresh.
const FRESH: Duration = Duration::from_secs(5);
/// How long a request waits for the first reading of a directory.
const FIRST_READ: Duration = Duration::from_secs(1);
/// Maximum number of cached directories.
const MAX_CACHED: usize = 1024;
/// Maximum number of concurrent readings.
const MAX_READINGS: usize = 4;

#[derive(Default)]
struct GitCache {
    states: HashMap<String, (Instant, WorkspaceStatus)>,
    reading: HashSet<String>,
}

/// The git status of directories.
#[derive(Clone)]
pub(crate) struct GitStates {
    cache: Arc<Mutex<GitCache>>,
    environments: Environments,
    shell: ShellSettings,
    permits: Arc<Semaphore>,
    /// Notified when a reading completes.
    done: Arc<Notify>,
}

impl GitStates {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            cache: Arc::default(),
            environments: settings.environments.clone(),
            shell: settings.shell.clone(),
            permits: Arc::new(Semaphore::new(MAX_READINGS)),
            done: Arc::default(),
        }
    }

    /// Returns the cached status of a directory, and refreshes it in the background if it is old. Does not wait.
    pub(crate) fn cached_status(&self, workspace: &str) -> WorkspaceStatus {
        let mut cache = self.cache.lock();
        let state = cache.states.get(workspace);
        let is_fresh = state.is_some_and(|(at, _)| at.elapsed() < FRESH);
        let state = state.map(|(_, state)| state.clone());
        let is_full = cache.reading.len() >= MAX_CACHED;
        if !is_fresh && !is_full && cache.reading.insert(workspace.to_owned()) {
            let (states, workspace) = (self.clone(), workspace.to_owned());
            tokio::spawn(async move {
                states.read(&workspace).await;
                states.cache.lock().reading.remove(&workspace);
                states.done.notify_waiters();
            });
        }
        state.unwrap_or_else(|| unknown(workspace, "it was not looked at yet; repeat the request"))
    }

    /// Reads directories that are not cached and waits briefly, so that a client's first list already contains branches.
    pub(crate) async fn warm_up(&self, workspaces: &[&str]) {
        let all_cached = async {
            loop {
                let done = self.done.notified();
                let mut new = workspaces.to_vec();
                new.retain(|workspace| !self.cache.lock().states.contains_key(*workspace));
                if new.is_empty() {
                    return;
                }
                for workspace in new {
                    self.cached_status(workspace);
                }
                done.await;
            }
        };
        let _ = tokio::time::timeout(FIRST_READ, all_cached).await;
    }

    async fn status(&self, workspace: &str) -> Result<WorkspaceStatus, GitError> {
        let git = Git {
            environments: &self.environments,
            shell: &self.shell,
        };
        // The state of a submodule would be read by another git process, with the submodule's own configuration.
        let words = [
            "status",
            "--porcelain=v2",
            "--branch",
            "--ignore-submodules=dirty",
        ];
        let text = git.read(Path::new(workspace), &words).await?;
        Ok(text.map_or_else(
            || WorkspaceStatus {
                workspace: workspace.to_owned(),
                ..WorkspaceStatus::default()
            },
            |text| parse_status(workspace, &text),
        ))
    }

    /// Reads the current status of a directory.
    pub(crate) async fn read(&self, workspace: &str) -> WorkspaceStatus {
        // The semaphore is never closed; without a permit, only the limit would be lost.
        let _permit = self.permits.acquire().await.ok();
        let read = self.status(workspace).await;
        let state = read.unwrap_or_else(|error| unknown(workspace, &error.to_string()));
        let mut cache = self.cache.lock();
        if cache.states.len() >= MAX_CACHED {
            cache.states.clear();
        }
        let entry = (Instant::now(), state.clone());
        cache.states.insert(workspace.to_owned(), entry);
        state
    }
}

fn unknown(workspace: &str, why: &str) -> WorkspaceStatus {
    WorkspaceStatus {
        workspace: workspace.to_owned(),
        git_unknown: Some(why.to_owned()),
        ..WorkspaceStatus::default()
    }
}
