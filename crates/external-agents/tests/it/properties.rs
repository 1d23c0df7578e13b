//! For arbitrary lines in arbitrary order: no panic, and the invariants of a turn hold.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use windlass_core::backend::{BackendEvent, BackendSpec, SessionChoice, SessionTotals};
use windlass_external_agents::{Acp, AcpSettings, Claude, Codex, CodexSettings, Protocol, Step};

use crate::play::fixture;

const RECORDINGS: &[&str] = &[
    "claude-api-error-500.jsonl",
    "claude-interrupt.jsonl",
    "claude-partial.jsonl",
    "claude-rate-limit-rejected.jsonl",
    "claude-resume-unknown.jsonl",
    "claude-tool.jsonl",
    "codex-app-errors.jsonl",
    "codex-app-steer-interrupt.jsonl",
    "gemini-acp-basic.jsonl",
];

/// All lines in the recordings that the programs wrote.
fn pool() -> Vec<String> {
    let lines = RECORDINGS.iter().flat_map(|name| fixture(name));
    let unwrapped = lines.map(|line| {
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        match value.get("msg") {
            Some(message) => message.to_string(),
            None => line,
        }
    });
    unwrapped.collect()
}

/// A line of the pool: complete, truncated, repeated, or damaged.
fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let pool = pool();
    let line = (
        prop::sample::select(pool),
        0_u8..6,
        any::<prop::sample::Index>(),
    );
    let line = line.prop_map(|(line, how, sandbox)| {
        let bytes = line.into_bytes();
        let at = sandbox.index(bytes.len());
        match how {
            0 => vec![bytes[..at].to_vec()],
            1 => vec![bytes.clone(), bytes],
            2 => {
                let mut damaged = bytes;
                damaged[at] = b'0';
                vec![damaged]
            }
            _ => vec![bytes],
        }
    });
    vec(line, 0..40).prop_map(|lines| lines.concat())
}

/// Checks the invariants of the steps of one process.
#[derive(Default)]
struct EventInvariants {
    started_calls: HashSet<String>,
    ended_calls: HashSet<String>,
    open_requests: HashSet<String>,
    sessions: usize,
    is_in_turn: bool,
}

impl EventInvariants {
    fn begin_turn(&mut self) {
        self.started_calls.clear();
        self.ended_calls.clear();
        self.is_in_turn = true;
    }

    fn see(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Event(BackendEvent::Started { session_id, .. }) => {
                    assert!(!session_id.is_empty());
                    self.sessions += 1;
                }
                Step::Event(BackendEvent::ToolStarted(call)) => {
                    assert!(self.started_calls.insert(call.id.clone()), "started twice");
                }
                Step::Event(BackendEvent::ToolOutput { call_id, .. }) => {
                    assert!(
                        self.started_calls.contains(call_id),
                        "prints before its start"
                    );
                    assert!(!self.ended_calls.contains(call_id), "prints after its end");
                }
                Step::Event(BackendEvent::ToolCompleted(result)) => {
                    assert!(
                        self.started_calls.contains(&result.call_id),
                        "ends before its start"
                    );
                    assert!(
                        self.ended_calls.insert(result.call_id.clone()),
                        "ends twice"
                    );
                }
                Step::Event(BackendEvent::Permission(request)) => {
                    self.open_requests.insert(request.id.clone());
                }
                Step::Event(BackendEvent::PermissionWithdrawn { request_id }) => {
                    assert!(
                        self.open_requests.remove(request_id),
                        "withdrawn without a request"
                    );
                }
                Step::Event(BackendEvent::Text { text, .. }) => {
                    assert!(
                        self.is_in_turn && !text.is_empty(),
                        "text outside of a turn"
                    );
                }
                Step::Ended(_) => {
                    assert!(self.is_in_turn, "an end without a turn");
                    self.is_in_turn = false;
                }
                Step::Send(line) => assert!(!line.contains('\n'), "two lines in one"),
                _ => {}
            }
        }
    }
}

/// Plays lines to a state machine, with a prompt whenever one is accepted.
fn check_invariants(protocol: &mut dyn Protocol, lines: &[Vec<u8>]) {
    let mut invariants = EventInvariants::default();
    invariants.see(&protocol.begin());
    for line in lines {
        if !invariants.is_in_turn && protocol.session().is_some() {
            invariants.begin_turn();
            invariants.see(&protocol.prompt("x"));
        }
        invariants.see(&protocol.line(line));
    }
    assert!(invariants.sessions <= 1 || protocol.session().is_some());
    invariants.see(&protocol.interrupt());
}

fn spec() -> BackendSpec {
    BackendSpec::new("test", "/srv/project")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_lines_preserves_the_invariants(lines in lines()) {
        let new = SessionChoice::New { id: None };
        let mut claude = Claude::new(new, SessionTotals::default());
        let mut invariants = EventInvariants::default();
        invariants.begin_turn();
        claude.prompt("x");
        for line in &lines {
            invariants.see(&claude.line(line));
        }
        check_invariants(&mut Claude::new(SessionChoice::New { id: None }, SessionTotals::default()), &lines);
        check_invariants(&mut Codex::new(&spec(), CodexSettings::default()), &lines);
        check_invariants(&mut Acp::new(&spec(), AcpSettings::gemini()), &lines);
    }

    #[test]
    fn any_bytes_are_accepted(lines in vec(vec(any::<u8>(), 0..200), 0..20)) {
        check_invariants(&mut Claude::new(SessionChoice::New { id: None }, SessionTotals::default()), &lines);
        check_invariants(&mut Codex::new(&spec(), CodexSettings::default()), &lines);
        check_invariants(&mut Acp::new(&spec(), AcpSettings::gemini()), &lines);
    }
}

#[test]
fn deeply_nested_line_is_reported_raw() {
    let mut claude = Claude::new(SessionChoice::New { id: None }, SessionTotals::default());
    let deep = format!(
        "{{\"type\":{}1{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let steps = claude.line(deep.as_bytes());
    assert_eq!(crate::play::describe_all(&steps), ["raw None"]);
}
