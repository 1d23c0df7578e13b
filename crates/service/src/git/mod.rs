//! The git state of directories, read in the background and cached briefly.

mod ask;
mod parse;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use windlass_protocol::WorkspaceStatus;
use windlass_tools::{Environments, ShellSettings};

use crate::settings::Settings;

/// How long a cached state is fresh.
const FRESH: Duration = Duration::from_secs(5);
/// How long a request waits for the first reading of a directory.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Maximum number of cached directories.
const MAX_KEPT: usize = 1024;
/// Maximum number of concurrent readings.
const AT_ONCE: usize = 4;

#[derive(Default)]
struct GitCache {
    states: HashMap<String, (Instant, WorkspaceStatus)>,
    reading: HashSet<String>,
}

/// The states of directories.
#[derive(Clone)]
pub(crate) struct GitStates {
    known: Arc<Mutex<GitCache>>,
    environments: Environments,
    shell: ShellSettings,
    places: Arc<Semaphore>,
    /// Notified when a reading completes.
    done: Arc<Notify>,
}

impl GitStates {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            known: Arc::default(),
            environments: settings.environments.clone(),
            shell: settings.shell.clone(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            done: Arc::default(),
        }
    }

    /// Returns the cached state of a directory, and refreshes it in the background if it is old. Does not wait.
    pub(crate) fn glance(&self, workspace: &str) -> WorkspaceStatus {
        let mut known = self.known.lock();
        let state = known.states.get(workspace);
        let is_fresh = state.is_some_and(|(at, _)| at.elapsed() < FRESH);
        let state = state.map(|(_, state)| state.clone());
        if !is_fresh && known.reading.len() < MAX_KEPT && known.reading.insert(workspace.to_owned())
        {
            let (states, workspace) = (self.clone(), workspace.to_owned());
            tokio::spawn(async move {
                states.read(&workspace).await;
                states.known.lock().reading.remove(&workspace);
                states.done.notify_waiters();
            });
        }
        state.unwrap_or_else(|| unknown(workspace, "it was not looked at yet; ask again"))
    }

    /// Reads directories that are not cached and waits briefly, so that a client's first list already contains branches.
    pub(crate) async fn meet(&self, workspaces: &[&str]) {
        let all_known = async {
            loop {
                let done = self.done.notified();
                let is_new =
                    |workspace: &&&str| !self.known.lock().states.contains_key(**workspace);
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

    /// Returns the current state of a directory.
    pub(crate) async fn read(&self, workspace: &str) -> WorkspaceStatus {
        // The semaphore is never closed; without a permit, only the limit would be lost.
        let _place = self.places.acquire().await.ok();
        let asked = ask::ask(workspace, &self.environments, &self.shell).await;
        let state = asked.unwrap_or_else(|why| unknown(workspace, &why.to_string()));
        let mut known = self.known.lock();
        if known.states.len() >= MAX_KEPT {
            known.states.clear();
        }
        let entry = (Instant::now(), state.clone());
        known.states.insert(workspace.to_owned(), entry);
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
