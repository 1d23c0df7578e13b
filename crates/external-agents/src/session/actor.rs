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

use super::deadlines::{Deadlines, Over, Silence};
use super::finish::{self, Ending};
use super::host::{HostCalls, Reply};
use super::input::Input;
use super::outbox::Outbox;
use super::start::Started;
use super::{Command, SessionSettings};
use crate::protocol::{HostCall, Protocol, Readiness, SteerId, Step};

/// How long a process may run after it closed its output, and how long a pipe may stay open after its process exited.
const STRAGGLING: Duration = Duration::from_secs(5);
/// Maximum wait for an agent to replay a conversation. An agent that never falls silent gets its prompt anyway.
const LONGEST_REPEAT: Duration = Duration::from_secs(5);

/// The running turn.
struct Turn {
    /// The prompt, until the agent is ready for it.
    prompt: Option<String>,
    reply: oneshot::Sender<BackendOutcome>,
    /// The turn's result, until all events are delivered.
    result: Option<Result<BackendEnd, BackendError>>,
}

/// Why the process is being ended.
enum Stopping {
    Closed,
    Failed(BackendError),
}

/// An action that is due at a certain time.
enum Due {
    Over(Over),
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
    complaints: Arc<Output>,
    inbox: mpsc::UnboundedReceiver<Command>,
    status: watch::Sender<BackendStatus>,
    deadlines: Deadlines,
    outbox: Outbox,
    turn: Option<Turn>,
    /// Replies to the senders of steering texts that the agent has not yet accepted.
    steers: HashMap<SteerId, oneshot::Sender<Steered>>,
    /// The number of steering texts so far.
    steer_count: u64,
    host_calls: HostCalls,
    /// Whether the agent's terminals and requests at the host were released, until its next turn.
    is_host_released: bool,
    ending: Option<Stopping>,
    /// Whether the only outstanding request is to end the process.
    is_closing: bool,
    /// Whether a turn was ever requested. The first request learns how a process ended that failed before it.
    was_asked: bool,
    /// When the process is stopped, whatever its turn does.
    stop_at: Option<Instant>,
    has_failed: bool,
    last_line: Instant,
    /// Since when the agent may be replaying history.
    repeats_since: Option<Instant>,
    /// The last reported activity, used to explain a silence.
    last_seen: String,
    is_inbox_open: bool,
    are_complaints_open: bool,
    are_lines_open: bool,
    end: Option<Result<End, ProcessError>>,
    /// When the exit, or the end of the output, was observed.
    half_ended: Option<Instant>,
}

impl Actor {
    pub(super) fn new(
        spec: BackendSpec,
        settings: SessionSettings,
        started: Started,
        protocol: Box<dyn Protocol>,
        inbox: mpsc::UnboundedReceiver<Command>,
        status: watch::Sender<BackendStatus>,
    ) -> Self {
        let now = Instant::now();
        let deadlines = Deadlines::new(spec.inactivity_timeout, spec.turn_limit, now);
        Self {
            spec,
            settings,
            protocol,
            running: started.running,
            input: Input::new(started.stdin_writer),
            lines: started.lines,
            complaints: started.complaints,
            inbox,
            status,
            deadlines,
            outbox: Outbox::default(),
            turn: None,
            steers: HashMap::new(),
            steer_count: 0,
            host_calls: HostCalls::new(),
            is_host_released: false,
            ending: None,
            is_closing: false,
            was_asked: false,
            stop_at: None,
            has_failed: false,
            last_line: now,
            repeats_since: None,
            last_seen: "nothing".to_owned(),
            is_inbox_open: true,
            are_complaints_open: true,
            are_lines_open: true,
            end: None,
            half_ended: None,
        }
    }

    /// Runs until no process of the tree is left.
    pub(super) async fn run(mut self) -> BackendExit {
        let steps = self.protocol.begin();
        self.act(steps);
        loop {
            self.settle();
            if self.is_over() {
                return self.finish();
            }
            let due = self.due();
            let due_at = due.as_ref().map_or_else(Instant::now, |(at, _)| *at);
            tokio::select! {
                command = self.inbox.recv(), if self.is_inbox_open => self.obey(command),
                () = self.outbox.tell(), if self.outbox.can_tell() => self.deadlines.hear(Instant::now()),
                line = self.lines.next(), if self.are_lines_open && self.may_say_more() => self.hear(line),
                text = self.complaints.fresh(), if self.are_complaints_open && self.outbox.has_room() => self.hear_complaint(text),
                Some(reply) = self.host_calls.next(&self.input), if !self.input.has_unsent() => self.answer_host_call(reply),
                () = self.input.room(), if self.input.has_unsent() => {
                    self.deadlines.hear(Instant::now());
                    self.input.flush();
                }
                ended = self.running.end(), if self.end.is_none() => {
                    self.end = Some(ended);
                    self.half_ended = Some(Instant::now());
                }
                () = sleep_until(due_at), if due.is_some() => {
                    if let Some((_, due)) = due {
                        self.fall_due(&due);
                    }
                }
                else => return self.finish(),
            }
        }
    }

    /// Returns whether the process has exited, its output is read, and all events are delivered.
    fn is_over(&self) -> bool {
        let is_told = !self.outbox.can_tell() && self.was_asked;
        self.end.is_some() && !self.are_lines_open && (is_told || self.is_closing)
    }

    /// Returns whether the agent's output is read. Not reading bounds its output and its requests.
    fn may_say_more(&self) -> bool {
        self.outbox.has_room() && !self.host_calls.is_full() && !self.input.is_full()
    }

    /// Performs every action that has become possible.
    fn settle(&mut self) {
        let now = Instant::now();
        self.deadlines
            .suspend(now, self.protocol.waits_for_person());
        match self.protocol.readiness() {
            Readiness::WhenQuiet(_) => self.repeats_since = self.repeats_since.or(Some(now)),
            Readiness::Ready if self.is_prompt_waiting() => self.say_prompt(),
            Readiness::Ready | Readiness::NotYet => {}
        }
        let is_told = !self.outbox.can_tell();
        if is_told && self.turn.as_ref().is_some_and(|turn| turn.result.is_some()) {
            self.end_turn();
        }
    }

    /// Returns whether a prompt waits for a process that can still read it.
    fn is_prompt_waiting(&self) -> bool {
        let is_alive = self.ending.is_none() && self.end.is_none();
        is_alive && self.turn.as_ref().is_some_and(|turn| turn.prompt.is_some())
    }

    fn say_prompt(&mut self) {
        let prompt = self.turn.as_mut().and_then(|turn| turn.prompt.take());
        if let Some(prompt) = prompt {
            let steps = self.protocol.prompt(&prompt);
            self.act(steps);
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
            let outcome = self.ending().outcome(result, None);
            self.tell_status(BackendStatus::Idle);
            let _ = turn.reply.send(outcome);
        }
        if self.ending.is_some() {
            self.stop_at = Some(Instant::now());
        }
    }

    fn ending(&self) -> Ending<'_> {
        Ending {
            choice: &self.spec.session,
            protocol: self.protocol.as_ref(),
            complaints: &self.complaints,
            ended_by_itself: self.ending.is_none(),
        }
    }

    fn tell_status(&self, status: BackendStatus) {
        self.status.send_if_modified(|told| {
            let is_new = *told != status;
            *told = status;
            is_new
        });
    }

    fn is_turn_running(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.result.is_none())
    }

    /// Returns the next deadline and its action.
    fn due(&self) -> Option<(Instant, Due)> {
        let mut all = Vec::new();
        let is_watched = self.is_turn_running() && self.ending.is_none() && self.end.is_none();
        let waits_for_host = !self.host_calls.is_empty() && self.input.has_room();
        let silence = if waits_for_host || self.outbox.can_tell() {
            Silence::IsExcused
        } else {
            Silence::Counts
        };
        if is_watched && let Some((at, over)) = self.deadlines.deadline(silence) {
            all.push((at, Due::Over(over)));
        }
        let readiness = self.protocol.readiness();
        if let (true, Readiness::WhenQuiet(quiet)) = (self.is_prompt_waiting(), readiness) {
            let at = self.last_line + quiet;
            let latest = self.repeats_since.map(|since| since + LONGEST_REPEAT);
            all.push((latest.map_or(at, |latest| at.min(latest)), Due::Quiet));
        }
        all.extend(self.stop_at.map(|at| (at, Due::Stop)));
        if let Some(since) = self.half_ended {
            // A pipe that still delivers data is not a straggler.
            let at = since.max(self.last_line) + STRAGGLING;
            match self.end {
                None => all.push((at, Due::Straggler)),
                Some(_) if self.are_lines_open && self.may_say_more() => {
                    all.push((at, Due::GiveUpPipe));
                }
                Some(_) => {}
            }
        }
        all.into_iter().min_by_key(|(at, _)| *at)
    }

    fn fall_due(&mut self, due: &Due) {
        match due {
            Due::Over(over) => {
                let (kind, what) = match over {
                    Over::Silence => (BackendErrorKind::Inactive, "it said nothing any more"),
                    Over::Turn => (BackendErrorKind::TimeOver, "it was not done in time"),
                };
                let message = format!("{what}; the last that was seen: {}", self.last_seen);
                self.end_by(BackendError::new(kind, message));
            }
            Due::Quiet => self.say_prompt(),
            Due::Stop => {
                self.stop_at = None;
                self.half_ended = None;
                self.running.stop();
            }
            Due::Straggler => {
                self.half_ended = None;
                // The agent's earlier messages explain more than the exit itself.
                let stderr = finish::last_complaints(&self.complaints);
                let why = self.protocol.why_ended(&BackendExit::default(), &stderr);
                let message = "it closed its output and did not end";
                self.end_by(BackendError::new(why.kind, message));
            }
            Due::GiveUpPipe => self.are_lines_open = false,
        }
    }

    /// Ends the process because it is unusable.
    fn end_by(&mut self, error: BackendError) {
        if self.ending.is_none() {
            self.ending = Some(Stopping::Failed(error));
            self.running.stop();
        }
    }

    fn obey(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Prompt {
                prompt,
                events,
                reply,
            }) => self.begin_turn(prompt, events, reply),
            Some(Command::Steer { text, reply }) => self.steer(&text, reply),
            Some(Command::Interrupt { reply }) => {
                self.interrupt();
                let _ = reply.send(());
            }
            Some(Command::Answer {
                request,
                decision,
                reply,
            }) => {
                let steps = self.protocol.answer(&request, &decision);
                let answered = steps.map(|steps| self.act(steps));
                let _ = reply.send(answered.ok_or_else(|| {
                    let message = format!("`{request}` is not open");
                    BackendError::new(BackendErrorKind::UnknownRequest, message)
                }));
            }
            Some(Command::Close) => self.close(),
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
        let refused = match (&self.turn, &self.ending) {
            (Some(_), _) => Some((BackendErrorKind::Busy, "wait for the end of its turn")),
            (None, Some(Stopping::Closed)) => {
                Some((BackendErrorKind::Closed, "open the session again"))
            }
            // A process that failed before its first turn reports the failure to the first request.
            (None, Some(Stopping::Failed(_)) | None) => None,
        };
        if let Some((kind, message)) = refused {
            let _ = reply.send(BackendOutcome::failed(BackendError::new(kind, message)));
            return;
        }
        self.was_asked = true;
        self.is_host_released = false;
        self.deadlines.begin_turn(Instant::now());
        self.outbox.begin_turn(events);
        "nothing".clone_into(&mut self.last_seen);
        self.tell_status(BackendStatus::Running);
        self.turn = Some(Turn {
            prompt: Some(prompt),
            reply,
            result: None,
        });
    }

    fn steer(&mut self, text: &str, reply: oneshot::Sender<Steered>) {
        let is_said = self.turn.as_ref().is_some_and(|turn| turn.prompt.is_none());
        let can = is_said && self.is_turn_running() && self.ending.is_none();
        self.steer_count += 1;
        let id = SteerId(self.steer_count);
        match can.then(|| self.protocol.steer(id, text)).flatten() {
            Some(steps) => {
                self.steers.insert(id, reply);
                self.act(steps);
            }
            None => {
                let _ = reply.send(Steered::Rejected);
            }
        }
    }

    fn interrupt(&mut self) {
        match &mut self.turn {
            // The prompt was not sent yet, and will not be.
            Some(turn) if turn.prompt.is_some() => {
                turn.prompt = None;
                turn.result = Some(Ok(BackendEnd::Interrupted));
            }
            Some(turn) if turn.result.is_none() => {
                let steps = self.protocol.interrupt();
                self.act(steps);
                self.release_host();
            }
            Some(_) | None => {}
        }
    }

    /// Ends the process: its turn is interrupted first, then the process is stopped.
    fn close(&mut self) {
        self.is_closing = true;
        self.outbox.begin_ending();
        if self.ending.is_some() {
            return;
        }
        let mut grace = Duration::ZERO;
        if self.is_turn_running() {
            grace = self.settings.interrupt_grace;
            let steps = self.protocol.interrupt();
            self.act(steps);
            self.release_host();
        }
        if self.end.is_none() {
            self.ending = Some(Stopping::Closed);
            self.stop_at = Some(Instant::now() + grace);
        }
    }

    fn hear(&mut self, line: Result<Option<Vec<u8>>, LineTooLong>) {
        let now = Instant::now();
        self.last_line = now;
        self.deadlines.hear(now);
        match line {
            Ok(Some(line)) => {
                let steps = self.protocol.line(&line);
                self.act(steps);
            }
            Ok(None) => {
                self.are_lines_open = false;
                self.half_ended.get_or_insert(now);
            }
            Err(LineTooLong { limit }) => {
                let cut = BackendNotice::LineCut { limit };
                self.act(vec![Step::Event(BackendEvent::Notice(cut))]);
            }
        }
    }

    fn hear_complaint(&mut self, text: Option<String>) {
        self.deadlines.hear(Instant::now());
        match text {
            Some(text) => {
                let steps = self.protocol.complaint(&text);
                self.act(steps);
            }
            None => self.are_complaints_open = false,
        }
    }

    fn act(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Send(line) => self.input.send(line),
                Step::Event(event) => self.tell(event),
                Step::Host(call) => self.ask_host(call),
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
                Step::Ended(result) => self.hear_end(result),
                Step::Broken(error) => self.end_by(error),
            }
        }
    }

    /// A turn that ends after the decision to end it is not successful.
    fn hear_end(&mut self, result: Result<BackendEnd, BackendError>) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.result.is_none()) else {
            return;
        };
        match &self.ending {
            None => turn.result = Some(result),
            Some(_) => {
                tracing::debug!(?result, "a turn ended after its process was to be ended");
                self.stop_at = Some(Instant::now());
            }
        }
    }

    fn tell(&mut self, event: BackendEvent) {
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
            | BackendEvent::Notice(_) => self.last_seen.clone(),
        };
        self.last_seen = seen;
        if let BackendEvent::Text { parent: None, .. }
        | BackendEvent::Thinking { parent: None, .. }
        | BackendEvent::ToolStarted(ObservedCall { parent: None, .. }) = &event
        {
            self.deadlines.go_on();
        }
        if self.is_turn_running() {
            match &event {
                BackendEvent::Notice(BackendNotice::Limit { reset_at }) => {
                    self.tell_status(BackendStatus::Waiting { until: *reset_at });
                }
                BackendEvent::Text { .. } | BackendEvent::ToolStarted(_) => {
                    self.tell_status(BackendStatus::Running);
                }
                _ => {}
            }
        }
        self.outbox.push(event);
    }

    fn ask_host(&mut self, call: HostCall) {
        if let Some((request, refusal)) = self.host_calls.start(self.spec.host.clone(), call) {
            let steps = self.protocol.host_answer(request, refusal);
            self.act(steps);
        }
    }

    /// The agent waited for Windlass, so its silence is measured from here.
    fn answer_host_call(&mut self, (request, answer): Reply) {
        self.deadlines.hear(Instant::now());
        if self.is_host_released {
            // The agent may have started a program before it was stopped.
            self.spec.host.iter().for_each(|host| host.release_all());
        }
        let steps = self.protocol.host_answer(request, answer);
        self.act(steps);
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
        let stderr = finish::last_complaints(&self.complaints);
        let result = match (&mut self.turn, &self.ending) {
            (Some(turn), _) if turn.result.is_some() => turn.result.take(),
            (_, Some(Stopping::Closed)) => Some(Err(BackendError::new(
                BackendErrorKind::Cancelled,
                "somebody closed the session",
            ))),
            (_, Some(Stopping::Failed(error))) => Some(Err(error.clone())),
            (Some(_), None) => Some(Err(self.protocol.why_ended(&exit, &stderr))),
            (None, None) => None,
        };
        let is_failure = result.as_ref().map_or(self.has_failed, Result::is_err);
        let status = match &self.ending {
            Some(Stopping::Closed) => BackendStatus::Cancelled,
            Some(Stopping::Failed(_)) => BackendStatus::Failed,
            None if is_failure => BackendStatus::Failed,
            None => BackendStatus::Completed,
        };
        self.tell_status(status);
        self.outbox.tell_rest();
        if let (Some(turn), Some(result)) = (self.turn.take(), result) {
            let outcome = self.ending().outcome(result, Some(exit.clone()));
            let _ = turn.reply.send(outcome);
        }
        exit
    }
}
