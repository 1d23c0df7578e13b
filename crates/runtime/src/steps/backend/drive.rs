//! The task of a run: starts a process or takes the one in the slot, and executes one prompt.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use windlass_core::backend::{
    BackendError, BackendErrorKind, BackendEvent, BackendOutcome, BackendSession, BackendSpec,
    BackendStatus, SessionChoice, SessionTotals, Steered,
};
use windlass_core::error::AgentLoopError;
use windlass_core::typed_id::MessageId;

use super::process_slot::{AgentProcess, ProcessSlot, StartSettings};
use super::{BackendInput, BackendOutput, UNREAD};
use crate::agent_backends::{BackendRequest, RegisteredBackend};
use crate::spending::StepReservation;
use windlass_core::Clock;

/// How long an agent may take to cancel before its process is ended.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The inputs of a run.
pub(super) struct RunDriver {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) slot: Arc<ProcessSlot>,
    pub(super) idle_time: Option<Duration>,
    pub(super) registered: RegisteredBackend,
    pub(super) request: BackendRequest,
    pub(super) session: SessionChoice,
    pub(super) totals: SessionTotals,
    pub(super) prompt: String,
    /// Reserved before the run starts.
    pub(super) reservation: Option<StepReservation>,
}

impl RunDriver {
    /// Executes the prompt. Dropping the run cancels the agent.
    pub(super) async fn run(
        mut self,
        output: mpsc::Sender<BackendOutput>,
        mut input: mpsc::UnboundedReceiver<BackendInput>,
    ) {
        let (lease, process) = tokio::select! {
            biased;
            () = output.closed() => return,
            leased = self.slot.lease() => leased,
        };
        // A process that is still starting is ended by dropping its future.
        let opened = tokio::select! {
            biased;
            () = output.closed() => return,
            opened = async {
                self.reserve().await?;
                let work = self.begin_work().await?;
                self.open(process, &output).await.map(|(process, receipt)| (process, receipt, work))
            } => opened,
        };
        let (mut process, receipt, work) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                drop(lease);
                let outcome = Box::new(BackendOutcome::failed(error));
                let _ = output.send(BackendOutput::Ended(outcome)).await;
                return;
            }
        };
        let mut outcome = self
            .prompt(&mut process, receipt, &output, &mut input)
            .await;
        if let Some(outcome) = &mut outcome {
            process.session_id = outcome.session_id.clone().or(process.session_id);
            if let Some(before) = process.uncharged.take() {
                outcome.usage.get_or_insert_default().add(&before);
            }
            if output.is_closed() {
                // The record of the run contains the usage reported so far.
                let reported = process.reported.unwrap_or_default();
                process.uncharged = outcome.usage.map(|usage| usage.since(&reported));
            }
        }
        if outcome.as_ref().is_some_and(|it| it.exit.is_none()) && is_idle(&process) {
            lease.store(process, &*self.clock, self.idle_time).await
        } else {
            process.session.close().await;
        }
        drop(work);
        if let Some(outcome) = outcome {
            let _ = output.send(BackendOutput::Ended(Box::new(outcome))).await;
        }
    }

    async fn reserve(&self) -> Result<(), BackendError> {
        let Some(reservation) = &self.reservation else {
            return Ok(());
        };
        reservation.reserve().await.map_err(|error| match &error {
            AgentLoopError::BudgetExceeded(_) => {
                BackendError::new(BackendErrorKind::BudgetRefused, error.to_string())
            }
            error => spawn_failed(error),
        })
    }

    /// Reports to the host that the agent is about to work.
    async fn begin_work(&self) -> Result<Box<dyn Send + Sync>, BackendError> {
        let begun = self.registered.host.begin_work(&self.request).await;
        begun.map_err(|error| spawn_failed(&error))
    }

    /// Returns the process of the slot if it can execute the turn; starts one otherwise.
    async fn open(
        &mut self,
        process: Option<AgentProcess>,
        output: &mpsc::Sender<BackendOutput>,
    ) -> Result<(AgentProcess, PromptReceipt), BackendError> {
        let RegisteredBackend { backend, host } = self.registered.clone();
        let spec = host.spec(self.request.clone()).await;
        let spec = spec.map_err(|error| spawn_failed(&error))?;
        let started = StartSettings::new(&spec);
        if let Some(process) = process {
            let has_session = match (&self.session, &process.session_id) {
                (SessionChoice::Resume { id }, Some(known)) => id == known,
                _ => false,
            };
            let is_parent_open = process.backend == backend.name() && process.started == started;
            if has_session && is_parent_open && is_idle(&process) {
                // The process reported its session in an earlier run.
                let event = BackendEvent::Started {
                    session_id: process.session_id.clone().unwrap_or_default(),
                    model: None,
                };
                return Ok((process, PromptReceipt::Unconfirmed(Some(event))));
            }
            process.session.close().await;
        }
        self.choose_session(output).await?;
        let session = backend
            .open(BackendSpec {
                session: self.session.clone(),
                totals: self.totals,
                ..spec
            })
            .await?;
        let process = AgentProcess {
            backend: backend.name().to_owned(),
            session_id: None,
            started,
            session: session.into(),
            uncharged: None,
            reported: None,
        };
        Ok((process, PromptReceipt::Unconfirmed(None)))
    }

    /// The session ID is recorded before the process starts.
    async fn choose_session(
        &mut self,
        output: &mpsc::Sender<BackendOutput>,
    ) -> Result<(), BackendError> {
        if self.session != (SessionChoice::New { id: None }) {
            return Ok(());
        }
        let Some(session_id) = self.registered.backend.choose_session() else {
            return Ok(());
        };
        let (recorded, is_recorded) = oneshot::channel();
        let chosen = BackendOutput::Session {
            session_id: session_id.clone(),
            recorded,
        };
        let _ = output.send(chosen).await;
        let cancelled = |_| BackendError::new(BackendErrorKind::Cancelled, "the run was dropped");
        is_recorded.await.map_err(cancelled)?;
        self.session = SessionChoice::New {
            id: Some(session_id),
        };
        Ok(())
    }

    /// Returns the outcome; `None` if the process did not stop in time.
    async fn prompt(
        &self,
        process: &mut AgentProcess,
        mut receipt: PromptReceipt,
        output: &mpsc::Sender<BackendOutput>,
        input: &mut mpsc::UnboundedReceiver<BackendInput>,
    ) -> Option<BackendOutcome> {
        let session = Arc::clone(&process.session);
        process.reported = None;
        let (reported, mut events) = mpsc::channel(UNREAD);
        let mut prompting = std::pin::pin!(session.prompt(&self.prompt, reported));
        let mut forwarding: JoinSet<Option<MessageId>> = JoinSet::new();
        let finished = loop {
            tokio::select! {
                biased;
                () = output.closed() => break PromptEnd::Dropped,
                // An agent can report without a pause, so its input has priority.
                Some(message) = input.recv() => match message {
                    BackendInput::End(error) => break PromptEnd::Refused(error),
                    message => {
                        forwarding.spawn(forward(Arc::clone(&session), message));
                    }
                },
                Some(joined) = forwarding.join_next(), if !forwarding.is_empty() => {
                    receipt.report(joined, output).await;
                }
                Some(event) = events.recv() => {
                    process.note(&event);
                    receipt.pass(event, output).await;
                }
                outcome = &mut prompting => break PromptEnd::Outcome(Box::new(outcome)),
            }
        };
        let outcome = match finished {
            PromptEnd::Outcome(outcome) => *outcome,
            PromptEnd::Dropped => {
                return self.stop(&session, prompting.as_mut(), &mut events).await;
            }
            PromptEnd::Refused(error) => {
                let stopped = self.stop(&session, prompting.as_mut(), &mut events).await;
                return Some(refused(stopped, error));
            }
        };
        while let Ok(event) = events.try_recv() {
            process.note(&event);
            receipt.pass(event, output).await;
        }
        // An end that the agent itself reports shows that it received the prompt.
        if outcome.exit.is_none() && outcome.session_id.is_some() {
            receipt.confirm(output).await;
        }
        let mut patience = self.clock.sleep(STOP_PATIENCE);
        loop {
            tokio::select! {
                biased;
                joined = forwarding.join_next() => match joined {
                    Some(joined) => receipt.report(joined, output).await,
                    None => break,
                },
                () = &mut patience => break,
            }
        }
        Some(outcome)
    }

    /// Cancels the agent's run. Its process is retained, unless cancelling takes too long or processes may not be retained.
    async fn stop(
        &self,
        session: &Arc<dyn BackendSession>,
        mut prompting: std::pin::Pin<&mut (impl Future<Output = BackendOutcome> + ?Sized)>,
        events: &mut mpsc::Receiver<BackendEvent>,
    ) -> Option<BackendOutcome> {
        let is_closed = self.slot.is_closed();
        let stopping = Arc::clone(session);
        let stopping = tokio::spawn(async move {
            if is_closed {
                stopping.close().await;
            } else {
                let _ = stopping.interrupt().await;
            }
        });
        let mut patience = self.clock.sleep(STOP_PATIENCE);
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut prompting => break Some(outcome),
                () = &mut patience => break None,
                Some(_) = events.recv() => {}
            }
        };
        let _ = stopping.await;
        outcome
    }
}

fn spawn_failed(error: &AgentLoopError) -> BackendError {
    BackendError::new(BackendErrorKind::SpawnFailed, error.to_string())
}

/// Why the run stopped following the prompt.
enum PromptEnd {
    Outcome(Box<BackendOutcome>),
    /// The run was dropped.
    Dropped,
    /// The run must end with an error of Windlass.
    Refused(BackendError),
}

/// The outcome of an agent that was cancelled because of an error of Windlass; session and usage are the agent's.
fn refused(stopped: Option<BackendOutcome>, error: BackendError) -> BackendOutcome {
    match stopped {
        Some(outcome) => BackendOutcome {
            result: Err(error),
            aborted_signal: false,
            rate_limit_exit: false,
            rate_limit_reset_at: None,
            ..outcome
        },
        None => BackendOutcome::failed(error),
    }
}

/// The result of a forwarded message: the steered message that the agent has taken.
type ForwardResult = Result<Option<MessageId>, tokio::task::JoinError>;

/// Whether the agent has received the prompt. Until then its session event is held back: recovery from a recorded session assumes that the prompt was
/// received, and does not send it again.
enum PromptReceipt {
    /// There is no evidence yet; with the session event, if it has arrived.
    Unconfirmed(Option<BackendEvent>),
    Yes,
}

impl PromptReceipt {
    /// Forwards an event of the agent.
    async fn pass(&mut self, event: BackendEvent, output: &mpsc::Sender<BackendOutput>) {
        match (&mut *self, event) {
            (Self::Unconfirmed(session_event), event @ BackendEvent::Started { .. }) => {
                *session_event = Some(event)
            }
            // A warning may come before the prompt is read.
            (Self::Unconfirmed(_), event @ BackendEvent::Notice(_)) | (Self::Yes, event) => {
                let _ = output.send(BackendOutput::Event(event)).await;
            }
            (Self::Unconfirmed(_), event) => {
                self.confirm(output).await;
                let _ = output.send(BackendOutput::Event(event)).await;
            }
        }
    }

    /// Reports a steered message that the agent has accepted, which shows that it has read the prompt, too.
    async fn report(&mut self, forwarded: ForwardResult, output: &mpsc::Sender<BackendOutput>) {
        if let Ok(Some(message_id)) = forwarded {
            self.confirm(output).await;
            let _ = output.send(BackendOutput::Steered(message_id)).await;
        }
    }

    async fn confirm(&mut self, output: &mpsc::Sender<BackendOutput>) {
        if let Self::Unconfirmed(Some(session_event)) = std::mem::replace(self, Self::Yes) {
            let _ = output.send(BackendOutput::Event(session_event)).await;
        }
    }
}

fn is_idle(process: &AgentProcess) -> bool {
    process.session.status() == BackendStatus::Idle
}

impl AgentProcess {
    fn note(&mut self, event: &BackendEvent) {
        match event {
            BackendEvent::Started { session_id, .. } => self.session_id = Some(session_id.clone()),
            BackendEvent::Usage(usage) => self.reported = Some(*usage),
            _ => {}
        }
    }
}

/// Forwards a message to the agent; returns the steered message that the agent has accepted.
async fn forward(session: Arc<dyn BackendSession>, message: BackendInput) -> Option<MessageId> {
    match message {
        BackendInput::Answer {
            request_id,
            decision,
        } => {
            if let Err(error) = session.answer(&request_id, decision).await {
                tracing::debug!(request_id, %error, "a permission came too late");
            }
            None
        }
        BackendInput::End(_) => None,
        BackendInput::Steer { message_id, text } => match session.steer(&text).await {
            Ok(Steered::Accepted) => Some(message_id),
            Ok(Steered::Rejected) => None,
            Err(error) => {
                tracing::debug!(%error, "the agent was not steered; the message is in its next prompt");
                None
            }
        },
    }
}
