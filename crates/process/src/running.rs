//! A program that runs, from the side of who started it.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::oneshot;

use crate::error::ProcessError;
use crate::feed::Feed;
use crate::ladder::Rung;
use crate::output::Output;
use crate::program::{Program, Stderr, Stdout};
use crate::read::Chunks;
use crate::supervise::{Note, spawn_thread, supervise};

/// Why a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself.
    Itself,
    /// Its time was over.
    TimeOver,
    /// Somebody stopped it.
    Stopped,
}

/// How a program ended.
#[derive(Debug)]
pub struct End {
    /// `None` when it could not be killed.
    pub status: Option<ExitStatus>,
    /// Why it ended.
    pub cause: Cause,
    /// By which rung of the ladder it went; `None` where it had to be killed, or went by itself.
    pub rung: Option<Rung>,
    /// Whether it was seen that nobody of its processes is left.
    pub is_whole: bool,
    /// How long it took, with the time to clean up after it.
    pub took: Duration,
}

/// A program that runs. When this is dropped, the program is stopped, and somebody sees to it that it ends.
pub struct Running {
    notes: Sender<Note>,
    end: oneshot::Receiver<Result<End, ProcessError>>,
    pid: u32,
    feed: Option<Feed>,
    chunks: Option<Chunks>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Says that nothing more comes, whatever happened.
struct CloseAtEnd(Vec<Arc<Output>>);

impl CloseAtEnd {
    fn of(program: &Program) -> Self {
        let mut outputs = Vec::new();
        if let Stdout::Kept(output) = &program.stdout {
            outputs.push(Arc::clone(output));
        }
        if let Stderr::Kept(output) = &program.stderr {
            outputs.push(Arc::clone(output));
        }
        Self(outputs)
    }
}

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        self.0.iter().for_each(|output| output.close());
    }
}

/// Stops a program that nobody waits for yet.
struct StopAtEnd(Option<Sender<Note>>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        if let Some(notes) = self.0.take() {
            let _ = notes.send(Note::Stop);
        }
    }
}

impl Program {
    /// Starts the program. When the future is dropped, it is stopped.
    pub async fn start(self) -> Result<Running, ProcessError> {
        let (notes, inbox) = channel();
        let (tell, told) = oneshot::channel();
        let (tell_end, end) = oneshot::channel();
        let to_self = notes.clone();
        let outputs = CloseAtEnd::of(&self);
        spawn_thread("windlass-program", move || {
            let _outputs = outputs;
            let done = supervise(self, tell, to_self, &inbox);
            let _ = tell_end.send(done);
        })?;
        let mut guard = StopAtEnd(Some(notes));
        let started = told.await.map_err(|_| ProcessError::Lost)??;
        let notes = guard.0.take().ok_or(ProcessError::Lost)?;
        Ok(Running {
            notes,
            end,
            pid: started.pid.as_raw_nonzero().get().unsigned_abs(),
            feed: started.feed,
            chunks: started.chunks,
        })
    }
}

impl Running {
    /// Returns the number of the process that was started; in bubblewrap it is the sandbox's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Takes its input, once, if it was started to be fed.
    pub fn feed(&mut self) -> Option<Feed> {
        self.feed.take()
    }

    /// Takes what it says, once, if it was started to be read. Who drops it lets the program write into a closed pipe.
    pub fn chunks(&mut self) -> Option<Chunks> {
        self.chunks.take()
    }

    /// Sends SIGINT to all its processes and lets it go on, for programs that take it for the end of a turn.
    pub fn interrupt(&self) {
        let _ = self.notes.send(Note::Signal(Signal::INT));
    }

    /// Stops it: up the ladder, and then SIGKILL. [`end`](Self::end) tells how it went.
    pub fn stop(&self) {
        let _ = self.notes.send(Note::Stop);
    }

    /// Waits for its end: it is reaped, what it left behind is gone, and what is kept of its output is whole.
    pub async fn end(&mut self) -> Result<End, ProcessError> {
        (&mut self.end).await.unwrap_or(Err(ProcessError::Lost))
    }
}
