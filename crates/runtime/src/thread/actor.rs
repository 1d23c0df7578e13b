//! The task that owns a thread while it has work.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::Event;
use windlass_core::tools::ToolCall;
use windlass_core::typed_id::ExecId;
use windlass_store::Claim;
use windlass_turn::{
    Command, DecisionContext, Input, Thread, ToolOutcome, TurnPlan, UnflushedText,
};

use super::command::{CloseWhen, ReplySender, Submission, ThreadCommand};
use super::fault::{FaultCause, LeftoverWork, ThreadFault, fault};
use super::load::load;
use super::masking::{UnmaskedCalls, learn_secrets};
use super::prepare::Preparing;
use super::resume_open_turn::ResumeCaller;
use super::slot::{ActorStart, Slot};
use super::waiters::Waiters;
use super::{StepScope, commit};
use crate::errors::from_rejection;
use crate::inner::Inner;
use crate::steps::backend::{BackendOutput, BackendRun};
use crate::steps::model::{ModelCall, Progress};
use crate::steps::output;
use crate::steps::tool::{self, ToolRun};
use crate::subagents::SPAWN_AGENT;
use crate::turn_context::TurnContext;
use windlass_core::Sleep;

/// A thread without work.
pub(crate) struct IdleThread {
    pub(super) thread: Thread,
    pub(super) claim: Claim,
}

struct RunningTool {
    call: Arc<ToolCall>,
    task: AbortHandle,
}

/// The result of a tool's finished task.
pub(super) type ToolTaskResult = std::result::Result<(Id, ToolOutcome), JoinError>;

/// The task that owns a thread.
pub(crate) struct Actor {
    pub(super) inner: Arc<Inner>,
    pub(super) slot: Arc<Slot>,
    pub(super) actor_id: u64,
    /// Work that is left over from a fault.
    pub(super) leftover: LeftoverWork,
    pub(super) thread: Thread,
    pub(super) claim: Claim,
    pub(super) context: Option<Arc<TurnContext>>,
    pub(super) waiters: Waiters,
    pub(super) backlog: VecDeque<Box<Submission>>,
    pub(super) preparing: Option<Preparing>,
    /// Commands that wait for a plan.
    pub(super) deferred: VecDeque<ThreadCommand>,
    pub(super) model: Option<ModelCall>,
    pub(super) backend: Option<BackendRun>,
    pub(super) tools: JoinSet<ToolOutcome>,
    running: HashMap<ExecId, RunningTool>,
    tasks: HashMap<Id, ExecId>,
    pub(super) unmasked_calls: UnmaskedCalls,
    alarm: Option<(DateTime<Utc>, Sleep)>,
    /// Whether work on the session was requested. Until then, a turn that a previous process left open is not resumed.
    pub(super) work_requested: bool,
    /// Whether it is recorded that this process executes the open turn.
    pub(super) executes_turn: bool,
    /// Callers of `resume` that have no answer yet.
    pub(super) resume_callers: Vec<ResumeCaller>,
    /// Whether nothing new may start.
    pub(super) is_retiring: bool,
    pub(super) idle_plan: TurnPlan,
}

/// Marks the slot as faulted if the actor's task ends irregularly.
struct FaultGuard<'a> {
    slot: &'a Slot,
    actor_id: u64,
}

impl Drop for FaultGuard<'_> {
    fn drop(&mut self) {
        self.slot
            .fault(self.actor_id, ThreadFault::settled("it panicked"));
    }
}

enum Wakeup {
    Command,
    Prepared(Result<Arc<TurnContext>>),
    Model(Progress),
    Backend(BackendOutput),
    Tool(Option<ToolTaskResult>),
    Deadline,
}

impl Actor {
    /// Works until no work is left.
    pub(super) async fn work(inner: Arc<Inner>, slot: Arc<Slot>, start: ActorStart) {
        let (actor_id, leftover) = (start.actor_id, start.leftover);
        let _guard = FaultGuard {
            slot: &slot,
            actor_id,
        };
        let runtime = Arc::clone(&inner);
        // Large short-lived values are boxed here and in `run`: a thread mostly waits, and many wait at once.
        let worked = match Box::pin(Self::open(inner, &slot, start)).await {
            Ok(actor) => actor.run().await,
            Err(error) => Err(error),
        };
        if let Err(error) = worked {
            tracing::error!(session = %slot.session_id, %error, "the thread stopped; its next actor continues from the journal");
            // An actor that was open before the error has reported this itself.
            let has_work = leftover.has_work || slot.has_work_command();
            let leftover = LeftoverWork {
                has_work,
                ..leftover
            };
            fault(
                &runtime,
                &slot,
                actor_id,
                FaultCause::from(&error),
                leftover,
            );
        }
        runtime.note_idle(&slot);
    }

    async fn open(
        inner: Arc<Inner>,
        slot: &Arc<Slot>,
        ActorStart {
            actor_id,
            idle,
            leftover,
        }: ActorStart,
    ) -> Result<Box<Self>> {
        let (IdleThread { thread, claim }, is_fresh) = match idle {
            Some(idle) => (*idle, false),
            None => (load(&inner, slot).await?, true),
        };
        slot.publish(thread.history());
        let executes_turn = thread.turn().is_none();
        let work_requested = executes_turn && thread.queue().is_empty();
        let mut actor = Box::new(Self {
            inner,
            slot: Arc::clone(slot),
            actor_id,
            leftover,
            thread,
            claim,
            context: None,
            waiters: Waiters::default(),
            backlog: VecDeque::new(),
            preparing: None,
            deferred: VecDeque::new(),
            model: None,
            backend: None,
            tools: JoinSet::new(),
            running: HashMap::new(),
            tasks: HashMap::new(),
            unmasked_calls: UnmaskedCalls::default(),
            alarm: None,
            work_requested,
            executes_turn,
            resume_callers: Vec::new(),
            is_retiring: false,
            idle_plan: TurnPlan::default(),
        });
        actor.idle_plan.limits = actor.inner.settings.limits;
        actor.idle_plan.max_waiting_inputs = actor.inner.settings.max_waiting_inputs;
        if is_fresh {
            if actor.thread.started_at().is_some() {
                actor.note_status(actor.thread.status()).await;
            }
            actor.unmasked_calls = UnmaskedCalls::from_previous_process(&actor.thread);
            learn_secrets(&actor.inner, slot.session_id).await;
        }
        Ok(actor)
    }

    /// Starts the steps that should run but do not.
    pub(super) fn restart_steps(&mut self) {
        for command in self.thread.pending_commands() {
            let exec_id = command.exec_id();
            let (model, backend) = (self.model.as_ref(), self.backend.as_ref());
            let runs = |exec_id| {
                self.running.contains_key(&exec_id)
                    || model.is_some_and(|call| call.exec_id == exec_id)
                    || backend.is_some_and(|run| run.exec_id == exec_id)
            };
            if !exec_id.is_some_and(runs) {
                self.perform(command);
            }
        }
    }

    async fn run(mut self: Box<Self>) -> Result<()> {
        if self.leftover.has_work {
            Box::pin(self.resume_open_turn()).await?;
        }
        loop {
            while let Some(command) = self.next_command() {
                match command {
                    command @ ThreadCommand::Close { .. } if self.must_wait(&command) => {
                        self.deferred.push_back(command);
                    }
                    ThreadCommand::Close { when, reply } => match self.removal_conflict(when) {
                        Some(busy) => drop(reply.send(Err(busy))),
                        None => return Box::pin(self.close(reply)).await,
                    },
                    ThreadCommand::Retire { patience, reply } => {
                        return Box::pin(self.retire(patience, reply)).await;
                    }
                    ThreadCommand::Resume { reply } => Box::pin(self.resume(reply)).await?,
                    command => {
                        if command.resumes_turn() {
                            Box::pin(self.resume_open_turn()).await?;
                        }
                        if self.must_wait(&command) {
                            self.deferred.push_back(command)
                        } else {
                            Box::pin(self.read(command)).await?
                        }
                    }
                }
                // Commands take effect in order: a command after a submission finds its turn starting.
                Box::pin(self.take_backlog()).await?;
            }
            if !self.backlog.is_empty() {
                Box::pin(self.take_backlog()).await?;
            }
            if self.is_idle() {
                let idle = Box::new(IdleThread {
                    thread: self.thread,
                    claim: self.claim,
                });
                let Err(idle) = self.slot.park(idle) else {
                    return Ok(());
                };
                (self.thread, self.claim) = (idle.thread, idle.claim);
                continue;
            }
            match self.wait().await {
                Wakeup::Command => {}
                Wakeup::Model(Progress::Text(text)) if self.buffer_text(&text) => {}
                wakeup => Box::pin(self.follow(wakeup)).await?,
            }
        }
    }

    async fn follow(&mut self, wakeup: Wakeup) -> Result<()> {
        match wakeup {
            Wakeup::Command => Ok(()),
            Wakeup::Prepared(context) => self.prepared(context).await,
            Wakeup::Model(progress) => self.model_progress(progress).await,
            Wakeup::Backend(output) => self.backend_output(output).await,
            Wakeup::Tool(joined) => self.tool_joined(joined).await,
            Wakeup::Deadline => {
                self.alarm = None;
                self.decide(Input::Timer).await
            }
        }
    }

    /// Deferred commands come first, as soon as they can run.
    fn next_command(&mut self) -> Option<ThreadCommand> {
        let deferred = self.deferred.front();
        if deferred.is_some_and(|command| !self.must_wait(command)) {
            self.deferred.pop_front()
        } else {
            self.slot.next_command()
        }
    }

    /// Returns whether a command must wait for the context in preparation. A turn of a previous process has no plan yet. Earlier submissions start
    /// their turn before a rewind, and before the removal of an idle session.
    fn must_wait(&self, command: &ThreadCommand) -> bool {
        match command {
            ThreadCommand::Decide { input, .. } if matches!(**input, Input::Rewind { .. }) => {
                self.preparing.is_some()
            }
            ThreadCommand::Close { when, .. } => {
                *when == CloseWhen::Idle && self.thread.turn().is_none() && self.preparing.is_some()
            }
            command => self.is_recovering() && command.needs_plan(),
        }
    }

    pub(super) fn is_recovering(&self) -> bool {
        self.preparing.as_ref().is_some_and(Preparing::is_recovery)
    }

    fn is_idle(&self) -> bool {
        let has_work = self.thread.turn().is_some() || !self.thread.queue().is_empty();
        !(has_work && self.work_requested) && self.preparing.is_none() && self.backlog.is_empty()
    }

    /// Waits for the next wakeup. A model can stream without a pause, so it comes last.
    async fn wait(&mut self) -> Wakeup {
        self.set_alarm();
        let Self {
            slot,
            preparing,
            model,
            backend,
            tools,
            alarm,
            ..
        } = self;
        tokio::select! {
            biased;
            () = slot.command_arrived() => Wakeup::Command,
            () = async { match alarm { Some((_, due)) => due.await, None => std::future::pending().await } } => Wakeup::Deadline,
            context = async { match preparing { Some(preparing) => preparing.ready().await, None => std::future::pending().await } } => Wakeup::Prepared(context),
            joined = tools.join_next_with_id(), if !tools.is_empty() => Wakeup::Tool(joined),
            progress = async { match model { Some(model) => model.next().await, None => std::future::pending().await } } => Wakeup::Model(progress),
            output = async { match backend { Some(run) => run.next().await, None => std::future::pending().await } } => Wakeup::Backend(output),
        }
    }

    fn set_alarm(&mut self) {
        // A turn cannot continue without its plan, not even past a deadline.
        let deadline = if self.work_requested && !self.is_recovering() {
            self.thread.next_deadline()
        } else {
            None
        };
        if deadline != self.alarm.as_ref().map(|(at, _)| *at) {
            self.alarm = deadline.map(|at| {
                let span = (at - self.inner.clock.now()).to_std().unwrap_or_default();
                (at, self.inner.clock.sleep(span))
            });
        }
    }

    pub(super) async fn read(&mut self, command: ThreadCommand) -> Result<()> {
        match command {
            ThreadCommand::Snapshot { reply } => {
                drop(reply.send(Ok(Box::new(self.thread.clone()))))
            }
            ThreadCommand::Submit(submission) => self.backlog.push_back(submission),
            ThreadCommand::Steer {
                turn_id,
                message,
                reply,
            } => {
                let message = *message;
                let outcome = match self.check_steer(&message.content) {
                    Ok(()) => self.try_decide(Input::Steer { turn_id, message }).await?,
                    Err(error) => Err(error),
                };
                self.answer_with_handle(outcome, reply);
            }
            ThreadCommand::Interrupt {
                turn_id,
                reason,
                reply,
            } => {
                let interrupted = self.interrupt(turn_id, reason).await?;
                let _ = reply.send(interrupted);
            }
            ThreadCommand::EditQueued {
                turn_id,
                edit,
                reply,
            } => {
                let outcome = self.try_decide(Input::EditQueued { turn_id, edit }).await?;
                let queue = || self.thread.queue().iter().cloned().collect();
                let _ = reply.send(outcome.map(|_| queue()));
            }
            ThreadCommand::Abandon { ticket, reason } => self.abandon(ticket, reason).await?,
            ThreadCommand::ToolResults { mut results, reply } => {
                let max_bytes = self.inner.settings.max_tool_result_bytes;
                for result in &mut results {
                    output::cap(result, max_bytes);
                }
                let name = results.first().map(|result| result.tool_call_id.clone());
                let outcome = self.try_decide(Input::ToolResults { results }).await?;
                self.answer_or_repeat(outcome, name.as_deref(), reply).await;
            }
            ThreadCommand::Approval {
                call,
                approval,
                reply,
            } => {
                let name = call.clone();
                let outcome = self.try_decide(Input::Approval { call, approval }).await?;
                self.answer_or_repeat(outcome, Some(&name), reply).await;
            }
            ThreadCommand::UserAnswer {
                request,
                answer,
                reply,
            } => self.user_answer(request, answer, reply).await?,
            ThreadCommand::Decide { input, reply } => {
                let outcome = self.try_decide(*input).await?;
                let _ = reply.send(outcome.map(drop));
            }
            ThreadCommand::Record { input, reply } => {
                let outcome = self.try_decide(*input).await?;
                let _ = reply.send(outcome.and_then(first_event));
            }
            ThreadCommand::Resume { .. }
            | ThreadCommand::Close { .. }
            | ThreadCommand::Retire { .. } => {}
        }
        Ok(())
    }

    /// Ends all running work, so that every waiting caller is notified, and accepts no more commands.
    async fn close(mut self: Box<Self>, reply: ReplySender<()>) -> Result<()> {
        let queue = self.thread.queue().iter();
        let queued: Vec<_> = queue.map(|queued| Some(queued.turn_id)).collect();
        for turn_id in std::iter::once(None).chain(queued) {
            let reason = Some("the session was removed".to_owned());
            let _ = self
                .try_decide(Input::Interrupt { turn_id, reason })
                .await?;
        }
        self.slot.close();
        let _ = reply.send(Ok(()));
        Ok(())
    }

    /// Returns why the session cannot be removed yet.
    fn removal_conflict(&self, when: CloseWhen) -> Option<AgentLoopError> {
        let running = self.thread.turn().map(|turn| turn.id);
        let queued = || Some(self.thread.queue().front()?.turn_id);
        let turn_id = match when {
            CloseWhen::Now => None,
            CloseWhen::Idle => running.or_else(queued),
        };
        Some(AgentLoopError::TurnBusy {
            session_id: self.thread.session_id(),
            turn_id: turn_id?,
        })
    }

    /// Decides an internal input; an input that is too late is not an error.
    pub(super) async fn decide(&mut self, input: Input) -> Result<()> {
        self.end_step(input, None).await
    }

    /// Decides an input. The outer error is the journal's and ends this actor; the inner error is the caller's.
    pub(super) async fn try_decide(
        &mut self,
        input: Input,
    ) -> Result<Result<commit::AcceptedInput>> {
        self.try_decide_streamed(input, None).await
    }

    /// Decides the end of a step that the actor no longer owns, with its unrecorded text.
    pub(super) async fn end_step(
        &mut self,
        input: Input,
        tail: Option<UnflushedText>,
    ) -> Result<()> {
        if let Err(error) = self.try_decide_streamed(input, tail).await? {
            tracing::debug!(session = %self.thread.session_id(), %error, "an input had no effect");
        }
        Ok(())
    }

    /// Decides with the unrecorded text of a step that has ended, or of the running one.
    async fn try_decide_streamed(
        &mut self,
        mut input: Input,
        ended: Option<UnflushedText>,
    ) -> Result<Result<commit::AcceptedInput>> {
        let mask = self.mask(&mut input);
        let decided = {
            let tail = ended.as_ref().or_else(|| self.running_tail());
            let ctx = DecisionContext {
                mask: mask.as_ref().map(|mask| mask as _),
                ..self.decision_context(tail)
            };
            self.thread.decide(input, &ctx)
        };
        match decided {
            Err(rejected) => Ok(Err(from_rejection(self.thread.session_id(), rejected))),
            Ok(decision) => self.commit(decision).await.map(Ok),
        }
    }

    pub(super) fn decision_context<'a>(
        &'a self,
        tail: Option<&'a UnflushedText>,
    ) -> DecisionContext<'a> {
        let context = self.context.as_ref();
        DecisionContext {
            now: self.inner.clock.now(),
            uuid: self.inner.clock.uuid(),
            plan: context.map_or(&self.idle_plan, |context| &context.plan),
            tail,
            mask: None,
        }
    }

    /// Performs a command of a durable decision.
    pub(super) fn perform(&mut self, command: Command) {
        match command {
            Command::Stop { exec_id } => self.stop(exec_id),
            _ if self.is_retiring || !self.work_requested => {}
            Command::Prepare { turn_id } => {
                self.preparing = Some(Preparing::to_begin(self, turn_id));
            }
            Command::CallModel { exec_id, iteration } => {
                let Some(scope) = self.scope() else { return };
                self.model = Some(ModelCall::start(&scope, exec_id, iteration));
            }
            Command::Summarise { exec_id } => {
                let Some(scope) = self.scope() else { return };
                self.model = Some(ModelCall::summary(&scope, exec_id));
            }
            Command::RunBackend {
                exec_id,
                session,
                totals,
            } => {
                let Some(scope) = self.scope() else { return };
                let process = &self.slot.process;
                self.backend = BackendRun::start(&scope, process, exec_id, session, totals);
            }
            Command::AnswerBackend {
                exec_id,
                request_id,
                decision,
                reason,
            } => self.answer_backend(exec_id, request_id, decision, reason),
            Command::SteerBackend {
                exec_id,
                message_id,
                text,
            } => self.steer_backend(exec_id, message_id, text),
            Command::RunTool { exec_id, call } => {
                if self.context.is_none() {
                    return;
                }
                let unmasked = self.unmasked_calls.take(exec_id, &call);
                let (Some(scope), Some(turn)) = (self.scope(), self.thread.turn()) else {
                    return;
                };
                // The task of a subagent is recorded in masked form in any case, so the recorded call is complete and can run again.
                let is_complete = scope.context.starts_agents && call.name == SPAWN_AGENT;
                let unmasked = unmasked.or_else(|| is_complete.then(|| Arc::clone(&call)));
                let task = match unmasked {
                    Some(unmasked) => {
                        let run = ToolRun::new(&scope, turn.id, exec_id, unmasked);
                        self.tools.spawn(run.run())
                    }
                    None => {
                        let outcome = tool::secrets_lost(&call);
                        self.tools.spawn(async { outcome })
                    }
                };
                self.tasks.insert(task.id(), exec_id);
                self.running.insert(exec_id, RunningTool { call, task });
            }
        }
    }

    /// Returns the inputs of a step; `None` without a turn context.
    fn scope(&self) -> Option<StepScope<'_>> {
        Some(StepScope {
            inner: &self.inner,
            context: self.context.as_ref()?,
            thread: &self.thread,
        })
    }

    /// Stops the calls that wait for subagents. The subagents themselves are unaffected.
    pub(super) fn stop_spawning(&mut self) {
        if self.context.as_ref().is_some_and(|it| it.starts_agents) {
            for (_, tool) in self
                .running
                .extract_if(|_, tool| tool.call.name == SPAWN_AGENT)
            {
                tool.task.abort();
            }
        }
    }

    fn stop(&mut self, exec_id: ExecId) {
        self.model.take_if(|model| model.exec_id == exec_id);
        self.backend.take_if(|run| run.exec_id == exec_id);
        if let Some(tool) = self.running.remove(&exec_id) {
            tool.task.abort();
        }
    }

    pub(super) async fn tool_joined(&mut self, joined: Option<ToolTaskResult>) -> Result<()> {
        let (id, outcome) = match joined {
            None => return Ok(()),
            Some(Ok((id, outcome))) => (id, Some(outcome)),
            Some(Err(error)) => (error.id(), None),
        };
        // A cancelled tool is no longer registered; its end is ignored.
        let Some(exec_id) = self.tasks.remove(&id) else {
            return Ok(());
        };
        let Some(tool) = self.running.remove(&exec_id) else {
            return Ok(());
        };
        let outcome = outcome.unwrap_or_else(|| {
            tracing::error!(
                tool = tool.call.name,
                call = tool.call.id,
                "a tool panicked"
            );
            tool::panicked(&tool.call)
        });
        self.decide(Input::ToolFinished {
            exec_id,
            outcome: Box::new(outcome),
        })
        .await
    }
}

fn first_event(accepted: commit::AcceptedInput) -> Result<Event> {
    let event = accepted.events.first().map(|event| Event::clone(event));
    event.ok_or_else(|| AgentLoopError::event("nothing was recorded"))
}
