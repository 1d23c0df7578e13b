//! A client that drives one piece of work to its end, and can be interrupted and restarted at any point.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::model::CALL;
use crate::daemon::{ApiReply, Client};

/// Work that takes longer is stuck, which is a failure.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(3);

/// The client's request.
pub(super) enum Work {
    Turn(Turn),
    Undo(Undo),
}

/// A turn with one call.
pub(super) struct Turn {
    /// The path of the thread.
    pub(super) thread: String,
    /// Idempotency key of the request.
    pub(super) key: String,
    /// The call that the model must make.
    pub(super) call: Value,
    /// The decision about the call, if it needs an approval.
    pub(super) decision: Option<&'static str>,
    /// Delay before the decision.
    pub(super) thought: Duration,
    /// The approval, once it was seen.
    pub(super) approval: OnceLock<String>,
    /// Set once the decision was sent, whether it arrived or not.
    pub(super) is_decided: OnceLock<()>,
}

/// Going back, with the files.
pub(super) struct Undo {
    pub(super) thread: String,
    pub(super) key: String,
    pub(super) body: Value,
}

/// Why work did not come to its end.
#[derive(Debug)]
pub(super) enum Failed {
    /// The daemon went away.
    Lost,
    /// Something does not hold.
    Wrong(String),
}

impl Work {
    /// Carries the work through: to the end of the turn, or to an answer.
    pub(super) fn drive(&self, client: &Client) -> Result<ApiReply, Failed> {
        match self {
            Self::Turn(turn) => turn.drive(client),
            Self::Undo(undo) => ask(
                client,
                &format!("{}/undo", undo.thread),
                Some(&undo.key),
                &undo.body,
            ),
        }
    }
}

impl Turn {
    fn drive(&self, client: &Client) -> Result<ApiReply, Failed> {
        let body = json!({
            "prompt": format!("{CALL}{}", self.call),
            "auto_approve": self.decision.is_none(),
        });
        let started = ask(
            client,
            &format!("{}/turns", self.thread),
            Some(&self.key),
            &body,
        )?;
        let started = expect(started, 201)?;
        let turn = started["turn"]["id"].as_str().unwrap_or_default();
        let given_up = Instant::now() + PATIENCE;
        let mut is_thought_about = false;
        loop {
            let detail = get(client, &self.thread)?;
            let turns = detail["turns"].as_array().cloned().unwrap_or_default();
            let of_turn = turns.iter().filter(|it| it["id"] == turn);
            let [now] = of_turn.collect::<Vec<_>>()[..] else {
                return Err(Failed::Wrong(format!("{turn} is not in {turns:#?}")));
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
                        return Err(Failed::Wrong(format!("{id} is asked in another's place")));
                    }
                    if !is_thought_about {
                        is_thought_about = true;
                        std::thread::sleep(self.thought);
                        continue;
                    }
                    self.decide(client, decision)?;
                }
                (Some(id), None) => {
                    return Err(Failed::Wrong(format!("{id} is asked for no reason")));
                }
                // A client that does not know whether its answer arrived sends it once more.
                (None, Some(decision)) if self.is_decided.get().is_some() && !is_thought_about => {
                    is_thought_about = true;
                    self.decide(client, decision)?;
                }
                (None, _) => {}
            }
            if Instant::now() > given_up {
                return Err(Failed::Wrong(format!("{turn} does not end: {detail:#}")));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn decide(&self, client: &Client, decision: &str) -> Result<(), Failed> {
        let id = self.approval.get().cloned().unwrap_or_default();
        let _ = self.is_decided.set(());
        let path = format!("/v1/approvals/{id}");
        let decided = ask(client, &path, None, &json!({ "decision": decision }))?;
        expect(decided, 200).map(drop)
    }
}

fn ask(client: &Client, path: &str, key: Option<&str>, body: &Value) -> Result<ApiReply, Failed> {
    let key = key.map(|key| ("idempotency-key", key));
    let headers: Vec<_> = key.into_iter().collect();
    let answer = client.exchange("POST", path, &headers, &body.to_string());
    answer.map_err(|_| Failed::Lost)
}

fn get(client: &Client, path: &str) -> Result<Value, Failed> {
    let answer = client.exchange("GET", path, &[], "");
    expect(answer.map_err(|_| Failed::Lost)?, 200)
}

fn expect(answer: ApiReply, status: u16) -> Result<Value, Failed> {
    if answer.status == status {
        answer.json().map_err(Failed::Wrong)
    } else {
        Err(Failed::Wrong(format!("{status} was expected: {answer:?}")))
    }
}
