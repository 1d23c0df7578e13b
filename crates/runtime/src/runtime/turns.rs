//! Starting, steering and cancelling turns.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::message::InputMessage;
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_turn::{Approval, OnBusy};

use super::InProcessRuntime;
use crate::thread::{AbandonReason, Slot, Submission, SubmissionKind, ThreadCommand};
use crate::turn_result::{TurnHandle, TurnOptions, TurnResult};

/// Cancels the caller's turn if the caller is dropped before its result is ready.
pub(crate) struct CallerGuard {
    slot: Arc<Slot>,
    ticket: u64,
    armed: bool,
}

impl CallerGuard {
    /// The result is ready, so there is nothing left to cancel.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        if self.armed {
            let (ticket, reason) = (self.ticket, AbandonReason::Gone);
            self.slot
                .send_if_working(ThreadCommand::Abandon { ticket, reason });
        }
    }
}

impl InProcessRuntime {
    /// Runs a turn with a text input, and waits until the turn ends or parks.
    pub fn run_text_turn(
        &self,
        session_id: SessionId,
        text: impl Into<String>,
    ) -> impl Future<Output = Result<TurnResult>> {
        self.run_turn(session_id, text.into())
    }

    /// Runs a turn and waits until it ends or parks. Dropping the future cancels the turn.
    pub fn run_turn(
        &self,
        session_id: SessionId,
        input: impl Into<InputMessage>,
    ) -> impl Future<Output = Result<TurnResult>> {
        self.run_turn_with(session_id, input, TurnOptions::default())
    }

    /// Runs a turn with options.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::InProcessRuntimeBuilder;
    /// use windlass_runtime::TurnOptions;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let runtime = InProcessRuntimeBuilder::new()
    /// #     .llm_sim(LlmSimConfig::fixed("Hello!"))
    /// #     .single_session(|session| session.agent("greeter", "You greet people."))
    /// #     .build()
    /// #     .await?;
    /// # let session = runtime.default_session_id().expect("single_session makes one");
    /// let options = TurnOptions {
    ///     turn_timeout: Some(Duration::from_secs(60)),
    ///     ..TurnOptions::default()
    /// };
    /// let turn = runtime.run_turn_with(session, "Hi", options).await?;
    /// assert!(turn.success);
    /// # Ok::<(), windlass_core::AgentLoopError>(())
    /// # }).unwrap();
    /// ```
    pub fn run_turn_with(
        &self,
        session_id: SessionId,
        input: impl Into<InputMessage>,
        options: TurnOptions,
    ) -> impl Future<Output = Result<TurnResult>> {
        self.run_boxed(session_id, Box::new((input.into(), options)))
    }

    /// The input and the submit future are boxed, because the wait for the turn takes longer and many callers wait at once.
    async fn run_boxed(
        &self,
        session_id: SessionId,
        submitted_input: Box<(InputMessage, TurnOptions)>,
    ) -> Result<TurnResult> {
        let cancel = submitted_input.1.cancel.clone();
        if cancel.as_ref().is_some_and(|cancel| cancel.is_cancelled()) {
            return Err(AgentLoopError::Cancelled);
        }
        let slot = self.inner.slot(session_id).await?;
        let mut guard = self.guard(&slot);
        let ticket = guard.ticket;
        let (input, options) = *submitted_input;
        let submitted = Box::pin(self.submit_to(&slot, ticket, input, options, None));
        let running = async { submitted.await?.wait().await };
        let result = match cancel {
            None => running.await,
            Some(cancel) => {
                tokio::pin!(running);
                tokio::select! {
                    biased;
                    result = &mut running => result,
                    () = cancel.cancelled() => {
                        let reason = AbandonReason::Cancelled;
                        slot.send_if_working(ThreadCommand::Abandon { ticket, reason });
                        running.await
                    }
                }
            }
        };
        guard.disarm();
        result
    }

    /// Submits an input and returns when it is durable; dropping the guard cancels the turn.
    pub(crate) async fn submit_guarded(
        &self,
        session_id: SessionId,
        input: InputMessage,
    ) -> Result<(TurnHandle, CallerGuard)> {
        let slot = self.inner.slot(session_id).await?;
        let guard = self.guard(&slot);
        let options = TurnOptions::default();
        let handle = self
            .submit_to(&slot, guard.ticket, input, options, None)
            .await?;
        Ok((handle, guard))
    }

    fn guard(&self, slot: &Arc<Slot>) -> CallerGuard {
        CallerGuard {
            slot: Arc::clone(slot),
            ticket: self.next_ticket(),
            armed: true,
        }
    }

    /// Submits an input and returns when it is durable. Dropping the handle cancels nothing.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::InProcessRuntimeBuilder;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let runtime = InProcessRuntimeBuilder::new()
    /// #     .llm_sim(LlmSimConfig::fixed("Hello!"))
    /// #     .single_session(|session| session.agent("greeter", "You greet people."))
    /// #     .build()
    /// #     .await?;
    /// # let session = runtime.default_session_id().expect("single_session makes one");
    /// let handle = runtime.submit(session, "Hi").await?;
    /// // The input is durable now. Dropping the handle would change nothing.
    /// assert_eq!(handle.wait().await?.response, "Hello!");
    /// # Ok::<(), windlass_core::AgentLoopError>(())
    /// # }).unwrap();
    /// ```
    pub async fn submit(
        &self,
        session_id: SessionId,
        input: impl Into<InputMessage>,
    ) -> Result<TurnHandle> {
        self.submit_with(session_id, input, TurnOptions::default())
            .await
    }

    /// Submits an input with options for its turn; `cancel` cancels the turn, even after the handle is dropped.
    pub async fn submit_with(
        &self,
        session_id: SessionId,
        input: impl Into<InputMessage>,
        options: TurnOptions,
    ) -> Result<TurnHandle> {
        let slot = self.inner.slot(session_id).await?;
        let ticket = self.next_ticket();
        let Some(cancel) = options.cancel.clone() else {
            return self
                .submit_to(&slot, ticket, input.into(), options, None)
                .await;
        };
        let ended = CancellationToken::new();
        let until_end = Some(ended.clone().drop_guard());
        let handle = self
            .submit_to(&slot, ticket, input.into(), options, until_end)
            .await?;
        // There is nothing to cancel before this point. The task ends with the turn.
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = cancel.cancelled() => {
                    let reason = AbandonReason::Cancelled;
                    slot.send_if_working(ThreadCommand::Abandon { ticket, reason });
                }
            }
        });
        Ok(handle)
    }

    async fn submit_to(
        &self,
        slot: &Arc<Slot>,
        ticket: u64,
        message: InputMessage,
        options: TurnOptions,
        until_end: Option<DropGuard>,
    ) -> Result<TurnHandle> {
        slot.ask(&self.inner, |reply| {
            ThreadCommand::Submit(Box::new(Submission {
                kind: SubmissionKind::Answer,
                ticket,
                message,
                options,
                until_end,
                reply,
            }))
        })
        .await
    }

    /// Replaces the history that the model reads with a summary; returns when the compaction has started. Users still see the whole conversation. The
    /// message gives the reason, and may select a model; it is not part of the conversation.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::InProcessRuntimeBuilder;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let runtime = InProcessRuntimeBuilder::new()
    /// #     .llm_sim(LlmSimConfig::fixed("Hello!"))
    /// #     .single_session(|session| session.agent("greeter", "You greet people."))
    /// #     .build()
    /// #     .await?;
    /// # let session = runtime.default_session_id().expect("single_session makes one");
    /// runtime.run_text_turn(session, "Hi").await?;
    /// let turn = runtime.compact(session, "it became long").await?.wait().await?;
    /// assert!(turn.success);
    /// # Ok::<(), windlass_core::AgentLoopError>(())
    /// # }).unwrap();
    /// ```
    pub async fn compact(
        &self,
        session_id: SessionId,
        why: impl Into<InputMessage>,
    ) -> Result<TurnHandle> {
        self.compact_with(session_id, why, TurnOptions::default())
            .await
    }

    /// Compacts the history in a turn with the id of the options; the other options do not apply.
    pub async fn compact_with(
        &self,
        session_id: SessionId,
        why: impl Into<InputMessage>,
        TurnOptions { turn_id, .. }: TurnOptions,
    ) -> Result<TurnHandle> {
        let (ticket, message) = (self.next_ticket(), why.into());
        self.ask(session_id, |reply| {
            ThreadCommand::Submit(Box::new(Submission {
                kind: SubmissionKind::Compaction,
                ticket,
                message,
                options: TurnOptions {
                    on_busy: OnBusy::Refuse,
                    turn_id,
                    ..TurnOptions::default()
                },
                until_end: None,
                reply,
            }))
        })
        .await
    }

    fn next_ticket(&self) -> u64 {
        self.inner.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a message to the running turn, which reads it at its next model call.
    pub async fn steer(
        &self,
        session_id: SessionId,
        input: impl Into<InputMessage>,
    ) -> Result<TurnHandle> {
        self.steer_any(session_id, None, input.into()).await
    }

    /// Sends a message to a turn if it is the running one. If it has ended, neither it nor the next turn gets the message.
    pub async fn steer_turn(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
        input: impl Into<InputMessage>,
    ) -> Result<TurnHandle> {
        self.steer_any(session_id, Some(turn_id), input.into())
            .await
    }

    async fn steer_any(
        &self,
        session_id: SessionId,
        turn_id: Option<TurnId>,
        input: InputMessage,
    ) -> Result<TurnHandle> {
        let message = Box::new(input);
        self.ask(session_id, |reply| ThreadCommand::Steer {
            turn_id,
            message,
            reply,
        })
        .await
    }

    /// Cancels the running turn. Finished steps and the text so far are retained.
    pub async fn cancel_turn(&self, session_id: SessionId) -> Result<()> {
        self.interrupt(session_id, None, None).await
    }

    /// Cancels a running or queued turn; `None` is the running one.
    pub async fn interrupt(
        &self,
        session_id: SessionId,
        turn_id: Option<TurnId>,
        reason: Option<String>,
    ) -> Result<()> {
        self.ask(session_id, |reply| ThreadCommand::Interrupt {
            turn_id,
            reason,
            reply,
        })
        .await
    }

    /// Submits results of client-side tool calls: either all are accepted or none.
    pub async fn submit_tool_results(
        &self,
        session_id: SessionId,
        results: Vec<ToolResult>,
    ) -> Result<TurnHandle> {
        self.ask(session_id, |reply| ThreadCommand::ToolResults {
            results,
            reply,
        })
        .await
    }

    /// Decides about a pending call, which is identified by the provider's ID or by its step.
    ///
    /// Later turns of a project consult [`RememberedCalls`](windlass_core::remembered_calls::RememberedCalls), which the caller of
    /// [`Approval::Project`] updates.
    pub async fn decide(
        &self,
        session_id: SessionId,
        call_id: impl Into<String>,
        approval: Approval,
    ) -> Result<TurnHandle> {
        self.ask(session_id, |reply| ThreadCommand::Approval {
            call: call_id.into(),
            approval,
            reply,
        })
        .await
    }

    /// Allows a pending call once, or denies it without a reason; see [`decide`](Self::decide).
    pub async fn decide_tool_call(
        &self,
        session_id: SessionId,
        call_id: impl Into<String>,
        approve: bool,
    ) -> Result<TurnHandle> {
        let approval = if approve {
            Approval::Once
        } else {
            Approval::Deny { reason: None }
        };
        self.decide(session_id, call_id, approval).await
    }

    /// Answers a pending question.
    pub async fn answer_user_input(
        &self,
        session_id: SessionId,
        request_id: impl Into<String>,
        answer: serde_json::Value,
    ) -> Result<TurnHandle> {
        let request = request_id.into();
        self.ask(session_id, |reply| ThreadCommand::UserAnswer {
            request,
            answer,
            reply,
        })
        .await
    }
}
