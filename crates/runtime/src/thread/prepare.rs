//! From a submission to its turn: the context is assembled outside of the thread's task, so that interrupts are not delayed.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_core::message::{ContentPart, Controls};
use windlass_core::session::SessionStatus;
use windlass_core::typed_id::TurnId;
use windlass_turn::{Input, OnBusy};

use super::actor::Actor;
use super::command::{AbandonReason, ReplySender, Submission, SubmissionKind};
use super::commit::AcceptedInput;
use super::fault::FaultCause;
use super::resume_open_turn::is_open_or_queued;
use super::waiters::Ticket;
use crate::errors::to_failure;
use crate::spending::check_run;
use crate::subagents::{PARENT_ENDED, is_parent_open, open_turn_input};
use crate::turn_context::{ContextRequest, Discovery, TurnContext, assemble};
use crate::turn_result::TurnHandle;

type AssemblyFuture = Pin<Box<dyn Future<Output = Result<Arc<TurnContext>>> + Send>>;

/// The purpose of a context.
enum ContextPurpose {
    /// An input that starts a turn at once.
    Start(Box<Submission>),
    /// The first queued input.
    Begin(TurnId),
    /// A turn of a previous process.
    Recover,
}

/// A context that is being assembled.
pub(super) struct Preparing {
    purpose: ContextPurpose,
    assembling: AssemblyFuture,
}

impl Preparing {
    fn new(
        actor: &Actor,
        purpose: ContextPurpose,
        controls: Option<Controls>,
        tool_timeout: Option<Duration>,
    ) -> Self {
        let ask = || Discovery::Ask(Arc::clone(actor.thread.discovered()));
        let discovery = match &purpose {
            ContextPurpose::Start(submission) => match submission.kind {
                SubmissionKind::Compaction => Discovery::Skip,
                SubmissionKind::Answer => ask(),
            },
            ContextPurpose::Begin(_) => ask(),
            ContextPurpose::Recover => Discovery::of_open_turn(&actor.thread),
        };
        let (inner, session_id) = (Arc::clone(&actor.inner), actor.slot.session_id);
        let request = ContextRequest {
            controls,
            tool_timeout,
            discovery,
        };
        let is_new = !matches!(purpose, ContextPurpose::Recover);
        let controls = request.controls.as_ref();
        let parent = controls.and_then(|it| it.turn.as_ref()?.parent);
        let has_agents = !actor.thread.children().is_empty();
        let content = match &purpose {
            ContextPurpose::Start(submission) => &submission.message.content[..],
            ContextPurpose::Begin(_) => {
                let next = actor.thread.queue().front();
                next.map_or(&[][..], |next| &next.message.content)
            }
            ContextPurpose::Recover => &[],
        };
        let has_images = content.iter().any(ContentPart::is_image);
        let assembling = Box::pin(async move {
            // A subagent must not start or continue after the parent's turn has ended.
            if let Some(parent) = &parent
                && !is_parent_open(&inner, parent).await?
            {
                return Err(AgentLoopError::Cancelled);
            }
            let assembled = assemble(&inner, session_id, request).await?;
            if has_images {
                assembled.context.check_images()?;
            }
            if is_new {
                check_run(&inner, &assembled.context, session_id, has_agents).await?;
            }
            Ok(Arc::new(assembled.context))
        });
        Self {
            purpose,
            assembling,
        }
    }

    /// Assembles the context of the first queued input.
    pub(super) fn to_begin(actor: &Actor, turn_id: TurnId) -> Self {
        let controls = actor
            .thread
            .queue()
            .front()
            .and_then(|next| next.message.controls.clone());
        let tool_timeout = actor.waiters.tool_timeout(turn_id);
        Self::new(
            actor,
            ContextPurpose::Begin(turn_id),
            controls,
            tool_timeout,
        )
    }

    /// Assembles the context of a turn that a previous process began.
    pub(super) fn to_recover(actor: &Actor) -> Self {
        let controls = open_turn_input(&actor.thread).and_then(|input| input.controls.clone());
        Self::new(actor, ContextPurpose::Recover, controls, None)
    }

    /// Returns whether this is for a turn of a previous process.
    pub(super) fn is_recovery(&self) -> bool {
        matches!(self.purpose, ContextPurpose::Recover)
    }

    pub(super) async fn ready(&mut self) -> Result<Arc<TurnContext>> {
        poll_fn(|cx| self.assembling.as_mut().poll(cx)).await
    }
}

impl Actor {
    /// Processes submissions in order and one at a time, since each may start the turn that the next one joins.
    pub(super) async fn take_backlog(&mut self) -> Result<()> {
        while self.preparing.is_none()
            && let Some(submission) = self.backlog.pop_front()
        {
            if self.thread.turn().is_some() || !self.thread.queue().is_empty() {
                if submission.options.on_busy == OnBusy::Steer
                    && let Err(error) = self.check_steer(&submission.message.content)
                {
                    let _ = submission.reply.send(Err(error));
                    continue;
                }
                let input = input_of(&submission);
                let outcome = self.try_decide(input).await?;
                self.accept(*submission, outcome);
            } else {
                let controls = submission.message.controls.clone();
                let tool_timeout = submission.options.tool_timeout;
                self.preparing = Some(Preparing::new(
                    self,
                    ContextPurpose::Start(submission),
                    controls,
                    tool_timeout,
                ));
            }
        }
        Ok(())
    }

    /// Fails if the running turn's model does not accept the content. Without a running turn nothing is refused.
    pub(super) fn check_steer(&self, content: &[ContentPart]) -> Result<()> {
        let context = self
            .context
            .as_ref()
            .filter(|_| self.thread.turn().is_some());
        match context {
            Some(context) if content.iter().any(ContentPart::is_image) => context.check_images(),
            _ => Ok(()),
        }
    }

    /// The context is ready or has failed: the input starts its turn, or its caller gets the error.
    pub(super) async fn prepared(&mut self, context: Result<Arc<TurnContext>>) -> Result<()> {
        let Some(Preparing { purpose, .. }) = self.preparing.take() else {
            return Ok(());
        };
        match (purpose, context) {
            (ContextPurpose::Start(submission), Err(error)) => {
                drop(submission.reply.send(Err(error)))
            }
            (ContextPurpose::Start(submission), Ok(context)) => {
                let input = input_of(&submission);
                self.context = Some(context);
                let outcome = self.try_decide(input).await?;
                self.accept(*submission, outcome);
            }
            (ContextPurpose::Begin(turn_id), Ok(context)) => {
                self.context = Some(context);
                self.decide(Input::Begin {
                    turn_id,
                    failure: None,
                })
                .await?;
            }
            // The input is acknowledged and the turn is open, so both wait until the store is readable again.
            (
                ContextPurpose::Begin(_) | ContextPurpose::Recover,
                Err(error @ AgentLoopError::StoreUnavailable(_)),
            ) => {
                self.fault(FaultCause::from(&error));
                return Err(error);
            }
            (ContextPurpose::Begin(turn_id), Err(error)) => {
                let failure = Some(to_failure(&error));
                self.decide(Input::Begin { turn_id, failure }).await?;
            }
            (ContextPurpose::Recover, Ok(context)) => {
                self.context = Some(context);
                self.recover().await?;
            }
            (ContextPurpose::Recover, Err(AgentLoopError::Cancelled)) => {
                let reason = Some(PARENT_ENDED.to_owned());
                let turn_id = None;
                self.decide(Input::Interrupt { turn_id, reason }).await?;
                self.answer_resume_callers();
            }
            (ContextPurpose::Recover, Err(error)) => {
                let suspended = self.suspend(&error).await;
                self.fault(FaultCause::from(&suspended));
                return Err(suspended);
            }
        }
        Ok(())
    }

    /// Suspends a turn of a previous process that cannot be resumed because a dependency is missing. The turn is unchanged, and the next use of the
    /// session resumes it.
    async fn suspend(&mut self, error: &AgentLoopError) -> AgentLoopError {
        let session_id = self.slot.session_id;
        let suspended = || match error {
            AgentLoopError::EnvironmentNotFound(id) => {
                AgentLoopError::EnvironmentNotFound(id.clone())
            }
            AgentLoopError::StoreUnavailable(why) => AgentLoopError::StoreUnavailable(why.clone()),
            error => AgentLoopError::config(format!(
                "session {session_id} is suspended because its turn cannot continue: {error}"
            )),
        };
        self.note_status(SessionStatus::Paused).await;
        for submission in self.backlog.drain(..) {
            let _ = submission.reply.send(Err(suspended()));
        }
        for command in self.deferred.drain(..) {
            command.refuse(suspended());
        }
        for caller in self.resume_callers.drain(..) {
            let _ = caller.reply.send(Err(suspended()));
        }
        suspended()
    }

    /// The caller abandoned its submission.
    pub(super) async fn abandon(&mut self, ticket: u64, reason: AbandonReason) -> Result<()> {
        let is_meant = |submission: &Submission| submission.ticket == ticket;
        let waiting = self.backlog.iter().position(|waits| is_meant(waits));
        let submission = match waiting {
            Some(place) => self.backlog.remove(place),
            None => self.take_starting(is_meant),
        };
        if let Some(submission) = submission {
            let _ = submission.reply.send(Err(AgentLoopError::Cancelled));
        }
        let Some(Ticket {
            turn_id, owns_turn, ..
        }) = self.waiters.ticket(ticket)
        else {
            return Ok(());
        };
        let reason = match reason {
            AbandonReason::Gone if !owns_turn => return Ok(()),
            AbandonReason::Gone => "the caller went away",
            AbandonReason::Cancelled => "the caller cancelled it",
        };
        let turn_id = Some(*turn_id);
        self.record_buffered_call_output().await?;
        self.decide(Input::Interrupt {
            turn_id,
            reason: Some(reason.to_owned()),
        })
        .await
    }

    /// Withdraws the submission whose turn is about to start, if it matches.
    fn take_starting(&mut self, is_meant: impl Fn(&Submission) -> bool) -> Option<Box<Submission>> {
        let starting = self.preparing.take_if(
            |preparing| matches!(&preparing.purpose, ContextPurpose::Start(it) if is_meant(it)),
        );
        match starting?.purpose {
            ContextPurpose::Start(submission) => Some(submission),
            ContextPurpose::Begin(_) | ContextPurpose::Recover => None,
        }
    }

    /// Stops a turn, or an input that is about to become one.
    pub(super) async fn interrupt(
        &mut self,
        turn_id: Option<TurnId>,
        reason: Option<String>,
    ) -> Result<Result<()>> {
        let mut target = turn_id;
        if turn_id.is_none() && self.thread.turn().is_none() {
            if let Some(submission) = self.take_starting(|_| true) {
                let _ = submission.reply.send(Err(AgentLoopError::Cancelled));
                return Ok(Ok(()));
            }
            target = self.thread.queue().front().map(|next| next.turn_id);
        }
        self.record_buffered_call_output().await?;
        let outcome = self
            .try_decide(Input::Interrupt {
                turn_id: target,
                reason,
            })
            .await?;
        // The context of an ended turn is not needed, and may be impossible to assemble.
        if self.thread.turn().is_none() && self.is_recovering() {
            self.preparing = None;
            self.answer_resume_callers();
        }
        Ok(outcome.map(drop))
    }

    fn accept(&mut self, submission: Submission, outcome: Result<AcceptedInput>) {
        let Submission {
            ticket,
            options,
            until_end,
            reply,
            ..
        } = submission;
        if let Ok(AcceptedInput {
            turn_id: Some(turn_id),
            events,
            ..
        }) = &outcome
        {
            let joined = |event: &Arc<Event>| matches!(event.data, EventData::TurnSteered(_));
            self.waiters.add_ticket(Ticket {
                number: ticket,
                turn_id: *turn_id,
                owns_turn: !events.iter().any(joined),
                tool_timeout: options.tool_timeout,
                _until_end: until_end,
            });
            if let Some(observer) = options.on_event {
                self.waiters.add_observer(*turn_id, observer, events);
            }
        }
        self.answer_with_handle(outcome, reply);
    }

    /// Answers with a handle on the turn that accepted an input.
    pub(super) fn answer_with_handle(
        &mut self,
        outcome: Result<AcceptedInput>,
        reply: ReplySender<TurnHandle>,
    ) {
        let session_id = self.slot.session_id;
        let handle = outcome.and_then(|accepted| {
            let turn_id = accepted
                .turn_id
                .ok_or(AgentLoopError::NoActiveTurn(session_id))?;
            let result = self.waiters.wait_for(turn_id);
            // The input itself may have ended the turn, or left it parked.
            self.waiters.settle(&self.thread, &accepted.events);
            let began = |event: &Arc<Event>| {
                matches!(
                    event.data,
                    EventData::TurnStarted(_) | EventData::InputQueued(_)
                ) && event.context.turn_id == Some(turn_id)
            };
            Ok(TurnHandle {
                session_id,
                turn_id,
                message_id: accepted.message_id,
                first_event: accepted.events.into_iter().find(began),
                is_open: is_open_or_queued(&self.thread, turn_id),
                result,
            })
        });
        let _ = reply.send(handle);
    }
}

fn input_of(submission: &Submission) -> Input {
    let (message, options) = (submission.message.clone(), &submission.options);
    let turn_id = options.turn_id;
    match submission.kind {
        SubmissionKind::Compaction => Input::Compact { message, turn_id },
        SubmissionKind::Answer => Input::Submit {
            message,
            on_busy: options.on_busy,
            timeout: options.turn_timeout,
            turn_id,
        },
    }
}
