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
};
use windlass_runtime::{OnLostCommits, RecoveryPolicy, SqliteStore};
use windlass_server::{Access, ApiServer, InProcessHandle, JobSettings, Token, TokenFile};
use windlass_store::SqliteError;

use crate::calls::{by_id, environments};
use crate::cli::{note, or_current, printable};
use crate::commands::serve::access;
use crate::config;
use crate::daemon::{self, Daemon, DaemonOptions, made_token, secrets_key};
use crate::{backends, data, data_modes, demonstration, model, own_file};

/// Number of attempts to reach a daemon that is starting.
const TRIES: u32 = 20;
/// Number of attempts to find a restarted daemon before the command starts an in-process one.
const TRIES_AGAIN: u32 = 8;
/// Delay between attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// How long an in-process daemon may take to shut down. Running turns are recorded up to that point.
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
    pub(crate) purpose: Purpose,
    /// The external agent that runs the turns, if the command line names one.
    pub(crate) backend: Option<String>,
}

/// Why a command needs the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To run turns. Other commands may use the same daemon.
    Work,
    /// To read or maintain the data. An in-process daemon ends so soon that other commands must not find it.
    Look,
    /// To add and list jobs. An in-process daemon only stores them; the daemon of `windlass serve` runs them.
    Queue,
}

type Api = Arc<dyn RuntimeApi>;

/// A connection to a daemon that can be re-established with the next one.
pub(crate) struct DaemonConnection {
    target: DaemonTarget,
    api: RwLock<Api>,
    /// The in-process daemon, if there is one.
    own: Mutex<Option<OwnDaemon>>,
}

struct OwnDaemon {
    inside: InProcessHandle,
    store: SqliteStore,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl DaemonTarget {
    /// Targets the data for reading or maintenance; no model is needed.
    pub(crate) fn to_look(data: PathBuf, config: Option<&Path>) -> Result<Self> {
        Ok(Self {
            data,
            config: config.map(Path::to_owned),
            model: Some("sim".to_owned()),
            workspace: or_current(None)?,
            purpose: Purpose::Look,
            backend: None,
        })
    }

    /// Targets the data for adding or listing jobs.
    pub(crate) fn to_queue(data: PathBuf, workspace: PathBuf, config: Option<&Path>) -> Self {
        let model = std::env::var("WINDLASS_MODEL").ok();
        Self {
            data,
            config: config.map(Path::to_owned),
            model: model.filter(|model| !model.trim().is_empty()),
            workspace,
            purpose: Purpose::Queue,
            backend: None,
        }
    }

    /// Connects to the running daemon, or starts an in-process one.
    async fn daemon(&self) -> Result<(Api, Option<OwnDaemon>)> {
        for _ in 0..TRIES {
            if let Some(api) = self.running().await? {
                if self.config.is_some() {
                    note(
                        "another process works on this data already, and its configuration counts: --config is not read",
                    );
                }
                if self.purpose == Purpose::Work {
                    self.check_model(&*api).await?;
                }
                return Ok((api, None));
            }
            // The future of a complete daemon is large.
            match Box::pin(self.own()).await {
                Err(error) if is_locked(&error) => tokio::time::sleep(PAUSE).await,
                reached => return reached,
            }
        }
        bail!(
            "another process works on {} and cannot be spoken to (a daemon with --insecure never can); end it, or name other data with --data",
            printable(&self.data)
        )
    }

    /// Rejects a model that a separate daemon cannot use. If that daemon has no model configured, its demonstration would answer under this name,
    /// whatever keys this process has.
    async fn check_model(&self, api: &dyn RuntimeApi) -> Result<()> {
        // A token without permission to read the configuration gets no advice about it.
        let config = api.get_config(Call::new((), ())).await;
        if !config.is_ok_and(|config| config.model == demonstration::NAME) {
            return Ok(());
        }
        let built_in = ["sim", demonstration::NAME];
        let provider = |name: &&str| {
            name.split('/')
                .next()
                .is_some_and(|it| !built_in.contains(&it))
        };
        if let Some(name) = self.model.as_deref().filter(provider) {
            bail!(
                "the process that works on {} has no model set up, so `{name}` cannot be asked there; end it, or name other data with --data",
                printable(&self.data)
            );
        }
        note(
            "the process that works on this data has no model set up: its demonstration model answers, whatever keys are set here",
        );
        Ok(())
    }

    /// Connects to the daemon that runs on the data; `None` if there is none.
    async fn running(&self) -> Result<Option<Api>> {
        let Some(socket) = daemon::own_socket(&self.data) else {
            return Ok(None);
        };
        if !socket.exists() {
            return Ok(None);
        }
        // The token is sent to the creator of the socket, so the directory must belong to this user.
        data_modes::mend(&self.data);
        data::is_own(&self.data)?;
        let client =
            Client::new(UnixConnector::new(socket), token_of(&self.data)).without_reconnect();
        match environments(&client).await {
            Ok(_) => Ok(Some(Arc::new(client))),
            // The daemon is gone; its socket may remain.
            Err(error) if error.is_lost() => Ok(None),
            Err(error) if error.code() == Some(ErrorCode::Unauthorized) => {
                Err(error).context(format!(
                    "a daemon runs on {} and asks for a token of its own; put it into {}",
                    printable(&self.data),
                    access::TOKEN_VARIABLE
                ))
            }
            Err(error) => Err(error).context("the daemon that runs cannot be used"),
        }
    }

    /// Waits for the operator or a supervisor to restart the daemon; `None` if that does not happen.
    async fn started_again(&self) -> Result<Option<Api>> {
        for _ in 0..TRIES_AGAIN {
            if let Some(api) = self.running().await? {
                return Ok(Some(api));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(None)
    }

    /// Starts an in-process daemon. Turns that other processes left open stay open until their thread is resumed.
    async fn own(&self) -> Result<(Api, Option<OwnDaemon>)> {
        data::check(&self.data)?;
        data_modes::mend(&self.data);
        let mut config = config::load(self.config.as_deref(), &self.data)?;
        if let Some(name) = &self.backend {
            backends::check_installed(name, &config)?;
        }
        if self.purpose != Purpose::Work {
            // No tool runs, so the programs and secrets of tools are not needed.
            config.mcp_servers.clear();
            config.secrets.clear();
        } else {
            config::warn_of_unknown_tools(&config);
        }
        let secrets_key_file = secrets_key::named();
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
        let daemon = options.open().await?;
        if daemon.is_demonstration && self.purpose == Purpose::Work {
            note(model::DEMONSTRATION);
        }
        let token = match access::from_environment() {
            Some(token) => token,
            None => made_token::kept(&self.data)?.0,
        };
        let stored = Arc::new(TokenFile::new(&self.data));
        let operator = Some(Token::new(token));
        let mut settings = daemon.settings(Access::Tokens { operator, stored });
        settings.resumes_open_turns = false;
        settings.grace = GRACE;
        // Other commands may queue tasks with this daemon; only `windlass serve` runs them.
        if self.purpose != Purpose::Look {
            settings.jobs = Some(JobSettings {
                runs_jobs: false,
                ..daemon.jobs.clone()
            });
        }
        if self.purpose == Purpose::Work {
            // Other commands can connect too, and reconnect when this process ends.
            settings.unix_sockets.extend(daemon::own_socket(&self.data));
        }
        let Daemon {
            store,
            runtime,
            wire,
            ..
        } = daemon;
        let server = ApiServer::without_port(runtime, settings, Arc::new(wire)).await?;
        let inside = server.in_process();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            server
                .run(async {
                    let _ = stopped.await;
                })
                .await;
        });
        let api = inside.api();
        let own = OwnDaemon {
            inside,
            store,
            stop,
            running,
        };
        Ok((Arc::new(api), Some(own)))
    }
}

impl DaemonConnection {
    /// Connects to the daemon of a data directory.
    pub(crate) async fn open(target: DaemonTarget) -> Result<Self> {
        let (api, own) = target.daemon().await?;
        Ok(Self {
            target,
            api: RwLock::new(api),
            own: Mutex::new(own),
        })
    }

    /// Connects to a stub API instead of a daemon.
    #[cfg(test)]
    pub(crate) fn to_stub(api: Api) -> Arc<Self> {
        let target = DaemonTarget {
            data: PathBuf::new(),
            config: None,
            model: None,
            workspace: PathBuf::new(),
            purpose: Purpose::Look,
            backend: None,
        };
        Arc::new(Self {
            target,
            api: RwLock::new(api),
            own: Mutex::default(),
        })
    }

    /// Returns the API of the current daemon.
    pub(crate) fn api(&self) -> Api {
        let api = self.api.read();
        Arc::clone(&api.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the daemon runs in this process.
    pub(crate) async fn is_own(&self) -> bool {
        self.own.lock().await.is_some()
    }

    /// Rejects a model that the daemon cannot use, by the same rule as for the model at the start.
    pub(crate) async fn check_model(&self, name: &str) -> Result<()> {
        if !self.is_own().await {
            let named = DaemonTarget {
                model: Some(name.to_owned()),
                ..self.target.clone()
            };
            return named.check_model(&*self.api()).await;
        }
        let config = config::load(self.target.config.as_deref(), &self.target.data)?;
        model::choose(Some(name), &config, |name| std::env::var(name).ok())?;
        Ok(())
    }

    /// Checks the connection, and reconnects if necessary, before a request that must not be repeated.
    pub(crate) async fn is_there(&self) -> Result<()> {
        if self.answers().await? {
            Ok(())
        } else {
            self.again().await
        }
    }

    /// Sends a cheap request; `false` if the daemon is gone.
    async fn answers(&self) -> Result<bool> {
        match environments(&*self.api()).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_lost() => Ok(false),
            Err(error) => Err(explained(error)),
        }
    }

    /// Reconnects after the daemon is gone: to a restarted daemon, else to a new in-process one.
    pub(crate) async fn again(&self) -> Result<()> {
        let mut own = self.own.lock().await;
        // Another task of this process may have reconnected already.
        if self.answers().await? {
            return Ok(());
        }
        ensure!(own.is_none(), "the daemon of this process has ended");
        let (api, brought_up) = match self.target.started_again().await? {
            Some(api) => (api, None),
            None => self.target.daemon().await?,
        };
        self.set_api(api);
        *own = brought_up;
        Ok(())
    }

    /// Connects to a restarted daemon; `false` if there is none.
    pub(crate) async fn is_started_again(&self) -> Result<bool> {
        let found = self.target.started_again().await?;
        let is_found = found.is_some();
        found.into_iter().for_each(|api| self.set_api(api));
        Ok(is_found)
    }

    fn set_api(&self, api: Api) {
        *self.api.write().unwrap_or_else(PoisonError::into_inner) = api;
    }

    /// Shuts down an in-process daemon once no other command uses it. A running turn is released and continues when its thread is resumed.
    pub(crate) async fn leave(&self) {
        self.end(true).await;
    }

    /// Shuts down without waiting for other commands, because the user wants to quit.
    pub(crate) async fn leave_at_once(&self) {
        self.end(false).await;
    }

    async fn end(&self, waits: bool) {
        if let Some(own) = self.own.lock().await.take() {
            if waits {
                own.wait_for_guests().await;
            }
            let _ = own.stop.send(());
            let _ = own.running.await;
            own.store.close().await;
        }
    }

    /// Returns the daemon's default working directory.
    pub(crate) async fn workspace(&self) -> Result<PathBuf> {
        let there = environments(&*self.api()).await.map_err(explained)?;
        let local = there.into_iter().find(|it| it.id == "local");
        Ok(local.map(|it| it.root).unwrap_or_default())
    }

    /// Returns the environment whose root is `root`, or creates one. A configured environment takes precedence; a new one gets the network policy of
    /// the workspace.
    pub(crate) async fn environment(&self, root: &Path) -> Result<String> {
        let root = root
            .canonicalize()
            .with_context(|| format!("{} cannot be worked in", printable(root)))?;
        ensure!(
            root.to_str().is_some(),
            "{} cannot be worked in: its name is not UTF-8, which no record can hold; rename it, or work above it",
            printable(&root)
        );
        let api = self.api();
        let there = environments(&*api).await.map_err(explained)?;
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
        let digest = Digest128::of(root.as_os_str().as_encoded_bytes()).to_string();
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
                let there = api.get_environment(Call::new(by_id(&id), ())).await;
                let there = there.map_err(explained)?;
                // Another client may have created a different environment with this name.
                ensure!(
                    there.root == root && there.policy == policy,
                    "the environment {id} is not the one for {}: its root is {}, or it has a policy of its own; remove it with DELETE /v1/environments/{id}",
                    printable(&root),
                    printable(&there.root)
                );
                Ok(id)
            }
            Err(error) => Err(explained(error)),
        }
    }
}

impl OwnDaemon {
    /// Waits for the turns of other commands that use this process's daemon. Ctrl-C stops the wait.
    async fn wait_for_guests(&self) {
        if !self.inside.serves_other_processes().await {
            return;
        }
        note(
            "another command works on the same data by this process, which waits for it; Ctrl-C leaves",
        );
        tokio::select! {
            () = self.inside.other_processes_served() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

/// Returns the token of the daemon of a data directory.
fn token_of(data: &Path) -> Option<String> {
    access::from_environment().or_else(|| {
        let kept = own_file::read(&data.join(made_token::FILE)).ok().flatten();
        kept.map(|file| file.text.trim().to_owned())
    })
}

fn is_locked(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| matches!(cause.downcast_ref(), Some(SqliteError::Locked { .. })))
}

/// Translates an API error to advice for the user of the command.
pub(crate) fn explained(error: CallError) -> anyhow::Error {
    if let Some(paths) = cut_off(&error) {
        return anyhow::anyhow!(
            "a call was cut off when Windlass died, and nobody knows whether all of this is its doing: {paths}; nothing was \
             restored: look at it, and take it back with `windlass threads rewind ID --files --cut-off`, or rewind without --files"
        );
    }
    match error.code() {
        Some(ErrorCode::DepthOutOfRange) => {
            anyhow::anyhow!("the thread does not have so many turns to take back")
        }
        Some(code) => anyhow::anyhow!("{error} ({code})"),
        None => error.into(),
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
    fn what_a_cut_off_call_did_is_taken_back_by_a_flag_and_not_by_a_field() {
        let refused = |details| {
            let code = ErrorCode::FilesChanged;
            let body = ErrorBody::new(code, "ask again with `cut_off`", Some(details));
            explained(CallError::Refused(Box::new(body))).to_string()
        };
        let told = refused(json!({ "paths": ["a", "b"], "count": 3, "cut_off": true }));
        assert!(told.contains(": a, b and 1 more; "), "{told}");
        assert!(told.contains("--files --cut-off"), "{told}");
        assert!(!told.contains("cut_off"), "{told}");
        let told = refused(json!({ "paths": ["a"], "count": 1 }));
        assert!(told.ends_with("(files_changed)"), "{told}");
    }
}
