//! A run of a backend: its process, what it tells, and what it is told.

mod drive;
mod output_limit;
mod seat;

use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use windlass_core::backend::{
    BackendError, BackendErrorKind, BackendEvent, BackendOutcome, PermissionDecision,
    SessionChoice, SessionTotals,
};
use windlass_core::typed_id::{ExecId, MessageId};

use super::stream_buffer::StreamBuffer;
use crate::agent_backends::BackendRequest;
use crate::spending::StepReservation;
use crate::thread::{Printed, StepScope};
use crate::world::Sleep;
use drive::Job;
use output_limit::{Admission, OutputLimit};
pub(crate) use seat::Seat;

/// How many things an agent may have told that nobody has read yet; then it is held up.
const UNREAD: usize = 64;

/// What a run has to tell.
pub(crate) enum Told {
    /// The id of the session that is to begin. The process starts when it is on record.
    Session {
        session_id: String,
        recorded: oneshot::Sender<()>,
    },
    /// What the agent tells.
    Event(BackendEvent),
    /// Buffered text is to be recorded.
    ChunkDue,
    /// What its calls have printed waits to be recorded.
    PrintedDue,
    /// The agent has taken what was said to the turn.
    Steered(MessageId),
    /// The end.
    Ended(Box<BackendOutcome>),
}

/// What a run is told.
enum Say {
    Answer {
        request_id: String,
        decision: PermissionDecision,
    },
    Steer {
        message_id: MessageId,
        text: String,
    },
    /// The agent is stopped, and the run ends with this error.
    End(BackendError),
}

/// A run under way. It has a task of its own; dropping this ends the run, and keeps the process where that can be used again.
pub(crate) struct BackendRun {
    pub(crate) exec_id: ExecId,
    /// The message that the agent says now, where it tells messages apart.
    pub(crate) message: Option<String>,
    /// Whether the last piece that it told was text.
    pub(crate) has_spoken: bool,
    /// How many bytes its message has so far.
    pub(crate) bytes: usize,
    /// How many of its notices were recorded.
    pub(crate) notices: usize,
    /// What its calls have printed, and when that is recorded.
    pub(crate) printed: Printed,
    pub(crate) printed_due: Option<Sleep>,
    pub(crate) buffer: StreamBuffer,
    limit: OutputLimit,
    say: mpsc::UnboundedSender<Say>,
    told: mpsc::Receiver<Told>,
}

impl BackendRun {
    /// Starts a run. `None` where the turn has no backend, or nothing to be told.
    pub(crate) fn start(
        scope: &StepScope<'_>,
        seat: &Arc<Seat>,
        exec_id: ExecId,
        session: SessionChoice,
    ) -> Option<Self> {
        let StepScope {
            inner,
            context,
            thread,
        } = scope;
        let registered = context.backend.clone()?;
        let prompt = thread.backend_prompt(inner.settings.backend_history_bytes)?;
        let known = thread.backend_session();
        let known = known.filter(|known| session.id() == Some(&known.session_id));
        let job = Job {
            world: Arc::clone(&inner.world),
            seat: Arc::clone(seat),
            idle_time: inner.settings.idle_time,
            registered,
            request: BackendRequest {
                session_id: thread.session_id(),
                turn_id: thread.turn()?.id,
                environment: context.environment.clone(),
                model: context.asked_model.clone(),
                owner: context.owner.clone(),
                approve_all: context
                    .plan
                    .backend
                    .as_ref()
                    .is_some_and(|it| it.allows_all),
            },
            session,
            totals: known.map_or_else(SessionTotals::default, |known| known.totals),
            prompt: prompt.text,
            reservation: StepReservation::of_run(scope, exec_id),
        };
        let (say, said) = mpsc::unbounded_channel();
        let (tell, told) = mpsc::channel(UNREAD);
        tokio::spawn(job.run(tell, said));
        Some(Self {
            exec_id,
            message: None,
            has_spoken: false,
            bytes: 0,
            notices: 0,
            printed: Printed::default(),
            printed_due: None,
            buffer: StreamBuffer::default(),
            limit: OutputLimit::new(
                thread.turn_output_bytes(),
                inner.settings.backend_output_bytes,
            ),
            say,
            told,
        })
    }

    /// Waits for the next thing to tell. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Told {
        let told = tokio::select! {
            biased;
            () = poll_fn(|cx| self.buffer.poll_due(cx)) => return Told::ChunkDue,
            () = async { match &mut self.printed_due { Some(due) => due.await, None => std::future::pending().await } } => {
                self.printed_due = None;
                return Told::PrintedDue;
            }
            told = self.told.recv() => told,
        };
        told.unwrap_or_else(|| {
            let error = BackendError::new(BackendErrorKind::Failed, "its driver panicked");
            Told::Ended(Box::new(BackendOutcome::failed(error)))
        })
    }

    /// Returns whether an event is recorded. The first one beyond the limit ends the run.
    pub(crate) fn admits(&mut self, event: &BackendEvent) -> bool {
        self.admits_bytes(output_limit::recorded_bytes(event)) || output_limit::is_end(event)
    }

    /// Returns whether so many bytes more are recorded.
    pub(crate) fn admits_bytes(&mut self, bytes: usize) -> bool {
        match self.limit.admit(bytes) {
            Admission::Recorded => true,
            Admission::Dropped => false,
            Admission::Exceeds(error) => {
                let _ = self.say.send(Say::End(error));
                false
            }
        }
    }

    /// Answers a permission.
    pub(crate) fn answer(&self, request_id: String, decision: PermissionDecision) {
        let _ = self.say.send(Say::Answer {
            request_id,
            decision,
        });
    }

    /// Says something to the running turn.
    pub(crate) fn steer(&self, message_id: MessageId, text: String) {
        let _ = self.say.send(Say::Steer { message_id, text });
    }
}
