//! How the events of an external agent change a thread.

use std::sync::Arc;

use windlass_core::events::{
    ApprovalDecidedData, ApprovalRequiredData, BackendCompletedData, BackendRunEnd,
    BackendStartedData, Decision, Event,
};
use windlass_core::remembered_calls::call_digest;
use windlass_core::typed_id::MessageId;

use crate::run::{KnownSession, OfflineDecision, OpenPermission, Run, RunStart};
use crate::state::{Phase, Thread, Turn};

impl Thread {
    pub(crate) fn run_mut(&mut self) -> Option<&mut Run> {
        match &mut self.turn.as_mut()?.phase {
            Phase::Backend(run) => Some(run),
            _ => None,
        }
    }

    /// Input that arrived meanwhile is part of this run.
    pub(crate) fn begin_run(&mut self, event: &Event, data: &BackendStartedData) {
        let (Some(turn), Some(exec_id)) = (&mut self.turn, event.context.exec_id) else {
            return;
        };
        for message in turn.steered.drain(..) {
            self.history.push(message);
        }
        turn.iterations = data.iteration;
        turn.phase = Phase::Backend(Box::new(Run::new(RunStart {
            exec_id,
            backend: data.backend.as_str().into(),
            session: data.session.clone(),
            prompt: data.prompt,
            message_ids: data.message_ids.clone().unwrap_or_default().into(),
            attempts: data.attempts,
            at: event.ts,
        })));
    }

    /// A steer is positioned where the agent accepted it.
    pub(crate) fn place_steer(&mut self, message_id: MessageId) {
        if let Some(Turn {
            phase: Phase::Backend(run),
            steered,
            ..
        }) = &mut self.turn
            && let Some(at) = steered.iter().position(|it| it.id == message_id)
        {
            run.add_message(steered.remove(at), Vec::new());
        }
        self.settle_run();
    }

    /// Positions the messages of a run in the conversation.
    pub(crate) fn settle_run(&mut self) {
        if let Some(Turn {
            phase: Phase::Backend(run),
            ..
        }) = &mut self.turn
        {
            run.settle(|message| self.history.push(message));
        }
    }

    pub(crate) fn end_run(&mut self, data: &BackendCompletedData) {
        self.add_usage(data.usage.as_ref());
        let Some(turn) = &mut self.turn else { return };
        let phase = std::mem::replace(&mut turn.phase, Phase::Between);
        let Phase::Backend(run) = phase else { return };
        turn.last_run = Some(run.last_run());
        if data.end != BackendRunEnd::Failed {
            turn.limit_waits = 0;
        }
        match (&data.session_id, run.is_established) {
            (Some(session_id), true) => {
                self.session = Some(KnownSession {
                    backend: Arc::clone(&run.backend),
                    session_id: session_id.clone(),
                    totals: data.totals.unwrap_or_default(),
                    messages: self.history.len(),
                    unread: Arc::default(),
                    is_current: true,
                });
            }
            // A session that was not established has not received the messages.
            _ => {
                if let Some(session) = &mut self.session {
                    session.is_current = false;
                }
            }
        }
    }

    /// Stores the ID of an external agent's permission request.
    pub(crate) fn note_request(&mut self, event: &Event, data: &ApprovalRequiredData) {
        let request = event.context.exec_id.zip(data.request_id.as_deref());
        if let (Some(run), Some((exec_id, request_id))) = (self.run_mut(), request) {
            // The newest request replaces earlier ones with its ID or for its call.
            let is_replaced =
                |it: &OpenPermission| it.exec_id == exec_id || it.request_id == request_id;
            run.permissions.retain(|it| !is_replaced(it));
            run.permissions.push(OpenPermission {
                exec_id,
                request_id: request_id.to_owned(),
                call: Arc::new(data.tool_call.clone()),
            });
        }
    }

    /// Stores a decision made after the process was gone, until the agent repeats its request. A denied call ends here, whatever the agent still
    /// reports about it.
    pub(crate) fn note_decision(&mut self, event: &Event, data: &ApprovalDecidedData) {
        let Some(Turn {
            phase: Phase::Backend(run),
            offline_decisions,
            ..
        }) = &mut self.turn
        else {
            return;
        };
        let mut calls = run.calls.iter();
        let call = calls.find(|call| event.context.exec_id == Some(call.exec_id));
        let Some(call) = call.map(|call| Arc::clone(&call.call)) else {
            return;
        };
        let mut permissions = run.permissions.iter();
        let permission = permissions.find(|it| event.context.exec_id == Some(it.exec_id));
        let requested = permission.map_or(&call, |permission| &permission.call);
        let is_allowed = data.decision == Decision::Allow;
        match (run.is_lost, data.withdrawn) {
            (_, Some(true)) => {}
            (true, _) => offline_decisions.push(OfflineDecision {
                call: Arc::clone(requested),
                is_allowed,
            }),
            (false, _) => {
                let digest = call_digest(requested);
                offline_decisions.retain(|decision| !decision.is_about(digest));
                if !is_allowed {
                    run.ended_by_us.push(call.id.clone());
                }
            }
        }
    }
}
