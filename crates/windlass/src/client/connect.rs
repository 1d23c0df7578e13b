//! Connects a command to its daemon: the one that runs on the data directory, else an in-process daemon that ends with the command. The command uses
//! the Runtime API in both cases.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use windlass_client::{Client, UnixConnector};
use windlass_core::digest::Digest128;
use windlass_protocol::{
    Call, CallError, CreateEnvironment, EnvironmentPolicy, ErrorCode, NetworkPolicy, RuntimeApi,
    RuntimeInfo,
};
use windlass_runtime::{OnLostCommits, RecoveryPolicy, SqliteStore};
use windlass_server::{Access, ApiServer, InProcessHandle, JobSettings, Token, TokenFile};
use windlass_store::SqliteError;

use crate::backends;
use crate::cli::{note, or_current, printable, set_variable, without_code};
use crate::client::calls::{by_id, environments};
use crate::commands::serve::access;
use crate::config;
use crate::daemon::{self, DaemonOptions, PreparedDaemon, api_token, secrets_key};
use crate::data::{self, modes, own_file};
use crate::model::{self, demonstration};

/// Number of attempts to reach a daemon that is starting.
const ATTEMPTS: u32 = 20;
/// Number of attempts to find a restarted daemon before the command starts an in-process one.
const RESTART_ATTEMPTS: u32 = 8;
/// Delay between attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// Time limit for the shutdown of an in-process daemon. Running turns are recorded up to that point.
const GRACE: Duration = Duration::from_secs(5);

/// How to connect to the daemon of a data directory.
#[derive(Clone)]
pub(crate) struct DaemonTarget {
    pub(crate) data: PathBuf,
    /// The configuration file from the command line.
    pub(crate) config: Option<PathBuf>,
    /// The model of an in-process daemon, if one is started.
    pub(crate) model: Option<String>,
    /// The default working directory of that daemon.
    pub(crate) workspace: PathBuf,
    pub(crate) purpose: ConnectionPurpose,
    /// The external agent from the command line.
    pub(crate) backend: Option<String>,
}

/// What a command needs the daemon for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionPurpose {
    /// Running turns. Other commands may use the same daemon.
    RunTurns,
    /// Reading or maintaining the data. An in-process daemon ends so soon that other commands must not find it.
    Maintain,
    /// Adding and listing jobs. An in-process daemon only stores them; the daemon of `windlass serve` runs them.
    QueueJobs,
}

type Api = Arc<dyn RuntimeApi>;

/// A connection to a daemon that can be re-established with the next one.
pub(crate) struct DaemonConnection {
    target: DaemonTarget,
    api: RwLock<Api>,
    /// The in-process daemon, if there is one.
    in_process: Mutex<Option<InProcessDaemon>>,
}

struct InProcessDaemon {
    inside: InProcessHandle,
    store: SqliteStore,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl DaemonTarget {
    /// Targets a data directory, with the model of `WINDLASS_MODEL`.
    pub(crate) fn new(
        data: PathBuf,
        workspace: PathBuf,
        config: Option<PathBuf>,
        purpose: ConnectionPurpose,
    ) -> Self {
        Self {
            data,
            config,
            model: set_variable("WINDLASS_MODEL"),
            workspace,
            purpose,
            backend: None,
        }
    }

    /// Targets a data directory for reading or maintenance; no model is needed.
    pub(crate) fn for_maintenance(data: PathBuf, config: Option<PathBuf>) -> Result<Self> {
        Ok(Self {
            model: Some(model::SIMULATOR.to_owned()),
            ..Self::new(data, or_current(None)?, config, ConnectionPurpose::Maintain)
        })
    }

    /// Connects to the running daemon, or starts an in-process one.
    async fn connect(&self) -> Result<(Api, Option<InProcessDaemon>)> {
        for _ in 0..ATTEMPTS {
            if let Some(api) = self.find_running().await? {
                if self.config.is_some() {
                    note(
                        "--config is ignored: another process uses this data already, with its own configuration",
                    );
                }
                if self.purpose == ConnectionPurpose::RunTurns {
                    self.check_model(&*api).await?;
                }
                return Ok((api, None));
            }
            // The future of a complete daemon is large.
            match Box::pin(self.start_in_process()).await {
                Err(error) if is_locked(&error) => tokio::time::sleep(PAUSE).await,
                started => return started,
            }
        }
        bail!(
            "another process uses {} and accepts no connections (a daemon with --insecure never does); stop it, or name another directory with --data",
            printable(&self.data)
        )
    }

    /// Rejects a model that a separate daemon cannot use. If that daemon has no model configured, its demonstration would respond instead, whatever API
    /// keys this process has.
    async fn check_model(&self, api: &dyn RuntimeApi) -> Result<()> {
        // A token without permission to read the configuration skips the check.
        let config = api.get_config(Call::new((), ())).await;
        if !config.is_ok_and(|config| config.model == demonstration::NAME) {
            return Ok(());
        }
        let built_in = [model::SIMULATOR, demonstration::NAME];
        let provider = |name: &&str| {
            name.split('/')
                .next()
                .is_some_and(|it| !built_in.contains(&it))
        };
        if let Some(name) = self.model.as_deref().filter(provider) {
            bail!(
                "the process that uses {} has no model configured, so `{name}` is not available; stop it, or name another directory with --data",
                printable(&self.data)
            );
        }
        note(
            "the process that uses this data has no model configured: its demonstration model responds, whatever API keys are set here",
        );
        Ok(())
    }

    /// Connects to the daemon that runs on the data; `None` if there is none.
    async fn find_running(&self) -> Result<Option<Api>> {
        let Some(socket) = socket_of(&self.data)? else {
            return Ok(None);
        };
        let client =
            Client::new(UnixConnector::new(socket), token_of(&self.data)).without_reconnect();
        match environments(&client).await {
            Ok(_) => Ok(Some(Arc::new(client))),
            // The daemon is gone; its socket may remain.
            Err(error) if error.is_lost() => Ok(None),
            Err(error) if error.code() == Some(ErrorCode::Unauthorized) => {
                Err(error).context(format!(
                    "the daemon on {} requires its own token; set it in {}",
                    printable(&self.data),
                    access::TOKEN_VARIABLE
                ))
            }
            Err(error) => Err(error).context("the running daemon cannot be used"),
        }
    }

    /// Waits for the operator or a supervisor to restart the daemon; `None` if that does not happen.
    async fn find_restarted(&self) -> Result<Option<Api>> {
        for _ in 0..RESTART_ATTEMPTS {
            if let Some(api) = self.find_running().await? {
                return Ok(Some(api));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(None)
    }

    /// Starts an in-process daemon. Turns that other processes left open stay open until their thread is resumed.
    async fn start_in_process(&self) -> Result<(Api, Option<InProcessDaemon>)> {
        data::check(&self.data)?;
        modes::repair(&self.data);
        let mut config = config::load(self.config.as_deref(), &self.data)?;
        if let Some(name) = &self.backend {
            backends::check_installed(name, &config)?;
        }
        if self.purpose != ConnectionPurpose::RunTurns {
            // No tool runs, so the programs and secrets of tools are not needed.
            config.mcp_servers.clear();
            config.secrets.clear();
        } else {
            config::warn_of_unknown_tools(&config);
        }
        let secrets_key_file = secrets_key::file_from_environment();
        let options = DaemonOptions {
            source: None,
            data: &self.data,
            workspace: self.workspace.clone(),
            config: &config,
            model: self.model.as_deref(),
            secrets_key_file: secrets_key_file.as_deref(),
            own_files: self.config.as_deref().into_iter().collect(),
            has_agents: true,
            recovery: RecoveryPolicy::Resume,
            on_lost_commits: OnLostCommits::Refuse,
        };
        let access = || {
            let token = match access::from_environment() {
                Some(token) => token,
                None => api_token::load_or_create(&self.data)?.0,
            };
            Ok(Access::Tokens {
                operator: Some(Token::new(token)),
                stored: Arc::new(TokenFile::new(&self.data)),
            })
        };
        let PreparedDaemon {
            store,
            runtime,
            wire,
            mut settings,
            is_demonstration,
        } = options.open(access).await?;
        if is_demonstration && self.purpose == ConnectionPurpose::RunTurns {
            note(model::DEMONSTRATION);
        }
        settings.resumes_open_turns = false;
        settings.grace = GRACE;
        // Other commands may queue tasks with this daemon; only `windlass serve` runs them.
        let jobs = settings.jobs.take();
        settings.jobs = jobs
            .filter(|_| self.purpose != ConnectionPurpose::Maintain)
            .map(|jobs| JobSettings {
                runs_jobs: false,
                ..jobs
            });
        if self.purpose == ConnectionPurpose::RunTurns {
            // Other commands can connect too, and reconnect when this process ends.
            settings.unix_sockets.extend(daemon::own_socket(&self.data));
        }
        let server = ApiServer::without_port(runtime, settings, Arc::new(wire)).await?;
        let inside = server.in_process();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            let stop = async { stopped.await.unwrap_or_default() };
            server.run(stop).await;
        });
        let api = Arc::new(inside.api());
        let daemon = InProcessDaemon {
            inside,
            store,
            stop,
            running,
        };
        Ok((api, Some(daemon)))
    }
}

impl DaemonConnection {
    /// Connects to the daemon of a data directory.
    pub(crate) async fn open(target: DaemonTarget) -> Result<Self> {
        let (api, in_process) = target.connect().await?;
        Ok(Self {
            target,
            api: RwLock::new(api),
            in_process: Mutex::new(in_process),
        })
    }

    /// Connects to a stub API instead of a daemon.
    #[cfg(test)]
    pub(crate) fn to_stub(api: Api) -> Arc<Self> {
        let (data, workspace) = (PathBuf::new(), PathBuf::new());
        Arc::new(Self {
            target: DaemonTarget::new(data, workspace, None, ConnectionPurpose::Maintain),
            api: RwLock::new(api),
            in_process: Mutex::default(),
        })
    }

    /// Returns the API of the current daemon.
    pub(crate) fn api(&self) -> Api {
        let api = self.api.read();
        Arc::clone(&api.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the daemon runs in this process.
    pub(crate) async fn is_in_process(&self) -> bool {
        self.in_process.lock().await.is_some()
    }

    /// Rejects a model that the daemon cannot use, as when the command starts.
    pub(crate) async fn check_model(&self, name: &str) -> Result<()> {
        if !self.is_in_process().await {
            let target = DaemonTarget {
                model: Some(name.to_owned()),
                ..self.target.clone()
            };
            return target.check_model(&*self.api()).await;
        }
        let config = config::load(self.target.config.as_deref(), &self.target.data)?;
        model::choose(Some(name), &config, |name| std::env::var(name).ok())?;
        Ok(())
    }

    /// Checks the connection, and reconnects if necessary, before a request that must not be repeated.
    pub(crate) async fn ensure_connected(&self) -> Result<()> {
        if self.answers().await? {
            Ok(())
        } else {
            self.reconnect().await
        }
    }

    /// Sends a cheap request; `false` if the daemon is gone.
    async fn answers(&self) -> Result<bool> {
        match environments(&*self.api()).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_lost() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reconnects after the daemon is gone: to a restarted daemon, else to a new in-process one.
    pub(crate) async fn reconnect(&self) -> Result<()> {
        let mut in_process = self.in_process.lock().await;
        // Another task of this process may have reconnected already.
        if self.answers().await? {
            return Ok(());
        }
        ensure!(in_process.is_none(), "the daemon of this process has ended");
        let (api, started) = match self.target.find_restarted().await? {
            Some(api) => (api, None),
            None => self.target.connect().await?,
        };
        self.set_api(api);
        *in_process = started;
        Ok(())
    }

    /// Connects to a restarted daemon; `false` if there is none.
    pub(crate) async fn reconnect_to_restarted(&self) -> Result<bool> {
        let found = self.target.find_restarted().await?;
        let is_found = found.is_some();
        found.into_iter().for_each(|api| self.set_api(api));
        Ok(is_found)
    }

    fn set_api(&self, api: Api) {
        *self.api.write().unwrap_or_else(PoisonError::into_inner) = api;
    }

    /// Shuts down an in-process daemon once no other command uses it. A running turn is released and continues when its thread is resumed.
    pub(crate) async fn close(&self) {
        self.end(true).await;
    }

    /// Shuts down without waiting for other commands, because the user wants to quit.
    pub(crate) async fn close_now(&self) {
        self.end(false).await;
    }

    async fn end(&self, waits: bool) {
        if let Some(daemon) = self.in_process.lock().await.take() {
            if waits {
                daemon.wait_for_guests().await;
            }
            let _ = daemon.stop.send(());
            let _ = daemon.running.await;
            daemon.store.close().await;
        }
    }

    /// Returns the daemon's default working directory.
    pub(crate) async fn workspace(&self) -> Result<PathBuf> {
        let there = environments(&*self.api()).await?;
        let local = there.into_iter().find(|it| it.id == "local");
        Ok(local.map(|it| it.root).unwrap_or_default())
    }

    /// Returns the environment whose root is `root`, or creates one. A configured environment takes precedence; a new one gets the network policy of
    /// the workspace.
    pub(crate) async fn environment(&self, root: &Path) -> Result<String> {
        let root = root
            .canonicalize()
            .with_context(|| format!("cannot work in {}", printable(root)))?;
        ensure!(
            root.to_str().is_some(),
            "cannot work in {}: its name is not UTF-8, and records are; rename it, or work in a parent directory",
            printable(&root)
        );
        let api = self.api();
        let there = environments(&*api).await?;
        let (workspace, others): (Vec<_>, Vec<_>) = there.iter().partition(|it| it.id == "local");
        let configured = others.iter().filter(|it| it.protected);
        // The environment `local` matches if no configured environment does.
        let mut configured = configured.chain(&workspace);
        if let Some(configured) = configured.find(|it| it.root == root) {
            return Ok(configured.id.clone());
        }
        let workspace = workspace.first();
        let policy = EnvironmentPolicy {
            network: workspace.map(|it| it.policy.network).unwrap_or_default(),
            ..EnvironmentPolicy::default()
        };
        let digest = Digest128::hash(root.as_os_str().as_encoded_bytes()).to_string();
        let id = match policy.network {
            NetworkPolicy::Inherit => format!("dir-{}", &digest[..16]),
            NetworkPolicy::None => format!("dir-{}-offline", &digest[..16]),
            NetworkPolicy::Filtered => format!("dir-{}-filtered", &digest[..16]),
        };
        let request = CreateEnvironment {
            id: id.clone(),
            kind: None,
            root: root.clone(),
            policy,
        };
        match api.create_environment(Call::new((), request)).await {
            Ok(_) => Ok(id),
            Err(error) if error.code() == Some(ErrorCode::EnvironmentExists) => {
                let there = api.get_environment(Call::new(by_id(&id), ())).await?;
                // Another client may have created a different environment with this name.
                ensure!(
                    there.root == root && there.policy == policy,
                    "the environment {id} does not match {}: its root is {}, or its policy differs; remove it with DELETE /v1/environments/{id}",
                    printable(&root),
                    printable(&there.root)
                );
                Ok(id)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl InProcessDaemon {
    /// Waits for the turns of other commands that use this process's daemon. Ctrl-C stops the wait.
    async fn wait_for_guests(&self) {
        if !self.inside.serves_other_processes().await {
            return;
        }
        note(
            "another windlass command is using this process's daemon; waiting for it to finish (Ctrl-C to quit)",
        );
        tokio::select! {
            () = self.inside.other_processes_served() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

/// Returns the description of the daemon that runs on a data directory, which needs no token; `None` if there is none.
pub(crate) async fn running_daemon(data: &Path) -> Result<Option<RuntimeInfo>> {
    let Some(socket) = socket_of(data)? else {
        return Ok(None);
    };
    let client = Client::new(UnixConnector::new(socket), None).without_reconnect();
    match client.get_runtime_info(Call::new((), ())).await {
        Ok(info) => Ok(Some(info)),
        // The daemon is gone; its socket may remain.
        Err(error) if error.is_lost() => Ok(None),
        Err(error) => Err(error).context("the running daemon cannot be used"),
    }
}

/// Returns the socket of a data directory, if there is one. Its creator receives secrets, so the directory must belong to this user.
fn socket_of(data: &Path) -> Result<Option<PathBuf>> {
    let Some(socket) = daemon::own_socket(data).filter(|socket| socket.exists()) else {
        return Ok(None);
    };
    modes::repair(data);
    data::check_owner(data)?;
    Ok(Some(socket))
}

/// Returns the token of the daemon of a data directory.
fn token_of(data: &Path) -> Option<String> {
    access::from_environment().or_else(|| {
        let file = own_file::read(&data.join(api_token::FILE)).ok().flatten();
        file.map(|file| file.text.trim().to_owned())
    })
}

fn is_locked(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| matches!(cause.downcast_ref(), Some(SqliteError::Locked { .. })))
}

/// Describes an API error, with advice for the user of the command.
pub(crate) fn describe_api_error(error: &CallError) -> String {
    if let Some(paths) = cut_off(error) {
        return format!(
            "a crash cut off a call, which may have changed these files: {paths}; nothing was restored: inspect them and repeat \
             `windlass threads rewind ID --files` with --cut-off, or rewind without --files"
        );
    }
    let message = error.to_string();
    let message = without_code(&message);
    match error.code() {
        Some(ErrorCode::DepthOutOfRange) => "the thread does not have that many turns".to_owned(),
        Some(code) => format!("{message} ({code})"),
        None => message.to_owned(),
    }
}

/// The details of a refusal to restore files that an interrupted call may have changed.
#[derive(Deserialize)]
struct CutOff {
    cut_off: bool,
    paths: Vec<String>,
    count: usize,
}

/// Returns the files that an interrupted call may have changed, if they are the reason of the error.
fn cut_off(error: &CallError) -> Option<String> {
    let CallError::Refused(body) = error else {
        return None;
    };
    let details = CutOff::deserialize(body.error.details.as_ref()?).ok()?;
    let paths = details.paths.join(", ");
    match details.count.saturating_sub(details.paths.len()) {
        _ if !details.cut_off => None,
        0 => Some(paths),
        more => Some(format!("{paths} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_protocol::ErrorBody;

    use super::*;

    #[test]
    fn advice_about_a_cut_off_call_names_the_flag() {
        let refused = |details| {
            let code = ErrorCode::FilesChanged;
            let body = ErrorBody::new(code, "ask again with `cut_off`", Some(details));
            describe_api_error(&CallError::Refused(Box::new(body)))
        };
        let error = refused(json!({ "paths": ["a", "b"], "count": 3, "cut_off": true }));
        assert!(error.contains(": a, b and 1 more; "), "{error}");
        assert!(error.contains("with --cut-off"), "{error}");
        assert!(!error.contains("cut_off"), "{error}");
        let error = refused(json!({ "paths": ["a"], "count": 1 }));
        assert!(error.ends_with("(files_changed)"), "{error}");
    }
}
