//! The task of a run: starts or takes over the process, carries one prompt to its end.

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

use super::seat::{Process, Seat, StartedWith};
use super::{Say, Told, UNREAD};
use crate::agent_backends::{BackendRequest, RegisteredBackend};
use crate::spending::StepReservation;
use crate::world::World;

/// How long an agent that is to stop may take before its process is ended.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// What a run needs.
pub(super) struct Job {
    pub(super) world: Arc<dyn World>,
    pub(super) seat: Arc<Seat>,
    pub(super) idle_time: Option<Duration>,
    pub(super) registered: RegisteredBackend,
    pub(super) request: BackendRequest,
    pub(super) session: SessionChoice,
    pub(super) totals: SessionTotals,
    pub(super) prompt: String,
    /// What it reserves before it starts.
    pub(super) reservation: Option<StepReservation>,
}

impl Job {
    /// Carries the prompt to its end. When nobody listens any more, the agent is stopped.
    pub(super) async fn run(
        mut self,
        tell: mpsc::Sender<Told>,
        mut said: mpsc::UnboundedReceiver<Say>,
    ) {
        let (taken, process) = tokio::select! {
            biased;
            () = tell.closed() => return,
            taken = self.seat.take() => taken,
        };
        // A process that is only half there is given up with its future.
        let opened = tokio::select! {
            biased;
            () = tell.closed() => return,
            opened = async {
                self.reserve().await?;
                let work = self.begin_work().await?;
                self.open(process, &tell).await.map(|(process, hearing)| (process, hearing, work))
            } => opened,
        };
        let (mut process, hearing, work) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                drop(taken);
                let outcome = Box::new(BackendOutcome::failed(error));
                let _ = tell.send(Told::Ended(outcome)).await;
                return;
            }
        };
        let mut outcome = self.carry(&mut process, hearing, &tell, &mut said).await;
        if let Some(outcome) = &mut outcome {
            process.session_id = outcome.session_id.clone().or(process.session_id);
            if let Some(before) = process.unbooked.take() {
                outcome.usage.get_or_insert_default().add(&before);
            }
            if tell.is_closed() {
                // The record of the run has what was reported until then.
                let reported = process.reported.unwrap_or_default();
                process.unbooked = outcome.usage.map(|usage| usage.since(&reported));
            }
        }
        match outcome.as_ref().is_some_and(|it| it.exit.is_none()) && is_idle(&process) {
            true => taken.leave(process, &*self.world, self.idle_time).await,
            false => {
                process.session.close().await;
            }
        }
        drop(work);
        if let Some(outcome) = outcome {
            let _ = tell.send(Told::Ended(Box::new(outcome))).await;
        }
    }

    async fn reserve(&self) -> Result<(), BackendError> {
        let Some(reservation) = &self.reservation else {
            return Ok(());
        };
        let refused = |error: AgentLoopError| {
            let kind = match &error {
                AgentLoopError::BudgetExceeded(_) => BackendErrorKind::BudgetRefused,
                _ => BackendErrorKind::SpawnFailed,
            };
            BackendError::new(kind, error.to_string())
        };
        reservation.reserve().await.map_err(refused)
    }

    /// Tells the host that the agent is about to work.
    async fn begin_work(&self) -> Result<Box<dyn Send + Sync>, BackendError> {
        let begun = self.registered.host.begin_work(&self.request).await;
        begun.map_err(|error| BackendError::new(BackendErrorKind::SpawnFailed, error.to_string()))
    }

    /// Returns the process that is there, if it can carry the turn; starts one otherwise.
    async fn open(
        &mut self,
        process: Option<Process>,
        tell: &mpsc::Sender<Told>,
    ) -> Result<(Process, Hearing), BackendError> {
        let RegisteredBackend { backend, host } = self.registered.clone();
        let cannot = |error: &dyn ToString| {
            BackendError::new(BackendErrorKind::SpawnFailed, error.to_string())
        };
        let spec = host.spec(self.request.clone()).await;
        let spec = spec.map_err(|error| cannot(&error))?;
        let started = StartedWith::of(&spec);
        if let Some(process) = process {
            let has_session = match (&self.session, &process.session_id) {
                (SessionChoice::Resume { id }, Some(known)) => id == known,
                _ => false,
            };
            let is_wanted = process.backend == backend.name() && process.started == started;
            if has_session && is_wanted && is_idle(&process) {
                // It told of its session in an earlier run.
                let event = BackendEvent::Started {
                    session_id: process.session_id.clone().unwrap_or_default(),
                    model: None,
                };
                return Ok((process, Hearing::NotYet(Some(event))));
            }
            process.session.close().await;
        }
        self.choose_session(tell).await?;
        let session = backend
            .open(BackendSpec {
                session: self.session.clone(),
                totals: self.totals,
                ..spec
            })
            .await?;
        let process = Process {
            backend: backend.name().to_owned(),
            session_id: None,
            started,
            session: session.into(),
            unbooked: None,
            reported: None,
        };
        Ok((process, Hearing::NotYet(None)))
    }

    /// The id of a session is on record before its process starts.
    async fn choose_session(&mut self, tell: &mpsc::Sender<Told>) -> Result<(), BackendError> {
        if self.session != (SessionChoice::New { id: None }) {
            return Ok(());
        }
        let Some(session_id) = self.registered.backend.choose_session() else {
            return Ok(());
        };
        let (recorded, is_recorded) = oneshot::channel();
        let told = Told::Session {
            session_id: session_id.clone(),
            recorded,
        };
        let _ = tell.send(told).await;
        let nobody = |_| BackendError::new(BackendErrorKind::Cancelled, "nobody waits for it");
        is_recorded.await.map_err(nobody)?;
        self.session = SessionChoice::New {
            id: Some(session_id),
        };
        Ok(())
    }

    /// Returns the outcome; `None` of a process that did not stop when it was to.
    async fn carry(
        &self,
        process: &mut Process,
        mut hearing: Hearing,
        tell: &mpsc::Sender<Told>,
        said: &mut mpsc::UnboundedReceiver<Say>,
    ) -> Option<BackendOutcome> {
        let session = Arc::clone(&process.session);
        process.reported = None;
        let (events, mut told) = mpsc::channel(UNREAD);
        let mut prompting = std::pin::pin!(session.prompt(&self.prompt, events));
        let mut saying: JoinSet<Option<MessageId>> = JoinSet::new();
        let finished = loop {
            tokio::select! {
                biased;
                () = tell.closed() => break Finished::Unheard,
                // An agent can talk without a pause, so it comes behind what it is told.
                Some(words) = said.recv() => match words {
                    Say::End(error) => break Finished::Refused(error),
                    words => {
                        saying.spawn(say(Arc::clone(&session), words));
                    }
                },
                Some(joined) = saying.join_next(), if !saying.is_empty() => {
                    hearing.report(joined, tell).await;
                }
                Some(event) = told.recv() => {
                    process.note(&event);
                    hearing.pass(event, tell).await;
                }
                outcome = &mut prompting => break Finished::Itself(Box::new(outcome)),
            }
        };
        let outcome = match finished {
            Finished::Itself(outcome) => *outcome,
            Finished::Unheard => return self.stop(&session, prompting.as_mut(), &mut told).await,
            Finished::Refused(error) => {
                let stopped = self.stop(&session, prompting.as_mut(), &mut told).await;
                return Some(refused(stopped, error));
            }
        };
        while let Ok(event) = told.try_recv() {
            process.note(&event);
            hearing.pass(event, tell).await;
        }
        // An end that the agent tells itself shows that it has heard the prompt.
        if outcome.exit.is_none() && outcome.session_id.is_some() {
            hearing.heard(tell).await;
        }
        let mut patience = self.world.sleep(STOP_PATIENCE);
        loop {
            tokio::select! {
                biased;
                joined = saying.join_next() => match joined {
                    Some(joined) => hearing.report(joined, tell).await,
                    None => break,
                },
                () = &mut patience => break,
            }
        }
        Some(outcome)
    }

    /// Stops the agent. The process stays, unless it takes too long or nobody may stay.
    async fn stop(
        &self,
        session: &Arc<dyn BackendSession>,
        mut prompting: std::pin::Pin<&mut (impl Future<Output = BackendOutcome> + ?Sized)>,
        told: &mut mpsc::Receiver<BackendEvent>,
    ) -> Option<BackendOutcome> {
        let is_closed = self.seat.is_closed();
        let stopping = Arc::clone(session);
        let stopping = tokio::spawn(async move {
            match is_closed {
                true => {
                    stopping.close().await;
                }
                false => {
                    let _ = stopping.interrupt().await;
                }
            }
        });
        let mut patience = self.world.sleep(STOP_PATIENCE);
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut prompting => break Some(outcome),
                () = &mut patience => break None,
                Some(_) = told.recv() => {}
            }
        };
        let _ = stopping.await;
        outcome
    }
}

/// Why a prompt is no longer followed.
enum Finished {
    Itself(Box<BackendOutcome>),
    /// The run was dropped.
    Unheard,
    /// The run is to end with an error of ours.
    Refused(BackendError),
}

/// The outcome of an agent that was stopped because of an error of ours: its session and usage are its own.
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

/// What came of something that was said: the message that the agent has taken.
type Said = Result<Option<MessageId>, tokio::task::JoinError>;

/// Whether the agent has heard the prompt. Until then the news of its session is held back: who recovers from that news takes the
/// prompt for heard, and does not repeat it.
enum Hearing {
    /// Nothing shows it; with the news, if it has come.
    NotYet(Option<BackendEvent>),
    Yes,
}

impl Hearing {
    /// Passes on what the agent tells.
    async fn pass(&mut self, event: BackendEvent, tell: &mpsc::Sender<Told>) {
        match (&mut *self, event) {
            (Self::NotYet(news), event @ BackendEvent::Started { .. }) => *news = Some(event),
            // A warning may come before the prompt is read.
            (Self::NotYet(_), event @ BackendEvent::Notice(_)) | (Self::Yes, event) => {
                let _ = tell.send(Told::Event(event)).await;
            }
            (Self::NotYet(_), event) => {
                self.heard(tell).await;
                let _ = tell.send(Told::Event(event)).await;
            }
        }
    }

    /// Tells that the agent has taken what was said to the turn. One that has, has heard the prompt before.
    async fn report(&mut self, said: Said, tell: &mpsc::Sender<Told>) {
        if let Ok(Some(message_id)) = said {
            self.heard(tell).await;
            let _ = tell.send(Told::Steered(message_id)).await;
        }
    }

    async fn heard(&mut self, tell: &mpsc::Sender<Told>) {
        if let Self::NotYet(Some(news)) = std::mem::replace(self, Self::Yes) {
            let _ = tell.send(Told::Event(news)).await;
        }
    }
}

fn is_idle(process: &Process) -> bool {
    process.session.status() == BackendStatus::Idle
}

impl Process {
    fn note(&mut self, event: &BackendEvent) {
        match event {
            BackendEvent::Started { session_id, .. } => self.session_id = Some(session_id.clone()),
            BackendEvent::Usage(usage) => self.reported = Some(*usage),
            _ => {}
        }
    }
}

/// Says something to the agent; returns the message that it has taken.
async fn say(session: Arc<dyn BackendSession>, words: Say) -> Option<MessageId> {
    match words {
        Say::Answer {
            request_id,
            decision,
        } => {
            if let Err(error) = session.answer(&request_id, decision).await {
                tracing::debug!(request_id, %error, "a permission came too late");
            }
            None
        }
        Say::End(_) => None,
        Say::Steer { message_id, text } => match session.steer(&text).await {
            Ok(Steered::Taken) => Some(message_id),
            Ok(Steered::NotTaken) => None,
            Err(error) => {
                tracing::debug!(%error, "the agent was not told more; it is in its next prompt");
                None
            }
        },
    }
}
