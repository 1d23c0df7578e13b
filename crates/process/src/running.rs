//! A running program, as seen by the caller that started it.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::oneshot;

use crate::error::ProcessError;
use crate::output::Output;
use crate::program::{Program, Stderr, Stdout};
use crate::read::Chunks;
use crate::shutdown::ShutdownStep;
use crate::stdin_writer::StdinWriter;
use crate::supervise::{SupervisorEvent, spawn_thread, supervise};

/// Why a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The program exited on its own.
    Exited,
    /// Its time limit expired.
    TimedOut,
    /// The caller stopped it.
    Stopped,
}

/// How a program ended.
#[derive(Debug)]
pub struct End {
    /// Exit status; `None` if the program could not be killed.
    pub status: Option<ExitStatus>,
    pub cause: Cause,
    /// The step of the shutdown sequence that ended it; `None` if it was killed or exited on its own.
    pub step: Option<ShutdownStep>,
    /// Whether it was verified that none of its processes is left.
    pub all_ended: bool,
    /// Run time, including the cleanup.
    pub took: Duration,
}

/// A running program. Dropping it stops the program; a supervisor thread waits for its end.
pub struct Running {
    notes: Sender<SupervisorEvent>,
    end: oneshot::Receiver<Result<End, ProcessError>>,
    pid: u32,
    stdin_writer: Option<StdinWriter>,
    chunks: Option<Chunks>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Closes the outputs on drop, whatever happened.
struct CloseOutputs(Vec<Arc<Output>>);

impl CloseOutputs {
    fn new(program: &Program) -> Self {
        let mut outputs = Vec::new();
        if let Stdout::Captured(output) = &program.stdout {
            outputs.push(Arc::clone(output));
        }
        if let Stderr::Captured(output) = &program.stderr {
            outputs.push(Arc::clone(output));
        }
        Self(outputs)
    }
}

impl Drop for CloseOutputs {
    fn drop(&mut self) {
        self.0.iter().for_each(|output| output.close());
    }
}

/// Stops a program if the start is cancelled.
struct StopOnDrop(Option<Sender<SupervisorEvent>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(notes) = self.0.take() {
            let _ = notes.send(SupervisorEvent::Stop);
        }
    }
}

impl Program {
    /// Starts the program. Dropping the future stops it.
    pub async fn start(self) -> Result<Running, ProcessError> {
        let (notes, inbox) = channel();
        let (started_sender, started) = oneshot::channel();
        let (end_sender, end) = oneshot::channel();
        let to_self = notes.clone();
        let outputs = CloseOutputs::new(&self);
        spawn_thread("windlass-program", move || {
            let _outputs = outputs;
            let done = supervise(self, started_sender, to_self, &inbox);
            let _ = end_sender.send(done);
        })?;
        let mut guard = StopOnDrop(Some(notes));
        let started = started.await.map_err(|_| ProcessError::Lost)??;
        let notes = guard.0.take().ok_or(ProcessError::Lost)?;
        Ok(Running {
            notes,
            end,
            pid: started.pid.as_raw_nonzero().get().unsigned_abs(),
            stdin_writer: started.stdin_writer,
            chunks: started.chunks,
        })
    }
}

impl Running {
    /// Returns the PID of the process that was started; with bubblewrap that is the sandbox's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Takes the writer of its input. Returns it once, and only for [`Stdin::Piped`](crate::Stdin::Piped).
    pub fn stdin_writer(&mut self) -> Option<StdinWriter> {
        self.stdin_writer.take()
    }

    /// Takes its output. Returns it once, and only for [`Stdout::Piped`](crate::Stdout::Piped). If it is dropped, the program writes into a closed
    /// pipe.
    pub fn chunks(&mut self) -> Option<Chunks> {
        self.chunks.take()
    }

    /// Sends SIGINT to all its processes and lets it continue, for programs that interpret it as the end of a turn.
    pub fn interrupt(&self) {
        let _ = self.notes.send(SupervisorEvent::Signal(Signal::INT));
    }

    /// Stops the program: the shutdown sequence, then SIGKILL. [`end`](Self::end) returns the result.
    pub fn stop(&self) {
        let _ = self.notes.send(SupervisorEvent::Stop);
    }

    /// Waits for the end: the program is reaped, its remaining processes are gone, and the retained output is complete.
    pub async fn end(&mut self) -> Result<End, ProcessError> {
        (&mut self.end).await.unwrap_or(Err(ProcessError::Lost))
    }
}
