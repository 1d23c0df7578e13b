//! A session of an editor: one thread.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_protocol::{EventName, Mode, Status, Thread, ThreadAndTurn, ThreadDetail, Turn};

use super::updates::{Updates, asked_for, past};
use super::wire::{Failure, Peer};
use crate::follow::{self, Follower};
use crate::reach::Link;

/// Nobody in an editor can answer the questions of this tool: the protocol has no word for them.
const NOT_OFFERED: [&str; 1] = ["request_user_input"];

/// A thread that an editor has open.
pub(super) struct Session {
    link: Arc<Link>,
    thread: Thread,
    /// The turn that is at work.
    turn: Mutex<Option<String>>,
}

impl Session {
    /// Makes a thread.
    pub(super) async fn new(link: &Arc<Link>, thread: &Value) -> Result<Self, Failure> {
        let thread = link.client().post("/v1/threads", thread).await?;
        Ok(Self::on(link, thread))
    }

    /// Opens a thread of the past, and tells the client what happened in it.
    pub(super) async fn load(link: &Arc<Link>, id: &str, peer: &Peer) -> Result<Self, Failure> {
        let thread = follow::resume(link, id).await;
        thread.map_err(|_| Failure::no_session(id))?;
        let detail: ThreadDetail = link.client().get(&format!("/v1/threads/{id}")).await?;
        for item in &detail.items {
            for update in past(item) {
                peer.update(id, update);
            }
        }
        Ok(Self::on(link, detail.thread))
    }

    fn on(link: &Arc<Link>, thread: Thread) -> Self {
        Self {
            link: Arc::clone(link),
            thread,
            turn: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.thread.id
    }

    /// The modes that an editor can choose from.
    pub(super) fn modes(&self) -> Value {
        let current = match self.thread.mode {
            Mode::Plan => "plan",
            _ => "agent",
        };
        json!({
            "currentModeId": current,
            "availableModes": [
                { "id": "agent", "name": "Agent", "description": "Works, and asks before it changes something" },
                { "id": "plan", "name": "Plan", "description": "Looks and plans, and changes nothing" },
            ],
        })
    }

    pub(super) async fn set_mode(&self, mode: &str) -> Result<Value, Failure> {
        if !["agent", "plan"].contains(&mode) {
            return Err(Failure::bad(format!(
                "there is no mode `{mode}`; there are agent and plan"
            )));
        }
        let path = format!("/v1/threads/{}", self.id());
        let client = self.link.client();
        client
            .patch::<Value>(&path, &json!({ "mode": mode }))
            .await?;
        Ok(json!({}))
    }

    /// Carries a turn to its end, telling what happens.
    pub(super) async fn prompt(&self, peer: &Peer, text: &str) -> Result<Value, Failure> {
        self.link.is_there().await?;
        let client = self.link.client();
        let detail: ThreadDetail = client.get(&format!("/v1/threads/{}", self.id())).await?;
        let mut events = Follower::after(&self.link, self.id(), detail.latest_seq).await?;
        let wanted = json!({ "prompt": text, "disallowed_tools": NOT_OFFERED });
        let path = format!("/v1/threads/{}/turns", self.id());
        let started: ThreadAndTurn = client.post(&path, &wanted).await?;
        self.set_turn(Some(started.turn.id.clone()));
        let ended = self.tell(peer, &mut events, &started.turn.id).await;
        self.set_turn(None);
        let turn = ended?;
        match turn.status {
            Status::Completed => Ok(json!({ "stopReason": "end_turn" })),
            Status::Interrupted | Status::Canceled => Ok(json!({ "stopReason": "cancelled" })),
            _ => {
                let cause = turn.error.as_deref().unwrap_or("the turn failed");
                let failure = Failure::internal(cause);
                Err(match &turn.error_code {
                    Some(code) => failure.with_code(code),
                    None => failure,
                })
            }
        }
    }

    /// Tells of a turn until its end.
    async fn tell(
        &self,
        peer: &Peer,
        events: &mut Follower,
        turn_id: &str,
    ) -> Result<Turn, Failure> {
        let mut updates = Updates::default();
        let mut calls: HashMap<String, Value> = HashMap::new();
        let mut questions = JoinSet::new();
        loop {
            let event = events.next().await?;
            if event.turn_id.as_deref() != Some(turn_id) {
                continue;
            }
            let item_id = event.item_id.clone().unwrap_or_default();
            if event.event == EventName::ItemStarted.as_str() {
                calls.insert(item_id.clone(), event.payload["tool"].clone());
            }
            if let Some(update) = updates.of(&event) {
                peer.update(self.id(), update);
            }
            if event.event == EventName::ApprovalRequired.as_str() {
                let item_id = event.payload["item_id"].as_str().unwrap_or(&item_id);
                let known = calls.get(item_id).filter(|tool| !tool.is_null());
                let cwd = Path::new(&self.thread.workspace);
                let call = asked_for(item_id, &event.payload, known, cwd);
                let approval = event.payload["id"].as_str().unwrap_or_default().to_owned();
                questions.spawn(decide(
                    Arc::clone(&self.link),
                    peer.clone(),
                    self.id().to_owned(),
                    call,
                    approval,
                ));
            }
            if event.event == EventName::TurnCompleted.as_str() {
                let turn = serde_json::from_value(event.payload["turn"].clone());
                return turn.map_err(|error| Failure::internal(error.to_string()));
            }
        }
    }

    /// Stops the turn that is at work.
    pub(super) async fn cancel(&self) {
        let turn = self.turn.lock().map(|turn| turn.clone());
        let Some(turn) = turn.ok().flatten() else {
            return;
        };
        let path = format!("/v1/threads/{}/turns/{turn}/interrupt", self.id());
        // One that has ended in the meantime needs no stop.
        let _ = self.link.client().post::<Value>(&path, &json!({})).await;
    }

    fn set_turn(&self, turn: Option<String>) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }
}

/// Asks the person at the editor whether a call may run, and passes the answer on. What is no clear yes is a no.
async fn decide(link: Arc<Link>, peer: Peer, session_id: String, call: Value, approval: String) {
    let params = json!({
        "sessionId": session_id,
        "toolCall": call,
        "options": [
            { "optionId": "allow", "name": "Allow", "kind": "allow_once" },
            { "optionId": "allow_always", "name": "Allow everything in this session, commands too", "kind": "allow_always" },
            { "optionId": "reject", "name": "Reject", "kind": "reject_once" },
        ],
    });
    let answer = peer.ask("session/request_permission", params).await;
    let outcome = answer.map(|answer| answer["outcome"].clone());
    let chosen = outcome
        .as_ref()
        .and_then(|outcome| outcome["optionId"].as_str());
    let (decision, remember) = match chosen {
        Some("allow") => ("allow", false),
        Some("allow_always") => ("allow", true),
        _ => ("deny", false),
    };
    let path = format!("/v1/approvals/{approval}");
    let body = json!({ "decision": decision, "remember": remember });
    // Somebody else may have decided, or the turn was stopped.
    let _ = link.client().post::<Value>(&path, &body).await;
}
