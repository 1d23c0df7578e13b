//! Stored approvals of a project, over the daemon.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Daemon, Home, ScriptedModel, text};

/// Whether a turn needed an approval.
#[derive(Debug, PartialEq, Eq)]
enum CallOutcome {
    /// An approval was requested; the decision got this HTTP status.
    ApprovalRequested(u16),
    RanWithoutApproval,
}

/// Makes the model call its tool in a new thread, and sends `answer` if an approval is requested.
fn outcome(daemon: &Daemon, answer: &Value) -> CallOutcome {
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "write it");
    let mut outcome = CallOutcome::RanWithoutApproval;
    loop {
        let frame = events.next().unwrap();
        match frame.event.as_str() {
            "approval.required" => {
                let id = text(&frame.data["payload"]["approval_id"]);
                let path = format!("/v1/approvals/{id}");
                outcome = CallOutcome::ApprovalRequested(daemon.client.post(&path, answer).status);
            }
            "turn.completed" => return outcome,
            _ => {}
        }
    }
}

fn home_with_write_call(content: &str) -> (Home, ScriptedModel) {
    let call = json!({ "path": "made.txt", "content": content });
    let (model, _) = ScriptedModel::calling(vec![("write", call)]);
    (Home::with_model(&model.url()), model)
}

fn listed(home: &Home) -> Vec<Value> {
    let listed = home.command(&["approvals", "list", "--json"]).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let lines = listed.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn for_project() -> Value {
    json!({ "decision": "allow", "remember": true, "remember_for": "project" })
}

#[test]
fn project_approval_applies_until_it_is_removed() {
    let (home, model) = home_with_write_call("once");
    let daemon = home.start();
    assert_eq!(
        outcome(&daemon, &for_project()),
        CallOutcome::ApprovalRequested(200)
    );
    assert_eq!(
        outcome(&daemon, &for_project()),
        CallOutcome::RanWithoutApproval
    );
    daemon.kill();
    // The approval is stored: the next daemon applies it too.
    let daemon = home.start();
    assert_eq!(
        outcome(&daemon, &for_project()),
        CallOutcome::RanWithoutApproval
    );
    let calls = listed(&home);
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0]["tool"], "write");
    assert!(text(&calls[0]["arguments"]).contains("made.txt"));
    // It is not stored where the model can write.
    assert!(!home.workspace.join("approvals.json").exists());
    let id = text(&calls[0]["id"]);
    let forget = || {
        home.command(&["approvals", "forget", &id])
            .output()
            .unwrap()
    };
    assert!(forget().status.success());
    assert!(!forget().status.success());
    let deny = json!({ "decision": "deny" });
    assert_eq!(outcome(&daemon, &deny), CallOutcome::ApprovalRequested(200));
    drop(model);
}

#[test]
fn project_approval_covers_only_equal_arguments() {
    let (home, _model) = home_with_write_call("once");
    let daemon = home.start();
    assert_eq!(
        outcome(&daemon, &for_project()),
        CallOutcome::ApprovalRequested(200)
    );
    daemon.kill();
    // The same digest in another directory is a different call.
    let book = home.data().join("approvals.json");
    let stored = fs::read_to_string(&book).unwrap();
    let workspace = home.workspace.canonicalize().unwrap();
    let elsewhere = stored.replace(workspace.to_str().unwrap(), "/elsewhere");
    assert_ne!(elsewhere, stored);
    fs::write(&book, elsewhere).unwrap();
    let daemon = home.start();
    assert_eq!(
        outcome(&daemon, &json!({ "decision": "deny" })),
        CallOutcome::ApprovalRequested(200)
    );
    // An unreadable file allows nothing and is not overwritten.
    fs::write(&book, "{").unwrap();
    assert_eq!(
        outcome(&daemon, &json!({ "decision": "deny" })),
        CallOutcome::ApprovalRequested(200)
    );
    assert_eq!(fs::read_to_string(&book).unwrap(), "{");
    daemon.kill();
    fs::write(&book, stored).unwrap();
    let call = json!({ "path": "made.txt", "content": "twice" });
    let (other, _) = ScriptedModel::calling(vec![("write", call)]);
    let mut home = home;
    let base = home.variables.iter_mut();
    for (_, value) in base.filter(|(name, _)| name == "ANTHROPIC_BASE_URL") {
        *value = other.url();
    }
    let daemon = home.start();
    assert_eq!(
        outcome(&daemon, &json!({ "decision": "deny" })),
        CallOutcome::ApprovalRequested(200)
    );
}

#[test]
fn deny_rule_overrides_a_project_approval() {
    let (home, _model) = home_with_write_call("once");
    let daemon = home.start();
    assert_eq!(
        outcome(&daemon, &for_project()),
        CallOutcome::ApprovalRequested(200)
    );
    daemon.kill();
    fs::remove_file(home.workspace.join("made.txt")).unwrap();
    home.configure("[[approvals.rules]]\ntool = \"write\"\naction = \"deny\"\n");
    let daemon = home.start();
    assert_eq!(
        outcome(&daemon, &for_project()),
        CallOutcome::RanWithoutApproval
    );
    assert!(!home.workspace.join("made.txt").exists());
}

#[test]
fn agent_tokens_cannot_create_project_approvals() {
    let (home, _model) = home_with_write_call("once");
    let daemon = home.start();
    assert_eq!(
        outcome(&daemon, &for_project()),
        CallOutcome::ApprovalRequested(200)
    );
    let create = ["token", "create", "--scope", "agent:one", "--json"];
    let made = home.command(&create).output().unwrap().stdout;
    let made: Value = serde_json::from_slice(&made).unwrap();
    let agent = daemon.client.with_token(&text(&made["token"]));
    let thread = agent.post("/v1/threads", &json!({})).expect(201);
    let thread = format!("/v1/threads/{}", text(&thread["id"]));
    let mut events = agent.events(&thread, 0);
    let prompt = json!({ "prompt": "write it" });
    agent.post(&format!("{thread}/turns"), &prompt).expect(201);
    // In the agent's thread, the call needs an approval even if a user allowed it elsewhere.
    let approval = events.until("approval.required").pop().unwrap();
    let path = format!(
        "/v1/approvals/{}",
        text(&approval.data["payload"]["approval_id"])
    );
    assert_eq!(agent.post(&path, &for_project()).status, 403);
    // Other callers cannot store an approval there either.
    let refused = daemon.client.post(&path, &for_project());
    assert!((400..500).contains(&refused.status), "{}", refused.status);
    assert_eq!(listed(&home).len(), 1);
}
