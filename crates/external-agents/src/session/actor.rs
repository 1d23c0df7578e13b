//! The task that owns one process: no other task reads it, writes to it or ends it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendEvent, BackendExit, BackendNotice,
    BackendOutcome, BackendSpec, BackendStatus, ObservedCall, Steered,
};
use windlass_process::{End, LineTooLong, Lines, Output, ProcessError, Running};

use super::deadlines::{Deadlines, Expired, Silence};
use super::finish::{self, EndContext};
use super::host::{HostCalls, HostReply};
use super::input::Input;
use super::outbox::Outbox;
use super::program::AgentProcess;
use super::{SessionCommand, SessionSettings};
use crate::protocol::{HostCall, Protocol, Readiness, SteerId, Step};

/// How long a process may run after it closed its output, and how long a pipe may stay open after its process exited.
const STRAGGLING: Duration = Duration::from_secs(5);
/// Maximum wait for an agent to replay a conversation. An agent that never falls silent gets its prompt anyway.
const MAX_REPLAY: Duration = Duration::from_secs(5);

/// The current turn, until its result is delivered.
struct ActiveTurn {
    /// The prompt, until the agent is ready for it.
    prompt: Option<String>,
    reply: oneshot::Sender<BackendOutcome>,
    /// The turn's result, until all events are delivered.
    result: Option<Result<BackendEnd, BackendError>>,
}

/// Why the process is being shut down.
enum ShutdownCause {
    Closed,
    Failed(BackendError),
}

/// An action that is due at a certain time.
enum Due {
    Expired(Expired),
    Quiet,
    Stop,
    /// The process has closed its output but still runs.
    Straggler,
    GiveUpPipe,
}

pub(super) struct Actor {
    spec: BackendSpec,
    settings: SessionSettings,
    protocol: Box<dyn Protocol>,
    running: Running,
    input: Input,
    lines: Lines,
    stderr: Arc<Output>,
    inbox: mpsc::UnboundedReceiver<SessionCommand>,
    status: watch::Sender<BackendStatus>,
    deadlines: Deadlines,
    outbox: Outbox,
    turn: Option<ActiveTurn>,
    /// Replies to the senders of steering texts that the agent has not yet accepted.
    steers: HashMap<SteerId, oneshot::Sender<Steered>>,
    /// The number of steering texts so far.
    steer_count: u64,
    host_calls: HostCalls,
    /// Whether the agent's terminals and requests at the host were released, until its next turn.
    is_host_released: bool,
    stopping: Option<ShutdownCause>,
    /// Whether the only outstanding request is to end the process.
    is_closing: bool,
    /// Whether a turn was ever requested. The first request learns how a process ended that failed before it.
    was_prompted: bool,
    /// When the process is stopped, whatever its turn does.
    stop_at: Option<Instant>,
    has_failed: bool,
    last_line: Instant,
    /// Since when the agent may be replaying history.
    replaying_since: Option<Instant>,
    /// The last reported activity, used to explain a silence.
    last_activity: String,
    is_inbox_open: bool,
    is_stderr_open: bool,
    is_stdout_open: bool,
    end: Option<Result<End, ProcessError>>,
    /// When the exit, or the end of the output, was observed.
    straggling_since: Option<Instant>,
}

impl Actor {
    pub(super) fn new(
        spec: BackendSpec,
        settings: SessionSettings,
        process: AgentProcess,
        protocol: Box<dyn Protocol>,
        inbox: mpsc::UnboundedReceiver<SessionCommand>,
        status: watch::Sender<BackendStatus>,
    ) -> Self {
        let now = Instant::now();
        let deadlines = Deadlines::new(spec.inactivity_timeout, spec.turn_limit, now);
        Self {
            spec,
            settings,
            protocol,
            running: process.running,
            input: Input::new(process.stdin_writer),
            lines: process.lines,
            stderr: process.stderr,
            inbox,
            status,
            deadlines,
            outbox: Outbox::default(),
            turn: None,
            steers: HashMap::new(),
            steer_count: 0,
            host_calls: HostCalls::new(),
            is_host_released: false,
            stopping: None,
            is_closing: false,
            was_prompted: false,
            stop_at: None,
            has_failed: false,
            last_line: now,
            replaying_since: None,
            last_activity: "nothing".to_owned(),
            is_inbox_open: true,
            is_stderr_open: true,
            is_stdout_open: true,
            end: None,
            straggling_since: None,
        }
    }

    /// Runs until no process of the tree is left.
    pub(super) async fn run(mut self) -> BackendExit {
        let steps = self.protocol.begin();
        self.perform(steps);
        loop {
            self.settle();
            if self.is_over() {
                return self.finish();
            }
            let due = self.due();
            let due_at = due.as_ref().map_or_else(Instant::now, |(at, _)| *at);
            tokio::select! {
                command = self.inbox.recv(), if self.is_inbox_open => self.execute(command),
                () = self.outbox.deliver(), if self.outbox.can_deliver() => self.deadlines.record_activity(Instant::now()),
                line = self.lines.next(), if self.is_stdout_open && self.reads_output() => self.read_line(line),
                text = self.stderr.fresh(), if self.is_stderr_open && self.outbox.has_room() => self.read_stderr(text),
                Some(reply) = self.host_calls.next(&self.input), if !self.input.has_unsent() => self.answer_host_call(reply),
                () = self.input.room(), if self.input.has_unsent() => {
                    self.deadlines.record_activity(Instant::now());
                    self.input.flush();
                }
                ended = self.running.end(), if self.end.is_none() => {
                    self.end = Some(ended);
                    self.straggling_since = Some(Instant::now());
                }
                () = sleep_until(due_at), if due.is_some() => {
                    if let Some((_, due)) = due {
                        self.handle_due(&due);
                    }
                }
                else => return self.finish(),
            }
        }
    }

    /// Returns whether the process has exited, its output is read, and all events are delivered.
    fn is_over(&self) -> bool {
        let is_delivered = !self.outbox.can_deliver() && self.was_prompted;
        self.end.is_some() && !self.is_stdout_open && (is_delivered || self.is_closing)
    }

    /// Returns whether the agent's output is read. Not reading bounds its output and its requests.
    fn reads_output(&self) -> bool {
        self.outbox.has_room() && !self.host_calls.is_full() && !self.input.is_full()
    }

    /// Performs every action that has become possible.
    fn settle(&mut self) {
        let now = Instant::now();
        self.deadlines.suspend(now, self.protocol.waits_for_user());
        match self.protocol.readiness() {
            Readiness::WhenQuiet(_) => self.replaying_since = self.replaying_since.or(Some(now)),
            Readiness::Ready if self.is_prompt_waiting() => self.send_prompt(),
            Readiness::Ready | Readiness::NotYet => {}
        }
        let is_delivered = !self.outbox.can_deliver();
        if is_delivered && self.turn.as_ref().is_some_and(|turn| turn.result.is_some()) {
            self.end_turn();
        }
    }

    /// Returns whether a prompt waits for a process that can still read it.
    fn is_prompt_waiting(&self) -> bool {
        let is_alive = self.stopping.is_none() && self.end.is_none();
        is_alive && self.turn.as_ref().is_some_and(|turn| turn.prompt.is_some())
    }

    fn send_prompt(&mut self) {
        let prompt = self.turn.as_mut().and_then(|turn| turn.prompt.take());
        if let Some(prompt) = prompt {
            let steps = self.protocol.prompt(&prompt);
            self.perform(steps);
        }
    }

    fn end_turn(&mut self) {
        let Some(turn) = self.turn.take() else {
            return;
        };
        self.outbox.end_turn();
        self.release_host();
        // The agent does not accept texts that it has not confirmed by now.
        for (_, reply) in self.steers.drain() {
            let _ = reply.send(Steered::Rejected);
        }
        if let Some(result) = turn.result {
            self.has_failed = result.is_err();
            let outcome = self.end_context().outcome(result, None);
            self.set_status(BackendStatus::Idle);
            let _ = turn.reply.send(outcome);
        }
        if self.stopping.is_some() {
            self.stop_at = Some(Instant::now());
        }
    }

    fn end_context(&self) -> EndContext<'_> {
        EndContext {
            choice: &self.spec.session,
            protocol: self.protocol.as_ref(),
            stderr: &self.stderr,
            exited_unprompted: self.stopping.is_none(),
        }
    }

    fn set_status(&self, status: BackendStatus) {
        self.status.send_if_modified(|current| {
            let is_new = *current != status;
            *current = status;
            is_new
        });
    }

    fn is_turn_running(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.result.is_none())
    }

    /// Returns the next deadline and its action.
    fn due(&self) -> Option<(Instant, Due)> {
        let mut all = Vec::new();
        let is_watched = self.is_turn_running() && self.stopping.is_none() && self.end.is_none();
        let waits_for_host = !self.host_calls.is_empty() && self.input.has_room();
        let silence = if waits_for_host || self.outbox.can_deliver() {
            Silence::Excused
        } else {
            Silence::Counts
        };
        if is_watched && let Some((at, expired)) = self.deadlines.deadline(silence) {
            all.push((at, Due::Expired(expired)));
        }
        let readiness = self.protocol.readiness();
        if let (true, Readiness::WhenQuiet(quiet)) = (self.is_prompt_waiting(), readiness) {
            let at = self.last_line + quiet;
            let latest = self.replaying_since.map(|since| since + MAX_REPLAY);
            all.push((latest.map_or(at, |latest| at.min(latest)), Due::Quiet));
        }
        all.extend(self.stop_at.map(|at| (at, Due::Stop)));
        if let Some(since) = self.straggling_since {
            // A pipe that still delivers data is not a straggler.
            let at = since.max(self.last_line) + STRAGGLING;
            match self.end {
                None => all.push((at, Due::Straggler)),
                Some(_) if self.is_stdout_open && self.reads_output() => {
                    all.push((at, Due::GiveUpPipe));
                }
                Some(_) => {}
            }
        }
        all.into_iter().min_by_key(|(at, _)| *at)
    }

    fn handle_due(&mut self, due: &Due) {
        match due {
            Due::Expired(expired) => {
                let (kind, reason) = match expired {
                    Expired::Silence => {
                        (BackendErrorKind::Inactive, "the agent produced no output")
                    }
                    Expired::Turn => (
                        BackendErrorKind::TimeOver,
                        "the turn exceeded its time limit",
                    ),
                };
                let message = format!("{reason}; last activity: {}", self.last_activity);
                self.fail(BackendError::new(kind, message));
            }
            Due::Quiet => self.send_prompt(),
            Due::Stop => {
                self.stop_at = None;
                self.straggling_since = None;
                self.running.stop();
            }
            Due::Straggler => {
                self.straggling_since = None;
                // The agent's earlier messages explain more than the exit itself.
                let stderr = finish::stderr_tail(&self.stderr);
                let cause = self.protocol.explain_exit(&BackendExit::default(), &stderr);
                let message = "the process closed its output but did not exit";
                self.fail(BackendError::new(cause.kind, message));
            }
            Due::GiveUpPipe => self.is_stdout_open = false,
        }
    }

    /// Ends the process because it is unusable.
    fn fail(&mut self, error: BackendError) {
        if self.stopping.is_none() {
            self.stopping = Some(ShutdownCause::Failed(error));
            self.running.stop();
        }
    }

    fn execute(&mut self, command: Option<SessionCommand>) {
        match command {
            Some(SessionCommand::Prompt {
                prompt,
                events,
                reply,
            }) => self.begin_turn(prompt, events, reply),
            Some(SessionCommand::Steer { text, reply }) => self.steer(&text, reply),
            Some(SessionCommand::Interrupt { reply }) => {
                self.interrupt();
                let _ = reply.send(());
            }
            Some(SessionCommand::Answer {
                request,
                decision,
                reply,
            }) => {
                let steps = self.protocol.answer(&request, &decision);
                let answered = steps.map(|steps| self.perform(steps));
                let _ = reply.send(answered.ok_or_else(|| {
                    let message = format!("`{request}` is not open");
                    BackendError::new(BackendErrorKind::UnknownRequest, message)
                }));
            }
            Some(SessionCommand::Close) => self.close(),
            // All session handles were dropped.
            None => {
                self.is_inbox_open = false;
                self.close();
            }
        }
    }

    fn begin_turn(
        &mut self,
        prompt: String,
        events: mpsc::Sender<BackendEvent>,
        reply: oneshot::Sender<BackendOutcome>,
    ) {
        let refused = match (&self.turn, &self.stopping) {
            (Some(_), _) => Some((BackendErrorKind::Busy, "wait for the end of its turn")),
            (None, Some(ShutdownCause::Closed)) => {
                Some((BackendErrorKind::Closed, "open the session again"))
            }
            // A process that failed before its first turn reports the failure to the first request.
            (None, Some(ShutdownCause::Failed(_)) | None) => None,
        };
        if let Some((kind, message)) = refused {
            let _ = reply.send(BackendOutcome::failed(BackendError::new(kind, message)));
            return;
        }
        self.was_prompted = true;
        self.is_host_released = false;
        self.deadlines.begin_turn(Instant::now());
        self.outbox.begin_turn(events);
        "nothing".clone_into(&mut self.last_activity);
        self.set_status(BackendStatus::Running);
        self.turn = Some(ActiveTurn {
            prompt: Some(prompt),
            reply,
            result: None,
        });
    }

    fn steer(&mut self, text: &str, reply: oneshot::Sender<Steered>) {
        let is_prompt_sent = self.turn.as_ref().is_some_and(|turn| turn.prompt.is_none());
        let can = is_prompt_sent && self.is_turn_running() && self.stopping.is_none();
        self.steer_count += 1;
        let id = SteerId(self.steer_count);
        match can.then(|| self.protocol.steer(id, text)).flatten() {
            Some(steps) => {
                self.steers.insert(id, reply);
                self.perform(steps);
            }
            None => {
                let _ = reply.send(Steered::Rejected);
            }
        }
    }

    fn interrupt(&mut self) {
        match &mut self.turn {
            // The prompt was not sent and is discarded.
            Some(turn) if turn.prompt.is_some() => {
                turn.prompt = None;
                turn.result = Some(Ok(BackendEnd::Interrupted));
            }
            Some(turn) if turn.result.is_none() => {
                let steps = self.protocol.interrupt();
                self.perform(steps);
                self.release_host();
            }
            Some(_) | None => {}
        }
    }

    /// Ends the process: its turn is interrupted first, then the process is stopped.
    fn close(&mut self) {
        self.is_closing = true;
        self.outbox.begin_ending();
        if self.stopping.is_some() {
            return;
        }
        let mut grace = Duration::ZERO;
        if self.is_turn_running() {
            grace = self.settings.interrupt_grace;
            let steps = self.protocol.interrupt();
            self.perform(steps);
            self.release_host();
        }
        if self.end.is_none() {
            self.stopping = Some(ShutdownCause::Closed);
            self.stop_at = Some(Instant::now() + grace);
        }
    }

    fn read_line(&mut self, line: Result<Option<Vec<u8>>, LineTooLong>) {
        let now = Instant::now();
        self.last_line = now;
        self.deadlines.record_activity(now);
        match line {
            Ok(Some(line)) => {
                let steps = self.protocol.line(&line);
                self.perform(steps);
            }
            Ok(None) => {
                self.is_stdout_open = false;
                self.straggling_since.get_or_insert(now);
            }
            Err(LineTooLong { limit }) => {
                let cut = BackendNotice::LineCut { limit };
                self.perform(vec![Step::Event(BackendEvent::Notice(cut))]);
            }
        }
    }

    fn read_stderr(&mut self, text: Option<String>) {
        self.deadlines.record_activity(Instant::now());
        match text {
            Some(text) => {
                let steps = self.protocol.stderr_text(&text);
                self.perform(steps);
            }
            None => self.is_stderr_open = false,
        }
    }

    fn perform(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Send(line) => self.input.send(line),
                Step::Event(event) => self.report(event),
                Step::Host(call) => self.call_host(call),
                Step::Silent(time) => self.deadlines.announce(Instant::now(), time),
                Step::SilentUntil(at) => {
                    let left = at.signed_duration_since(chrono::Utc::now()).to_std();
                    let left = left.unwrap_or(Duration::ZERO);
                    self.deadlines.announce(Instant::now(), left);
                }
                Step::Steered(id, steered) => {
                    if let Some(reply) = self.steers.remove(&id) {
                        let _ = reply.send(steered);
                    }
                }
                Step::Ended(result) => self.record_end(result),
                Step::Broken(error) => self.fail(error),
            }
        }
    }

    /// A turn that ends after the decision to end it is not successful.
    fn record_end(&mut self, result: Result<BackendEnd, BackendError>) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.result.is_none()) else {
            return;
        };
        match &self.stopping {
            None => turn.result = Some(result),
            Some(_) => {
                tracing::debug!(?result, "a turn ended after its process was stopped");
                self.stop_at = Some(Instant::now());
            }
        }
    }

    fn report(&mut self, event: BackendEvent) {
        let seen = match &event {
            BackendEvent::Text { .. } => "text".to_owned(),
            BackendEvent::Thinking { .. } => "thoughts".to_owned(),
            BackendEvent::ToolStarted(call) => format!("the start of a call of {}", call.name),
            BackendEvent::ToolOutput { .. } => "output of a call".to_owned(),
            BackendEvent::ToolCompleted(_) => "the end of a call".to_owned(),
            BackendEvent::Notice(BackendNotice::Retry {
                message, status, ..
            }) => format!("a retry ({message}, status {status:?})"),
            BackendEvent::Notice(BackendNotice::Limit { .. }) => "a limit".to_owned(),
            BackendEvent::Started { .. } => "the start of the session".to_owned(),
            BackendEvent::Permission(_)
            | BackendEvent::PermissionWithdrawn { .. }
            | BackendEvent::Usage(_)
            | BackendEvent::Notice(_) => self.last_activity.clone(),
        };
        self.last_activity = seen;
        if let BackendEvent::Text { parent: None, .. }
        | BackendEvent::Thinking { parent: None, .. }
        | BackendEvent::ToolStarted(ObservedCall { parent: None, .. }) = &event
        {
            self.deadlines.end_announcement();
        }
        if self.is_turn_running() {
            match &event {
                BackendEvent::Notice(BackendNotice::Limit { reset_at }) => {
                    self.set_status(BackendStatus::Waiting { until: *reset_at });
                }
                BackendEvent::Text { .. } | BackendEvent::ToolStarted(_) => {
                    self.set_status(BackendStatus::Running);
                }
                _ => {}
            }
        }
        self.outbox.push(event);
    }

    fn call_host(&mut self, call: HostCall) {
        if let Some((request, refusal)) = self.host_calls.start(self.spec.host.clone(), call) {
            let steps = self.protocol.host_answer(request, refusal);
            self.perform(steps);
        }
    }

    /// The agent waited for Windlass, so its silence is measured from here.
    fn answer_host_call(&mut self, (request, answer): HostReply) {
        self.deadlines.record_activity(Instant::now());
        if self.is_host_released {
            // The agent may have started a program before it was stopped.
            self.spec.host.iter().for_each(|host| host.release_all());
        }
        let steps = self.protocol.host_answer(request, answer);
        self.perform(steps);
    }

    /// Releases the agent's resources at the host: none of them outlives a turn.
    fn release_host(&mut self) {
        self.is_host_released = true;
        self.host_calls.abort_all();
        self.spec.host.iter().for_each(|host| host.release_all());
    }

    /// Reports the exit to every waiting request.
    fn finish(mut self) -> BackendExit {
        let exit = self.end.take().map(finish::exit).unwrap_or_default();
        let stderr = finish::stderr_tail(&self.stderr);
        let result = match (&mut self.turn, &self.stopping) {
            (Some(turn), _) if turn.result.is_some() => turn.result.take(),
            (_, Some(ShutdownCause::Closed)) => Some(Err(BackendError::new(
                BackendErrorKind::Cancelled,
                "the session was closed",
            ))),
            (_, Some(ShutdownCause::Failed(error))) => Some(Err(error.clone())),
            (Some(_), None) => Some(Err(self.protocol.explain_exit(&exit, &stderr))),
            (None, None) => None,
        };
        let is_failure = result.as_ref().map_or(self.has_failed, Result::is_err);
        let status = match &self.stopping {
            Some(ShutdownCause::Closed) => BackendStatus::Cancelled,
            Some(ShutdownCause::Failed(_)) => BackendStatus::Failed,
            None if is_failure => BackendStatus::Failed,
            None => BackendStatus::Completed,
        };
        self.set_status(status);
        self.outbox.deliver_rest();
        if let (Some(turn), Some(result)) = (self.turn.take(), result) {
            let outcome = self.end_context().outcome(result, Some(exit.clone()));
            let _ = turn.reply.send(outcome);
        }
        exit
    }
}
