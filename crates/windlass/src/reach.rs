//! The daemon that a command speaks to: the one that runs on the data directory, else one that lives inside of the command for as long as that
//! does. Either way the command uses its Runtime API.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use windlass_client::{Client, ToSocket};
use windlass_core::digest::Digest128;
use windlass_protocol::{
    Call, CallError, CreateEnvironment, EnvironmentPolicy, ErrorCode, NetworkPolicy, RuntimeApi,
};
use windlass_runtime::{OnLostCommits, RecoveryPolicy, SqliteStore};
use windlass_server::{Access, Inside, Server, Token, TokenBook, WorkSettings};
use windlass_store::SqliteError;

use crate::calls::{by_id, environments};
use crate::cli::{note, or_current, printable};
use crate::commands::serve::access;
use crate::config;
use crate::daemon::{self, Daemon, DaemonOptions, made_token, secrets_key};
use crate::{backends, data, data_modes, demonstration, model, own_file};

/// How often a daemon that is starting is looked for.
const TRIES: u32 = 20;
/// How often the next daemon is looked for when one is gone, before the command works by itself: somebody may start it again.
const TRIES_AGAIN: u32 = 8;
/// How long to wait before the next look.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a daemon inside of a command may take to end; what runs then is recorded as far as it is.
const GRACE: Duration = Duration::from_secs(5);

/// How to reach the daemon of a data directory.
#[derive(Clone)]
pub(crate) struct Reach {
    /// The data directory.
    pub(crate) data: PathBuf,
    /// The configuration that was named.
    pub(crate) config: Option<PathBuf>,
    /// The model that answers, where a daemon of our own is needed.
    pub(crate) model: Option<String>,
    /// Where that daemon works when nobody says where.
    pub(crate) workspace: PathBuf,
    /// What for.
    pub(crate) purpose: Purpose,
    /// The agent of others that is to do the work, if one was named.
    pub(crate) backend: Option<String>,
}

/// What the daemon of a data directory is reached for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To carry turns. Other commands may use the same daemon.
    Work,
    /// To look at the data, or to put it in order. A daemon of our own is gone so soon that nobody else may find it.
    Look,
    /// To queue work and to look at it. A daemon of our own keeps it, and leaves it to the one that `windlass serve` starts.
    Queue,
}

/// The Runtime API of a daemon.
type Api = Arc<dyn RuntimeApi>;

/// The way to a daemon, and to the next one when that is gone.
pub(crate) struct Link {
    reach: Reach,
    api: RwLock<Api>,
    /// The daemon itself, where it lives in this process.
    own: Mutex<Option<OwnDaemon>>,
}

struct OwnDaemon {
    inside: Inside,
    store: SqliteStore,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Reach {
    /// Reaches the data to look at it, or to put it in order; no model is asked.
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

    /// Reaches the data to queue work, or to look at it.
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

    /// Reaches the daemon that runs, or brings one up in this process.
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
            // A whole daemon is a large future.
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

    /// Refuses a model that the daemon of another process cannot ask: where it has none set up, its demonstration would answer under that name,
    /// whatever keys are set here.
    async fn check_model(&self, api: &dyn RuntimeApi) -> Result<()> {
        // A token that may not read the configuration gets no advice about it.
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

    /// Finds the daemon that runs on the data, if one does.
    async fn running(&self) -> Result<Option<Api>> {
        let Some(socket) = daemon::own_socket(&self.data) else {
            return Ok(None);
        };
        if !socket.exists() {
            return Ok(None);
        }
        // Whoever made the socket gets the token.
        data_modes::mend(&self.data);
        data::is_own(&self.data)?;
        let client = Client::new(ToSocket::new(socket), token_of(&self.data)).without_reconnect();
        match environments(&client).await {
            Ok(_) => Ok(Some(Arc::new(client))),
            // It went away, and left its socket or not.
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

    /// Finds the daemon that somebody starts instead of one that is gone.
    async fn started_again(&self) -> Result<Option<Api>> {
        for _ in 0..TRIES_AGAIN {
            if let Some(api) = self.running().await? {
                return Ok(Some(api));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(None)
    }

    /// Brings up a daemon in this process. Turns that others left open stay open until somebody resumes their thread.
    async fn own(&self) -> Result<(Api, Option<OwnDaemon>)> {
        data::check(&self.data)?;
        data_modes::mend(&self.data);
        let mut config = config::load(self.config.as_deref(), &self.data)?;
        if let Some(name) = &self.backend {
            backends::check_installed(name, &config)?;
        }
        if self.purpose != Purpose::Work {
            // No tool runs, so nothing that one needs has to be there.
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
        let stored = Arc::new(TokenBook::new(&self.data));
        let operator = Some(Token::new(token));
        let mut settings = daemon.settings(Access::Tokens { operator, stored });
        settings.resumes_open_turns = false;
        settings.grace = GRACE;
        // Other commands may queue tasks with it; only `windlass serve` runs them.
        if self.purpose != Purpose::Look {
            settings.work = Some(WorkSettings {
                carries_out: false,
                ..daemon.work.clone()
            });
        }
        if self.purpose == Purpose::Work {
            // Others find it too, and go on by themselves when it ends.
            settings.unix_sockets.extend(daemon::own_socket(&self.data));
        }
        let Daemon {
            store,
            runtime,
            wire,
            ..
        } = daemon;
        let server = Server::without_port(runtime, settings, Arc::new(wire)).await?;
        let inside = server.inside();
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

impl Link {
    /// Reaches the daemon of a data directory.
    pub(crate) async fn open(reach: Reach) -> Result<Self> {
        let (api, own) = reach.daemon().await?;
        Ok(Self {
            reach,
            api: RwLock::new(api),
            own: Mutex::new(own),
        })
    }

    /// Uses an API that stands in for a daemon.
    #[cfg(test)]
    pub(crate) fn to_stub(api: Api) -> Arc<Self> {
        let reach = Reach {
            data: PathBuf::new(),
            config: None,
            model: None,
            workspace: PathBuf::new(),
            purpose: Purpose::Look,
            backend: None,
        };
        Arc::new(Self {
            reach,
            api: RwLock::new(api),
            own: Mutex::default(),
        })
    }

    /// Returns the API of the daemon that was reached last.
    pub(crate) fn api(&self) -> Api {
        let api = self.api.read();
        Arc::clone(&api.unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells whether the daemon lives in this process.
    pub(crate) async fn is_own(&self) -> bool {
        self.own.lock().await.is_some()
    }

    /// Refuses a model that cannot be asked, by the same rule as one that was named at the start.
    pub(crate) async fn check_model(&self, name: &str) -> Result<()> {
        if !self.is_own().await {
            let named = Reach {
                model: Some(name.to_owned()),
                ..self.reach.clone()
            };
            return named.check_model(&*self.api()).await;
        }
        let config = config::load(self.reach.config.as_deref(), &self.reach.data)?;
        model::choose(Some(name), &config, |name| std::env::var(name).ok())?;
        Ok(())
    }

    /// Makes sure that a daemon is there before something is asked of it that must not be asked twice.
    pub(crate) async fn is_there(&self) -> Result<()> {
        match self.answers().await? {
            true => Ok(()),
            false => self.again().await,
        }
    }

    /// Asks the daemon something simple.
    async fn answers(&self) -> Result<bool> {
        match environments(&*self.api()).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_lost() => Ok(false),
            Err(error) => Err(explained(error)),
        }
    }

    /// Reaches another daemon, because the one that was reached is gone: that which is started instead of it, else one in this process.
    pub(crate) async fn again(&self) -> Result<()> {
        let mut own = self.own.lock().await;
        // Somebody else in this process may have come first.
        if self.answers().await? {
            return Ok(());
        }
        ensure!(own.is_none(), "the daemon of this process has ended");
        let (api, brought_up) = match self.reach.started_again().await? {
            Some(api) => (api, None),
            None => self.reach.daemon().await?,
        };
        self.set_api(api);
        *own = brought_up;
        Ok(())
    }

    /// Reaches the daemon that is started instead of one that is gone; `false` where nobody starts one.
    pub(crate) async fn is_started_again(&self) -> Result<bool> {
        let found = self.reach.started_again().await?;
        let is_found = found.is_some();
        found.into_iter().for_each(|api| self.set_api(api));
        Ok(is_found)
    }

    fn set_api(&self, api: Api) {
        *self.api.write().unwrap_or_else(PoisonError::into_inner) = api;
    }

    /// Ends the daemon, where it is our own, once no other command works with it. A turn that is at work is released, and goes on when somebody
    /// resumes its thread.
    pub(crate) async fn leave(&self) {
        self.end(true).await;
    }

    /// Ends it at once, because the person wants to be away.
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

    /// Returns the directory that the daemon works in where nobody names another.
    pub(crate) async fn workspace(&self) -> Result<PathBuf> {
        let there = environments(&*self.api()).await.map_err(explained)?;
        let local = there.into_iter().find(|it| it.id == "local");
        Ok(local.map(|it| it.root).unwrap_or_default())
    }

    /// Returns the environment whose root is a directory, and makes it where there is none. One that the operator has configured for it
    /// comes first; else its commands reach what those of the workspace do.
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
        // The workspace is what is meant where nothing more is said of it.
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
                // Somebody may have made another one of this name.
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
    /// Waits until the turns of other commands on the same data are done, which work by this process; Ctrl-C leaves at once.
    async fn wait_for_guests(&self) {
        if !self.inside.works_for_guests().await {
            return;
        }
        note(
            "another command works on the same data by this process, which waits for it; Ctrl-C leaves",
        );
        tokio::select! {
            () = self.inside.guests_served() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

/// Returns the token that opens the daemon of a data directory.
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

/// Says what a refusal means for whoever typed the command.
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

/// The details of a refusal to restore files that a call may have changed before it was cut off.
#[derive(Deserialize)]
struct CutOff {
    cut_off: bool,
    paths: Vec<String>,
    count: usize,
}

/// Names the files that a call may have changed before it was cut off, if that is why a request is refused.
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
