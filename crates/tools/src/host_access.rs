//! Files and programs for an agent of others, as far as its turn's environment allows: the same walls as for our own tools.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use windlass_core::backend::{
    HostAccess, HostAccessError, HostOffers, TerminalExit, TerminalOutput, TerminalRequest,
};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_process::{Output, Place, Program, Running};

use crate::environments::Environments;
use crate::shell::ShellSettings;
use crate::workspace::{FileError, ResolvedWorkspace, is_binary};

/// How large a file may be that is read for an agent.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// How many terminals an agent may have at once.
const MAX_TERMINALS: usize = 32;
/// How much of a terminal's output is kept, whatever the agent asks for.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// What an agent may ask of the host in one turn. Dropping it ends the programs that it has started.
pub struct TurnHostAccess {
    environments: Environments,
    settings: ShellSettings,
    turn: Option<TurnEnvironment>,
    walls: Option<Arc<Walls>>,
    terminals: Mutex<Terminals>,
}

/// What narrows the place of a program further than the environment does.
type Walls = dyn Fn(&mut Place) -> Result<(), String> + Send + Sync;

#[derive(Default)]
struct Terminals {
    next: u64,
    /// How many are about to be open.
    starting: usize,
    open: HashMap<String, Arc<Terminal>>,
}

/// A place among the terminals for one that is about to be open.
struct Starting<'a>(&'a TurnHostAccess);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.terminals().starting -= 1;
    }
}

/// A program that an agent has started.
struct Terminal {
    output: Arc<Output>,
    stop: Arc<Notify>,
    exit: watch::Receiver<Option<TerminalExit>>,
    task: AbortHandle,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // With its task goes the program, and all that it has started.
        self.task.abort();
    }
}

impl TurnHostAccess {
    /// What the environment of a turn allows.
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
            walls: None,
            terminals: Mutex::default(),
        }
    }

    /// Narrows the place of each program that the agent starts, as that of the agent itself.
    #[must_use]
    pub fn with_walls(
        mut self,
        walls: impl Fn(&mut Place) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.walls = Some(Arc::new(walls));
        self
    }

    fn terminals(&self) -> MutexGuard<'_, Terminals> {
        self.terminals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place before the program is started: many may be asked for at once.
    fn begin_start(&self) -> Result<Starting<'_>, HostAccessError> {
        let mut terminals = self.terminals();
        if terminals.open.len() + terminals.starting >= MAX_TERMINALS {
            let text =
                format!("{MAX_TERMINALS} terminals are open, which is the limit; release one");
            return Err(HostAccessError::NotAllowed(text));
        }
        terminals.starting += 1;
        Ok(Starting(self))
    }

    fn terminal(&self, id: &str) -> Result<Arc<Terminal>, HostAccessError> {
        let found = self.terminals().open.get(id).cloned();
        found.ok_or_else(|| HostAccessError::NotFound(format!("there is no terminal `{id}`")))
    }

    /// Does something with files where blocking does no harm.
    async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ResolvedWorkspace) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, HostAccessError> {
        let (environments, turn) = (self.environments.clone(), self.turn.clone());
        let done = tokio::task::spawn_blocking(move || {
            let at = environments.resolve(turn.as_ref());
            let at = at.map_err(|error| HostAccessError::NotAllowed(error.to_string()))?;
            work(&at).map_err(|error| match error {
                FileError::Missing { .. } => HostAccessError::NotFound(error.to_string()),
                FileError::Outside { .. } => HostAccessError::NotAllowed(error.to_string()),
                other => HostAccessError::Failed(other.to_string()),
            })
        });
        done.await
            .map_err(|error| HostAccessError::Failed(error.to_string()))?
    }
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
            let bytes = opened.bytes(MAX_FILE_BYTES);
            let bytes = bytes.map_err(|error| at.failure("read", &path, error))?;
            let shown = at.shown(&path);
            match bytes {
                Some(bytes) if !is_binary(&bytes) => {
                    Ok(String::from_utf8_lossy(&bytes).into_owned())
                }
                _ => Err(FileError::Binary {
                    path: shown,
                    bytes: size,
                }),
            }
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
        let _starting = self.begin_start()?;
        let asked = request
            .max_output_bytes
            .and_then(|bytes| usize::try_from(bytes).ok());
        let kept = asked.unwrap_or(MAX_OUTPUT_BYTES).min(MAX_OUTPUT_BYTES);
        let output = Arc::new(Output::new(kept, 0));
        let program = self.program(request, &output).await?;
        let running = program.start().await;
        let running = running.map_err(|error| HostAccessError::Failed(error.to_string()))?;
        let (ended, exit) = watch::channel(None);
        let stop = Arc::new(Notify::new());
        let task = tokio::spawn(look_after(running, Arc::clone(&stop), ended));
        let terminal = Terminal {
            output,
            stop,
            exit,
            task: task.abort_handle(),
        };
        let mut terminals = self.terminals();
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
        self.terminals().open.remove(id);
        Ok(())
    }

    fn release_all(&self) {
        let open = std::mem::take(&mut self.terminals().open);
        drop(open);
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
        let walls = self.walls.clone();
        let made = tokio::task::spawn_blocking(move || {
            let cwd = request.cwd.as_deref().map(Path::to_string_lossy);
            let place = settings.place_of(&environments, turn.as_ref(), cwd.as_deref());
            let mut place =
                place.map_err(|error| HostAccessError::NotAllowed(error.to_string()))?;
            if let Some(walls) = walls {
                walls(&mut place).map_err(HostAccessError::NotAllowed)?;
            }
            let mut program = match request.arguments.is_empty() {
                true => {
                    let mut program = place.program(&settings.shell, output);
                    program.arguments = vec!["-c".into(), request.command.into()];
                    program
                }
                false => {
                    let mut program = place.program(request.command, output);
                    program.arguments = request.arguments.into_iter().map(Into::into).collect();
                    program
                }
            };
            let mut variables = settings.variables_in(&program.bounds);
            let own = request.variables.into_iter();
            variables.extend(own.map(|(name, value)| (name.into(), value.into())));
            program.variables = variables;
            program.time = Some(settings.max_timeout);
            program.ladder = settings.ladder();
            Ok(program)
        });
        made.await
            .map_err(|error| HostAccessError::Failed(error.to_string()))?
    }
}

/// Waits for the end of a program, and ends it when it is told to.
async fn look_after(
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
