//! The threads that look after a running command.
//!
//! They are threads and not tasks, because a command must end also when the executor is gone, because a sandbox that dies
//! with its parent dies with the *thread* that started it, and because landlock confines the thread that asks for it: one is
//! confined, starts the command, which inherits that, and then only waits for it.

use std::io::{PipeReader, PipeWriter, Read, pipe};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::error::ShellError;
use super::family::Family;
use super::lifeline::Lifeline;
use super::output::Output;

/// How long a killed process may take to be gone, and its output to be read.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// A command that is ready to start.
pub(super) struct Order {
    pub(super) command: Command,
    /// What the starting thread does to itself first.
    pub(super) confine: Box<dyn FnOnce() -> Result<(), String> + Send>,
    pub(super) mark: String,
    /// Whether the command is a sandbox that takes everything with it when it goes.
    pub(super) is_sandbox: bool,
    pub(super) time: Duration,
    pub(super) grace: Duration,
    /// What is removed when the command has ended.
    pub(super) scratch: Option<TempDir>,
    /// Where what it says on stderr goes, if not with the rest.
    pub(super) errors: Option<Arc<Output>>,
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Itself,
    TimeOver,
    Stopped,
}

/// How a command ended.
#[derive(Debug)]
pub(super) struct End {
    /// `None` when it could not be killed.
    pub(super) status: Option<ExitStatus>,
    pub(super) cause: Cause,
    pub(super) took: Duration,
}

/// Says that nothing more comes, whatever happened.
struct CloseAtEnd(Arc<Output>);

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

enum Note {
    Stop,
    Exited,
}

/// A command that runs. When this is dropped, the command is stopped.
pub(super) struct Running {
    notes: Sender<Note>,
    end: oneshot::Receiver<Result<End, ShellError>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.notes.send(Note::Stop);
    }
}

impl Running {
    /// Starts a command.
    pub(super) fn start(order: Order, output: Arc<Output>) -> Result<Self, ShellError> {
        let (notes, inbox) = channel();
        let (tell, end) = oneshot::channel();
        let to_self = notes.clone();
        spawn("windlass-shell", move || {
            let output = CloseAtEnd(output);
            let done = supervise(order, &output.0, to_self, &inbox);
            let _ = tell.send(done);
        })?;
        Ok(Self { notes, end })
    }

    /// Waits for the end.
    pub(super) async fn end(&mut self) -> Result<End, ShellError> {
        (&mut self.end).await.unwrap_or(Err(ShellError::Lost))
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ShellError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned
        .map(drop)
        .map_err(ShellError::io("start a thread for the command"))
}

fn supervise(
    mut order: Order,
    output: &Arc<Output>,
    notes: Sender<Note>,
    inbox: &Receiver<Note>,
) -> Result<End, ShellError> {
    let scratch = order.scratch.take();
    let (grace, mark) = (order.grace, order.mark.clone());
    let lifeline =
        (!order.is_sandbox).then(|| Lifeline::start(&mark, scratch.as_ref().map(TempDir::path)));
    let mut lifeline = lifeline.transpose()?;
    let is_sandbox = order.is_sandbox;
    let started = Instant::now();
    let deadline = started + order.time;
    let (reader, writer) = pipe().map_err(ShellError::io("make a pipe"))?;
    // First the reader: a command must not be started that nobody looks after.
    let drained = drain(reader, output)?;
    let (errors, drained_errors) = match order.errors.take() {
        None => (
            writer.try_clone().map_err(ShellError::io("make a pipe"))?,
            None,
        ),
        Some(errors) => {
            let (reader, writer) = pipe().map_err(ShellError::io("make a pipe"))?;
            (writer, Some(drain(reader, &errors)?))
        }
    };
    let (mut child, leader) = launch(order, writer, errors, notes)?;
    if let Some(lifeline) = &mut lifeline {
        lifeline.watch(child.id());
    }
    let family = Family::new(leader, &mark, is_sandbox);

    let cause = wait(inbox, deadline);
    let is_gone = if cause == Cause::Itself {
        family.sweep();
        true
    } else {
        family.terminate();
        let went = exited_within(inbox, grace);
        family.kill();
        went || exited_within(inbox, AFTER_KILL)
    };
    // Only now may the leader's number be given to another process.
    drop(lifeline);
    let status = match is_gone {
        true => Some(
            child
                .wait()
                .map_err(ShellError::io("learn how the command ended"))?,
        ),
        false => None,
    };
    // Whoever still holds the pipe is none of ours.
    let _ = drained.recv_timeout(AFTER_KILL);
    let _ = drained_errors.map(|drained| drained.recv_timeout(AFTER_KILL));
    Ok(End {
        status,
        cause,
        took: started.elapsed(),
    })
}

/// Starts the command in a thread of its own, which then waits for it without reaping it.
fn launch(
    order: Order,
    writer: PipeWriter,
    errors: PipeWriter,
    notes: Sender<Note>,
) -> Result<(Child, Pid), ShellError> {
    let Order {
        mut command,
        confine,
        ..
    } = order;
    command.stdin(Stdio::null()).stdout(writer).stderr(errors);
    let (tell, told) = channel();
    spawn("windlass-shell-wait", move || {
        let started = confine()
            .map_err(ShellError::Sandbox)
            .and_then(|()| command.spawn().map_err(ShellError::io("start the command")));
        // Its ends of the pipe go with it, so that the reader sees the end.
        drop(command);
        let pid = started.as_ref().ok().and_then(pid_of);
        let _ = tell.send(started);
        if let Some(pid) = pid {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
        }
        let _ = notes.send(Note::Exited);
    })?;
    let child = told.recv().map_err(|_| ShellError::Lost)??;
    let leader = pid_of(&child).ok_or(ShellError::Lost)?;
    Ok((child, leader))
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Reads the output until nobody writes any more.
fn drain(mut reader: PipeReader, output: &Arc<Output>) -> Result<Receiver<()>, ShellError> {
    let output = Arc::clone(output);
    let (done, drained) = channel();
    spawn("windlass-shell-read", move || {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => output.push(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = done.send(());
    })?;
    Ok(drained)
}

/// Waits until the command ends, somebody stops it, or its time is over.
fn wait(inbox: &Receiver<Note>, deadline: Instant) -> Cause {
    match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Note::Exited) => Cause::Itself,
        Ok(Note::Stop) | Err(RecvTimeoutError::Disconnected) => Cause::Stopped,
        Err(RecvTimeoutError::Timeout) => Cause::TimeOver,
    }
}

fn exited_within(inbox: &Receiver<Note>, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Note::Exited) => return true,
            Ok(Note::Stop) => {}
            Err(_) => return false,
        }
    }
}
