//! The state of directories under git, read beside requests and kept for a moment.

mod ask;
mod parse;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};
use windlass_protocol::WorkspaceStatus;
use windlass_tools::{Environments, ShellSettings};

use crate::settings::Settings;

/// How long a state is good.
const FRESH: Duration = Duration::from_secs(5);
/// How long a first look at a directory is waited for.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How many directories are known.
const MAX_KEPT: usize = 1024;
/// How many directories are read at once.
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
    /// Says that a reading is done.
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

    fn known(&self) -> MutexGuard<'_, GitCache> {
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
        state.unwrap_or_else(|| unknown(workspace, "it was not looked at yet; ask again"))
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
        // It is never closed; without a place nothing would be lost but the limit.
        let _place = self.places.acquire().await.ok();
        let asked = ask::ask(workspace, &self.environments, &self.shell).await;
        let state = asked.unwrap_or_else(|why| unknown(workspace, &why.to_string()));
        let mut known = self.known();
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
