//! Random behavior of an external agent, generated from bytes.

use serde_json::json;
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendEvent, BackendNotice, BackendOutcome,
    ObservedCall, ObservedResult, PermissionRequest,
};
use windlass_core::typed_id::ExecId;
use windlass_turn::{BackendPlan, Input};

use super::EventPlayer;

/// An external agent executes the turns of every other group of seeds.
pub(super) fn plan(seed: u64) -> Option<BackendPlan> {
    (seed / 20 % 2 == 1).then(|| BackendPlan {
        name: "agent".to_owned(),
        allows_all: seed.is_multiple_of(7),
    })
}

impl EventPlayer<'_> {
    pub(super) fn has_backend(&self) -> bool {
        self.run().is_some()
    }

    fn run(&self) -> Option<ExecId> {
        Some(self.thread.turn()?.run()?.exec_id)
    }

    pub(super) fn play_backend(&mut self) {
        let Some(exec_id) = self.run() else { return };
        let tail = self.tail();
        let input = match self.below(8) {
            0 => {
                let chunk = self.at_a_moment(Some(&tail), |thread, ctx| thread.chunk(exec_id, ctx));
                return self.take(chunk);
            }
            1 => Input::BackendPause { exec_id },
            2 => self.taken_steer(exec_id),
            3 => Input::BackendEnded {
                exec_id,
                outcome: Box::new(self.outcome()),
            },
            _ => Input::BackendReported {
                exec_id,
                event: Box::new(self.said()),
            },
        };
        self.try_input(input, Some(&tail));
    }

    fn taken_steer(&self, exec_id: ExecId) -> Input {
        let steered = self.thread.turn().and_then(|turn| turn.steered.first());
        match steered {
            Some(message) => Input::BackendSteered {
                exec_id,
                message_id: message.id,
            },
            None => Input::BackendSession {
                exec_id,
                session_id: "s0".to_owned(),
            },
        }
    }

    fn name(&mut self, kind: &str) -> String {
        format!("{kind}{}", self.below(4))
    }

    fn said(&mut self) -> BackendEvent {
        match self.below(10) {
            0 | 1 => BackendEvent::Started {
                session_id: self.name("s"),
                model: self.one_in(2).then(|| "opus".to_owned()),
            },
            2 => BackendEvent::Text {
                text: "said".to_owned(),
                message: None,
                parent: None,
            },
            3 => BackendEvent::Thinking {
                text: "thought".to_owned(),
                parent: self.one_in(3).then(|| "c0".to_owned()),
            },
            4 | 5 => BackendEvent::ToolStarted(ObservedCall {
                id: self.name("c"),
                name: "Bash".to_owned(),
                arguments: json!({"n": self.below(2)}),
                parent: None,
            }),
            6 => BackendEvent::ToolCompleted(ObservedResult {
                call_id: self.name("c"),
                output: json!({"output": "out"}),
                is_error: self.one_in(3),
            }),
            7 => BackendEvent::Permission(PermissionRequest {
                id: self.name("r"),
                call_id: (!self.one_in(3)).then(|| self.name("c")),
                name: "Bash".to_owned(),
                arguments: json!({"n": self.below(2)}),
                title: None,
            }),
            8 => BackendEvent::PermissionWithdrawn {
                request_id: self.name("r"),
            },
            _ => BackendEvent::Notice(BackendNotice::Warning("careful".to_owned())),
        }
    }

    fn outcome(&mut self) -> BackendOutcome {
        let error = |kind| BackendError::new(kind, "no luck");
        let mut outcome = BackendOutcome::failed(error(BackendErrorKind::Server));
        match self.below(6) {
            0 | 1 => outcome.result = Ok(BackendEnd::Completed),
            2 => outcome.result = Err(error(BackendErrorKind::ResumeRefused)),
            3 => outcome.aborted_signal = true,
            4 => outcome.rate_limit_exit = true,
            _ => outcome.result = Ok(BackendEnd::Interrupted),
        }
        outcome
    }
}
