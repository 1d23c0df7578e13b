//! `windlass serve`: the daemon.

use std::io::Write;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_runtime::{
    HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, RuntimeSettings,
};
use windlass_server::{Access, MemoryWireStore, Server, Settings, Token};

use super::token;
use crate::cli::note;

/// How long a turn waits for somebody.
const WAIT: Duration = Duration::from_secs(300);
/// What the agent is told when nobody says otherwise.
const PROMPT: &str = "You are a helpful agent. Be brief.";

/// Serves the Runtime API over HTTP and SSE.
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
    #[arg(long)]
    insecure: bool,
    /// Lets web pages of this origin in, beside the usual ones.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    cors_origins: Vec<String>,
    /// Does nothing: HTTP is always served. Clients of the original pass it.
    #[arg(long, hide = true)]
    http: bool,
}

impl Serve {
    pub(crate) async fn carry_out(self, workspace: Option<PathBuf>) -> anyhow::Result<()> {
        let workspace = match workspace {
            Some(workspace) => workspace,
            None => std::env::current_dir().context("the current directory is gone")?,
        };
        let access = self.access()?;
        let (runtime, harness_id) = runtime().await?;
        let mut settings = Settings::new(workspace, harness_id, access);
        settings.host = self.host;
        settings.port = self.port;
        settings.cors_origins = self.cors_origins;
        settings.cors_origins.extend(origins_from_environment());
        let store = MemoryWireStore::new(settings.limits.kept_answers);
        let server = Server::bind(runtime, settings, Arc::new(store)).await?;
        announce(&format!(
            "windlass listening on http://{}",
            server.address()
        ))?;
        server.run(asked_to_stop()?).await;
        Ok(())
    }

    fn access(&self) -> anyhow::Result<Access> {
        if self.insecure {
            if !is_loopback(&self.host) {
                bail!(
                    "--insecure is only for a loopback address, and {} is open to others; give a token",
                    self.host
                );
            }
            return Ok(Access::Open);
        }
        let given = match (&self.token, &self.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => Some(token::read(file)?),
            (None, None) => from_environment(),
        };
        if let Some(token) = given {
            if token.trim().is_empty() {
                bail!("the token is blank; give one, or leave it out to have one made");
            }
            return Ok(Access::Token(Token::new(token.trim())));
        }
        if !is_loopback(&self.host) {
            bail!(
                "refusing to listen on {} without a token; give one with --token or --token-file",
                self.host
            );
        }
        let (token, path) = token::make(&state_directory())?;
        note(&format!("the token is in {}", path.display()));
        Ok(Access::Token(Token::new(token)))
    }
}

fn from_environment() -> Option<String> {
    let names = [
        "WINDLASS_RUNTIME_TOKEN",
        "CODEWHALE_RUNTIME_TOKEN",
        "DEEPSEEK_RUNTIME_TOKEN",
    ];
    names
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|token| !token.trim().is_empty())
}

/// Lists of origins add to each other and to those of the command line.
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

fn state_directory() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = set("XDG_STATE_HOME").map(PathBuf::from);
    let home = || set("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = state.or_else(home).unwrap_or_else(std::env::temp_dir);
    state.join("windlass")
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        // A name counts only if everything that it means does.
        Err(_) => (host, 0).to_socket_addrs().is_ok_and(|mut addresses| {
            let mut any = false;
            let all = addresses.all(|address| {
                any = true;
                address.ip().is_loopback()
            });
            any && all
        }),
    }
}

/// Makes the runtime. The simulator stands for a model until one is configured.
async fn runtime() -> anyhow::Result<(InProcessRuntime, windlass_core::typed_id::HarnessId)> {
    let harness = HarnessBuilder::new("daemon", PROMPT)
        .with_capability("ask_user")
        .build();
    let harness_id = harness.id;
    let settings = RuntimeSettings {
        wait_timeout: Some(WAIT),
        ..RuntimeSettings::default()
    };
    let runtime = InProcessRuntimeBuilder::new()
        .llm_sim(LlmSimConfig::echo())
        .settings(settings)
        .harness(harness)
        .build()
        .await?;
    Ok((runtime, harness_id))
}

/// Prints the one line that says where to connect.
fn announce(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

/// Waits for the first signal to stop; the second one ends the process at once.
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
