//! Stored approvals of a project, over the daemon.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Daemon, Home, Model, text};

/// Whether a turn needed an approval.
#[derive(Debug, PartialEq, Eq)]
enum Went {
    /// An approval was requested; the decision got this HTTP status.
    Asked(u16),
    Unasked,
}

/// Makes the model call its tool in a new thread, and sends `answer` if an approval is requested.
fn went(daemon: &Daemon, answer: &Value) -> Went {
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "write it");
    let mut went = Went::Unasked;
    loop {
        let frame = events.next().unwrap();
        match frame.event.as_str() {
            "approval.required" => {
                let id = text(&frame.data["payload"]["approval_id"]);
                let path = format!("/v1/approvals/{id}");
                went = Went::Asked(daemon.client.post(&path, answer).status);
            }
            "turn.completed" => return went,
            _ => {}
        }
    }
}

fn writing(content: &str) -> (Home, Model) {
    let call = json!({ "path": "made.txt", "content": content });
    let (model, _) = Model::calling(vec![("write", call)]);
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
fn a_call_is_allowed_in_its_project_until_it_is_forgotten() {
    let (home, model) = writing("once");
    let daemon = home.start();
    assert_eq!(went(&daemon, &for_project()), Went::Asked(200));
    assert_eq!(went(&daemon, &for_project()), Went::Unasked);
    daemon.kill();
    // The approval is stored: the next daemon applies it too.
    let daemon = home.start();
    assert_eq!(went(&daemon, &for_project()), Went::Unasked);
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
    assert_eq!(went(&daemon, &deny), Went::Asked(200));
    drop(model);
}

#[test]
fn another_call_is_asked_about_and_other_arguments_are_another_call() {
    let (home, _model) = writing("once");
    let daemon = home.start();
    assert_eq!(went(&daemon, &for_project()), Went::Asked(200));
    daemon.kill();
    // The same digest in another directory is a different call.
    let book = home.data().join("approvals.json");
    let kept = fs::read_to_string(&book).unwrap();
    let workspace = home.workspace.canonicalize().unwrap();
    let elsewhere = kept.replace(workspace.to_str().unwrap(), "/elsewhere");
    assert_ne!(elsewhere, kept);
    fs::write(&book, elsewhere).unwrap();
    let daemon = home.start();
    assert_eq!(
        went(&daemon, &json!({ "decision": "deny" })),
        Went::Asked(200)
    );
    // An unreadable file allows nothing and is not overwritten.
    fs::write(&book, "{").unwrap();
    assert_eq!(
        went(&daemon, &json!({ "decision": "deny" })),
        Went::Asked(200)
    );
    assert_eq!(fs::read_to_string(&book).unwrap(), "{");
    daemon.kill();
    fs::write(&book, kept).unwrap();
    let call = json!({ "path": "made.txt", "content": "twice" });
    let (other, _) = Model::calling(vec![("write", call)]);
    let mut home = home;
    let base = home.variables.iter_mut();
    for (_, value) in base.filter(|(name, _)| name == "ANTHROPIC_BASE_URL") {
        *value = other.url();
    }
    let daemon = home.start();
    assert_eq!(
        went(&daemon, &json!({ "decision": "deny" })),
        Went::Asked(200)
    );
}

#[test]
fn a_rule_that_refuses_wins() {
    let (home, _model) = writing("once");
    let daemon = home.start();
    assert_eq!(went(&daemon, &for_project()), Went::Asked(200));
    daemon.kill();
    fs::remove_file(home.workspace.join("made.txt")).unwrap();
    home.configure("[[approvals.rules]]\ntool = \"write\"\naction = \"deny\"\n");
    let daemon = home.start();
    assert_eq!(went(&daemon, &for_project()), Went::Unasked);
    assert!(!home.workspace.join("made.txt").exists());
}

#[test]
fn nothing_is_remembered_for_an_agent() {
    let (home, _model) = writing("once");
    let daemon = home.start();
    assert_eq!(went(&daemon, &for_project()), Went::Asked(200));
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
    let asked = events.until("approval.required").pop().unwrap();
    let path = format!(
        "/v1/approvals/{}",
        text(&asked.data["payload"]["approval_id"])
    );
    assert_eq!(agent.post(&path, &for_project()).status, 403);
    // Other callers cannot store an approval there either.
    let refused = daemon.client.post(&path, &for_project());
    assert!((400..500).contains(&refused.status), "{}", refused.status);
    assert_eq!(listed(&home).len(), 1);
}
