//! A server that is a program: one JSON message per line.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use windlass_core::bounds::is_shallow_text;
use windlass_core::mcp::{McpScope, ScopedMcpServer};
use windlass_process::{
    Lines, Output, Running, ShutdownSequence, Stderr, Stdin, StdinWriter, Stdout,
};

use super::rate_limit::RateLimit;
use crate::environments::Environments;
use crate::shell::ShellSettings;

/// Maximum size of a message: the largest image and some text.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// How long a server may take to exit before it is killed.
const EXIT_GRACE: Duration = Duration::from_secs(3);
/// Retained size of its stderr output.
const MAX_STDERR_BYTES: usize = 8 * 1024;

/// The pipes of a server's program.
pub(super) struct Pipes {
    stdin_writer: Arc<StdinWriter>,
    lines: Lines,
    running: Running,
    rate_limit: Arc<RateLimit>,
}

/// Starts the program of a server in the environment and sandbox of the turn's commands. Returns its pipes and its stderr output.
pub(super) async fn start(
    environments: &Environments,
    shell: &ShellSettings,
    server: &ScopedMcpServer,
    scope: &McpScope,
    rate_limit: &Arc<RateLimit>,
) -> Result<(Pipes, Arc<Output>), String> {
    let command = server.command.clone().ok_or("its `command` is missing")?;
    let (environments, shell) = (environments.clone(), shell.clone());
    let (server, turn) = (server.clone(), scope.environment.clone());
    let stderr = Arc::new(Output::new(MAX_STDERR_BYTES, 0));
    let captured = Arc::clone(&stderr);
    let program = tokio::task::spawn_blocking(move || {
        let mut sandbox = shell.sandbox_of(&environments, turn.as_ref(), None)?;
        if let Some(home) = &shell.home {
            let path = shell.variables.get("PATH").map_or("", String::as_str);
            home.open_program(&mut sandbox.bounds, path, Path::new(&command));
        }
        let mut program = sandbox.program(command, Arc::clone(&captured));
        program.variables = shell.variables_in(&program.sandbox.bounds);
        let own = server.env.into_iter();
        program
            .variables
            .extend(own.map(|(name, value)| (name.into(), value.into())));
        program.arguments = server.args.into_iter().map(Into::into).collect();
        program.stdin = Stdin::Piped;
        program.stdout = Stdout::Piped;
        program.stderr = Stderr::Captured(captured);
        program.shutdown = ShutdownSequence::all(EXIT_GRACE);
        Ok::<_, crate::shell::SandboxDenied>(program)
    });
    let program = program.await.map_err(|error| error.to_string())?;
    let program = program.map_err(|refused| refused.to_string())?;
    let mut running = program.start().await.map_err(|error| error.to_string())?;
    let (Some(stdin_writer), Some(chunks)) = (running.stdin_writer(), running.chunks()) else {
        return Err("its program has no pipes".to_owned());
    };
    let pipes = Pipes {
        stdin_writer: Arc::new(stdin_writer),
        lines: chunks.lines(MAX_MESSAGE),
        running,
        rate_limit: Arc::clone(rate_limit),
    };
    Ok((pipes, stderr))
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let stdin_writer = Arc::clone(&self.stdin_writer);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            stdin_writer.send(&line).await.map_err(io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = match self.lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.rate_limit.end("its program ended");
                    return None;
                }
                Err(error) => {
                    self.rate_limit.end(error.to_string());
                    return None;
                }
            };
            if !self.rate_limit.take_message(line.len()) {
                return None;
            }
            // Many programs print a greeting; lines that are not messages are skipped.
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
