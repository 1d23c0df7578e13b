//! How the events of a backend change a thread.

use std::sync::Arc;

use windlass_core::events::{
    ApprovalDecidedData, ApprovalRequiredData, BackendCompletedData, BackendRunEnd,
    BackendStartedData, Decision, Event,
};
use windlass_core::remembered_calls::call_digest;
use windlass_core::typed_id::MessageId;

use crate::run::{Asked, KnownSession, Run, RunStart, Settled};
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
            run.say(steered.remove(at), Vec::new());
        }
        self.settle_run();
    }

    /// Gives the messages of a run their places.
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
        let Some(turn) = &mut self.turn else { return };
        if let Some(usage) = &data.usage {
            turn.usage.get_or_insert_default().add(usage);
            self.usage.get_or_insert_default().add(usage);
        }
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
            // A session that was not established has not heard what was said.
            _ => {
                if let Some(session) = &mut self.session {
                    session.is_current = false;
                }
            }
        }
    }

    /// Keeps in mind by which name a backend asks for a call.
    pub(crate) fn note_request(&mut self, event: &Event, data: &ApprovalRequiredData) {
        let asked = event.context.exec_id.zip(data.request_id.as_deref());
        if let (Some(run), Some((exec_id, request_id))) = (self.run_mut(), asked) {
            // The newest request of a name, and the newest one for a call, are those that count.
            let is_older = |it: &Asked| it.exec_id == exec_id || it.request_id == request_id;
            run.asked.retain(|asked| !is_older(asked));
            run.asked.push(Asked {
                exec_id,
                request_id: request_id.to_owned(),
                call: Arc::new(data.tool_call.clone()),
            });
        }
    }

    /// Keeps a decision in mind that comes after the process is gone, and forgets it when the backend has asked again. What is
    /// refused ends here, whatever the backend still tells of it.
    pub(crate) fn note_settled(&mut self, event: &Event, data: &ApprovalDecidedData) {
        let Some(Turn {
            phase: Phase::Backend(run),
            settled,
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
        let asked = run.asked.iter();
        let mut asked = asked.filter(|asked| event.context.exec_id == Some(asked.exec_id));
        let asked = asked.next().map_or(&call, |asked| &asked.call);
        let is_allowed = data.decision == Decision::Allow;
        match (run.is_lost, data.withdrawn) {
            (_, Some(true)) => {}
            (true, _) => settled.push(Settled {
                call: Arc::clone(asked),
                is_allowed,
            }),
            (false, _) => {
                let digest = call_digest(asked);
                settled.retain(|settled| !settled.is_about(digest));
                if !is_allowed {
                    run.ended_by_us.push(call.id.clone());
                }
            }
        }
    }
}
