//! A client that drives one piece of work to its end, and can be interrupted and restarted at any point.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::model::CALL;
use crate::daemon::{ApiReply, Client};

/// ClientRequest that takes longer is stuck, which is a failure.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(3);

/// The client's request.
pub(super) enum ClientRequest {
    Turn(ScriptedTurn),
    Undo(UndoRequest),
}

/// A turn with one call.
pub(super) struct ScriptedTurn {
    /// The path of the thread.
    pub(super) thread: String,
    /// Idempotency key of the request.
    pub(super) key: String,
    /// The call that the model must make.
    pub(super) call: Value,
    /// The decision about the call, if it needs an approval.
    pub(super) decision: Option<&'static str>,
    /// Delay before the decision.
    pub(super) delay: Duration,
    /// The approval, once it was seen.
    pub(super) approval: OnceLock<String>,
    /// Set once the decision was sent, whether it arrived or not.
    pub(super) is_decided: OnceLock<()>,
}

/// An undo with the files.
pub(super) struct UndoRequest {
    pub(super) thread: String,
    pub(super) key: String,
    pub(super) body: Value,
}

/// Why a request did not complete.
#[derive(Debug)]
pub(super) enum DriveError {
    /// The connection to the daemon was lost.
    Lost,
    /// An invariant is violated.
    Wrong(String),
}

impl ClientRequest {
    /// Drives the request to the end of the turn or to a response.
    pub(super) fn drive(&self, client: &Client) -> Result<ApiReply, DriveError> {
        match self {
            Self::Turn(turn) => turn.drive(client),
            Self::Undo(undo) => post(
                client,
                &format!("{}/undo", undo.thread),
                Some(&undo.key),
                &undo.body,
            ),
        }
    }
}

impl ScriptedTurn {
    fn drive(&self, client: &Client) -> Result<ApiReply, DriveError> {
        let body = json!({
            "prompt": format!("{CALL}{}", self.call),
            "auto_approve": self.decision.is_none(),
        });
        let started = post(
            client,
            &format!("{}/turns", self.thread),
            Some(&self.key),
            &body,
        )?;
        let started = expect(started, 201)?;
        let turn = started["turn"]["id"].as_str().unwrap_or_default();
        let given_up = Instant::now() + PATIENCE;
        let mut has_waited = false;
        loop {
            let detail = get(client, &self.thread)?;
            let turns = detail["turns"].as_array().cloned().unwrap_or_default();
            let of_turn = turns.iter().filter(|it| it["id"] == turn);
            let [now] = of_turn.collect::<Vec<_>>()[..] else {
                return Err(DriveError::Wrong(format!("{turn} is not in {turns:#?}")));
            };
            let status = now["status"].as_str().unwrap_or_default();
            if status != "in_progress" {
                let mut shown = now.clone();
                let items = detail["items"].as_array().cloned().unwrap_or_default();
                shown["items"] = items
                    .into_iter()
                    .filter(|item| item["turn_id"] == turn)
                    .collect();
                return Ok(ApiReply {
                    status: 200,
                    body: shown.to_string(),
                });
            }
            let pending = &detail["pending_approvals"][0]["approval_id"];
            match (pending.as_str(), self.decision) {
                (Some(id), Some(decision)) => {
                    if self.approval.get_or_init(|| id.to_owned()) != id {
                        return Err(DriveError::Wrong(format!("{id} replaced another approval")));
                    }
                    if !has_waited {
                        has_waited = true;
                        std::thread::sleep(self.delay);
                        continue;
                    }
                    self.decide(client, decision)?;
                }
                (Some(id), None) => {
                    return Err(DriveError::Wrong(format!("{id} is an unexpected approval")));
                }
                // A client that does not know whether its answer arrived sends it once more.
                (None, Some(decision)) if self.is_decided.get().is_some() && !has_waited => {
                    has_waited = true;
                    self.decide(client, decision)?;
                }
                (None, _) => {}
            }
            if Instant::now() > given_up {
                return Err(DriveError::Wrong(format!(
                    "{turn} does not end: {detail:#}"
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn decide(&self, client: &Client, decision: &str) -> Result<(), DriveError> {
        let id = self.approval.get().cloned().unwrap_or_default();
        let _ = self.is_decided.set(());
        let path = format!("/v1/approvals/{id}");
        let decided = post(client, &path, None, &json!({ "decision": decision }))?;
        expect(decided, 200).map(drop)
    }
}

fn post(
    client: &Client,
    path: &str,
    key: Option<&str>,
    body: &Value,
) -> Result<ApiReply, DriveError> {
    let key = key.map(|key| ("idempotency-key", key));
    let headers: Vec<_> = key.into_iter().collect();
    let answer = client.exchange("POST", path, &headers, &body.to_string());
    answer.map_err(|_| DriveError::Lost)
}

fn get(client: &Client, path: &str) -> Result<Value, DriveError> {
    let answer = client.exchange("GET", path, &[], "");
    expect(answer.map_err(|_| DriveError::Lost)?, 200)
}

fn expect(answer: ApiReply, status: u16) -> Result<Value, DriveError> {
    if answer.status == status {
        answer.json().map_err(DriveError::Wrong)
    } else {
        Err(DriveError::Wrong(format!(
            "{status} was expected: {answer:?}"
        )))
    }
}
