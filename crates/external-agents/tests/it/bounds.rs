//! Memory limits for an agent's output.

use serde_json::{Value, json};
use windlass_core::backend::{BackendEvent, BackendSpec, SessionChoice, SessionTotals};
use windlass_external_agents::{Acp, AcpSettings, Claude, Protocol, Step};

const MIB: usize = 1024 * 1024;

fn claude() -> Claude {
    let mut claude = Claude::new(SessionChoice::New { id: None }, SessionTotals::default());
    claude.prompt("go");
    claude
}

fn send_line(protocol: &mut dyn Protocol, message: &Value) -> Vec<Step> {
    protocol.line(message.to_string().as_bytes())
}

fn requests_permission(steps: &[Step]) -> bool {
    let mut steps = steps.iter();
    steps.any(|step| matches!(step, Step::Event(BackendEvent::Permission(_))))
}

#[test]
fn open_permissions_are_limited_in_number_and_size() {
    let ask = |id: &str, bytes: usize| {
        let input = json!({"command": "x".repeat(bytes)});
        json!({"type": "control_request", "request_id": id,
            "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": input}})
    };
    let mut claude = claude();
    assert!(!requests_permission(&send_line(
        &mut claude,
        &ask(&"x".repeat(257), 1)
    )));
    assert!(!requests_permission(&send_line(
        &mut claude,
        &ask("large", 2 * MIB)
    )));
    let permissions = (0..100)
        .filter(|id| requests_permission(&send_line(&mut claude, &ask(&id.to_string(), 1))));
    assert_eq!(permissions.count(), 64);

    let mut acp = Acp::new(&BackendSpec::new("test", "/"), AcpSettings::default());
    acp.begin();
    acp.line(br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
    acp.line(br#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    acp.prompt("go");
    let ask = |id: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission",
            "params": {"sessionId": "s", "options": [], "toolCall": {"toolCallId": "a"}}})
    };
    assert!(!requests_permission(&send_line(
        &mut acp,
        &ask(json!("x".repeat(257)))
    )));
    let permissions =
        (0..100).filter(|id| requests_permission(&send_line(&mut acp, &ask(json!(id)))));
    assert_eq!(permissions.count(), 64);
}

#[test]
fn reported_arguments_and_results_are_truncated() {
    let mut claude = claude();
    let call = |id: &str| {
        let input = json!({"text": "x".repeat(3 * MIB)});
        let block = json!({"type": "tool_use", "id": id, "name": "y".repeat(MIB), "input": input});
        json!({"type": "assistant", "message": {"id": "m", "content": [block]}})
    };
    assert!(send_line(&mut claude, &call(&"x".repeat(257))).is_empty());
    let steps = send_line(&mut claude, &call("a"));
    let [Step::Event(BackendEvent::ToolStarted(started))] = &steps[..] else {
        panic!("{}", steps.len())
    };
    assert_eq!(started.name.len(), 256);
    assert_eq!(started.arguments.as_str().map(str::len), Some(MIB));
    let block = json!({"type": "tool_result", "tool_use_id": "a", "content": "z".repeat(3 * MIB)});
    let steps = send_line(
        &mut claude,
        &json!({"type": "user", "message": {"content": [block]}}),
    );
    let [Step::Event(BackendEvent::ToolCompleted(ended))] = &steps[..] else {
        panic!("{}", steps.len())
    };
    assert_eq!(ended.output.as_str().map(str::len), Some(MIB));
}
