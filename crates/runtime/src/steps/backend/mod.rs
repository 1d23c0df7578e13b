//! A run of an external agent: its process, output and input.

mod drive;
mod output_limit;
mod process_slot;

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
use crate::thread::{CallOutputBuffer, StepScope};
use drive::RunDriver;
use output_limit::{Admission, OutputLimit};
pub(crate) use process_slot::ProcessSlot;
use windlass_core::Sleep;

/// Maximum number of unread outputs; beyond it the agent is blocked.
const UNREAD: usize = 64;

/// Output of a run.
pub(crate) enum BackendOutput {
    /// The ID of the session that is about to begin. The process starts when the ID is recorded.
    Session {
        session_id: String,
        recorded: oneshot::Sender<()>,
    },
    /// An event of the agent.
    Event(BackendEvent),
    /// Buffered text is to be recorded.
    ChunkDue,
    /// Output of its calls is to be recorded.
    CallOutputDue,
    /// The agent has accepted a steered message.
    Steered(MessageId),
    /// The run has ended; nothing follows.
    Ended(Box<BackendOutcome>),
}

/// Input of a run.
enum BackendInput {
    Answer {
        request_id: String,
        decision: PermissionDecision,
    },
    Steer {
        message_id: MessageId,
        text: String,
    },
    /// The agent is cancelled, and the run ends with this error.
    End(BackendError),
}

/// A running run. It has its own task; dropping this ends the run and leaves a process that can be reused in its slot.
pub(crate) struct BackendRun {
    pub(crate) exec_id: ExecId,
    /// The agent's current message, if it distinguishes messages.
    pub(crate) message: Option<String>,
    /// Whether the last piece was text.
    pub(crate) last_was_text: bool,
    /// Bytes of the current message so far.
    pub(crate) bytes: usize,
    /// Number of recorded notices.
    pub(crate) notices: usize,
    /// Output of its calls, and when it is recorded.
    pub(crate) call_output: CallOutputBuffer,
    pub(crate) call_output_due: Option<Sleep>,
    pub(crate) buffer: StreamBuffer,
    limit: OutputLimit,
    input: mpsc::UnboundedSender<BackendInput>,
    output: mpsc::Receiver<BackendOutput>,
}

impl BackendRun {
    /// Starts a run. `None` if the turn has no external agent or no prompt.
    pub(crate) fn start(
        scope: &StepScope<'_>,
        slot: &Arc<ProcessSlot>,
        exec_id: ExecId,
        session: SessionChoice,
        totals: SessionTotals,
    ) -> Option<Self> {
        let (inner, context, thread) = (scope.inner, scope.context, scope.thread);
        let registered = context.backend.clone()?;
        let prompt = thread.backend_prompt(inner.settings.backend_history_bytes)?;
        let job = RunDriver {
            clock: Arc::clone(&inner.clock),
            slot: Arc::clone(slot),
            idle_time: inner.settings.idle_time,
            registered,
            request: BackendRequest {
                session_id: thread.session_id(),
                turn_id: thread.turn()?.id,
                environment: context.environment.clone(),
                model: context.requested_model.clone(),
                owner: context.owner.clone(),
                approve_all: (context.plan.backend.as_ref()).is_some_and(|it| it.allows_all),
            },
            session,
            totals,
            prompt: prompt.text,
            reservation: StepReservation::for_run(scope, exec_id),
        };
        let (input, inbox) = mpsc::unbounded_channel();
        let (outbox, output) = mpsc::channel(UNREAD);
        tokio::spawn(job.run(outbox, inbox));
        Some(Self {
            exec_id,
            message: None,
            last_was_text: false,
            bytes: 0,
            notices: 0,
            call_output: CallOutputBuffer::default(),
            call_output_due: None,
            buffer: StreamBuffer::default(),
            limit: OutputLimit::new(
                thread.turn_output_bytes(),
                inner.settings.backend_output_bytes,
            ),
            input,
            output,
        })
    }

    /// Waits for the next output. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> BackendOutput {
        let output = tokio::select! {
            biased;
            () = poll_fn(|cx| self.buffer.poll_due(cx)) => return BackendOutput::ChunkDue,
            () = async { match &mut self.call_output_due { Some(due) => due.await, None => std::future::pending().await } } => {
                self.call_output_due = None;
                return BackendOutput::CallOutputDue;
            }
            output = self.output.recv() => output,
        };
        output.unwrap_or_else(|| {
            let error = BackendError::new(BackendErrorKind::Failed, "its driver panicked");
            BackendOutput::Ended(Box::new(BackendOutcome::failed(error)))
        })
    }

    /// Returns whether an event is recorded. The first one beyond the limit ends the run.
    pub(crate) fn admits(&mut self, event: &BackendEvent) -> bool {
        self.admits_bytes(output_limit::recorded_bytes(event)) || output_limit::is_end(event)
    }

    /// Returns whether this many more bytes are recorded.
    pub(crate) fn admits_bytes(&mut self, bytes: usize) -> bool {
        match self.limit.admit(bytes) {
            Admission::Recorded => true,
            Admission::Dropped => false,
            Admission::Exceeds(error) => {
                let _ = self.input.send(BackendInput::End(error));
                false
            }
        }
    }

    /// Answers a permission request.
    pub(crate) fn answer(&self, request_id: String, decision: PermissionDecision) {
        let _ = self.input.send(BackendInput::Answer {
            request_id,
            decision,
        });
    }

    /// Steers the running turn.
    pub(crate) fn steer(&self, message_id: MessageId, text: String) {
        let _ = self.input.send(BackendInput::Steer { message_id, text });
    }
}
