//! Reading open turns without resuming them.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use windlass_core::error::Result;
use windlass_core::message::Message;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_turn::{Call, CallState, Turn};

use super::InProcessRuntime;
use crate::conversation::{Need, PendingCall};

/// An open turn, as recorded. The record does not show whether a process executes it now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OpenTurn {
    /// ID of the open turn.
    pub turn_id: TurnId,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// Number of times the turn was resumed in another process.
    pub resumed_count: u32,
    /// Calls for which the turn is parked.
    pub pending: Vec<PendingCall>,
    /// Steered messages that wait for its next model call.
    pub steered: Vec<Arc<Message>>,
}

impl From<&Turn> for OpenTurn {
    fn from(turn: &Turn) -> Self {
        let calls = turn.calls().iter();
        Self {
            turn_id: turn.id,
            started_at: turn.started_at,
            resumed_count: turn.resumes,
            pending: calls.filter_map(pending).collect(),
            steered: turn.steered.clone(),
        }
    }
}

fn pending(call: &Call) -> Option<PendingCall> {
    let need = match call.state {
        CallState::AwaitingApproval { .. } => Need::Approval,
        CallState::AwaitingResult { .. } | CallState::AwaitingAnswer { .. } => Need::Result,
        CallState::Queued | CallState::Running { .. } | CallState::Done { .. } => return None,
    };
    Some(PendingCall {
        id: call.call.id.clone(),
        name: call.call.name.clone(),
        arguments: call.call.arguments.clone(),
        need,
    })
}

impl InProcessRuntime {
    /// Returns the open turn of a session with its pending calls. No turn is resumed: this works on a store that is open read-only, and never counts
    /// as a crash of the turn.
    pub async fn open_turn(&self, session_id: SessionId) -> Result<Option<OpenTurn>> {
        let thread = self.inner.thread(session_id).await?;
        Ok(thread.turn().map(OpenTurn::from))
    }

    /// Returns the ID of the pending question of a call.
    pub(crate) async fn question_of(
        &self,
        session_id: SessionId,
        call_id: &str,
    ) -> Result<Option<String>> {
        let thread = self.inner.thread(session_id).await?;
        let mut calls = thread.turn().map_or(&[][..], Turn::calls).iter();
        Ok(calls.find_map(|call| match &call.state {
            CallState::AwaitingAnswer { request_id, .. } if call.call.id == call_id => {
                Some(request_id.clone())
            }
            _ => None,
        }))
    }

    /// Returns the sessions with an open turn or a queued input.
    pub async fn unfinished_sessions(&self) -> Result<Vec<SessionId>> {
        self.inner.unfinished_sessions().await
    }
}
