//! The daemon: a store, the runtime on it, and the server in front of both. `windlass serve` adds a TCP port; other commands start an in-process
//! daemon if none runs.

pub(crate) mod agent;
pub(crate) mod budget;
pub(crate) mod check;
pub(crate) mod jobs;
pub(crate) mod leftovers;
pub(crate) mod made_token;
pub(crate) mod mcp;
pub(crate) mod named_secrets;
pub(crate) mod probe;
pub(crate) mod secrets_key;

mod checkpoints;
mod configured;
mod outputs;
mod reload;
mod retention;
mod subagents;
mod tools;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, getrlimit};
use windlass_core::typed_id::HarnessId;
use windlass_protocol::CreateEnvironment;
use windlass_runtime::{
    InProcessRuntime, OnLostCommits, RecoveryPolicy, SqliteOptions, SqliteStore,
};
use windlass_server::{
    Access, ClientLimits, HostConfig, HostWireStore, JobSettings, Models, ProjectApprovals, Reload,
    RpcSettings, Settings, Upkeep, open_environments,
};
use windlass_tools::{Environments, ShellSettings};

use crate::backends::{self, Surroundings};
use crate::cli::printable;
use crate::config::{self, Config};
use crate::{data, model};

pub(crate) use reload::ConfigSource;

use check::Check;
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
pub(crate) struct Daemon {
    pub(crate) store: SqliteStore,
    pub(crate) runtime: InProcessRuntime,
    pub(crate) wire: HostWireStore,
    /// Whether no model is configured, so that the demonstration answers.
    pub(crate) is_demonstration: bool,
    workspace: PathBuf,
    harness_id: HarnessId,
    models: Models,
    backends: Vec<String>,
    api_backends: BTreeMap<String, String>,
    environments: Environments,
    remembered: ProjectApprovals,
    places: Vec<CreateEnvironment>,
    shell: ShellSettings,
    limits: ClientLimits,
    upkeep: Upkeep,
    rpc: RpcSettings,
    host: HostConfig,
    /// Settings for running tasks and automations.
    pub(crate) jobs: JobSettings,
}

impl DaemonOptions<'_> {
    /// Opens the data exclusively. Open turns of earlier processes are not resumed yet.
    pub(crate) async fn open(self) -> anyhow::Result<Daemon> {
        let (directory, config) = (self.data, self.config);
        // Writing to a backup would make it impossible to restore.
        anyhow::ensure!(
            !directory.join("backup.json").exists(),
            "{} is a backup and is left as it is; restore it into a directory of its own (`windlass store restore`), and work there",
            printable(directory)
        );
        // An invalid configuration must leave no files behind.
        data::check(directory)?;
        let check = Check {
            config,
            data: directory,
            workspace: &self.workspace,
            model: self.model,
            has_agents: self.has_agents,
        };
        check.all()?;
        let (retention, upkeep) = retention::of(&config.retention)?;
        let key_file = self.secrets_key_file.or(config.secrets_key_file.as_deref());
        let (key, unkept) = secrets_key::load(key_file, directory)?;
        data::make(directory)?;
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
        if let Some(unkept) = unkept {
            unkept.keep(directory)?;
        }
        let jobs = jobs::settings(config)?;
        let mut limits = ClientLimits::default();
        limit(&mut limits, &config.limits);
        let mut rpc = RpcSettings::default();
        trace(&mut rpc, &config.runs);
        // A WebSocket keeps its descriptor but no longer counts as a connection.
        for connections in [&mut limits.connections, &mut rpc.connections] {
            *connections = (*connections).min(descriptors_for_clients() / 2);
        }
        let (records, runs) = (Arc::new(store.host_records()), Arc::new(store.runs()));
        let wire = HostWireStore::new(records, runs, limits.stored_answers)
            .with_upkeep(Arc::new(store.clone()));
        let environments = Environments::new();
        let places = configured::environments(config, &self.workspace);
        open_environments(&environments, &self.workspace, &places, &wire).await?;
        let secrets = named_secrets::of(config, |name| std::env::var(name).ok())?;
        let own_files = self.own_files.into_iter().chain(key_file);
        let own_files = own_files.chain(named_secrets::files(config));
        let mut tools = tools::Tools::of(directory, own_files, &config.shell, &environments)?;
        tools.shell.proxy = Some(web::proxy(config)?);
        let names = secrets.variables().map(|(name, _)| name.to_owned());
        tools.shell.secret_names = names.collect();
        tools::warn_of_hidden(&self.workspace, &environments);
        let (kept, of) = (config.checkpoints.clone(), environments.clone());
        let (data, outputs) = (directory.to_owned(), config.outputs.clone());
        tokio::task::spawn_blocking(move || {
            checkpoints::open(&data, &kept, &of)?;
            outputs::open(&data, &outputs, &of)
        })
        .await??;
        let shell = tools.shell.clone();
        let around = Surroundings {
            data: directory,
            environments: &environments,
            shell: &shell,
        };
        let configured = if self.has_agents {
            backends::all(&config.backends, &around)?
        } else {
            Vec::new()
        };
        let backends = configured.iter().map(|backend| backend.name.clone());
        let backends = backends.collect();
        let agent = agent::Agent {
            backends: configured,
            secrets,
            config,
            tools,
            model: self.model,
            recovery: self.recovery,
            remembered: ProjectApprovals::new(directory),
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
            ..configured::host(config)
        };
        Ok(Daemon {
            store,
            runtime,
            wire,
            remembered: ProjectApprovals::new(directory),
            workspace: self.workspace,
            harness_id,
            models,
            is_demonstration,
            backends,
            api_backends: model::api_backends(config, |name| std::env::var(name).ok()),
            environments,
            places,
            shell,
            limits,
            upkeep,
            rpc,
            host,
            jobs,
        })
    }
}

impl Daemon {
    /// Returns the harness of the daemon's threads.
    #[cfg(test)]
    pub(crate) fn harness_id(&self) -> HarnessId {
        self.harness_id
    }

    /// Returns the settings for a server on this daemon.
    pub(crate) fn settings(&self, access: Access) -> Settings {
        let mut settings = Settings::new(&self.workspace, self.harness_id, access);
        settings.upkeep = self.upkeep;
        settings.environments = self.environments.clone();
        settings.configured_environments = self.places.clone();
        settings.shell = self.shell.clone();
        settings.remembered = Some(self.remembered.clone());
        settings.models = self.models.clone();
        settings.config = self.host.clone();
        settings.backends = self.backends.iter().cloned().collect();
        settings.api_backends = self.api_backends.clone();
        settings.limits = self.limits.clone();
        settings.rpc = self.rpc.clone();
        settings
    }
}

/// Returns the socket through which commands of the same user find the daemon of a data directory; `None` if the path is too long for a socket.
pub(crate) fn own_socket(data: &Path) -> Option<PathBuf> {
    let path = data.join("daemon.sock");
    (path.as_os_str().len() <= MAX_SOCKET_PATH).then_some(path)
}

/// Overrides the default limits with the configured ones.
fn limit(limits: &mut ClientLimits, configured: &config::Limits) {
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
fn trace(rpc: &mut RpcSettings, configured: &config::Runs) {
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
