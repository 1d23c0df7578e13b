//! A daemon that is killed with SIGKILL, and the next one on its data. A client that reconnects with its cursor sees no gap and no duplicate, and the
//! turn completes.

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Daemon, Frame, Home, Sandbox, ScriptedModel, TOKEN, assert_sound, text};

const WEATHER: &str = "weather";

fn weather() -> Value {
    json!({"name": WEATHER, "description": "Tells the weather.", "input_schema": {"type": "object"}, "defer_loading": false})
}

/// Follows a thread from a cursor to the end of its turn, and compares all frames with a second read from the beginning.
#[track_caller]
fn follow_until_end(daemon: &Daemon, thread: &str, before: Vec<Frame>) -> Vec<Frame> {
    let cursor = before.last().map_or(0, |frame| frame.seq);
    let mut frames = before;
    frames.extend(daemon.client.events(thread, cursor).until("turn.completed"));
    assert_sound(&frames, 0);
    let again = daemon.client.events(thread, 0).until("turn.completed");
    assert_eq!(frames, again, "the live events equal the recorded ones");
    frames
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

fn final_turn(frames: &[Frame]) -> &Value {
    &frames.last().unwrap().data["payload"]["turn"]
}

/// Returns the counts of the reported resumes of the turn.
fn resumes(frames: &[Frame]) -> Vec<u64> {
    let payloads = frames
        .iter()
        .filter(|frame| frame.event == "turn.lifecycle");
    let payloads = payloads.map(|frame| &frame.data["payload"]);
    let resumed = payloads.filter(|payload| payload["resumed"] == true);
    resumed
        .map(|payload| payload["resumed_count"].as_u64().unwrap())
        .collect()
}

#[test]
fn r50_turn_killed_during_an_answer_resumes_and_completes() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "greet me");
    let mut exchange = model.next_request();
    model.say_half(&mut exchange, "Hel");
    let before = events.until("item.delta");
    daemon.kill();
    assert_eq!(events.rest(), [], "no event follows the recorded ones");
    drop(exchange);

    let daemon = home.start();
    let detail = daemon.detail(&thread);
    assert_eq!(
        detail["turns"][0]["resumed_count"], 1,
        "r52: the resumption is recorded before the first request: {detail}"
    );
    let request = model.answer(&Answer::text(&["Hello", " again"]));
    assert!(request.to_string().contains("greet me"));
    let frames = follow_until_end(&daemon, &thread, before);
    assert_eq!(final_turn(&frames)["status"], "completed");
    assert_eq!(final_turn(&frames)["resumed_count"], 1);
    let resumed = frames
        .iter()
        .find(|frame| frame.event == "turn.lifecycle" && frame.data["payload"]["resumed"] == true);
    assert!(resumed.is_some(), "{:?}", names(&frames));
    let shown: Vec<&Value> = frames
        .iter()
        .filter(|frame| frame.event.starts_with("item.") && frame.event != "item.delta")
        .map(|frame| &frame.data["payload"]["item"])
        .filter(|item| item["kind"] == "agent_message" && item["status"] != "in_progress")
        .collect();
    let kinds: Vec<_> = shown
        .iter()
        .map(|item| (text(&item["status"]), text(&item["detail"])))
        .collect();
    let expected = [("interrupted", "Hel"), ("completed", "Hello again")];
    assert_eq!(
        kinds,
        expected.map(|(status, detail)| (status.to_owned(), detail.to_owned())),
        "clients that join deltas per item show each text once"
    );
}

#[test]
fn r51_external_result_is_accepted_after_a_restart() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({"dynamic_tools": [weather()]}));
    let mut events = daemon.client.events(&thread, 0);
    let turn = daemon.turn(&thread, "is it wet?");
    model.answer(&Answer::default().with_call("toolu_1", WEATHER, &["{}"]));
    let before = events.until("tool_call.requested");
    let call = before.last().unwrap().data["payload"].clone();
    daemon.kill();

    let daemon = home.start();
    let detail = daemon.detail(&thread);
    assert_eq!(detail["turns"][0]["resumed_count"], 1, "{detail}");
    let pending = detail["pending_dynamic_tool_calls"][0].clone();
    assert_eq!(
        (&pending["call_id"], &pending["expires_at"]),
        (&call["call_id"], &call["expires_at"]),
        "the same call waits, no longer than before"
    );
    let path = format!("{turn}/tool-calls/{}/result", text(&call["call_id"]));
    let result = json!({"success": true, "content": [{"type": "input_text", "text": "rain"}]});
    daemon.client.post(&path, &result).expect(202);
    let request = model.answer(&Answer::text(&["Take an umbrella."]));
    assert!(request.to_string().contains("rain"), "{request}");
    daemon.client.post(&path, &result).expect(202);
    let frames = follow_until_end(&daemon, &thread, before);
    assert_eq!(final_turn(&frames)["status"], "completed");
    assert_eq!(resumes(&frames), [1], "the parked turn was resumed too");
    let resolved = frames
        .iter()
        .filter(|frame| frame.event == "tool_call.resolved");
    assert_eq!(resolved.count(), 1);

    // The thread's tools are still available in the next turn (r39).
    daemon.turn(&thread, "and now?");
    let request = model.answer(&Answer::text(&["No."]));
    let offered = request["tools"].as_array().unwrap();
    assert!(
        offered.iter().any(|tool| tool["name"] == WEATHER),
        "{offered:?}"
    );
}

#[test]
fn discovered_tools_are_offered_after_a_kill() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let mut tool = weather();
    tool["defer_loading"] = true.into();
    let thread = daemon.thread(&json!({ "dynamic_tools": [tool] }));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "will it rain?");
    let is_offered = |request: &Value, name: &str| {
        let mut tools = request["tools"].as_array().unwrap().iter();
        tools.any(|tool| tool["name"] == name)
    };
    let query = json!({"query": "the weather"}).to_string();
    let request = model.answer(&Answer::default().with_call("toolu_1", "tool_search", &[&query]));
    assert!(is_offered(&request, "tool_search") && !is_offered(&request, WEATHER));
    let mut exchange = model.next_request();
    model.say_half(&mut exchange, "Let me");
    let before = events.until("item.delta");
    daemon.kill();
    drop(exchange);

    let daemon = home.start();
    let request = model.answer(&Answer::text(&["It will."]));
    assert!(is_offered(&request, WEATHER), "{request}");
    let frames = follow_until_end(&daemon, &thread, before);
    assert_eq!(final_turn(&frames)["status"], "completed");
    let path = format!("{thread}/replay");
    let report = daemon.client.post(&path, &json!({})).expect(200);
    assert!(report["divergence"].is_null(), "{report}");
}

#[test]
fn r51_question_is_answered_after_a_restart() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "paint it");
    let question = json!({"questions": [{"header": "Colour", "id": "colour", "question": "Which colour?",
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}]});
    model.answer(&Answer::default().with_call(
        "toolu_1",
        "request_user_input",
        &[&question.to_string()],
    ));
    let before = events.until("user_input.required");
    let question = before.last().unwrap().data["payload"].clone();
    daemon.kill();

    let daemon = home.start();
    let pending = daemon.detail(&thread)["pending_user_inputs"][0].clone();
    assert_eq!(pending["id"], question["id"]);
    assert_eq!(pending["expires_at"], question["expires_at"]);
    let path = format!(
        "/v1/user-input/{}/{}",
        thread.trim_start_matches("/v1/threads/"),
        text(&question["id"])
    );
    let answers = json!({"answers": [{"id": "colour", "label": "Red", "value": "crimson"}]});
    daemon.client.post(&path, &answers).expect(200);
    let request = model.answer(&Answer::text(&["Red it is."]));
    assert!(request.to_string().contains("crimson"), "{request}");
    let frames = follow_until_end(&daemon, &thread, before);
    assert_eq!(final_turn(&frames)["status"], "completed");
}

#[test]
fn killed_compaction_is_repeated_and_applies() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "remember the whale");
    model.answer(&Answer::text(&["I will."]));
    events.until("turn.completed");
    let path = format!("{thread}/compact");
    daemon.client.request("POST", &path, &[], "").expect(202);
    let mut exchange = model.next_request();
    model.say_half(&mut exchange, "There");
    events.until("item.started");
    daemon.kill();
    assert_eq!(events.rest(), [], "a summary is not shown in pieces");

    let daemon = home.start();
    let request = model.answer(&Answer::text(&["A whale was mentioned."]));
    assert!(request.to_string().contains("remember the whale"));
    let mut events = daemon.client.events(&thread, 0);
    let mut frames = events.until("turn.completed");
    frames.extend(events.until("turn.completed"));
    assert_sound(&frames, 0);
    assert_eq!(final_turn(&frames)["status"], "completed");
    daemon.turn(&thread, "what was it?");
    let request = model.answer(&Answer::text(&["A whale."])).to_string();
    assert!(request.contains("A whale was mentioned."), "{request}");
    assert!(!request.contains("remember the whale"), "{request}");
}

/// Answers all pending calls, like a client without knowledge of earlier clients.
fn answer_pending_calls(daemon: &Daemon, thread: &str) {
    let detail = daemon.detail(thread);
    for call in detail["pending_dynamic_tool_calls"].as_array().unwrap() {
        let path = format!(
            "{thread}/turns/{}/tool-calls/{}/result",
            text(&call["turn_id"]),
            text(&call["call_id"])
        );
        let result = json!({"success": true, "content": [{"type": "input_text", "text": "rain"}]});
        daemon.client.post(&path, &result).expect(202);
    }
}

#[test]
fn r53_every_turn_ends_once_after_a_kill_at_any_event() {
    let model = ScriptedModel::answering(|request| {
        let messages = request["messages"].as_array().unwrap();
        let last = messages.last().unwrap().to_string();
        if last.contains("tool_result") {
            Answer::text(&["Take ", "an umbrella."])
        } else {
            Answer::text(&["Let me ", "see."]).with_call("toolu_1", WEATHER, &["{}"])
        }
    });
    let home = Home::with_model(&model.url());
    let mut seen = 0;
    for killed_after in 1.. {
        let daemon = home.start();
        let thread = daemon.thread(&json!({"dynamic_tools": [weather()]}));
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "is it wet?");
        let mut before = Vec::new();
        while before.len() < killed_after {
            let frame = events.next().unwrap();
            if frame.event == "tool_call.requested" {
                answer_pending_calls(&daemon, &thread);
            }
            let is_end = frame.event == "turn.completed";
            before.push(frame);
            if is_end {
                break;
            }
        }
        daemon.kill();
        let is_last = before.last().unwrap().event == "turn.completed";
        before.extend(events.rest());

        let daemon = home.start();
        answer_pending_calls(&daemon, &thread);
        let cursor = before.last().unwrap().seq;
        let mut live = daemon.client.events(&thread, cursor);
        while !before.iter().any(|frame| frame.event == "turn.completed") {
            let frame = live.next().unwrap();
            if frame.event == "tool_call.requested" {
                answer_pending_calls(&daemon, &thread);
            }
            before.push(frame);
        }
        let frames = before;
        assert_sound(&frames, 0);
        assert_eq!(final_turn(&frames)["status"], "completed", "{frames:#?}");
        let again = daemon.client.events(&thread, 0).until("turn.completed");
        assert_eq!(frames, again, "killed after {killed_after} events");
        seen = killed_after;
        if is_last {
            break;
        }
    }
    assert!(seen > 8, "the turn has more events than {seen}");
}

#[test]
fn r52_restart_changes_are_recorded_before_the_first_request() {
    for (on_restart, last) in [
        ("resume", "turn.lifecycle"),
        ("interrupt", "turn.completed"),
    ] {
        let mut model = ScriptedModel::start();
        let home = Home::with_model(&model.url());
        let daemon = home.start();
        let thread = daemon.thread(&json!({}));
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "greet me");
        let mut exchange = model.next_request();
        model.say_half(&mut exchange, "Hel");
        events.until("item.delta");
        daemon.kill();

        let daemon = home.start_with(&["--token", TOKEN, "--on-restart", on_restart]);
        let frames = daemon.client.events(&thread, 0).replay();
        let newest = frames.iter().rev().take(3);
        let newest: Vec<&str> = newest.map(|frame| frame.event.as_str()).collect();
        assert!(newest.contains(&"item.interrupted"), "{newest:?}");
        assert!(newest.contains(&last), "{newest:?}");
        let detail = daemon.detail(&thread);
        assert_eq!(detail["items"][1]["status"], "interrupted");
        let mark = match on_restart {
            "resume" => "resumed",
            _ => "recovered",
        };
        let is_reported =
            |frame: &Frame| frame.event == last && frame.data["payload"][mark] == true;
        assert!(frames.iter().any(is_reported), "{frames:#?}");
    }
}

#[test]
fn open_turns_end_at_the_restart_when_configured() {
    for (thread, arguments) in [
        (
            json!({"on_restart": "interrupt"}),
            &["--on-restart", "resume"],
        ),
        (json!({}), &["--on-restart", "interrupt"]),
    ] {
        let mut model = ScriptedModel::start();
        let home = Home::with_model(&model.url());
        let daemon = home.start();
        let thread = daemon.thread(&thread);
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "greet me");
        let mut exchange = model.next_request();
        model.say_half(&mut exchange, "Hel");
        let before = events.until("item.delta");
        daemon.kill();

        let daemon = home.start_with(&[&["--token", TOKEN][..], &arguments[..]].concat());
        let turn = daemon.detail(&thread)["turns"][0].clone();
        assert_eq!(turn["status"], "interrupted", "before the first request");
        assert_eq!(turn["error"], "Interrupted by process restart");
        let frames = follow_until_end(&daemon, &thread, before);
        let end = &frames.last().unwrap().data["payload"];
        assert_eq!(end["recovered"], true);
        let events = names(&frames);
        assert!(events.contains(&"item.interrupted"), "{events:?}");
    }
}

#[test]
fn startup_counts_resumed_turns_only() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let mut exchanges = Vec::new();
    for on_restart in ["interrupt", "resume"] {
        let thread = daemon.thread(&json!({"on_restart": on_restart}));
        daemon.turn(&thread, "greet me");
        exchanges.push(model.next_request());
    }
    daemon.kill();

    let log = home.path().join("log.jsonl");
    let daemon = home.start_logging(std::fs::File::create(&log).unwrap());
    assert!(daemon.stop().success());
    let log = std::fs::read_to_string(&log).unwrap();
    let mut lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let started = lines.find(|line: &Value| line["message"] == "windlass has started");
    assert_eq!(started.unwrap()["resumed_turns"], 1);
}

#[test]
fn stopped_daemon_leaves_its_turn_to_the_next() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "greet me");
    let mut exchange = model.next_request();
    model.say_half(&mut exchange, "Hel");
    let before = events.until("item.delta");
    assert!(daemon.stop().success());
    assert_eq!(events.rest(), []);
    drop(exchange);

    let daemon = home.start();
    model.answer(&Answer::text(&["Hello"]));
    let frames = follow_until_end(&daemon, &thread, before);
    assert_eq!(final_turn(&frames)["status"], "completed");
}

#[test]
fn turn_that_crashes_the_daemon_three_times_fails_at_the_third_restart() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut before = Vec::new();
    daemon.turn(&thread, "greet me");
    for crashes in 1..=3 {
        let cursor = before.last().map_or(0, |frame: &Frame| frame.seq);
        let mut events = daemon.client.events(&thread, cursor);
        let mut exchange = model.next_request();
        model.say_half(&mut exchange, "Hel");
        before.extend(events.until("item.delta"));
        assert_eq!(daemon.detail(&thread)["turns"][0]["status"], "in_progress");
        daemon.kill();
        before.extend(events.rest());
        drop(exchange);
        daemon = home.start();
        let turn = daemon.detail(&thread)["turns"][0].clone();
        assert_eq!(turn["resumed_count"], crashes, "{turn}");
    }
    let frames = follow_until_end(&daemon, &thread, before);
    assert_eq!(final_turn(&frames)["status"], "failed");
    assert_eq!(final_turn(&frames)["error_code"], "crash_loop");
    assert_eq!(resumes(&frames), [1, 2, 3]);

    // Only that turn failed: the thread continues.
    let mut events = daemon.client.events(&thread, frames.last().unwrap().seq);
    daemon.turn(&thread, "greet me again");
    model.answer(&Answer::text(&["Hello"]));
    let frames = events.until("turn.completed");
    assert_eq!(final_turn(&frames)["status"], "completed");
}

#[test]
fn repeated_clean_shutdowns_do_not_count_as_crashes() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut daemon = home.start();
    let thread = daemon.thread(&json!({}));
    daemon.turn(&thread, "greet me");
    for _ in 0..5 {
        let mut events = daemon.client.events(&thread, 0);
        let mut exchange = model.next_request();
        model.say_half(&mut exchange, "Hel");
        events.until("item.delta");
        assert!(daemon.stop().success());
        drop(exchange);
        daemon = home.start();
    }
    model.answer(&Answer::text(&["Hello"]));
    let frames = follow_until_end(&daemon, &thread, Vec::new());
    assert_eq!(final_turn(&frames)["status"], "completed");
    assert_eq!(resumes(&frames), [1, 2, 3, 4, 5]);
}

#[test]
fn interrupt_ends_a_turn_with_a_stalled_provider() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    for says_something in [true, false] {
        let turn = daemon.turn(&thread, "greet me");
        let mut exchange = model.next_request();
        if says_something {
            model.say_half(&mut exchange, "Hel");
            events.until("item.delta");
        }
        let start = std::time::Instant::now();
        daemon
            .client
            .post(&format!("{turn}/interrupt"), &json!({}))
            .expect(200);
        let frames = events.until("turn.completed");
        assert!(start.elapsed() < std::time::Duration::from_secs(2));
        assert_eq!(final_turn(&frames)["status"], "interrupted");
    }
}

/// A model that runs one command and then repeats its result.
fn running(command: &str) -> ScriptedModel {
    let arguments = json!({ "command": command }).to_string();
    ScriptedModel::answering(move |request| {
        let messages = request["messages"].as_array().unwrap();
        let last = messages.last().unwrap().to_string();
        if last.contains("tool_result") {
            Answer::text(&["Received: ", &last])
        } else {
            Answer::default().with_call("toolu_1", "shell", &[&arguments])
        }
    })
}

fn tool_item(frames: &[Frame]) -> Value {
    let is_end = |frame: &&Frame| {
        let item = &frame.data["payload"]["item"];
        ["item.completed", "item.failed"].contains(&frame.event.as_str())
            && item["metadata"]["tool"].is_object()
    };
    frames.iter().find(is_end).unwrap().data["payload"]["item"].clone()
}

#[test]
fn r50_outcome_of_a_killed_command_is_reported_as_unknown() {
    let test = "crash_recovery::r50_outcome_of_a_killed_command_is_reported_as_unknown";
    for sandbox in Sandbox::all(test) {
        kill_during_a_command(sandbox);
    }
}

fn kill_during_a_command(sandbox: Sandbox) {
    let model = running("echo began > began; exec sleep 600");
    let home = Home::with_model(&model.url());
    let daemon = home.start_in(sandbox.name());
    let thread = daemon.thread(&json!({"auto_approve": true}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "do it");
    let mut before = events.until("turn.lifecycle");
    before.extend(events.until("item.started"));
    // The intent is recorded before the command starts; the test needs a started command.
    let began = std::time::Instant::now();
    while !home.workspace.join("began").exists() {
        assert!(began.elapsed() < std::time::Duration::from_secs(60));
        std::thread::yield_now();
    }
    daemon.kill();

    let daemon = home.start_in(sandbox.name());
    let frames = follow_until_end(&daemon, &thread, before);
    assert_eq!(final_turn(&frames)["status"], "completed");
    let item = tool_item(&frames);
    assert_eq!(item["kind"], "command_execution");
    assert_eq!(item["status"], "failed");
    assert!(
        text(&item["detail"]).contains("outcome is unknown"),
        "{item}"
    );
    let detail = frames.iter().rev();
    let mut detail = detail.filter(|frame| frame.event == "item.completed");
    let detail = detail.next().unwrap().data["payload"]["item"]["detail"].clone();
    assert!(text(&detail).contains("outcome is unknown"), "{detail}");
}

#[test]
fn r51_approval_is_decided_after_a_restart() {
    let test = "crash_recovery::r51_approval_is_decided_after_a_restart";
    for sandbox in Sandbox::all(test) {
        kill_while_an_approval_is_pending(sandbox);
    }
}

fn kill_while_an_approval_is_pending(sandbox: Sandbox) {
    let model = running("echo hi");
    let home = Home::with_model(&model.url());
    let daemon = home.start_in(sandbox.name());
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "do it");
    let before = events.until("approval.required");
    let approval = before.last().unwrap().data["payload"].clone();
    daemon.kill();

    let daemon = home.start_in(sandbox.name());
    let pending = daemon.detail(&thread)["pending_approvals"][0].clone();
    assert_eq!(pending["id"], approval["approval_id"]);
    assert_eq!(pending["expires_at"], approval["expires_at"]);
    daemon.kill();

    // No client has read the thread since this daemon started.
    let daemon = home.start_in(sandbox.name());
    let path = format!("/v1/approvals/{}", text(&approval["approval_id"]));
    for _ in 0..2 {
        let allow = json!({"decision": "allow"});
        daemon.client.post(&path, &allow).expect(200);
    }
    let frames = follow_until_end(&daemon, &thread, before);
    assert_eq!(final_turn(&frames)["status"], "completed");
    let item = tool_item(&frames);
    assert_eq!(item["status"], "completed", "{item}");
    assert!(text(&item["detail"]).contains("hi"), "{item}");
    let decided = frames
        .iter()
        .filter(|frame| frame.event == "approval.decided");
    assert_eq!(decided.count(), 1);
    assert_eq!(resumes(&frames), [1, 2]);
}

#[test]
fn call_canceled_by_a_restart_reports_the_reason() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({"dynamic_tools": [weather()]}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "is it wet?");
    model.answer(&Answer::default().with_call("toolu_1", WEATHER, &["{}"]));
    let before = events.until("tool_call.requested");
    daemon.kill();

    let daemon = home.start_with(&["--token", TOKEN, "--on-restart", "interrupt"]);
    let frames = follow_until_end(&daemon, &thread, before);
    let canceled = frames
        .iter()
        .find(|frame| frame.event == "tool_call.canceled");
    let canceled = &canceled.unwrap().data["payload"];
    assert_eq!(
        (
            &canceled["reason"],
            &canceled["terminal"],
            &canceled["recovered"]
        ),
        (&json!("process_restart"), &json!(true), &json!(true))
    );
}

#[test]
fn turn_waits_for_its_missing_environment_or_an_interrupt() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let root = json!({"id": "staging", "root": home.path()});
    daemon.client.post("/v1/environments", &root).expect(201);
    let thread =
        daemon.thread(&json!({"environments": [{"environment_id": "staging", "cwd": ""}]}));
    let mut events = daemon.client.events(&thread, 0);
    let turn = daemon.turn(&thread, "greet me");
    let mut exchange = model.next_request();
    model.say_half(&mut exchange, "Hel");
    let before = events.until("item.delta");
    daemon.kill();
    let database = rusqlite::Connection::open(home.data().join("windlass.db")).unwrap();
    let removed = database.execute("DELETE FROM host_records WHERE kind = 'environment'", []);
    assert_eq!(removed.unwrap(), 1);
    database.close().unwrap();

    let daemon = home.start();
    let refused = daemon
        .client
        .post(&format!("{thread}/turns"), &json!({"prompt": "again"}));
    assert_eq!(refused.code(), "environment_not_found");
    assert_eq!(daemon.detail(&thread)["turns"][0]["status"], "in_progress");
    let stopped = daemon.client.post(&format!("{turn}/interrupt"), &json!({}));
    stopped.expect(200);
    let frames = follow_until_end(&daemon, &thread, before);
    let turn = final_turn(&frames);
    assert_eq!(turn["status"], "interrupted", "{turn}");
}
