//! An editor's session: one thread.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_protocol::{
    ApprovalDecision, Call, CreateThread, DecideApproval, EventPayload, ItemKind, Mode,
    PatchThread, StartTurn, Status, Thread, ThreadDetail, Turn,
};

use super::updates::{Updates, permission_request, recorded_updates};
use crate::client::calls;
use crate::client::connect::DaemonConnection;
use crate::client::follow::{self, EventFollower, FollowStep};
use crate::client::thread_session::{ASKING_TOOL, decide_approval, open_turn};
use crate::stdio_rpc::{Peer, RpcFailure};
use crate::terminal::{ShownCall, approval_call, decision};

/// A thread that an editor has open.
pub(super) struct AcpSession {
    daemon: Arc<DaemonConnection>,
    thread: Thread,
    activity: Mutex<SessionActivity>,
    /// The thread as it was loaded, if it has an open turn for which no updates are sent yet.
    open: Mutex<Option<ThreadDetail>>,
}

/// The current work of a session.
#[derive(Debug, Default, PartialEq, Eq)]
enum SessionActivity {
    #[default]
    Idle,
    /// A prompt was received and has no turn yet.
    Starting { is_canceled: bool },
    /// The ID of the running turn.
    Turn(String),
}

impl AcpSession {
    /// Creates a thread.
    pub(super) async fn new(
        daemon: &Arc<DaemonConnection>,
        request: CreateThread,
    ) -> Result<Self, RpcFailure> {
        let thread = daemon.api().create_thread(Call::new((), request)).await?;
        Ok(Self::on(daemon, thread))
    }

    /// Opens an existing thread that works in `cwd` and sends its history to the client, without that of an open turn: see
    /// [`follow_open_turn`](Self::follow_open_turn).
    pub(super) async fn load(
        daemon: &Arc<DaemonConnection>,
        id: &str,
        cwd: &Path,
        peer: &Peer,
    ) -> Result<Self, RpcFailure> {
        let api = daemon.api();
        let thread = calls::newest_turns(&*api, id, 0).await?.thread;
        let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        if Path::new(&thread.workspace) != real {
            return Err(RpcFailure::invalid_params(format!(
                "the session works in {}, and not in {}",
                thread.workspace,
                cwd.display()
            )));
        }
        calls::resume(&*api, id).await?;
        let detail = calls::full_thread(&*api, id).await?;
        let open = open_turn(&detail).map(|turn| turn.id.clone());
        for item in &detail.items {
            let is_open = open.as_ref() == Some(&item.turn_id);
            if is_open && item.kind != ItemKind::UserMessage {
                continue;
            }
            for update in recorded_updates(item) {
                send_update(peer, id, update);
            }
        }
        let mut session = Self::on(daemon, detail.thread.clone());
        if let Some(turn) = open {
            session.activity = Mutex::new(SessionActivity::Turn(turn));
            session.open = Mutex::new(Some(detail));
        }
        Ok(session)
    }

    fn on(daemon: &Arc<DaemonConnection>, thread: Thread) -> Self {
        Self {
            daemon: Arc::clone(daemon),
            thread,
            activity: Mutex::default(),
            open: Mutex::default(),
        }
    }

    /// Sends all updates of the turn that was open when the thread was loaded, from its beginning to its end.
    pub(super) async fn follow_open_turn(&self, peer: &Peer) -> Result<(), RpcFailure> {
        let open = self.open.lock();
        let Some(detail) = open.unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let Some(turn) = open_turn(&detail).map(|turn| turn.id.as_str()) else {
            return Ok(());
        };
        // Approvals that were already decided are not requested again.
        let pending = detail.pending_approvals.iter();
        let open_approvals = OpenApprovals {
            since: detail.latest_seq,
            pending: pending.map(|approval| approval.id.clone()).collect(),
        };
        let followed = async {
            let mut events = EventFollower::after(&self.daemon, self.id(), 0).await?;
            self.send_updates(peer, &mut events, turn, &open_approvals)
                .await
        };
        let followed = followed.await;
        // If another prompt has arrived in the meantime, the session is not idle.
        let mut activity = self.activity();
        if matches!(&*activity, SessionActivity::Turn(at) if at == turn) {
            *activity = SessionActivity::Idle;
        }
        followed.map(drop)
    }

    pub(super) fn id(&self) -> &str {
        &self.thread.id
    }

    /// The modes that the editor offers.
    pub(super) fn modes(&self) -> Value {
        let current = match self.thread.mode {
            Mode::Plan => "plan",
            _ => "agent",
        };
        json!({
            "currentModeId": current,
            "availableModes": [
                { "id": "agent", "name": "Agent", "description": "Works, and asks before it changes anything" },
                { "id": "plan", "name": "Plan", "description": "Reads and plans, and changes nothing" },
            ],
        })
    }

    pub(super) async fn set_mode(&self, mode: &str) -> Result<Value, RpcFailure> {
        let mode = match mode {
            "agent" => Mode::Agent,
            "plan" => Mode::Plan,
            _ => {
                return Err(RpcFailure::invalid_params(format!(
                    "there is no mode `{mode}`; there are agent and plan"
                )));
            }
        };
        let change = PatchThread {
            mode: Some(mode),
            ..PatchThread::default()
        };
        calls::patch(&*self.daemon.api(), self.id(), change).await?;
        Ok(json!({}))
    }

    /// Runs a turn to its end and sends updates about it.
    pub(super) async fn prompt(&self, peer: &Peer, text: &str) -> Result<Value, RpcFailure> {
        let newest = calls::newest_turns(&*self.daemon.api(), self.id(), 0).await?;
        let since = newest.latest_seq;
        let mut events = EventFollower::after(&self.daemon, self.id(), since).await?;
        let turn = StartTurn {
            prompt: text.to_owned(),
            // The protocol has no request for the questions of this tool.
            disallowed_tools: Some(vec![ASKING_TOOL.to_owned()]),
            ..StartTurn::default()
        };
        let started = follow::start_turn(&self.daemon, self.id(), turn).await??;
        let begun = SessionActivity::Turn(started.turn.id.clone());
        if self.replace_activity(begun) == (SessionActivity::Starting { is_canceled: true }) {
            self.cancel().await;
        }
        let open_approvals = OpenApprovals {
            since,
            pending: HashSet::new(),
        };
        let turn = self
            .send_updates(peer, &mut events, &started.turn.id, &open_approvals)
            .await?;
        match turn.status {
            Status::Completed => Ok(json!({ "stopReason": "end_turn" })),
            Status::Interrupted | Status::Canceled => Ok(json!({ "stopReason": "cancelled" })),
            _ => {
                let cause = turn.error.as_deref().unwrap_or("the turn failed");
                let failure = RpcFailure::internal(cause);
                Err(match &turn.error_code {
                    Some(code) => failure.with_code(code),
                    None => failure,
                })
            }
        }
    }

    /// Sends updates about a turn until it ends.
    async fn send_updates(
        &self,
        peer: &Peer,
        events: &mut EventFollower,
        turn_id: &str,
        open_approvals: &OpenApprovals,
    ) -> Result<Turn, RpcFailure> {
        let mut updates = Updates::default();
        let mut calls: HashMap<String, ShownCall> = HashMap::new();
        let mut questions = JoinSet::new();
        loop {
            let FollowStep::Event(event) = events.next().await? else {
                events.reconnect().await?;
                continue;
            };
            if event.turn_id.as_deref() != Some(turn_id) {
                continue;
            }
            if let Some(update) = updates.convert(&event) {
                send_update(peer, self.id(), update);
            }
            match event.payload {
                EventPayload::ItemStarted(started) => {
                    if let Some(tool) = started.tool {
                        calls.insert(started.item.id, tool.into());
                    }
                }
                EventPayload::ApprovalRequired(approval)
                    if open_approvals.has(event.seq, &approval.id) =>
                {
                    let item_id = &approval.item_id;
                    let announced = calls.get(item_id);
                    let call = approval_call(&approval.tool_name, &approval.description, announced);
                    let cwd = Path::new(&self.thread.workspace);
                    questions.spawn(decide(
                        Arc::clone(&self.daemon),
                        peer.clone(),
                        self.id().to_owned(),
                        permission_request(item_id, &call, cwd),
                        approval.id,
                    ));
                }
                EventPayload::TurnCompleted(ended) => return Ok(ended.turn),
                _ => {}
            }
        }
    }

    /// Registers a prompt before its turn starts, so that a later cancel applies to it. There is at most one prompt at a time.
    pub(super) fn expect_turn(self: &Arc<Self>) -> Result<PromptGuard, RpcFailure> {
        let mut activity = self.activity();
        if *activity != SessionActivity::Idle {
            return Err(RpcFailure::invalid_params(
                "a turn of this session is running; wait for its end, or cancel it",
            ));
        }
        *activity = SessionActivity::Starting { is_canceled: false };
        Ok(PromptGuard(Arc::clone(self)))
    }

    /// Interrupts the running turn, or cancels the one that is about to start.
    pub(super) async fn cancel(&self) {
        let turn = match &mut *self.activity() {
            SessionActivity::Turn(turn) => turn.clone(),
            SessionActivity::Starting { is_canceled } => {
                *is_canceled = true;
                return;
            }
            SessionActivity::Idle => return,
        };
        // The turn may have ended in the meantime; then there is nothing to interrupt.
        let _ = calls::interrupt(&*self.daemon.api(), self.id(), &turn).await;
    }

    /// Replaces the current work and returns the previous one.
    fn replace_activity(&self, activity: SessionActivity) -> SessionActivity {
        std::mem::replace(&mut *self.activity(), activity)
    }

    fn activity(&self) -> MutexGuard<'_, SessionActivity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session with a registered prompt. Dropping it makes the session idle again.
pub(super) struct PromptGuard(Arc<AcpSession>);

impl std::ops::Deref for PromptGuard {
    type Target = AcpSession;

    fn deref(&self) -> &AcpSession {
        &self.0
    }
}

impl Drop for PromptGuard {
    fn drop(&mut self) {
        self.0.replace_activity(SessionActivity::Idle);
    }
}

/// Sends a `session/update` notification.
fn send_update(peer: &Peer, session_id: &str, update: Value) {
    let params = json!({ "sessionId": session_id, "update": update });
    peer.notify("session/update", &params);
}

/// The approvals that wait for a decision.
struct OpenApprovals {
    /// Approvals requested after this event number are open.
    since: u64,
    /// Undecided approvals from before that number.
    pending: HashSet<String>,
}

impl OpenApprovals {
    fn has(&self, seq: u64, id: &str) -> bool {
        seq > self.since || self.pending.contains(id)
    }
}

/// Asks the editor's user whether a call may run and forwards the decision. Anything but a clear yes denies the call.
async fn decide(
    daemon: Arc<DaemonConnection>,
    peer: Peer,
    session_id: String,
    call: Value,
    approval: String,
) {
    let params = json!({
        "sessionId": session_id,
        "toolCall": call,
        "options": [
            { "optionId": "allow", "name": "Allow", "kind": "allow_once" },
            { "optionId": "allow_always", "name": "Allow everything in this session, commands too", "kind": "allow_always" },
            { "optionId": "reject", "name": "Reject", "kind": "reject_once" },
        ],
    });
    let answer = peer.ask("session/request_permission", &params).await;
    let outcome = answer.map(|answer| answer["outcome"].clone());
    let chosen = outcome
        .as_ref()
        .and_then(|outcome| outcome["optionId"].as_str());
    let decided = match chosen {
        Some("allow" | "allow_always") => ApprovalDecision::Allow,
        _ => ApprovalDecision::Deny,
    };
    let request = DecideApproval {
        remember: chosen == Some("allow_always"),
        ..decision(decided)
    };
    // If the daemon is gone, the next one has the same approval. Other errors are ignored: another client may have decided, or the turn was
    // interrupted.
    while let Err(error) = decide_approval(&*daemon.api(), &approval, request.clone()).await
        && error.is_lost()
        && daemon.reconnect().await.is_ok()
    {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::stub_api_test::{StubApi, detail_json, thread_json, turn_json};

    #[tokio::test]
    async fn prompt_reads_no_earlier_turns() {
        let api = Arc::new(StubApi::new(json!({
            "CreateThread": thread_json(),
            "GetThread": detail_json(),
            "StreamEvents": null,
            "StartTurn": { "thread": thread_json(), "turn": turn_json() },
        })));
        let daemon = DaemonConnection::to_stub(api.clone());
        let session = AcpSession::new(&daemon, CreateThread::default())
            .await
            .unwrap();
        // The stub's event stream ends, and there is no other daemon.
        let stopped = session.prompt(&Peer::on_stdout(), "hello").await;
        assert!(stopped.is_err());
        let expected = [
            "CreateThread",
            "GetThread thr_1 turns=0",
            "StreamEvents thr_1 since_seq=7",
            "StartTurn thr_1",
        ];
        assert_eq!(api.calls()[..4], expected);
    }
}
