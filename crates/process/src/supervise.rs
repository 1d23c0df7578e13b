//! The threads that look after a running program.
//!
//! They are threads and not tasks, because a program must end also when the executor is gone, because a sandbox or a death
//! signal goes with the *thread* that started the program, and because landlock confines the thread that asks for it: one is
//! confined, starts the program, which inherits that, and then only waits for it.

use std::io::{self, pipe};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::confine::Confinement;
use crate::error::ProcessError;
use crate::family::Family;
use crate::feed::{self, Closer, Feed};
use crate::ladder::{Ladder, Rung};
use crate::launch::{Launched, Pipes, launch, pid_of};
use crate::lifeline::Lifeline;
use crate::processes::Member;
use crate::program::{Program, Stderr, Stdin, Stdout};
use crate::read::{self, Chunks};
use crate::records::Record;
use crate::running::{Cause, End};

/// How long a killed process may take to be gone, and its output to be read.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// When the processes of a program are recorded for the first time after its start, and how seldom they are at last.
const FIRST_RECORD: Duration = Duration::from_millis(250);
const LAST_RECORD: Duration = Duration::from_secs(8);

pub(crate) enum Note {
    Stop,
    Signal(Signal),
    /// The init of its sandbox, which mostly is not there yet when the program is recorded for the first time.
    Init(Member),
    Exited,
}

/// What whoever started a program gets.
pub(crate) struct Started {
    pub(crate) pid: Pid,
    pub(crate) feed: Option<Feed>,
    pub(crate) chunks: Option<Chunks>,
}

pub(crate) fn spawn_thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), ProcessError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned
        .map(drop)
        .map_err(ProcessError::io("start a thread for the command"))
}

/// Starts a program and looks after it until it has ended.
pub(crate) fn supervise(
    program: Program,
    tell: oneshot::Sender<Result<Started, ProcessError>>,
    notes: Sender<Note>,
    inbox: &Receiver<Note>,
) -> Result<End, ProcessError> {
    let (mut supervised, started) = match Supervised::start(program, notes) {
        Ok(begun) => begun,
        Err(error) => {
            let _ = tell.send(Err(error));
            return Err(ProcessError::Lost);
        }
    };
    // Whoever started it may be gone by now; then there is a note to stop.
    let _ = tell.send(Ok(started));
    supervised.see_to_its_end(inbox)
}

/// A program that runs, and all that belongs to it.
struct Supervised {
    child: Child,
    family: Family,
    lifeline: Option<Lifeline>,
    record: Option<Record>,
    closer: Option<Closer>,
    drained: Vec<Receiver<()>>,
    started: Instant,
    time: Option<Duration>,
    ladder: Ladder,
    /// Whether its processes have to be recorded again and again, because something could outlive us.
    is_watched: bool,
    _scratch: Option<TempDir>,
}

impl Supervised {
    fn start(mut program: Program, notes: Sender<Note>) -> Result<(Self, Started), ProcessError> {
        let mark = program.new_mark();
        let prepared = program.command(&mark)?;
        let scratch = program.scratch.take();
        let records = program.records.take();
        let (time, ladder) = (program.time, program.ladder.clone());
        let record = records.map(|records| records.begin()).transpose();
        let mut record = record.map_err(ProcessError::io("record the command"))?;
        let is_sandbox = program.confinement == Confinement::Bubblewrap;
        let started = Instant::now();

        // First the readers: a program must not be started that nobody looks after.
        let mut drained = Vec::new();
        let make_pipe = || pipe().map_err(ProcessError::io("make a pipe"));
        let (reader, stdout) = make_pipe()?;
        let chunks = match &program.stdout {
            Stdout::Read => Some(read::into_chunks(reader)?),
            Stdout::Kept(output) => {
                drained.push(read::into_output(reader, output)?);
                None
            }
        };
        let stderr = match &program.stderr {
            Stderr::WithStdout => stdout
                .try_clone()
                .map_err(ProcessError::io("make a pipe"))?,
            Stderr::Kept(output) => {
                let (reader, writer) = make_pipe()?;
                drained.push(read::into_output(reader, output)?);
                writer
            }
        };
        let (stdin, feed, closer) = match program.stdin {
            Stdin::Nothing => {
                let channel = program.proxied.take().map(|proxied| proxied.channel);
                (channel.map(OwnedFd::from), None, None)
            }
            Stdin::Fed => {
                let (reader, writer) = make_pipe()?;
                let (feed, closer) = feed::start(writer)?;
                (Some(reader.into()), Some(feed), Some(closer))
            }
        };
        let pipes = Pipes {
            stdin,
            stdout,
            stderr,
        };
        let scratch_path = scratch.as_ref().map(|made| made.path().to_owned());
        let lifeline =
            move |mark: &str, around| Lifeline::start(mark, scratch_path.as_deref(), around);
        let mark_of_launch = mark.clone();
        let lifeline = move |confinement: Confinement| {
            if is_sandbox {
                return Ok(None);
            }
            let around = confinement
                .surround_thread()
                .map_err(ProcessError::Sandbox)?;
            lifeline(&mark_of_launch, around).map(Some)
        };
        let init = Arc::default();
        let launched = launch(program, prepared, pipes, notes, Arc::clone(&init), lifeline)?;
        let Launched {
            child,
            known,
            mut lifeline,
            domain,
        } = launched;
        let leader = pid_of(&child).ok_or(ProcessError::Lost)?;
        if let Some(lifeline) = &mut lifeline {
            lifeline.watch(child.id());
        }
        let is_watched = record.is_some() && !is_sandbox;
        let mut family = Family::new(leader, &mark, is_sandbox, init, domain, known);
        write_record(&mut record, &mut family);
        let supervised = Self {
            child,
            family,
            lifeline,
            record,
            closer,
            drained,
            started,
            time,
            ladder,
            is_watched,
            _scratch: scratch,
        };
        let started = Started {
            pid: leader,
            feed,
            chunks,
        };
        Ok((supervised, started))
    }

    fn see_to_its_end(&mut self, inbox: &Receiver<Note>) -> Result<End, ProcessError> {
        let cause = self.wait(inbox);
        let (rung, is_gone, is_whole) = match cause {
            Cause::Itself => (None, true, self.family.sweep()),
            Cause::TimeOver | Cause::Stopped => {
                let rung = self.climb(inbox);
                let is_whole = self.family.kill();
                let is_gone = rung.is_some() || exited_within(inbox, AFTER_KILL);
                (rung, is_gone, is_whole)
            }
        };
        // Only now may the leader's number be given to another process.
        self.lifeline = None;
        self.closer = None;
        let status = match is_gone {
            true => Some(
                self.child
                    .wait()
                    .map_err(ProcessError::io("learn how the command ended"))?,
            ),
            false => None,
        };
        let is_whole = is_whole && is_gone;
        if let Some(record) = self.record.take().filter(|_| is_whole) {
            record.forget();
        }
        // Whoever still holds the pipe is none of ours.
        for drained in &self.drained {
            let _ = drained.recv_timeout(AFTER_KILL);
        }
        Ok(End {
            status,
            cause,
            rung,
            is_whole,
            took: self.started.elapsed(),
        })
    }

    /// Waits until the program ends, somebody stops it, or its time is over.
    fn wait(&mut self, inbox: &Receiver<Note>) -> Cause {
        let deadline = self.time.map(|time| self.started + time);
        let mut pause = FIRST_RECORD;
        let mut next_record = self.is_watched.then(|| Instant::now() + pause);
        loop {
            let until = [deadline, next_record].into_iter().flatten().min();
            let note = match until {
                Some(until) => inbox.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match note {
                Ok(Note::Exited) => return Cause::Itself,
                Ok(Note::Signal(signal)) => self.family.ask(signal),
                Ok(Note::Init(init)) => {
                    told(self.record.as_mut().map(|record| record.add(init)));
                }
                Ok(Note::Stop) | Err(RecvTimeoutError::Disconnected) => return Cause::Stopped,
                Err(RecvTimeoutError::Timeout)
                    if deadline.is_some_and(|end| end <= Instant::now()) =>
                {
                    return Cause::TimeOver;
                }
                Err(RecvTimeoutError::Timeout) => {
                    write_record(&mut self.record, &mut self.family);
                    pause = (pause * 2).min(LAST_RECORD);
                    next_record = Some(Instant::now() + pause);
                }
            }
        }
    }

    /// Asks the program to end, ever more plainly. Returns which rung it took, if it took one.
    fn climb(&mut self, inbox: &Receiver<Note>) -> Option<Rung> {
        for (rung, time) in self.ladder.0.clone() {
            match rung.signal() {
                Some(signal) => self.family.ask(signal),
                None => self.closer.iter().for_each(Closer::close),
            }
            if exited_within(inbox, time) {
                return Some(rung);
            }
        }
        None
    }
}

/// Records who is there.
fn write_record(record: &mut Option<Record>, family: &mut Family) {
    told(
        record
            .as_mut()
            .map(|record| record.write(&family.everybody())),
    );
}

/// A record that cannot be written is no reason to stop: the next one may be.
fn told(recorded: Option<io::Result<()>>) {
    if let Some(Err(error)) = recorded {
        tracing::warn!(%error, "the processes of a command cannot be recorded");
    }
}

fn exited_within(inbox: &Receiver<Note>, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Note::Exited) => return true,
            Ok(Note::Stop | Note::Signal(_) | Note::Init(_)) => {}
            Err(_) => return false,
        }
    }
}
