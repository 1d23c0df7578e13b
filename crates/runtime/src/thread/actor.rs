//! The task that owns a thread while it has something to do.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::Event;
use windlass_core::tools::ToolCall;
use windlass_core::typed_id::ExecId;
use windlass_store::Claim;
use windlass_turn::{Command, Input, Moment, Tail, Thread, ToolOutcome, TurnPlan};

use super::fault::{Debt, Fault, FaultCause, fault};
use super::fold::fold;
use super::mail::{CloseWhen, Mail, Reply, Submission};
use super::masking::{RealCalls, learn_secrets};
use super::prepare::Preparing;
use super::slot::{ActorStart, Slot};
use super::take_up::ResumeCaller;
use super::waiters::Waiters;
use super::{StepScope, commit};
use crate::errors::from_rejection;
use crate::inner::Inner;
use crate::steps::backend::{BackendRun, Told};
use crate::steps::model::{ModelCall, Progress};
use crate::steps::output;
use crate::steps::tool::{self, ToolRun};
use crate::subagents::SPAWN_AGENT;
use crate::turn_context::TurnContext;
use crate::world::Sleep;

/// A thread that has nothing to do.
pub(crate) struct Resting {
    pub(super) thread: Thread,
    pub(super) claim: Claim,
}

struct RunningTool {
    call: Arc<ToolCall>,
    task: AbortHandle,
}

/// A tool's task that has come to its end.
pub(super) type Joined = std::result::Result<(Id, ToolOutcome), JoinError>;

/// The task that owns a thread.
pub(crate) struct Actor {
    pub(super) inner: Arc<Inner>,
    pub(super) slot: Arc<Slot>,
    pub(super) life: u64,
    /// What this process owes to the thread after a fault.
    pub(super) debt: Debt,
    pub(super) thread: Thread,
    pub(super) claim: Claim,
    pub(super) context: Option<Arc<TurnContext>>,
    pub(super) waiters: Waiters,
    pub(super) backlog: VecDeque<Box<Submission>>,
    pub(super) preparing: Option<Preparing>,
    /// Mail that has to wait until a plan is made.
    pub(super) deferred: VecDeque<Mail>,
    pub(super) model: Option<ModelCall>,
    pub(super) backend: Option<BackendRun>,
    pub(super) tools: JoinSet<ToolOutcome>,
    running: HashMap<ExecId, RunningTool>,
    tasks: HashMap<Id, ExecId>,
    pub(super) real_calls: RealCalls,
    alarm: Option<(DateTime<Utc>, Sleep)>,
    /// Whether somebody asked for work. Until then, what an earlier life left behind is left alone.
    pub(super) has_taken_up: bool,
    /// Whether the record of an open turn says that this process is at work on it.
    pub(super) is_at_work: bool,
    /// Who asked to go on, and has not heard yet.
    pub(super) asked: Vec<ResumeCaller>,
    /// Whether nothing more is to begin.
    pub(super) is_retiring: bool,
    pub(super) idle_plan: TurnPlan,
}

/// Marks the slot as faulted if the actor's task ends in any way but its own.
struct FaultGuard<'a> {
    slot: &'a Slot,
    life: u64,
}

impl Drop for FaultGuard<'_> {
    fn drop(&mut self) {
        self.slot.fault(self.life, Fault::settled("it panicked"));
    }
}

enum Happened {
    Mail,
    Prepared(Result<Arc<TurnContext>>),
    Model(Progress),
    Backend(Told),
    Tool(Option<Joined>),
    Deadline,
}

impl Actor {
    /// Works until nothing is left to do.
    pub(super) async fn work(inner: Arc<Inner>, slot: Arc<Slot>, start: ActorStart) {
        let (life, debt) = (start.life, start.debt);
        let _guard = FaultGuard { slot: &slot, life };
        let runtime = Arc::clone(&inner);
        // Here and in `run`, what is large for a short while only is boxed: a thread mostly waits, and many wait at once.
        let worked = match Box::pin(Self::open(inner, &slot, start)).await {
            Ok(actor) => actor.run().await,
            Err(error) => Err(error),
        };
        if let Err(error) = worked {
            tracing::error!(session = %slot.session_id, %error, "the thread stopped; it goes on from the journal");
            // One that was open before the error has said so itself.
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
        let (Resting { thread, claim }, is_fresh) = match resting {
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
            real_calls: RealCalls::default(),
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
            actor.real_calls = RealCalls::after_a_life(&actor.thread);
            learn_secrets(&actor.inner, slot.session_id).await;
        }
        Ok(actor)
    }

    /// Starts what should run and does not.
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
            Box::pin(self.take_up()).await?;
        }
        loop {
            while let Some(mail) = self.next_mail() {
                match mail {
                    mail @ Mail::Close { .. } if self.must_wait(&mail) => {
                        self.deferred.push_back(mail);
                    }
                    Mail::Close { when, reply } => match self.busy_with(when) {
                        Some(busy) => drop(reply.send(Err(busy))),
                        None => return Box::pin(self.close(reply)).await,
                    },
                    Mail::Retire { patience, reply } => {
                        return Box::pin(self.retire(patience, reply)).await;
                    }
                    Mail::Resume { reply } => Box::pin(self.resume(reply)).await?,
                    mail => {
                        if mail.takes_up() {
                            Box::pin(self.take_up()).await?;
                        }
                        match self.must_wait(&mail) {
                            true => self.deferred.push_back(mail),
                            false => Box::pin(self.read(mail)).await?,
                        }
                    }
                }
                // Mail counts in its order: what follows a submission finds it under way.
                Box::pin(self.take_backlog()).await?;
            }
            if !self.backlog.is_empty() {
                Box::pin(self.take_backlog()).await?;
            }
            if self.is_at_rest() {
                let resting = Box::new(Resting {
                    thread: self.thread,
                    claim: self.claim,
                });
                let Err(resting) = self.slot.rest(resting) else {
                    return Ok(());
                };
                (self.thread, self.claim) = (resting.thread, resting.claim);
                continue;
            }
            match self.wait().await {
                Happened::Mail => {}
                Happened::Model(Progress::Text(text)) if self.buffer_text(&text) => {}
                happened => Box::pin(self.follow(happened)).await?,
            }
        }
    }

    /// Does what follows from something that happened.
    async fn follow(&mut self, happened: Happened) -> Result<()> {
        match happened {
            Happened::Mail => Ok(()),
            Happened::Prepared(context) => self.prepared(context).await,
            Happened::Model(progress) => self.model_progress(progress).await,
            Happened::Backend(told) => self.backend_told(told).await,
            Happened::Tool(joined) => self.tool_joined(joined).await,
            Happened::Deadline => {
                self.alarm = None;
                self.decide(Input::Timer).await
            }
        }
    }

    /// What was put off comes first, as soon as it can.
    fn next_mail(&mut self) -> Option<Mail> {
        let deferred = self.deferred.front();
        match deferred.is_some_and(|mail| !self.must_wait(mail)) {
            true => self.deferred.pop_front(),
            false => self.slot.next_mail(),
        }
    }

    /// A turn of an earlier life has no plan yet; and what was said before somebody wanted to go back, or to remove a session
    /// that is idle, starts its turn first.
    fn must_wait(&self, mail: &Mail) -> bool {
        match mail {
            Mail::Rewind { .. } => self.preparing.is_some(),
            Mail::Close { when, .. } => {
                *when == CloseWhen::Idle && self.thread.turn().is_none() && self.preparing.is_some()
            }
            mail => self.is_recovering() && mail.needs_plan(),
        }
    }

    pub(super) fn is_recovering(&self) -> bool {
        self.preparing.as_ref().is_some_and(Preparing::is_recovery)
    }

    fn is_at_rest(&self) -> bool {
        let has_work = self.thread.turn().is_some() || !self.thread.queue().is_empty();
        !(has_work && self.has_taken_up) && self.preparing.is_none() && self.backlog.is_empty()
    }

    /// Waits for the next thing to happen. A model can talk without a pause, so it comes last.
    async fn wait(&mut self) -> Happened {
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
            () = slot.mail_arrived() => Happened::Mail,
            () = async { match alarm { Some((_, due)) => due.await, None => std::future::pending().await } } => Happened::Deadline,
            context = async { match preparing { Some(preparing) => preparing.ready().await, None => std::future::pending().await } } => Happened::Prepared(context),
            joined = tools.join_next_with_id(), if !tools.is_empty() => Happened::Tool(joined),
            progress = async { match model { Some(model) => model.next().await, None => std::future::pending().await } } => Happened::Model(progress),
            told = async { match backend { Some(run) => run.next().await, None => std::future::pending().await } } => Happened::Backend(told),
        }
    }

    fn set_alarm(&mut self) {
        // Without its plan a turn cannot be carried on, not even past a deadline.
        let deadline = match self.has_taken_up && !self.is_recovering() {
            true => self.thread.next_deadline(),
            false => None,
        };
        if deadline != self.alarm.as_ref().map(|(at, _)| *at) {
            self.alarm = deadline.map(|at| {
                let span = (at - self.inner.world.now()).to_std().unwrap_or_default();
                (at, self.inner.world.sleep(span))
            });
        }
    }

    pub(super) async fn read(&mut self, mail: Mail) -> Result<()> {
        match mail {
            Mail::Look { reply } => drop(reply.send(Ok(Box::new(self.thread.clone())))),
            Mail::Submit(submission) => self.backlog.push_back(submission),
            Mail::Steer {
                turn_id,
                message,
                reply,
            } => {
                let message = *message;
                let outcome = self.try_decide(Input::Steer { turn_id, message }).await?;
                self.answer_with_handle(outcome, reply);
            }
            Mail::Interrupt {
                turn_id,
                reason,
                reply,
            } => {
                let interrupted = self.interrupt(turn_id, reason).await?;
                let _ = reply.send(interrupted);
            }
            Mail::EditQueued {
                turn_id,
                edit,
                reply,
            } => {
                let outcome = self.try_decide(Input::EditQueued { turn_id, edit }).await?;
                let queue = || self.thread.queue().iter().cloned().collect();
                let _ = reply.send(outcome.map(|_| queue()));
            }
            Mail::RemoveQueued {
                turn_id,
                reason,
                reply,
            } => {
                let outcome = self
                    .try_decide(Input::RemoveQueued { turn_id, reason })
                    .await?;
                let _ = reply.send(outcome.map(drop));
            }
            Mail::Abandon { ticket, leave } => self.abandon(ticket, leave).await?,
            Mail::ToolResults { mut results, reply } => {
                let max_bytes = self.inner.settings.max_tool_result_bytes;
                results
                    .iter_mut()
                    .for_each(|result| output::cap(result, max_bytes));
                let name = results.first().map(|result| result.tool_call_id.clone());
                let outcome = self.try_decide(Input::ToolResults { results }).await?;
                self.answer_or_repeat(outcome, name.as_deref(), reply).await;
            }
            Mail::Approval {
                call,
                approve,
                remember,
                reason,
                reply,
            } => {
                use windlass_core::events::Decision::{Allow, Deny};
                let decision = if approve { Allow } else { Deny };
                let name = call.clone();
                let outcome = self
                    .try_decide(Input::Approval {
                        call,
                        decision,
                        reason,
                        remember,
                    })
                    .await?;
                self.answer_or_repeat(outcome, Some(&name), reply).await;
            }
            Mail::UserAnswer {
                request,
                answer,
                reply,
            } => self.user_answer(request, answer, reply).await?,
            Mail::Note { data, reply } => {
                let outcome = self.try_decide(Input::Note { data: *data }).await?;
                let _ = reply.send(outcome.and_then(first_event));
            }
            Mail::Emit {
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
            Mail::Import { message, reply } => {
                let outcome = self.try_decide(Input::Import { message: *message }).await?;
                let _ = reply.send(outcome.map(drop));
            }
            Mail::Rewind { turn_id, reply } => {
                let outcome = self.try_decide(Input::Rewind { turn_id }).await?;
                let _ = reply.send(outcome.map(drop));
            }
            Mail::Resume { .. } | Mail::Close { .. } | Mail::Retire { .. } => {}
        }
        Ok(())
    }

    /// Ends what runs, so that everybody who waits hears of it, and takes no more mail.
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

    /// Says why the session cannot be removed yet.
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

    /// Decides an input of our own; that it came too late is no error.
    pub(super) async fn decide(&mut self, input: Input) -> Result<()> {
        self.end_step(input, None).await
    }

    /// Decides an input. The outer error is the journal's and ends this life of the thread; the inner is the
    /// caller's.
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

    /// Decides the end of a step that the actor no longer holds, with the text that it had not recorded yet.
    pub(super) async fn end_step(&mut self, input: Input, tail: Option<Tail>) -> Result<()> {
        let context = self.context.clone();
        if let Err(error) = self.try_decide_streamed(input, context, tail).await? {
            tracing::debug!(session = %self.thread.session_id(), %error, "an input had no effect");
        }
        Ok(())
    }

    /// Decides with the unrecorded text of a step that has ended, or of the one that runs.
    async fn try_decide_streamed(
        &mut self,
        mut input: Input,
        context: Option<Arc<TurnContext>>,
        ended: Option<Tail>,
    ) -> Result<Result<commit::Accepted>> {
        let mask = self.mask(&mut input, context.as_deref());
        let decided = {
            let tail = ended.as_ref().or_else(|| self.running_tail());
            let moment = Moment {
                now: self.inner.world.now(),
                uuid: self.inner.world.uuid(),
                plan: context
                    .as_ref()
                    .map_or(&self.idle_plan, |context| &context.plan),
                tail,
                mask: mask.as_ref().map(|mask| mask as _),
            };
            self.thread.decide(input, &moment)
        };
        match decided {
            Err(rejected) => Ok(Err(from_rejection(self.thread.session_id(), rejected))),
            Ok(decision) => self.commit(decision).await.map(Ok),
        }
    }

    /// Does what a durable decision asks for.
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
                exec_id, session, ..
            } => {
                let Some(context) = &self.context else { return };
                let scope = StepScope {
                    inner: &self.inner,
                    context,
                    thread: &self.thread,
                };
                self.backend = BackendRun::start(&scope, &self.slot.seat, exec_id, session);
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
                // What an agent is told is masked in any case, so that its record says all of it; it may have begun.
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

    /// Stops the calls that wait for agents. What these do is none of it.
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
        // A tool that was stopped is known no more; its end is nobody's business.
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
