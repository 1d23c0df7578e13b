//! Results of playing recorded lines of the real programs.

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEvent, BackendSpec, BackendUsage, SessionChoice, SessionTotals, Steered,
};
use windlass_external_agents::{
    Acp, AcpSettings, Claude, Codex, CodexSettings, Protocol, SteerId, Step,
};

use crate::play::{RecordingPlayer, describe_all, fixture, last_sent, play_lines};

fn claude(resumed: Option<&str>) -> Claude {
    let choice = match resumed {
        Some(id) => SessionChoice::Resume { id: id.to_owned() },
        None => SessionChoice::New { id: None },
    };
    Claude::new(choice, SessionTotals::default())
}

/// Plays a recording of Claude and compares the events.
fn check_claude(name: &str, expected: &[&str]) -> Claude {
    let mut protocol = claude(None);
    let steps = play_lines(&mut protocol, &fixture(name));
    assert_eq!(describe_all(&steps), expected, "{name}");
    protocol
}

fn last_usage(steps: &[Step]) -> Option<BackendUsage> {
    let mut usages = steps.iter().rev().filter_map(|step| match step {
        Step::Event(BackendEvent::Usage(usage)) => Some(*usage),
        _ => None,
    });
    usages.next()
}

#[test]
fn claude_reports_thoughts_text_and_completed_calls() {
    let mut protocol = claude(None);
    let steps = play_lines(&mut protocol, &fixture("claude-tool.jsonl"));
    let expected = [
        "started 56148388-41a0-4205-b4f2-50bc21977f54",
        "thinks let me see",
        "text Running it",
        "calls Bash",
        "call done",
        "calls Write",
        "call done",
        "text done",
        "ended Completed",
    ];
    assert_eq!(describe_all(&steps), expected);
    let usage = last_usage(&steps).unwrap();
    let counts = (usage.input_tokens, usage.cached_tokens, usage.output_tokens);
    assert_eq!(counts, (33, 9, 21));
    assert!((usage.cost_usd.unwrap() - 0.000_553_8).abs() < 1e-9);
    // The blocks of one answer share its message.
    let messages = steps.iter().filter_map(|step| match step {
        Step::Event(BackendEvent::Text { message, .. }) => message.clone(),
        _ => None,
    });
    let messages: Vec<_> = messages.collect();
    assert_eq!(
        messages,
        [
            "msg_8bb94864bc364ff2b169d234",
            "msg_48ffa80a64ee43c880643d23"
        ]
    );
}

#[test]
fn claude_text_deltas_are_reported_once() {
    let started = "started 00189094-787b-4ef4-9dae-b7b0ba065920";
    check_claude(
        "claude-partial.jsonl",
        &[started, "text He", "text llo", "ended Completed"],
    );
}

#[test]
fn claude_success_result_can_be_a_failure() {
    let started = "started 2b16e555-0da8-4e11-acda-89dfeb78e7cf";
    let limit = "limit Some(1800000000)";
    let mut protocol = claude(None);
    let steps = play_lines(&mut protocol, &fixture("claude-rate-limit-rejected.jsonl"));
    assert_eq!(describe_all(&steps), [started, limit, "failed RateLimit"]);
    let started = "started bfa57bac-f946-4e8b-a89e-a183530efa40";
    let expected = [started, "retry Some(500)", "failed Server"];
    check_claude("claude-api-error-500.jsonl", &expected);
}

#[test]
fn claude_rate_limit_has_its_reset_time() {
    let mut lines = fixture("claude-rate-limit-rejected.jsonl");
    let mut protocol = claude(None);
    for _ in 0..2 {
        protocol.prompt("x");
        for line in &lines {
            protocol.line(line.as_bytes());
        }
        let reset_at = protocol.limit().unwrap().reset_at.unwrap();
        assert_eq!(reset_at.timestamp(), 1_800_000_000);
        // In a later turn of the same process the event is not repeated.
        lines.retain(|line| !line.contains("rate_limit_event"));
    }
}

#[test]
fn claude_rate_limit_warning_is_not_a_limit() {
    let lines = fixture("claude-rate-limit-rejected.jsonl");
    let is_limit = |line: &&String| line.contains("rate_limit_event");
    let mut protocol = claude(None);
    protocol.prompt("x");
    protocol.line(lines.iter().find(is_limit).unwrap().as_bytes());
    assert!(protocol.limit().is_some());
    let message = json!({"id": "m", "model": "m", "content": [{"type": "text", "text": "on"}]});
    let line = json!({"type": "assistant", "message": message});
    protocol.line(line.to_string().as_bytes());
    assert_eq!(protocol.limit(), None);
}

#[test]
fn repeated_claude_id_is_not_a_session() {
    let lines = fixture("claude-resume-unknown.jsonl");
    let mut protocol = claude(Some("11111111-2222-4333-8444-555555555555"));
    let steps = play_lines(&mut protocol, &lines);
    assert_eq!(describe_all(&steps), ["broken ResumeRefused"]);
    assert_eq!(protocol.session(), None);
}

#[test]
fn claude_serves_a_turn_after_an_interrupted_one() {
    let started = "started a29cfaab-5c4f-44bb-b8bd-e128e23d1dd8";
    let expected = [
        started,
        "text one long",
        "ended Interrupted",
        "text two",
        "ended Completed",
    ];
    check_claude("claude-interrupt.jsonl", &expected);
}

fn codex_player() -> RecordingPlayer {
    RecordingPlayer::new(|resumed| {
        let mut spec = BackendSpec::new("test", "/srv/project");
        if let Some(id) = resumed {
            spec.session = SessionChoice::Resume { id: id.to_owned() };
        }
        Box::new(Codex::new(&spec, CodexSettings::default()))
    })
}

#[test]
fn codex_completes_a_turn_after_a_refused_resume_and_three_failures() {
    let mut player = codex_player();
    player.play(&fixture("codex-app-errors.jsonl"));
    let mut expected = vec![
        "broken ResumeRefused",
        "broken ResumeRefused",
        "started 01a1e064-b936-7b62-a368-40f3c7835fef",
        "limit Some(1800000000)",
        "failed RateLimit",
        "limit Some(1800000000)",
        "failed RateLimit",
    ];
    expected.extend(["retry Some(401)"; 5]);
    expected.extend(["failed Auth", "text o", "text k", "ended Completed"]);
    assert_eq!(describe_all(&player.steps), expected);
}

#[test]
fn codex_is_steered_and_interrupted_with_usage_per_turn() {
    let mut player = codex_player();
    player.play(&fixture("codex-app-steer-interrupt.jsonl"));
    let expected = [
        "started 01a1e064-95bd-7a22-adf7-d1cecde809b3",
        "text slow ",
        "text start",
        "calls commandExecution",
        "steered Accepted",
        "prints slept\n",
        "call done",
        "text after",
        "text  steer",
        "ended Completed",
        "text ha",
        "text ng",
        "ended Interrupted",
        "text fi",
        "text ne",
        "ended Completed",
    ];
    assert_eq!(describe_all(&player.steps), expected);
    let usage = last_usage(&player.steps).unwrap();
    // 63 tokens of the thread, 21 of them in the last turn.
    let counts = (usage.input_tokens, usage.cached_tokens, usage.output_tokens);
    assert_eq!(counts, (11, 3, 7));
    let totals = player.protocol().totals().tokens.unwrap();
    assert_eq!(
        (
            totals.input_tokens,
            totals.cached_tokens,
            totals.output_tokens
        ),
        (33, 9, 21)
    );
}

/// A Codex state machine in a turn.
fn codex_in_turn() -> Codex {
    let mut codex = Codex::new(&BackendSpec::new("test", "/"), CodexSettings::default());
    let hello = last_sent(&codex.begin()).unwrap();
    let opening = reply(&mut codex, &hello, json!({}));
    let thread = json!({"thread": {"id": "t"}});
    reply(&mut codex, &last_sent(&opening).unwrap(), thread);
    let prompted = codex.prompt("x");
    let turn = json!({"turn": {"id": "u"}});
    reply(&mut codex, &last_sent(&prompted).unwrap(), turn);
    codex
}

fn reply(codex: &mut Codex, request: &Value, result: Value) -> Vec<Step> {
    let line = json!({"id": request["id"], "result": result});
    codex.line(line.to_string().as_bytes())
}

#[test]
fn codex_response_names_the_accepted_text() {
    let mut codex = codex_in_turn();
    let sent = [1, 2].map(|n| last_sent(&codex.steer(SteerId(n), "more").unwrap()).unwrap());
    for n in [2, 1] {
        let taken = reply(&mut codex, &sent[n - 1], json!({}));
        assert_eq!(taken, [Step::Steered(SteerId(n as u64), Steered::Accepted)]);
    }
}

#[test]
fn request_between_turns_is_refused_at_once() {
    let input = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}});
    let request = json!({"type": "control_request", "request_id": "7", "request": input});
    let mut protocol = claude(None);
    let steps = protocol.line(request.to_string().as_bytes());
    assert_eq!(last_sent(&steps).unwrap()["response"]["subtype"], "error");
    assert!(describe_all(&steps).is_empty() && !protocol.waits_for_user());

    let mut codex = codex_in_turn();
    let ended = json!({"turn": {"id": "u", "status": "completed"}});
    let ended = json!({"method": "turn/completed", "params": ended});
    codex.line(ended.to_string().as_bytes());
    let method = "item/commandExecution/requestApproval";
    let request = json!({"id": 9, "method": method, "params": {"itemId": "c"}});
    let steps = codex.line(request.to_string().as_bytes());
    assert!(last_sent(&steps).unwrap().get("error").is_some());
    assert!(!codex.waits_for_user());
}

#[test]
fn gemini_over_acp_asks_before_it_reports_a_call() {
    let mut player = RecordingPlayer::new(|_| {
        let spec = BackendSpec::new("test", "/srv/project");
        Box::new(Acp::new(&spec, AcpSettings::gemini()))
    });
    player.play(&fixture("gemini-acp-basic.jsonl"));
    let expected = [
        "started b62dfd40-9fb2-433b-9d19-c2b128ca8be7",
        "thinks ****\nhm",
        "text He",
        "text llo",
        "ended Completed",
        "text r",
        "text un",
        "asks execute",
        "calls touch /srv/project/acp_gemini",
        "call done",
        "text do",
        "text ne",
        "ended Completed",
    ];
    assert_eq!(describe_all(&player.steps), expected);
    let permission = player.steps.iter().find_map(|step| match step {
        Step::Event(BackendEvent::Permission(request)) => Some(request),
        _ => None,
    });
    // The request has no field for the call's arguments.
    let arguments = &permission.unwrap().arguments;
    assert_eq!(arguments["title"], "touch /srv/project/acp_gemini");
    let shown = &arguments["content"][0]["content"]["text"];
    assert_eq!(shown, "[current working directory /srv/project]");
    let usage = last_usage(&player.steps).unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (28, 14));
}
