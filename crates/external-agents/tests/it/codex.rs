//! Answers to Codex.

use serde_json::{Value, json};
use windlass_core::backend::{BackendEvent, BackendSpec, PermissionDecision};
use windlass_external_agents::{Codex, CodexSettings, Protocol, Step};

/// Codex in a turn.
fn in_turn() -> Codex {
    let mut codex = Codex::new(&BackendSpec::new("test", "/"), CodexSettings::default());
    codex.begin();
    codex.line(br#"{"id":1,"result":{}}"#);
    codex.line(br#"{"id":2,"result":{"thread":{"id":"t"}}}"#);
    codex.prompt("go");
    codex.line(br#"{"id":3,"result":{"turn":{"id":"u"}}}"#);
    codex
}

#[test]
fn denied_call_does_not_end_the_turn() {
    let request = |method: &str, decisions: Value| {
        json!({"id": 0, "method": format!("item/{method}/requestApproval"), "params": {
            "threadId": "t", "turnId": "u", "itemId": "call_1", "command": "touch x",
            "availableDecisions": decisions,
        }})
    };
    // Codex 0.166 offers no `decline`, and takes it all the same; `cancel` interrupts the turn.
    for (method, decisions) in [
        ("commandExecution", json!(["accept", "cancel"])),
        ("commandExecution", json!(["accept", "decline", "cancel"])),
        ("fileChange", Value::Null),
    ] {
        let mut codex = in_turn();
        let asked = codex.line(request(method, decisions).to_string().as_bytes());
        let [Step::Event(BackendEvent::Permission(asked))] = &asked[..] else {
            panic!("{asked:?}")
        };
        let message = "not now".to_owned();
        let answer = codex.answer(&asked.id, &PermissionDecision::Deny { message });
        let [Step::Send(answer)] = &answer.unwrap()[..] else {
            panic!("a denial is one message")
        };
        let answer: Value = serde_json::from_str(answer).unwrap();
        assert_eq!(answer["result"]["decision"], "decline", "{method}");
    }
}
