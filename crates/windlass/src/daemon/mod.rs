//! The daemon: a store, the runtime on it, and the server in front of both. `windlass serve` adds a TCP port; other commands start an in-process
//! daemon if none runs.

pub(crate) mod agent;
pub(crate) mod api_token;
pub(crate) mod budget;
pub(crate) mod check;
pub(crate) mod jobs;
pub(crate) mod leftovers;
pub(crate) mod mcp;
pub(crate) mod named_secrets;
pub(crate) mod probe;
pub(crate) mod secrets_key;

mod checkpoints;
mod outputs;
mod prompt;
mod reload;
mod retention;
mod runtime_config;
mod subagents;
mod tools;
mod web;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, getrlimit};
use windlass_runtime::{
    InProcessRuntime, OnLostCommits, RecoveryPolicy, SqliteOptions, SqliteStore,
};
use windlass_server::{
    Access, ClientLimits, HostConfig, HostWireStore, ProjectApprovals, Reload, RpcSettings,
    Settings, open_environments,
};
use windlass_tools::Environments;

use crate::backends::{self, BackendContext};
use crate::cli::printable;
use crate::config::{self, Config};
use crate::{data, model};

pub(crate) use reload::ConfigSource;

use check::ConfigCheck;
use reload::ConfigReload;

/// Maximum length of a socket path, in bytes.
const MAX_SOCKET_PATH: usize = 100;

/// Everything a daemon is built from.
pub(crate) struct DaemonOptions<'a> {
    /// The data directory.
    pub(crate) data: &'a Path,
    /// The root of the environment `local`.
    pub(crate) workspace: PathBuf,
    pub(crate) config: &'a Config,
    /// The source for reloading the configuration, if it can be reloaded.
    pub(crate) source: Option<ConfigSource>,
    /// The default model from the command line.
    pub(crate) model: Option<&'a str>,
    pub(crate) secrets_key_file: Option<&'a Path>,
    /// Files outside the data directory that tools must not see.
    pub(crate) own_files: Vec<&'a Path>,
    /// Whether external agents may run turns. They use the operator's login, so a daemon without authentication excludes them.
    pub(crate) has_agents: bool,
    pub(crate) recovery: RecoveryPolicy,
    pub(crate) on_lost_commits: OnLostCommits,
}

/// A daemon whose data is open, but which serves no clients yet.
pub(crate) struct PreparedDaemon {
    pub(crate) store: SqliteStore,
    pub(crate) runtime: InProcessRuntime,
    pub(crate) wire: HostWireStore,
    /// Settings of a server on this daemon; `jobs` is set.
    pub(crate) settings: Settings,
    /// Whether no model is configured, so that the demonstration responds.
    pub(crate) is_demonstration: bool,
}

impl DaemonOptions<'_> {
    /// Opens the data exclusively. Open turns of earlier processes are not resumed yet. `access` may create files, because the data is locked when it
    /// is called.
    pub(crate) async fn open(
        self,
        access: impl FnOnce() -> anyhow::Result<Access>,
    ) -> anyhow::Result<PreparedDaemon> {
        let (directory, config) = (self.data, self.config);
        // Writing to a backup would make it impossible to restore.
        anyhow::ensure!(
            !directory.join("backup.json").exists(),
            "{} is a backup, which must not change; restore it into another directory with `windlass store restore`",
            printable(directory)
        );
        // An invalid configuration must leave no files behind.
        data::check(directory)?;
        let check = ConfigCheck {
            config,
            data: directory,
            workspace: &self.workspace,
            model: self.model,
            has_agents: self.has_agents,
        };
        check.all()?;
        let (retention, upkeep) = retention::convert(&config.retention)?;
        let key_file = self.secrets_key_file.or(config.secrets_key_file.as_deref());
        let (key, new_key) = secrets_key::load(key_file, directory)?;
        data::create(directory)?;
        let options = SqliteOptions::new(directory)
            .with_retention(retention)
            .with_expendable_records(windlass_jobs::EXPENDABLE_RECORDS)
            .with_secrets_key(key)
            .on_lost_commits(self.on_lost_commits);
        let store = SqliteStore::open(options).await?;
        store.check_secrets_key().await.with_context(|| {
            let path = directory.display();
            format!(
                "the secrets in {path} need their own key; name its file with --secrets-key-file"
            )
        })?;
        if let Some(new_key) = new_key {
            new_key.store(directory)?;
        }
        let mut limits = ClientLimits::default();
        override_limits(&mut limits, &config.limits);
        let mut rpc = RpcSettings::default();
        override_rpc(&mut rpc, &config.runs);
        // A WebSocket keeps its descriptor but no longer counts as a connection.
        for connections in [&mut limits.connections, &mut rpc.connections] {
            *connections = (*connections).min(descriptors_for_clients() / 2);
        }
        let (records, runs) = (Arc::new(store.host_records()), Arc::new(store.runs()));
        let wire = HostWireStore::new(records, runs, limits.stored_answers)
            .with_upkeep(Arc::new(store.clone()));
        let environments = Environments::new();
        let configured_environments = runtime_config::environments(config, &self.workspace);
        open_environments(
            &environments,
            &self.workspace,
            &configured_environments,
            &wire,
        )
        .await?;
        let secrets = named_secrets::load(config, |name| std::env::var(name).ok())?;
        let own_files = self.own_files.into_iter().chain(key_file);
        let own_files = own_files.chain(named_secrets::files(config));
        let mut tools =
            tools::DaemonTools::prepare(directory, own_files, &config.shell, &environments)?;
        tools.shell.proxy = Some(web::proxy(config)?);
        let names = secrets.variables().map(|(name, _)| name.to_owned());
        tools.shell.secret_names = names.collect();
        tools::warn_of_hidden(&self.workspace, &environments);
        let (checkpoints, shared) = (config.checkpoints.clone(), environments.clone());
        let (data, outputs) = (directory.to_owned(), config.outputs.clone());
        tokio::task::spawn_blocking(move || {
            checkpoints::open(&data, &checkpoints, &shared)?;
            outputs::open(&data, &outputs, &shared)
        })
        .await??;
        let shell = tools.shell.clone();
        let context = BackendContext {
            data: directory,
            environments: &environments,
            shell: &shell,
        };
        let configured = if self.has_agents {
            backends::all(&config.backends, &context)?
        } else {
            Vec::new()
        };
        let names = configured.iter().map(|backend| backend.name.clone());
        let backends = names.collect();
        let remembered = ProjectApprovals::new(directory);
        let agent = agent::DaemonAgent {
            backends: configured,
            secrets,
            config,
            tools,
            model: self.model,
            recovery: self.recovery,
            remembered: remembered.clone(),
        };
        let agent::BuiltAgent {
            runtime,
            harness_id,
            models,
            providers,
            is_demonstration,
        } = agent.on(&store).await?;
        let reload = self.source.map(|source| ConfigReload {
            data: directory.to_owned(),
            workspace: self.workspace.clone(),
            has_agents: self.has_agents,
            model: self.model.map(str::to_owned),
            providers,
            models: models.clone(),
            last: Mutex::new(source.layers.clone()),
            source,
        });
        let host = HostConfig {
            is_model_given: self.model.is_some(),
            reload: reload.map(|reload| Arc::new(reload) as Arc<dyn Reload>),
            ..runtime_config::host(config)
        };
        let settings = Settings {
            environments,
            configured_environments,
            shell,
            remembered: Some(remembered),
            models,
            config: host,
            backends,
            api_backends: model::api_backends(config, |name| std::env::var(name).ok()),
            limits,
            rpc,
            upkeep,
            jobs: Some(jobs::settings(config)?),
            ..Settings::new(self.workspace, harness_id, access()?)
        };
        Ok(PreparedDaemon {
            store,
            runtime,
            wire,
            settings,
            is_demonstration,
        })
    }
}

/// Returns the socket through which commands of the same user find the daemon of a data directory; `None` if the path is too long for a socket.
pub(crate) fn own_socket(data: &Path) -> Option<PathBuf> {
    let path = data.join("daemon.sock");
    (path.as_os_str().len() <= MAX_SOCKET_PATH).then_some(path)
}

/// Overrides the default limits with the configured ones.
fn override_limits(limits: &mut ClientLimits, configured: &config::Limits) {
    let set = |limit: &mut usize, configured: Option<usize>| *limit = configured.unwrap_or(*limit);
    set(&mut limits.body_bytes, configured.body_bytes);
    set(&mut limits.threads, configured.threads);
    set(&mut limits.subscribers, configured.subscribers);
    set(&mut limits.connections, configured.connections);
}

/// Returns how many file descriptors are available for clients, after those that the process needs itself.
fn descriptors_for_clients() -> usize {
    const OTHERS: u64 = 256;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let left = limit.saturating_sub(OTHERS).max(limit / 4);
    usize::try_from(left).unwrap_or(usize::MAX)
}

/// Overrides the default settings of run tracing with the configured ones.
fn override_rpc(rpc: &mut RpcSettings, configured: &config::Runs) {
    let set = |time: &mut Duration, configured: Option<u64>| {
        *time = configured.map_or(*time, Duration::from_millis);
    };
    set(&mut rpc.grace, configured.grace_ms);
    set(&mut rpc.lease, configured.lease_ms);
    let day = Duration::from_secs(24 * 60 * 60);
    rpc.keep_ended = configured.keep_days.map(|days| day * days);
    let bytes = configured.message_bytes;
    rpc.limits.message_bytes = bytes.unwrap_or(rpc.limits.message_bytes);
}
