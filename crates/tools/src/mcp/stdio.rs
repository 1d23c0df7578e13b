//! A server that is a program: one JSON message a line.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use windlass_core::bounds::is_shallow_text;
use windlass_core::mcp::{McpScope, ScopedMcpServer};
use windlass_process::{Feed, Ladder, Lines, Output, Running, Stderr, Stdin, Stdout};

use super::flood::Flood;
use crate::environments::Environments;
use crate::shell::ShellSettings;

/// How long a message may be: an image of the largest size and some text.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// How long a server may take to end by itself.
const GRACE: Duration = Duration::from_secs(3);
/// How much is kept of what it complains about.
const COMPLAINTS: usize = 8 * 1024;

/// The pipes of a server's program.
pub(super) struct Pipes {
    feed: Arc<Feed>,
    lines: Lines,
    running: Running,
    flood: Arc<Flood>,
}

/// A server's program that runs.
pub(super) struct Started {
    pub(super) pipes: Pipes,
    /// What it complains about.
    pub(super) complaints: Arc<Output>,
}

/// Starts the program of a server where commands of the turn run, and as confined as they are.
pub(super) async fn start(
    environments: &Environments,
    shell: &ShellSettings,
    server: &ScopedMcpServer,
    scope: &McpScope,
    flood: &Arc<Flood>,
) -> Result<Started, String> {
    let command = server.command.clone().ok_or("it names no `command`")?;
    let (environments, shell) = (environments.clone(), shell.clone());
    let (server, turn) = (server.clone(), scope.environment.clone());
    let complaints = Arc::new(Output::new(COMPLAINTS, 0));
    let kept = Arc::clone(&complaints);
    let made = tokio::task::spawn_blocking(move || {
        let mut place = shell.place_of(&environments, turn.as_ref(), None)?;
        if let Some(home) = &shell.home {
            let path = shell.variables.get("PATH").map_or("", String::as_str);
            home.open_program(&mut place.bounds, path, Path::new(&command));
        }
        let mut program = place.program(command, Arc::clone(&kept));
        program.variables = shell.variables_in(&program.bounds);
        let own = server.env.into_iter();
        program
            .variables
            .extend(own.map(|(name, value)| (name.into(), value.into())));
        program.arguments = server.args.into_iter().map(Into::into).collect();
        program.stdin = Stdin::Fed;
        program.stdout = Stdout::Read;
        program.stderr = Stderr::Kept(kept);
        program.ladder = Ladder::all(GRACE);
        Ok::<_, crate::shell::PlaceRefused>(program)
    });
    let program = made.await.map_err(|error| error.to_string())?;
    let program = program.map_err(|refused| refused.to_string())?;
    let mut running = program.start().await.map_err(|error| error.to_string())?;
    let (Some(feed), Some(chunks)) = (running.feed(), running.chunks()) else {
        return Err("its program has no pipes".to_owned());
    };
    Ok(Started {
        pipes: Pipes {
            feed: Arc::new(feed),
            lines: chunks.lines(MAX_MESSAGE),
            running,
            flood: Arc::clone(flood),
        },
        complaints,
    })
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let feed = Arc::clone(&self.feed);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            feed.send(&line).await.map_err(io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = match self.lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.flood.end("its program ended");
                    return None;
                }
                Err(error) => {
                    self.flood.end(error.to_string());
                    return None;
                }
            };
            if !self.flood.admits(line.len()) {
                return None;
            }
            // Many programs print a greeting; what is no message is passed over.
            if is_shallow_text(&line)
                && let Ok(message) = serde_json::from_slice(&line)
            {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.running.stop();
        self.running.end().await.map_err(io::Error::other)?;
        Ok(())
    }
}
