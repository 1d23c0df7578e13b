//! What a whole agent tells, asks and ends with, in any order.

use std::time::Duration;

use serde_json::json;
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendEvent, BackendNotice, BackendOutcome,
    BackendUsage, ObservedCall, ObservedResult, PermissionRequest,
};
use windlass_core::typed_id::{ExecId, MessageId};
use windlass_turn::{Input, Rejected};

use super::MachineDriver;
use super::inputs::{tail, text};
use crate::targets::bytes::Bytes;

const IDS: &[&str] = &["a", "b", "c", "d"];

impl MachineDriver {
    /// What a running backend says is taken unless it names what is not there; what any other says is stale.
    pub(super) fn play_backend(&mut self, bytes: &mut Bytes<'_>) {
        let exec_id = self.step_or_stray(self.backend_step(), bytes);
        let tail = tail(bytes);
        let (input, ends) = match bytes.below(10) {
            0 => (Input::BackendPause { exec_id }, false),
            1 => (self.taken(exec_id, bytes), false),
            2 => {
                let session_id = id(bytes);
                let input = Input::BackendSession {
                    exec_id,
                    session_id,
                };
                (input, false)
            }
            3 => {
                let outcome = Box::new(self.outcome(bytes));
                (Input::BackendEnded { exec_id, outcome }, true)
            }
            _ => {
                let event = Box::new(said(bytes));
                (Input::BackendReported { exec_id, event }, false)
            }
        };
        let runs = self.backend_step() == Some(exec_id);
        if runs && ends {
            self.running.remove(&exec_id);
        }
        match self.submit(input, Some(&tail)) {
            Ok(_) | Err(Rejected::NoPendingCall { .. }) => {
                assert!(runs, "a backend is heard that does not run");
            }
            Err(rejected) => assert_eq!((rejected, runs), (Rejected::Stale(exec_id), false)),
        }
    }

    fn taken(&mut self, exec_id: ExecId, bytes: &mut Bytes<'_>) -> Input {
        let steered = self.thread.turn().map(|turn| turn.steered.clone());
        let known = steered.and_then(|steered| bytes.pick(&steered).map(|message| message.id));
        let stray = MessageId::from_uuid(self.fresh());
        Input::BackendSteered {
            exec_id,
            message_id: known.unwrap_or(stray),
        }
    }

    fn outcome(&self, bytes: &mut Bytes<'_>) -> BackendOutcome {
        let failed = |kind| BackendOutcome::failed(BackendError::new(kind, "no luck"));
        let mut outcome = match bytes.below(7) {
            0 => failed(BackendErrorKind::Server),
            1 => failed(BackendErrorKind::ResumeRefused),
            2 => BackendOutcome {
                aborted_signal: true,
                ..failed(BackendErrorKind::Killed(6))
            },
            3 => BackendOutcome {
                rate_limit_exit: true,
                rate_limit_reset_at: bytes.one_in(2).then(|| self.now + Duration::from_secs(3)),
                ..failed(BackendErrorKind::RateLimit)
            },
            n => BackendOutcome {
                result: Ok([
                    BackendEnd::Completed,
                    BackendEnd::Refused,
                    BackendEnd::Interrupted,
                ][n % 3]),
                ..failed(BackendErrorKind::Failed)
            },
        };
        outcome.session_id = bytes.one_in(2).then(|| id(bytes));
        outcome.usage = bytes.one_in(2).then(|| BackendUsage {
            input_tokens: u64::MAX / 2,
            cost_usd: Some(0.1),
            ..BackendUsage::default()
        });
        outcome
    }
}

fn id(bytes: &mut Bytes<'_>) -> String {
    bytes.pick(IDS).copied().unwrap_or("a").to_owned()
}

fn said(bytes: &mut Bytes<'_>) -> BackendEvent {
    let parent = bytes.one_in(6).then(|| id(bytes));
    match bytes.below(13) {
        0 | 1 => BackendEvent::Started {
            session_id: id(bytes),
            model: bytes.one_in(2).then(|| "model".to_owned()),
        },
        2 => BackendEvent::Text {
            text: text(bytes),
            message: None,
            parent,
        },
        3 => BackendEvent::Thinking {
            text: text(bytes),
            parent,
        },
        4 | 5 => BackendEvent::ToolStarted(ObservedCall {
            id: id(bytes),
            name: "once".to_owned(),
            arguments: json!({ "n": bytes.below(2) }),
            parent,
        }),
        6 | 7 => BackendEvent::ToolCompleted(ObservedResult {
            call_id: id(bytes),
            output: json!("ok"),
            is_error: bytes.one_in(3),
        }),
        8 => BackendEvent::Permission(PermissionRequest {
            id: id(bytes),
            call_id: bytes.one_in(2).then(|| id(bytes)),
            name: "once".to_owned(),
            arguments: json!({ "n": bytes.below(2) }),
            title: None,
        }),
        9 => BackendEvent::PermissionWithdrawn {
            request_id: id(bytes),
        },
        11 => BackendEvent::Usage(BackendUsage {
            input_tokens: bytes.below(100) as u64,
            ..BackendUsage::default()
        }),
        10 => BackendEvent::ToolOutput {
            call_id: id(bytes),
            text: "out".to_owned(),
        },
        _ => BackendEvent::Notice(BackendNotice::LineCut { limit: 1 }),
    }
}
