//! `windlass serve`: the daemon.

pub(crate) mod access;
mod token_flag;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use tracing_subscriber::filter::LevelFilter;
use windlass_runtime::{OnLostCommits, RecoveryPolicy, SqliteStore};
use windlass_server::{ApiServer, Logins, PublicUrl, TokenFile, check_unix_socket, listen};

use crate::cli::{GlobalOptions, note, or_current, set_variable};
use crate::commands::console::login_link;
use crate::config;
use crate::config::flags::ConfigFlags;
use crate::daemon::{self, ConfigSource, DaemonOptions, PreparedDaemon};
use crate::data::{self, modes};
use crate::log::{self, LogFormat};
use crate::model;
use crate::sandbox;

/// Serves the Runtime API over HTTP and SSE, and run tracing over WebSocket.
#[derive(Args)]
pub(crate) struct Serve {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 selects a free one.
    #[arg(long, default_value_t = 7878)]
    port: u16,
    /// Token that clients must send.
    #[arg(long, visible_alias = "auth-token", value_name = "T", conflicts_with_all = ["token_file", "insecure"])]
    token: Option<String>,
    /// File with the token that clients must send.
    #[arg(long, value_name = "F", conflicts_with = "insecure")]
    token_file: Option<PathBuf>,
    /// Requires no token. Only on a loopback address.
    #[arg(long, visible_alias = "insecure-no-auth")]
    insecure: bool,
    /// Additional origin whose web pages may use the API.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    cors_origins: Vec<String>,
    /// Additional host name of requests, besides addresses and `localhost`, such as that of a proxy.
    #[arg(long = "allow-host", value_name = "NAME")]
    allowed_hosts: Vec<String>,
    /// Address of a proxy with TLS in front of the daemon, as https://NAME. Browsers may log in there too.
    #[arg(long, value_name = "URL")]
    public_url: Option<PublicUrl>,
    /// Data directory [default: `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    #[command(flatten)]
    flags: ConfigFlags,
    /// Additional Unix socket to listen on; only its owner may connect.
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// What happens to turns that a previous daemon left open.
    #[arg(long, value_name = "WHAT", default_value = "resume")]
    on_restart: RestartPolicy,
    /// Starts although acknowledged commits are missing, such as after an older database was restored. Threads may then lack
    /// events that clients have seen.
    #[arg(long)]
    accept_lost_commits: bool,
    /// Log level of stderr: off, error, warn, info, debug or trace; debug logs every request.
    #[arg(
        long,
        value_name = "LEVEL",
        env = "WINDLASS_LOG",
        default_value = "info",
        value_parser = level
    )]
    log: LevelFilter,
    /// Format of the log.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Has no effect: HTTP is always served. Clients of the original program pass it.
    #[arg(long, hide = true)]
    http: bool,
    /// Has no effect: there is no page for phones yet.
    #[arg(long, hide = true)]
    mobile: bool,
}

/// Parses a log level.
fn level(text: &str) -> Result<LevelFilter, String> {
    let read = text.parse();
    read.map_err(|_| "expected off, error, warn, info, debug or trace".to_owned())
}

/// What happens to turns that a previous daemon left open.
#[derive(Clone, Copy, ValueEnum)]
enum RestartPolicy {
    /// They continue after the last recorded step.
    Resume,
    /// They end; completed steps remain.
    Interrupt,
}

impl From<RestartPolicy> for RecoveryPolicy {
    fn from(on_restart: RestartPolicy) -> Self {
        match on_restart {
            RestartPolicy::Resume => Self::Resume,
            RestartPolicy::Interrupt => Self::Interrupt,
        }
    }
}

impl Serve {
    pub(crate) async fn run(self, global: GlobalOptions) -> anyhow::Result<()> {
        let GlobalOptions {
            workspace,
            config: named_config,
        } = global;
        if let Some(token) = self.token.as_ref().filter(|token| !token.trim().is_empty()) {
            let failed = token_flag::restart_without(token);
            failed.context(
                "cannot restart without the token on the command line; use --token-file",
            )?;
        }
        let workspace = or_current(workspace)?;
        log::begin(self.log, self.log_format);
        // Clients of the original program pass this flag.
        if self.mobile {
            note("--mobile has no effect: this version has no page for phones");
        }
        let directory = data::directory(self.data.clone())?;
        data::check(&directory)?;
        modes::repair(&directory);
        let layers = config::layers(named_config.as_deref(), &directory)?;
        let config = layers.config()?;
        config::warn_of_unknown_tools(&config);
        let tokens = Arc::new(TokenFile::new(&directory));
        let access = self.access(&tokens)?;
        if let Some(socket) = &self.unix_socket {
            check_unix_socket(socket)?;
        }
        daemon::leftovers::end_before_listening(&directory);
        // The port comes first: a daemon that cannot listen does not touch the data.
        let listener = listen(&self.host, self.port).await?;
        let own_files = [
            self.token_file.as_deref(),
            named_config.as_deref(),
            self.unix_socket.as_deref(),
        ];
        let options = DaemonOptions {
            data: &directory,
            workspace,
            config: &config,
            source: Some(ConfigSource {
                named: named_config.clone(),
                layers,
            }),
            model: self.flags.model.as_deref(),
            secrets_key_file: self.flags.secrets_key_file.as_deref(),
            own_files: own_files.into_iter().flatten().collect(),
            has_agents: !self.insecure,
            recovery: self.on_restart.into(),
            on_lost_commits: if self.accept_lost_commits {
                OnLostCommits::Accept
            } else {
                OnLostCommits::Refuse
            },
        };
        let PreparedDaemon {
            store,
            runtime,
            wire,
            mut settings,
            is_demonstration,
        } = options
            .open(|| access.map_or_else(|| access::created(&directory, &tokens), Ok))
            .await?;
        if is_demonstration {
            note(model::DEMONSTRATION);
        }
        if let (Some(jobs), Some(workers)) = (&mut settings.jobs, self.flags.workers) {
            jobs.tasks.workers = usize::from(workers);
        }
        settings.host = self.host;
        settings.allowed_hosts = self.allowed_hosts;
        settings.public_url = self.public_url;
        let logins = Logins::new(&directory);
        settings.logins = Some(logins.clone());
        settings.cors_origins = self.cors_origins;
        settings.cors_origins.extend(origins_from_environment());
        settings.unix_sockets.extend(self.unix_socket);
        match daemon::own_socket(&directory) {
            // A sandbox does not block every socket, and this server would require no token.
            _ if self.insecure => {
                note(
                    "warning: --insecure: no token is required, so every program and user of this machine can prompt agents and allow their calls; \
                     omit the flag to generate a token",
                );
                note("--insecure: other commands cannot use this daemon, and it locks the data");
            }
            Some(socket) => settings.unix_sockets.push(socket),
            None => note(
                "the path of the data directory is too long for a socket: other commands cannot use this daemon",
            ),
        }
        settings.rpc.default_agent = set_variable("CAR_AGENT_ID");
        let sandbox = sandbox::name(&settings.shell.ways);
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
        let announced = announce(&server);
        announce_console(&server, &logins);
        report_damage(&store);
        // Turns may be running already, so a failed start also shuts down gracefully.
        let served = match announced {
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
        served
    }
}

/// Prints the server's address, in one line, and returns a future that resolves when the server must stop.
fn announce(server: &ApiServer) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let stop = stop_signal()?;
    if let Some(address) = server.address() {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "windlass listening on http://{address}")?;
        stdout.flush()?;
    }
    Ok(stop)
}

/// Prints a link to the console that logs one browser in. A log that other programs read does not contain it.
fn announce_console(server: &ApiServer, logins: &Logins) {
    let is_shown = cfg!(feature = "console") && !log::is_json();
    let Some(url) = server.console_url().filter(|_| is_shown) else {
        return;
    };
    match login_link(&url, logins) {
        Ok(link) => note(format!("the console is at {link}")),
        Err(error) => tracing::warn!(%error, "browsers cannot log in"),
    }
}

/// Logs a damaged database; the check runs in the background.
fn report_damage(store: &SqliteStore) {
    let store = store.clone();
    tokio::spawn(async move {
        if let Err(error) = store.checked().await {
            tracing::error!(%error, "the database is damaged; nothing more is written");
        }
    });
}

/// Returns the origins of all variables.
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

/// Waits for the first stop signal. A second one exits immediately.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        note("stopping; a second signal stops immediately");
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            std::process::exit(130);
        });
    })
}
