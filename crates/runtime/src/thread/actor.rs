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

use super::command::{CloseWhen, Reply, Submission, ThreadCommand};
use super::fault::{Debt, Fault, FaultCause, fault};
use super::fold::fold;
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
pub(super) type Joined = std::result::Result<(Id, ToolOutcome), JoinError>;

/// The task that owns a thread.
pub(crate) struct Actor {
    pub(super) inner: Arc<Inner>,
    pub(super) slot: Arc<Slot>,
    pub(super) life: u64,
    /// Work that is left over from a fault.
    pub(super) debt: Debt,
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
    pub(super) real_calls: UnmaskedCalls,
    alarm: Option<(DateTime<Utc>, Sleep)>,
    /// Whether work on the session was requested. Until then, a turn that a previous process left open is not resumed.
    pub(super) has_taken_up: bool,
    /// Whether it is recorded that this process executes the open turn.
    pub(super) is_at_work: bool,
    /// Callers of `resume` that have no answer yet.
    pub(super) asked: Vec<ResumeCaller>,
    /// Whether nothing new may start.
    pub(super) is_retiring: bool,
    pub(super) idle_plan: TurnPlan,
}

/// Marks the slot as faulted if the actor's task ends irregularly.
struct FaultGuard<'a> {
    slot: &'a Slot,
    life: u64,
}

impl Drop for FaultGuard<'_> {
    fn drop(&mut self) {
        self.slot.fault(self.life, Fault::settled("it panicked"));
    }
}

enum Wakeup {
    Command,
    Prepared(Result<Arc<TurnContext>>),
    Model(Progress),
    Backend(BackendOutput),
    Tool(Option<Joined>),
    Deadline,
}

impl Actor {
    /// Works until no work is left.
    pub(super) async fn work(inner: Arc<Inner>, slot: Arc<Slot>, start: ActorStart) {
        let (life, debt) = (start.life, start.debt);
        let _guard = FaultGuard { slot: &slot, life };
        let runtime = Arc::clone(&inner);
        // Large short-lived values are boxed here and in `run`: a thread mostly waits, and many wait at once.
        let worked = match Box::pin(Self::open(inner, &slot, start)).await {
            Ok(actor) => actor.run().await,
            Err(error) => Err(error),
        };
        if let Err(error) = worked {
            tracing::error!(session = %slot.session_id, %error, "the thread stopped; it goes on from the journal");
            // An actor that was open before the error has reported this itself.
            let has_work = debt.has_work || slot.is_asked_for_work();
            let debt = Debt { has_work, ..debt };
            fault(&runtime, &slot, life, FaultCause::from(&error), debt);
        }
        runtime.note_rest(&slot);
    }

    async fn open(
        inner: Arc<Inner>,
        slot: &Arc<Slot>,
        ActorStart {
            life,
            resting,
            debt,
        }: ActorStart,
    ) -> Result<Box<Self>> {
        let (IdleThread { thread, claim }, is_fresh) = match resting {
            Some(resting) => (*resting, false),
            None => (fold(&inner, slot).await?, true),
        };
        slot.publish(thread.history());
        let is_at_work = thread.turn().is_none();
        let has_taken_up = is_at_work && thread.queue().is_empty();
        let mut actor = Box::new(Self {
            inner,
            slot: Arc::clone(slot),
            life,
            debt,
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
            real_calls: UnmaskedCalls::default(),
            alarm: None,
            has_taken_up,
            is_at_work,
            asked: Vec::new(),
            is_retiring: false,
            idle_plan: TurnPlan::default(),
        });
        actor.idle_plan.limits = actor.inner.settings.limits;
        actor.idle_plan.max_waiting_inputs = actor.inner.settings.max_waiting_inputs;
        if is_fresh {
            if actor.thread.started_at().is_some() {
                actor.note_status(actor.thread.status()).await;
            }
            actor.real_calls = UnmaskedCalls::after_a_life(&actor.thread);
            learn_secrets(&actor.inner, slot.session_id).await;
        }
        Ok(actor)
    }

    /// Starts the steps that should run but do not.
    pub(super) fn restart_steps(&mut self) {
        for command in self.thread.pending_commands() {
            let exec_id = command.exec_id();
            let runs = |exec_id| {
                self.running.contains_key(&exec_id)
                    || self
                        .model
                        .as_ref()
                        .is_some_and(|call| call.exec_id == exec_id)
                    || self
                        .backend
                        .as_ref()
                        .is_some_and(|run| run.exec_id == exec_id)
            };
            if !exec_id.is_some_and(runs) {
                self.perform(command);
            }
        }
    }

    async fn run(mut self: Box<Self>) -> Result<()> {
        if self.debt.has_work {
            Box::pin(self.resume_open_turn()).await?;
        }
        loop {
            while let Some(command) = self.next_command() {
                match command {
                    command @ ThreadCommand::Close { .. } if self.must_wait(&command) => {
                        self.deferred.push_back(command);
                    }
                    ThreadCommand::Close { when, reply } => match self.busy_with(when) {
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
            if self.is_at_rest() {
                let resting = Box::new(IdleThread {
                    thread: self.thread,
                    claim: self.claim,
                });
                let Err(resting) = self.slot.park(resting) else {
                    return Ok(());
                };
                (self.thread, self.claim) = (resting.thread, resting.claim);
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
            ThreadCommand::Rewind { .. } => self.preparing.is_some(),
            ThreadCommand::Close { when, .. } => {
                *when == CloseWhen::Idle && self.thread.turn().is_none() && self.preparing.is_some()
            }
            command => self.is_recovering() && command.needs_plan(),
        }
    }

    pub(super) fn is_recovering(&self) -> bool {
        self.preparing.as_ref().is_some_and(Preparing::is_recovery)
    }

    fn is_at_rest(&self) -> bool {
        let has_work = self.thread.turn().is_some() || !self.thread.queue().is_empty();
        !(has_work && self.has_taken_up) && self.preparing.is_none() && self.backlog.is_empty()
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
            told = async { match backend { Some(run) => run.next().await, None => std::future::pending().await } } => Wakeup::Backend(told),
        }
    }

    fn set_alarm(&mut self) {
        // A turn cannot continue without its plan, not even past a deadline.
        let deadline = if self.has_taken_up && !self.is_recovering() {
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
            ThreadCommand::Look { reply } => drop(reply.send(Ok(Box::new(self.thread.clone())))),
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
            ThreadCommand::RemoveQueued {
                turn_id,
                reason,
                reply,
            } => {
                let outcome = self
                    .try_decide(Input::RemoveQueued { turn_id, reason })
                    .await?;
                let _ = reply.send(outcome.map(drop));
            }
            ThreadCommand::Abandon { ticket, leave } => self.abandon(ticket, leave).await?,
            ThreadCommand::ToolResults { mut results, reply } => {
                let max_bytes = self.inner.settings.max_tool_result_bytes;
                results
                    .iter_mut()
                    .for_each(|result| output::cap(result, max_bytes));
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
            ThreadCommand::Note { data, reply } => {
                let outcome = self.try_decide(Input::Note { data: *data }).await?;
                let _ = reply.send(outcome.and_then(first_event));
            }
            ThreadCommand::Emit {
                exec_id,
                request,
                reply,
            } => {
                let outcome = self
                    .try_decide(Input::Emit {
                        exec_id,
                        data: request.data,
                    })
                    .await?;
                let _ = reply.send(outcome.and_then(first_event));
            }
            ThreadCommand::Import { message, reply } => {
                let outcome = self.try_decide(Input::Import { message: *message }).await?;
                let _ = reply.send(outcome.map(drop));
            }
            ThreadCommand::Rewind { turn_id, reply } => {
                let outcome = self.try_decide(Input::Rewind { turn_id }).await?;
                let _ = reply.send(outcome.map(drop));
            }
            ThreadCommand::Resume { .. }
            | ThreadCommand::Close { .. }
            | ThreadCommand::Retire { .. } => {}
        }
        Ok(())
    }

    /// Ends all running work, so that every waiting caller is notified, and accepts no more commands.
    async fn close(mut self: Box<Self>, reply: Reply<()>) -> Result<()> {
        let queued: Vec<_> = self
            .thread
            .queue()
            .iter()
            .map(|queued| Some(queued.turn_id))
            .collect();
        let reason = Some("the session was removed".to_owned());
        for turn_id in std::iter::once(None).chain(queued) {
            let _ = self
                .try_decide(Input::Interrupt {
                    turn_id,
                    reason: reason.clone(),
                })
                .await?;
        }
        self.slot.close();
        let _ = reply.send(Ok(()));
        Ok(())
    }

    /// Returns why the session cannot be removed yet.
    fn busy_with(&self, when: CloseWhen) -> Option<AgentLoopError> {
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
    pub(super) async fn try_decide(&mut self, input: Input) -> Result<Result<commit::Accepted>> {
        let context = self.context.clone();
        self.try_decide_with(input, context).await
    }

    pub(super) async fn try_decide_with(
        &mut self,
        input: Input,
        context: Option<Arc<TurnContext>>,
    ) -> Result<Result<commit::Accepted>> {
        self.try_decide_streamed(input, context, None).await
    }

    /// Decides the end of a step that the actor no longer owns, with its unrecorded text.
    pub(super) async fn end_step(
        &mut self,
        input: Input,
        tail: Option<UnflushedText>,
    ) -> Result<()> {
        let context = self.context.clone();
        if let Err(error) = self.try_decide_streamed(input, context, tail).await? {
            tracing::debug!(session = %self.thread.session_id(), %error, "an input had no effect");
        }
        Ok(())
    }

    /// Decides with the unrecorded text of a step that has ended, or of the running one.
    async fn try_decide_streamed(
        &mut self,
        mut input: Input,
        context: Option<Arc<TurnContext>>,
        ended: Option<UnflushedText>,
    ) -> Result<Result<commit::Accepted>> {
        let mask = self.mask(&mut input, context.as_deref());
        let decided = {
            let tail = ended.as_ref().or_else(|| self.running_tail());
            let ctx = DecisionContext {
                now: self.inner.clock.now(),
                uuid: self.inner.clock.uuid(),
                plan: context
                    .as_ref()
                    .map_or(&self.idle_plan, |context| &context.plan),
                tail,
                mask: mask.as_ref().map(|mask| mask as _),
            };
            self.thread.decide(input, &ctx)
        };
        match decided {
            Err(rejected) => Ok(Err(from_rejection(self.thread.session_id(), rejected))),
            Ok(decision) => self.commit(decision).await.map(Ok),
        }
    }

    /// Performs a command of a durable decision.
    pub(super) fn perform(&mut self, command: Command) {
        match command {
            Command::Stop { exec_id } => self.stop(exec_id),
            _ if self.is_retiring || !self.has_taken_up => {}
            Command::Prepare { turn_id } => {
                self.preparing = Some(Preparing::to_begin(self, turn_id));
            }
            Command::CallModel { exec_id, iteration } => {
                let Some(context) = &self.context else { return };
                let scope = StepScope {
                    inner: &self.inner,
                    context,
                    thread: &self.thread,
                };
                self.model = Some(ModelCall::start(&scope, exec_id, iteration));
            }
            Command::Summarise { exec_id } => {
                let Some(context) = &self.context else { return };
                let scope = StepScope {
                    inner: &self.inner,
                    context,
                    thread: &self.thread,
                };
                self.model = Some(ModelCall::summary(&scope, exec_id));
            }
            Command::RunBackend {
                exec_id,
                session,
                totals,
            } => {
                let Some(context) = &self.context else { return };
                let scope = StepScope {
                    inner: &self.inner,
                    context,
                    thread: &self.thread,
                };
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
                let (Some(context), Some(turn)) = (&self.context, self.thread.turn()) else {
                    return;
                };
                let scope = StepScope {
                    inner: &self.inner,
                    context,
                    thread: &self.thread,
                };
                let real = self.real_calls.take(exec_id, &call);
                // The task of a subagent is recorded in masked form in any case, so the recorded call is complete and can run again.
                let is_whole = context.starts_agents && call.name == SPAWN_AGENT;
                let real = real.or_else(|| is_whole.then(|| Arc::clone(&call)));
                let task = match real {
                    Some(real) => {
                        let run = ToolRun::new(&scope, turn.id, exec_id, real);
                        self.tools.spawn(run.run())
                    }
                    None => {
                        let outcome = tool::without_its_secrets(&call);
                        self.tools.spawn(async { outcome })
                    }
                };
                self.tasks.insert(task.id(), exec_id);
                self.running.insert(exec_id, RunningTool { call, task });
            }
        }
    }

    /// Stops the calls that wait for subagents. The subagents themselves are unaffected.
    pub(super) fn stop_spawning(&mut self) {
        if self.context.as_ref().is_some_and(|it| it.starts_agents) {
            let calls = self.running.iter();
            let waiting = calls.filter(|(_, tool)| tool.call.name == SPAWN_AGENT);
            let waiting: Vec<ExecId> = waiting.map(|(exec_id, _)| *exec_id).collect();
            waiting.into_iter().for_each(|exec_id| self.stop(exec_id));
        }
    }

    fn stop(&mut self, exec_id: ExecId) {
        self.model.take_if(|model| model.exec_id == exec_id);
        self.backend.take_if(|run| run.exec_id == exec_id);
        if let Some(tool) = self.running.remove(&exec_id) {
            tool.task.abort();
        }
    }

    pub(super) async fn tool_joined(&mut self, joined: Option<Joined>) -> Result<()> {
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

fn first_event(accepted: commit::Accepted) -> Result<Event> {
    let event = accepted.events.first().map(|event| Event::clone(event));
    event.ok_or_else(|| AgentLoopError::event("nothing was recorded"))
}
