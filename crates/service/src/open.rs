//! Opens the service on a runtime, runs its background loops and shuts it down.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::error::AgentLoopError;
use windlass_core::tools::{TOOL_SEARCH, ToolDefinition};
use windlass_runtime::{InProcessRuntime, SessionBuilder};

use crate::background::readiness::Readiness;
use crate::background::supervise::{Loops, supervise};
use crate::background::upkeep;
use crate::children::ChildThreads;
use crate::environments;
use crate::error::ApiError;
use crate::fanout::Fanouts;
use crate::git::GitStates;
use crate::jobs::{self, Jobs};
use crate::limits::quotas::{Quotas, watch_tokens};
use crate::limits::thread_quota::ThreadQuota;
use crate::locks::Locks;
use crate::service::{Counters, Service, State};
use crate::settings::Settings;
use crate::settings::effective::EffectiveSettings;
use crate::store::WireStore;

/// Why the service cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The workspace is not a directory.
    #[error("the workspace {path} cannot be opened: {source}")]
    Workspace {
        /// Path of the workspace.
        path: String,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// A configured environment cannot be opened.
    #[error("the environment `{id}` cannot be used: {why}")]
    Environment {
        /// ID of the environment.
        id: String,
        /// Why the environment cannot be used.
        why: String,
    },
    /// The runs cannot be read.
    #[error("the runs cannot be read: {0}")]
    Runs(#[from] windlass_runs::RunError),
    /// The server's records cannot be read.
    #[error("the server's records cannot be read: {0}")]
    Store(ApiError),
    /// Tasks or automations cannot be loaded.
    #[error("tasks and automations cannot be loaded: {0}")]
    Jobs(#[from] windlass_jobs::JobError),
    /// The list of threads cannot be read.
    #[error(
        "the runtime's journal has no read model; give it one with `RuntimeBackends::with_queries`"
    )]
    NoQueries,
    /// The runtime cannot run threads with these settings.
    #[error("the runtime cannot run threads: {0}")]
    Runtime(#[from] AgentLoopError),
}

impl Service {
    /// Opens the service. No open turn is resumed yet.
    pub async fn open(
        runtime: InProcessRuntime,
        settings: Settings,
        store: Arc<dyn WireStore>,
    ) -> Result<Self, OpenError> {
        let tools = &settings.environments;
        let configured = &settings.configured_environments;
        let (fixed, environments) =
            environments::open(tools, &settings.workspace, configured, &*store).await?;
        let builtin_tools = builtin_tools(&runtime, &settings).await?;
        let git = GitStates::new(&settings);
        let jobs = Jobs::open(&settings, &runtime, &*store).await?;
        let effective = EffectiveSettings::load(&settings, &*store)
            .await
            .map_err(OpenError::Store)?;
        let skills_off = effective.overrides.skills_off.clone();
        settings.environments.switch_skills_off(skills_off);
        let service = Self::new(State {
            jobs,
            queries: runtime.queries().ok_or(OpenError::NoQueries)?,
            runtime,
            settings,
            store,
            environments: RwLock::new(Arc::new(environments)),
            effective: RwLock::new(Arc::new(effective)),
            thread_quota: ThreadQuota::default(),
            fixed,
            builtin_tools,
            git,
            counters: Counters::default(),
            fanouts: Fanouts::default(),
            quotas: Quotas::default(),
            readiness: Readiness::default(),
            loops: Loops::default(),
            keyed_requests: Locks::default(),
            write_locks: Locks::default(),
            verifying: tokio::sync::Mutex::default(),
            detached_tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        });
        let host = ChildThreads::new(&service);
        service.runtime.set_subagent_host(Arc::new(host));
        Ok(service)
    }

    /// Resumes the turns that a previous process left open, if the settings allow it. Returns how many continue; turns that are ended at
    /// the start do not count.
    pub async fn resume_open_turns(&self) -> Result<usize, OpenError> {
        if !self.settings.resumes_open_turns {
            return Ok(0);
        }
        jobs::interrupt_cancelled(self).await?;
        let resumed = self.runtime.resume_open_turns().await?;
        Ok(resumed.iter().filter(|turn| turn.is_open()).count())
    }

    /// Starts the background loops. They end when [`stopping`](Self::stopping) is cancelled; the returned future waits for those that
    /// run jobs.
    pub fn start_loops(&self) -> impl Future<Output = ()> + use<> {
        supervise(self, "upkeep", |service| async {
            upkeep::run_until_stopped(service).await;
            Ok(())
        });
        supervise(self, "tokens", |service| async {
            watch_tokens(service).await;
            Ok(())
        });
        jobs::run_jobs(self)
    }
}

/// Returns the names of the tools that every thread has. An error means that the runtime cannot run threads at all.
async fn builtin_tools(
    runtime: &InProcessRuntime,
    settings: &Settings,
) -> Result<HashSet<String>, AgentLoopError> {
    let mut probe = SessionBuilder::new(settings.harness_id).build();
    probe.agent_id = settings.agent_id;
    let context = runtime.preview_context(probe).await?;
    let tools = context.runtime_agent.tools;
    let names = tools.iter().map(ToolDefinition::name);
    // Whether a turn has deferred tools is unknown before it starts.
    Ok(names.chain([TOOL_SEARCH]).map(str::to_owned).collect())
}
