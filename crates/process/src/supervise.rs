//! The threads that supervise a running program.
//!
//! They are threads rather than tasks for three reasons. A program must end even when the executor is gone. A sandbox or a death signal is tied to
//! the *thread* that started the program. Landlock confines the calling thread: one thread confines itself, starts the program, which inherits the
//! rules, and then only waits for it.

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
use crate::launch::{Launched, Pipes, launch, pid_of};
use crate::parent_death_guard::ParentDeathGuard;
use crate::process_tree::ProcessTree;
use crate::processes::Member;
use crate::program::{Program, Stderr, Stdin, Stdout};
use crate::read::{self, Chunks};
use crate::records::ProcessRecord;
use crate::running::{Cause, End};
use crate::shutdown::{ShutdownSequence, ShutdownStep};
use crate::stdin_writer::{self, Closer, StdinWriter};

/// How long a killed process may take to disappear, and its remaining output to be read.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// Delay before a program's processes are first recorded again, and the longest interval afterwards; the interval doubles each time.
const FIRST_RECORD: Duration = Duration::from_millis(250);
const LAST_RECORD: Duration = Duration::from_secs(8);

pub(crate) enum SupervisorEvent {
    Stop,
    Signal(Signal),
    /// The init of its sandbox, which usually does not exist yet when the program is first recorded.
    Init(Member),
    Exited,
}

/// Returned to the caller that starts a program.
pub(crate) struct StartedProgram {
    pub(crate) pid: Pid,
    pub(crate) stdin_writer: Option<StdinWriter>,
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

/// Starts a program and supervises it until it has ended.
pub(crate) fn supervise(
    program: Program,
    started_sender: oneshot::Sender<Result<StartedProgram, ProcessError>>,
    notes: Sender<SupervisorEvent>,
    inbox: &Receiver<SupervisorEvent>,
) -> Result<End, ProcessError> {
    let (mut supervised, started) = match Supervised::start(program, notes) {
        Ok(supervised) => supervised,
        Err(error) => {
            let _ = started_sender.send(Err(error));
            return Err(ProcessError::Lost);
        }
    };
    // If the caller is gone by now, the inbox contains a request to stop.
    let _ = started_sender.send(Ok(started));
    supervised.wait_for_end(inbox)
}

/// A running program and everything that belongs to it.
struct Supervised {
    child: Child,
    tree: ProcessTree,
    guard: Option<ParentDeathGuard>,
    record: Option<ProcessRecord>,
    closer: Option<Closer>,
    drained: Vec<Receiver<()>>,
    started: Instant,
    time: Option<Duration>,
    shutdown: ShutdownSequence,
    /// Whether its processes are recorded repeatedly, because some could outlive the host.
    records_repeatedly: bool,
    _scratch: Option<TempDir>,
}

impl Supervised {
    fn start(
        mut program: Program,
        notes: Sender<SupervisorEvent>,
    ) -> Result<(Self, StartedProgram), ProcessError> {
        let mark = program.new_mark();
        let prepared = program.command(&mark)?;
        let scratch = program.sandbox.scratch.take();
        let records = program.sandbox.records.take();
        let (time, shutdown) = (program.time, program.shutdown.clone());
        let record = records.map(|records| records.begin()).transpose();
        let mut record = record.map_err(ProcessError::io("record the command"))?;
        let is_sandbox = program.sandbox.confinement == Confinement::Bubblewrap;
        let started = Instant::now();

        // The readers come first, so that no program starts without one.
        let mut drained = Vec::new();
        let make_pipe = || pipe().map_err(ProcessError::io("make a pipe"));
        let (reader, stdout) = make_pipe()?;
        let chunks = match &program.stdout {
            Stdout::Piped => Some(read::into_chunks(reader)?),
            Stdout::Captured(output) => {
                drained.push(read::into_output(reader, output)?);
                None
            }
        };
        let stderr = match &program.stderr {
            Stderr::WithStdout => stdout
                .try_clone()
                .map_err(ProcessError::io("make a pipe"))?,
            Stderr::Captured(output) => {
                let (reader, writer) = make_pipe()?;
                drained.push(read::into_output(reader, output)?);
                writer
            }
        };
        let (stdin, stdin_writer, closer) = match program.stdin {
            Stdin::Empty => {
                let channel = program.proxied.take().map(|proxied| proxied.channel);
                (channel.map(OwnedFd::from), None, None)
            }
            Stdin::Piped => {
                let (reader, writer) = make_pipe()?;
                let (stdin_writer, closer) = stdin_writer::start(writer)?;
                (Some(reader.into()), Some(stdin_writer), Some(closer))
            }
        };
        let pipes = Pipes {
            stdin,
            stdout,
            stderr,
        };
        let scratch_path = scratch
            .as_ref()
            .map(|directory| directory.path().to_owned());
        let guard_mark = mark.clone();
        let guard = move |confinement: Confinement| {
            if is_sandbox {
                return Ok(None);
            }
            let scope = confinement.enter_guard_domain();
            let scope = scope.map_err(ProcessError::Sandbox)?;
            ParentDeathGuard::start(&guard_mark, scratch_path.as_deref(), scope).map(Some)
        };
        let init = Arc::default();
        let launched = launch(program, prepared, pipes, notes, Arc::clone(&init), guard)?;
        let Launched {
            child,
            registration,
            mut guard,
            domain,
        } = launched;
        let leader = pid_of(&child).ok_or(ProcessError::Lost)?;
        if let Some(guard) = &mut guard {
            guard.watch(child.id());
        }
        let records_repeatedly = record.is_some() && !is_sandbox;
        let mut tree = ProcessTree {
            leader,
            mark,
            leader_is_sandbox: is_sandbox,
            init,
            domain,
            registration,
            seen: Vec::new(),
        };
        write_record(&mut record, &mut tree);
        let supervised = Self {
            child,
            tree,
            guard,
            record,
            closer,
            drained,
            started,
            time,
            shutdown,
            records_repeatedly,
            _scratch: scratch,
        };
        let started = StartedProgram {
            pid: leader,
            stdin_writer,
            chunks,
        };
        Ok((supervised, started))
    }

    fn wait_for_end(&mut self, inbox: &Receiver<SupervisorEvent>) -> Result<End, ProcessError> {
        let cause = self.wait(inbox);
        let (step, is_gone, all_ended) = match cause {
            Cause::Exited => (None, true, self.tree.sweep()),
            Cause::TimedOut | Cause::Stopped => {
                let step = self.run_shutdown_steps(inbox);
                let all_ended = self.tree.kill();
                let is_gone = step.is_some() || exited_within(inbox, AFTER_KILL);
                (step, is_gone, all_ended)
            }
        };
        // Until here the leader's PID must not be reused.
        self.guard = None;
        self.closer = None;
        let status = is_gone.then(|| self.child.wait()).transpose();
        let status = status.map_err(ProcessError::io("read the exit status of the command"))?;
        let all_ended = all_ended && is_gone;
        if let Some(record) = self.record.take().filter(|_| all_ended) {
            record.forget();
        }
        // A process that still holds the pipe after this time is not ours.
        for drained in &self.drained {
            let _ = drained.recv_timeout(AFTER_KILL);
        }
        Ok(End {
            status,
            cause,
            step,
            all_ended,
            took: self.started.elapsed(),
        })
    }

    /// Waits until the program exits, is stopped, or exceeds its time limit.
    fn wait(&mut self, inbox: &Receiver<SupervisorEvent>) -> Cause {
        let deadline = self.time.map(|time| self.started + time);
        let mut pause = FIRST_RECORD;
        let mut next_record = self.records_repeatedly.then(|| Instant::now() + pause);
        loop {
            let until = [deadline, next_record].into_iter().flatten().min();
            let note = match until {
                Some(until) => inbox.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match note {
                Ok(SupervisorEvent::Exited) => return Cause::Exited,
                Ok(SupervisorEvent::Signal(signal)) => self.tree.signal_all(signal),
                Ok(SupervisorEvent::Init(init)) => {
                    log_failure(self.record.as_mut().map(|record| record.add(init)));
                }
                Ok(SupervisorEvent::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    return Cause::Stopped;
                }
                Err(RecvTimeoutError::Timeout)
                    if deadline.is_some_and(|end| end <= Instant::now()) =>
                {
                    return Cause::TimedOut;
                }
                Err(RecvTimeoutError::Timeout) => {
                    write_record(&mut self.record, &mut self.tree);
                    pause = (pause * 2).min(LAST_RECORD);
                    next_record = Some(Instant::now() + pause);
                }
            }
        }
    }

    /// Runs the shutdown steps in order. Returns the step that ended the program, if one did.
    fn run_shutdown_steps(&mut self, inbox: &Receiver<SupervisorEvent>) -> Option<ShutdownStep> {
        for (step, time) in self.shutdown.0.clone() {
            match step.signal() {
                Some(signal) => self.tree.signal_all(signal),
                None => self.closer.iter().for_each(Closer::close),
            }
            if exited_within(inbox, time) {
                return Some(step);
            }
        }
        None
    }
}

/// Records the current processes.
fn write_record(record: &mut Option<ProcessRecord>, tree: &mut ProcessTree) {
    log_failure(
        record
            .as_mut()
            .map(|record| record.write(&tree.members_and_orphans())),
    );
}

/// Logs a failed record: the program continues, and the next attempt may succeed.
fn log_failure(recorded: Option<io::Result<()>>) {
    if let Some(Err(error)) = recorded {
        tracing::warn!(%error, "the processes of a command cannot be recorded");
    }
}

fn exited_within(inbox: &Receiver<SupervisorEvent>, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(SupervisorEvent::Exited) => return true,
            Ok(SupervisorEvent::Stop | SupervisorEvent::Signal(_) | SupervisorEvent::Init(_)) => {}
            Err(_) => return false,
        }
    }
}
