//! Files and programs for an external agent, within its turn's environment: the same restrictions as for Windlass's own tools.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use windlass_core::backend::{
    HostAccess, HostAccessError, HostOffers, TerminalExit, TerminalOutput, TerminalRequest,
};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_process::{Output, Program, Running, SandboxSpec};

use crate::environments::Environments;
use crate::shell::ShellSettings;
use crate::workspace::{FileError, ResolvedWorkspace, is_binary};
use windlass_core::lock::lock;

/// Maximum size of a file that an agent can read.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum number of terminals of an agent at once.
const MAX_TERMINALS: usize = 32;
/// Maximum retained output of a terminal, whatever the agent requests.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// An agent's access to the host in one turn. Dropping it ends the programs that the agent started.
pub struct TurnHostAccess {
    environments: Environments,
    settings: ShellSettings,
    turn: Option<TurnEnvironment>,
    restriction: Option<Arc<SandboxRestriction>>,
    terminals: Mutex<Terminals>,
}

/// Further restrictions on the sandbox of a program.
type SandboxRestriction = dyn Fn(&mut SandboxSpec) -> Result<(), String> + Send + Sync;

#[derive(Default)]
struct Terminals {
    next: u64,
    /// Number of terminals that are being started.
    starting: usize,
    open: HashMap<String, Arc<Terminal>>,
}

/// A reserved slot for a terminal that is being started.
struct ReservedTerminal<'a>(&'a TurnHostAccess);

impl Drop for ReservedTerminal<'_> {
    fn drop(&mut self) {
        lock(&self.0.terminals).starting -= 1;
    }
}

/// A program that an agent started.
struct Terminal {
    output: Arc<Output>,
    stop: Arc<Notify>,
    exit: watch::Receiver<Option<TerminalExit>>,
    task: AbortHandle,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Aborting the task ends the program and everything it started.
        self.task.abort();
    }
}

impl TurnHostAccess {
    /// Creates the access that the environment of a turn permits.
    #[must_use]
    pub fn new(
        environments: Environments,
        settings: ShellSettings,
        turn: Option<TurnEnvironment>,
    ) -> Self {
        Self {
            environments,
            settings,
            turn,
            restriction: None,
            terminals: Mutex::default(),
        }
    }

    /// Restricts the sandbox of each program that the agent starts, like the agent's own.
    #[must_use]
    pub fn with_sandbox_restriction(
        mut self,
        restriction: impl Fn(&mut SandboxSpec) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.restriction = Some(Arc::new(restriction));
        self
    }

    /// Reserves a slot before the program starts, because an agent may start many at once.
    fn reserve_terminal(&self) -> Result<ReservedTerminal<'_>, HostAccessError> {
        let mut terminals = lock(&self.terminals);
        if terminals.open.len() + terminals.starting >= MAX_TERMINALS {
            let text =
                format!("{MAX_TERMINALS} terminals are open, which is the limit; release one");
            return Err(HostAccessError::NotAllowed(text));
        }
        terminals.starting += 1;
        Ok(ReservedTerminal(self))
    }

    fn terminal(&self, id: &str) -> Result<Arc<Terminal>, HostAccessError> {
        let found = lock(&self.terminals).open.get(id).cloned();
        found.ok_or_else(|| HostAccessError::NotFound(format!("there is no terminal `{id}`")))
    }

    /// Runs a file operation on a blocking thread.
    async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ResolvedWorkspace) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, HostAccessError> {
        let (environments, turn) = (self.environments.clone(), self.turn.clone());
        blocking(move || {
            let at = environments.resolve(turn.as_ref());
            let at = at.map_err(|error| HostAccessError::NotAllowed(error.to_string()))?;
            work(&at).map_err(|error| match error {
                FileError::Missing { .. } => HostAccessError::NotFound(error.to_string()),
                FileError::Outside { .. } => HostAccessError::NotAllowed(error.to_string()),
                other => HostAccessError::Failed(other.to_string()),
            })
        })
        .await
    }
}

/// Runs work on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HostAccessError> + Send + 'static,
) -> Result<T, HostAccessError> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|error| HostAccessError::Failed(error.to_string()))?
}

#[async_trait]
impl HostAccess for TurnHostAccess {
    fn offers(&self) -> HostOffers {
        let policy = self
            .environments
            .resolve(self.turn.as_ref())
            .map(|at| at.policy());
        policy.map_or(HostOffers::default(), |policy| HostOffers {
            read_text: true,
            write_text: policy.write,
            terminals: policy.shell,
        })
    }

    async fn read_text(
        &self,
        path: &Path,
        line: Option<u64>,
        limit: Option<u64>,
    ) -> Result<String, HostAccessError> {
        let path = path.to_string_lossy().into_owned();
        let text = self.with_files(move |at| {
            let path = at.inside(&path)?;
            let opened = at.open_file(&path)?;
            let size = opened.metadata.len();
            let bytes = opened
                .bytes(MAX_FILE_BYTES)
                .map_err(|error| at.failure("read", &path, error))?
                .filter(|bytes| !is_binary(bytes))
                .ok_or_else(|| FileError::Binary {
                    path: at.shown(&path),
                    bytes: size,
                })?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        });
        let text = text.await?;
        if line.is_none() && limit.is_none() {
            return Ok(text);
        }
        let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let skipped = number(line.unwrap_or(1).saturating_sub(1));
        let taken = number(limit.unwrap_or(u64::MAX));
        Ok(text
            .split_inclusive('\n')
            .skip(skipped)
            .take(taken)
            .collect())
    }

    async fn write_text(&self, path: &Path, text: &str) -> Result<(), HostAccessError> {
        let (path, text) = (path.to_string_lossy().into_owned(), text.to_owned());
        self.with_files(move |at| at.write_text(&at.inside(&path)?, text).map(drop))
            .await
    }

    async fn start_terminal(&self, request: TerminalRequest) -> Result<String, HostAccessError> {
        let _starting = self.reserve_terminal()?;
        let max_bytes = request
            .max_output_bytes
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(MAX_OUTPUT_BYTES);
        let output = Arc::new(Output::new(max_bytes.min(MAX_OUTPUT_BYTES), 0));
        let program = self.program(request, &output).await?;
        let running = program.start().await;
        let running = running.map_err(|error| HostAccessError::Failed(error.to_string()))?;
        let (ended, exit) = watch::channel(None);
        let stop = Arc::new(Notify::new());
        let task = tokio::spawn(supervise(running, Arc::clone(&stop), ended));
        let terminal = Terminal {
            output,
            stop,
            exit,
            task: task.abort_handle(),
        };
        let mut terminals = lock(&self.terminals);
        terminals.next += 1;
        let id = format!("terminal-{}", terminals.next);
        terminals.open.insert(id.clone(), Arc::new(terminal));
        Ok(id)
    }

    async fn terminal_output(&self, id: &str) -> Result<TerminalOutput, HostAccessError> {
        let terminal = self.terminal(id)?;
        let exit = terminal.exit.borrow().clone();
        let (text, left_out) = terminal.output.text();
        Ok(TerminalOutput {
            text,
            is_cut: left_out.is_some(),
            exit,
        })
    }

    async fn wait_for_terminal(&self, id: &str) -> Result<TerminalExit, HostAccessError> {
        let mut exit = self.terminal(id)?.exit.clone();
        let lost = || HostAccessError::Failed("the program was lost".to_owned());
        let ended = exit.wait_for(Option::is_some).await.map_err(|_| lost())?;
        ended.clone().ok_or_else(lost)
    }

    async fn kill_terminal(&self, id: &str) -> Result<(), HostAccessError> {
        self.terminal(id)?.stop.notify_one();
        Ok(())
    }

    async fn release_terminal(&self, id: &str) -> Result<(), HostAccessError> {
        self.terminal(id)?;
        lock(&self.terminals).open.remove(id);
        Ok(())
    }

    fn release_all(&self) {
        drop(std::mem::take(&mut lock(&self.terminals).open));
    }
}

impl TurnHostAccess {
    async fn program(
        &self,
        request: TerminalRequest,
        output: &Arc<Output>,
    ) -> Result<Program, HostAccessError> {
        let (environments, settings) = (self.environments.clone(), self.settings.clone());
        let (turn, output) = (self.turn.clone(), Arc::clone(output));
        let restriction = self.restriction.clone();
        blocking(move || {
            let cwd = request.cwd.as_deref().map(Path::to_string_lossy);
            let sandbox = settings.sandbox_of(&environments, turn.as_ref(), cwd.as_deref());
            let mut sandbox =
                sandbox.map_err(|error| HostAccessError::NotAllowed(error.to_string()))?;
            if let Some(restriction) = restriction {
                restriction(&mut sandbox).map_err(HostAccessError::NotAllowed)?;
            }
            let (path, arguments) = if request.arguments.is_empty() {
                let arguments = vec!["-c".into(), request.command.into()];
                (settings.shell.clone(), arguments)
            } else {
                let arguments = request.arguments.into_iter().map(Into::into).collect();
                (request.command.into(), arguments)
            };
            let mut program = sandbox.program(path, output);
            program.arguments = arguments;
            program.variables = settings.variables_in(&program.sandbox.bounds);
            let own = request.variables.into_iter();
            program
                .variables
                .extend(own.map(|(name, value)| (name.into(), value.into())));
            program.time = Some(settings.max_timeout);
            program.shutdown = settings.shutdown();
            Ok(program)
        })
        .await
    }
}

/// Waits for the end of a program; stops it on request.
async fn supervise(
    mut running: Running,
    stop: Arc<Notify>,
    ended: watch::Sender<Option<TerminalExit>>,
) {
    let end = loop {
        tokio::select! {
            end = running.end() => break end,
            () = stop.notified() => running.stop(),
        }
    };
    let status = end.ok().and_then(|end| end.status);
    let (code, signal) = status.map_or((None, None), crate::shell::code_and_signal);
    let signal = signal.map(|signal| signal.to_string());
    ended.send_replace(Some(TerminalExit { code, signal }));
}
