//! `windlass serve`: the daemon.

pub(crate) mod access;
mod token_flag;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use tracing_subscriber::filter::LevelFilter;
use windlass_runtime::{OnLostCommits, RecoveryPolicy, SqliteStore};
use windlass_server::{ApiServer, TokenFile, check_unix_socket, listen};

use crate::cli::{note, or_current};
use crate::config;
use crate::config_flags::ConfigFlags;
use crate::daemon::{self, ConfigSource, Daemon, DaemonOptions};
use crate::log::{self, LogFormat};
use crate::model;
use crate::{data, data_modes, sandbox};

/// Serves the Runtime API over HTTP and SSE, and run tracing over WebSocket.
#[derive(Args)]
pub(crate) struct Serve {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The port to listen on; 0 picks a free one.
    #[arg(long, default_value_t = 7878)]
    port: u16,
    /// The token that clients must show.
    #[arg(long, visible_alias = "auth-token", value_name = "T", conflicts_with_all = ["token_file", "insecure"])]
    token: Option<String>,
    /// A file with the token that clients must show.
    #[arg(long, value_name = "F", conflicts_with = "insecure")]
    token_file: Option<PathBuf>,
    /// Asks nobody for a token. Only on a loopback address.
    #[arg(long, visible_alias = "insecure-no-auth")]
    insecure: bool,
    /// Lets web pages of this origin in, beside the usual ones.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    cors_origins: Vec<String>,
    /// Answers requests for this name too, beside addresses and `localhost`; a proxy may pass on its own.
    #[arg(long = "allow-host", value_name = "NAME")]
    allowed_hosts: Vec<String>,
    /// The directory that keeps threads, environments and tokens [default: the user's own, under
    /// `$XDG_STATE_HOME/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    #[command(flatten)]
    flags: ConfigFlags,
    /// A Unix socket to listen on beside the port; only its owner may connect.
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// What becomes of turns that an earlier daemon left behind.
    #[arg(long, value_name = "WHAT", default_value = "resume")]
    on_restart: OnRestart,
    /// Starts although commits are missing that were acknowledged, such as after an older database was put back. Threads may
    /// end earlier than somebody has seen.
    #[arg(long)]
    accept_lost_commits: bool,
    /// What is written to stderr: off, error, warn, info, debug or trace; every request is told at debug.
    #[arg(
        long,
        value_name = "LEVEL",
        env = "WINDLASS_LOG",
        default_value = "info",
        value_parser = level
    )]
    log: LevelFilter,
    /// How it is written.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Does nothing: HTTP is always served. Clients of the original pass it.
    #[arg(long, hide = true)]
    http: bool,
    /// Serves a page for phones. It is not built yet, so it has no effect, and no other address is listened on.
    #[arg(long, hide = true)]
    mobile: bool,
}

/// Parses a log level.
fn level(text: &str) -> Result<LevelFilter, String> {
    let read = text.parse();
    read.map_err(|_| "write off, error, warn, info, debug or trace".to_owned())
}

/// What becomes of turns that an earlier daemon left behind.
#[derive(Clone, Copy, ValueEnum)]
enum OnRestart {
    /// They go on from the last recorded step.
    Resume,
    /// They end; what is finished is kept.
    Interrupt,
}

impl From<OnRestart> for RecoveryPolicy {
    fn from(on_restart: OnRestart) -> Self {
        match on_restart {
            OnRestart::Resume => Self::Resume,
            OnRestart::Interrupt => Self::Interrupt,
        }
    }
}

impl Serve {
    pub(crate) async fn run(
        self,
        workspace: Option<PathBuf>,
        named_config: Option<&Path>,
    ) -> anyhow::Result<()> {
        if let Some(token) = self.token.as_ref().filter(|token| !token.trim().is_empty()) {
            let failed = token_flag::begin_again_without(token);
            failed.context("cannot begin again without the token; use --token-file")?;
        }
        let workspace = or_current(workspace)?;
        log::begin(self.log, self.log_format);
        self.tell_what_has_no_effect();
        let directory = data::directory(self.data.clone())?;
        data::check(&directory)?;
        data_modes::mend(&directory);
        let layers = config::layers(named_config, &directory)?;
        let config = layers.config()?;
        config::warn_of_unknown_tools(&config);
        let book = Arc::new(TokenFile::new(&directory));
        let access = self.access(&book)?;
        if let Some(socket) = &self.unix_socket {
            check_unix_socket(socket)?;
        }
        daemon::leftovers::end_before_listening(&directory);
        // Binds the port before it opens the data: a daemon without a port does not touch the data.
        let listener = listen(&self.host, self.port).await?;
        let own_files = [
            self.token_file.as_deref(),
            named_config,
            self.unix_socket.as_deref(),
        ];
        let options = DaemonOptions {
            data: &directory,
            workspace,
            config: &config,
            source: Some(ConfigSource {
                named: named_config.map(Path::to_owned),
                layers,
            }),
            model: self.flags.model.as_deref(),
            secrets_key_file: self.flags.secrets_key_file.as_deref(),
            own_files: own_files.into_iter().flatten().collect(),
            has_agents: !self.insecure,
            recovery: self.on_restart.into(),
            on_lost_commits: self.on_lost_commits(),
        };
        let daemon = options.open().await?;
        if daemon.is_demonstration {
            note(model::DEMONSTRATION);
        }
        // Only after the data directory is locked, so that another daemon's token file is not touched.
        let access = access.map_or_else(|| access::made(&directory, &book), Ok)?;
        let mut settings = daemon.settings(access);
        let mut jobs = daemon.jobs.clone();
        if let Some(workers) = self.flags.workers {
            jobs.tasks.workers = usize::from(workers);
        }
        settings.jobs = Some(jobs);
        settings.host = self.host;
        settings.allowed_hosts = self.allowed_hosts;
        settings.cors_origins = self.cors_origins;
        settings.cors_origins.extend(origins_from_environment());
        settings.unix_sockets.extend(self.unix_socket);
        match daemon::own_socket(&directory) {
            // A sandbox does not block every socket, and this server would require no token.
            _ if self.insecure => {
                note(
                    "warning: --insecure: no token is asked for, so every program and user of this machine can give the agent work and allow its calls; \
                     leave the flag out to have a token made",
                );
                note(
                    "--insecure: other commands do not find this daemon by the data, and it holds the data alone",
                );
            }
            Some(socket) => settings.unix_sockets.push(socket),
            None => note(
                "the path of the data is too long for a socket: other commands do not find this daemon",
            ),
        }
        settings.rpc.default_agent = std::env::var("CAR_AGENT_ID")
            .ok()
            .filter(|name| !name.trim().is_empty());
        let Daemon {
            store,
            runtime,
            wire,
            ..
        } = daemon;
        let sandbox = sandbox::found(&settings.shell.ways);
        sandbox::warn_of_gaps(&settings.shell.ways);
        let server = ApiServer::on(listener, runtime, settings, Arc::new(wire)).await?;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            data = %directory.display(),
            address = server.address().map(tracing::field::display),
            model = server.default_model(),
            sandbox,
            resumed_turns = server.resumed_turns(),
            "windlass has started"
        );
        let begun = begin(&server);
        tell_of_damage(&store);
        // Turns may be running from here on, so a failed start also shuts down in order.
        let begun = match begun {
            Ok(stop) => {
                server.run(stop).await;
                Ok(())
            }
            Err(error) => {
                server.run(std::future::ready(())).await;
                Err(error)
            }
        };
        store.close().await;
        begun
    }
}

/// Announces the server's address and returns a future that resolves when the server must stop.
fn begin(server: &ApiServer) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let stop = asked_to_stop()?;
    if let Some(address) = server.address() {
        announce(&format!("windlass listening on http://{address}"))?;
    }
    Ok(stop)
}

impl Serve {
    /// Clients pass flags of the original program for features that do not exist yet; this warns the operator.
    fn tell_what_has_no_effect(&self) {
        if self.mobile {
            note("--mobile has no effect: this version has no page for phones");
        }
    }
}

impl Serve {
    fn on_lost_commits(&self) -> OnLostCommits {
        if self.accept_lost_commits {
            OnLostCommits::Accept
        } else {
            OnLostCommits::Refuse
        }
    }
}

/// Reports a damaged database; the check runs in the background.
fn tell_of_damage(store: &SqliteStore) {
    let store = store.clone();
    tokio::spawn(async move {
        if let Err(error) = store.checked().await {
            tracing::error!(%error, "nothing is written any more");
        }
    });
}

/// Lists of origins from several variables and from the command line are merged.
fn origins_from_environment() -> Vec<String> {
    let names = [
        "WINDLASS_CORS_ORIGINS",
        "CODEWHALE_CORS_ORIGINS",
        "DEEPSEEK_CORS_ORIGINS",
    ];
    let lists: Vec<String> = names
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .collect();
    let origins = lists.iter().flat_map(|list| list.split(','));
    let origins = origins.map(str::trim).filter(|origin| !origin.is_empty());
    origins.map(str::to_owned).collect()
}

/// Prints the one line with the address to connect to.
fn announce(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

/// Waits for the first stop signal. A second one exits immediately.
fn asked_to_stop() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        note("stopping; a second signal stops at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            std::process::exit(130);
        });
    })
}
