//! A turn that an external agent executes.

use serde_json::{Value, json};
use windlass_core::backend::{
    Attempts, BackendEnd, BackendError, BackendErrorKind, BackendEvent, BackendNotice,
    BackendOutcome, BackendUsage, ObservedCall, ObservedResult, PermissionRequest,
};
use windlass_core::events::{EventData, ToolOrigin};
use windlass_turn::{BackendPlan, Input, Limits, Thread, TurnPlan};

use crate::world::ThreadAction::*;
use crate::world::{World, plan};

/// A plan whose turns `agent` executes.
pub(super) fn agent_plan() -> TurnPlan {
    TurnPlan {
        backend: Some(BackendPlan {
            name: "agent".to_owned(),
            allows_all: false,
        }),
        ..plan()
    }
}

pub(super) fn text(text: &str) -> BackendEvent {
    BackendEvent::Text {
        text: text.to_owned(),
        message: None,
        parent: None,
    }
}

pub(super) fn established(session_id: &str) -> BackendEvent {
    BackendEvent::Started {
        session_id: session_id.to_owned(),
        model: Some("opus".to_owned()),
    }
}

pub(super) fn calls(id: &str) -> BackendEvent {
    BackendEvent::ToolStarted(ObservedCall {
        id: id.to_owned(),
        name: "Bash".to_owned(),
        arguments: json!({"command": "ls"}),
        parent: None,
    })
}

pub(super) fn done(id: &str) -> BackendEvent {
    BackendEvent::ToolCompleted(ObservedResult {
        call_id: id.to_owned(),
        output: json!("ok"),
        is_error: false,
    })
}

pub(super) fn asks(request: &str, call: Option<&str>) -> BackendEvent {
    BackendEvent::Permission(PermissionRequest {
        id: request.to_owned(),
        call_id: call.map(str::to_owned),
        name: "Bash".to_owned(),
        arguments: json!({"command": "ls"}),
        title: None,
    })
}

pub(super) fn ends(end: BackendEnd) -> BackendOutcome {
    let mut outcome = fails(BackendErrorKind::Failed);
    outcome.result = Ok(end);
    outcome
}

pub(super) fn fails(kind: BackendErrorKind) -> BackendOutcome {
    BackendOutcome::failed(BackendError::new(kind, "no luck"))
}

/// Helpers for a running external agent.
pub(super) trait Backend {
    fn says(&mut self, event: BackendEvent) -> Vec<String>;
    fn ends_with(&mut self, outcome: BackendOutcome) -> Vec<String>;
    fn given(&mut self, input: Input) -> Vec<String>;
}

pub(super) fn run_of(thread: &Thread) -> windlass_core::typed_id::ExecId {
    let Some(run) = thread.turn().and_then(|turn| turn.run()) else {
        panic!("no backend runs")
    };
    run.exec_id
}

impl Backend for World {
    fn says(&mut self, event: BackendEvent) -> Vec<String> {
        let exec_id = run_of(&self.thread);
        self.given(Input::BackendReported {
            exec_id,
            event: Box::new(event),
        })
    }

    fn ends_with(&mut self, outcome: BackendOutcome) -> Vec<String> {
        let exec_id = run_of(&self.thread);
        self.given(Input::BackendEnded {
            exec_id,
            outcome: Box::new(outcome),
        })
    }

    fn given(&mut self, input: Input) -> Vec<String> {
        let decision = self.decide(input).unwrap_or_else(|why| panic!("{why}"));
        let said = self.take(decision);
        let id = self.thread.session_id();
        let folded = Thread::fold(id, self.events.iter().map(AsRef::as_ref));
        assert_eq!(folded.as_ref(), Ok(&self.thread), "the fold differs");
        said
    }
}

/// A turn whose backend has established its session.
pub(super) fn at_work() -> World {
    let mut world = World::after(agent_plan(), &[Say("hi")]);
    world.says(established("s1"));
    world
}

#[test]
fn turn_starts_with_the_intent_to_run_the_agent() {
    let mut world = World::new(agent_plan());
    assert_eq!(
        world.play(Say("hi")),
        [
            "turn.started",
            "input.message",
            "session.activated",
            "backend.started",
            "=> backend new History"
        ]
    );
    let prompt = world.thread.backend_prompt(1_000).unwrap();
    assert_eq!((prompt.text.as_str(), prompt.left_out), ("hi", 0));
    let exec_id = run_of(&world.thread);
    let session_id = "s1".to_owned();
    let chosen = Input::BackendSession {
        exec_id,
        session_id,
    };
    assert_eq!(world.given(chosen), ["backend.session_chosen"]);
    assert_eq!(world.pending(), ["=> backend new History"]);
}

#[test]
fn agent_events_are_recorded_like_our_own() {
    let mut world = at_work();
    assert_eq!(
        world.says(text("I look.")),
        ["output.message.started", "output.message.delta"]
    );
    assert_eq!(
        world.says(calls("a")),
        ["output.message.completed", "tool.started"]
    );
    assert_eq!(world.says(done("a")), ["tool.completed"]);
    let EventData::ToolCompleted(data) = world.last("tool.completed") else {
        unreachable!()
    };
    assert_eq!(data.origin, Some(ToolOrigin::Observed));
    world.says(BackendEvent::Thinking {
        text: "hm".to_owned(),
        parent: None,
    });
    world.says(text("Done."));
    let mut outcome = ends(BackendEnd::Completed);
    outcome.usage = Some(BackendUsage {
        output_tokens: 7,
        ..BackendUsage::default()
    });
    assert_eq!(
        world.ends_with(outcome),
        [
            "reason.thinking.completed",
            "output.message.completed",
            "backend.completed",
            "turn.completed",
            "session.idled"
        ]
    );
    assert_eq!(world.thread.usage().unwrap().output_tokens, 7);
    assert_eq!(
        world.transcript(),
        [
            "user hi",
            "agent I look. [a]",
            "tool_result a: \"ok\"",
            "agent Done."
        ]
    );
}

#[test]
fn overlapping_calls_precede_their_results() {
    let mut world = at_work();
    for event in [
        calls("a"),
        calls("b"),
        text("meanwhile"),
        done("b"),
        done("a"),
    ] {
        world.says(event);
    }
    world.ends_with(ends(BackendEnd::Completed));
    assert_eq!(
        world.transcript(),
        [
            "user hi",
            "agent [a]",
            "tool_result a: \"ok\"",
            "agent [b]",
            "tool_result b: \"ok\"",
            "agent meanwhile"
        ]
    );
}

#[test]
fn second_turn_resumes_the_session() {
    let mut world = at_work();
    world.ends_with(ends(BackendEnd::Completed));
    assert_eq!(
        world.play(Say("more")).last().unwrap(),
        "=> backend resume s1 Words"
    );
    assert_eq!(world.thread.backend_prompt(9).unwrap().text, "more");
}

#[test]
fn messages_without_the_agent_are_sent_as_history() {
    for step in [ImportUser("by the way"), Rewind(0)] {
        let mut world = at_work();
        world.says(text("hello"));
        world.ends_with(ends(BackendEnd::Completed));
        world.play(step);
        assert_eq!(
            world.play(Say("more")).last().unwrap(),
            "=> backend new History",
            "{step:?}"
        );
        let text = world.thread.backend_prompt(1_000).unwrap().text;
        assert!(
            text.contains("User: hi") && text.contains("Assistant: hello"),
            "{text}"
        );
        assert!(text.ends_with("more"), "{text}");
    }
}

#[test]
fn summary_replaces_messages_in_the_history() {
    let mut world = at_work();
    world.says(text("hello"));
    world.ends_with(ends(BackendEnd::Completed));
    world.play(Compact);
    world.play(Model("they greeted", &[]));
    assert_eq!(
        world.play(Say("more")).last().unwrap(),
        "=> backend new History"
    );
    let text = world.thread.backend_prompt(1_000).unwrap().text;
    assert!(
        text.contains("they greeted") && !text.contains("hello"),
        "{text}"
    );
}

#[test]
fn history_has_the_newest_whole_turns_and_the_number_omitted() {
    let mut world = World::new(agent_plan());
    for n in ["one", "two", "three"] {
        world.play(Say(n));
        world.says(established("s1"));
        world.says(text("said"));
        world.ends_with(ends(BackendEnd::Completed));
    }
    world.play(ImportUser("x"));
    world.play(Say("now"));
    let all = world.thread.backend_prompt(10_000).unwrap();
    assert!(all.text.contains("one") && all.left_out == 0, "{all:?}");
    let cut = world.thread.backend_prompt(50).unwrap();
    assert!(
        cut.text.contains("three") && !cut.text.contains("two"),
        "{cut:?}"
    );
    assert!(
        cut.text.contains("(4 earlier messages are left out.)"),
        "{cut:?}"
    );
}

#[test]
fn permission_request_is_an_approval() {
    let mut world = at_work();
    world.says(calls("a"));
    assert_eq!(world.says(asks("r1", Some("a"))), ["approval.required"]);
    assert_eq!(world.play(Say("?")), ["! waiting for approval of a"]);
    assert_eq!(
        world.play(Allow("a")),
        ["approval.decided", "=> answer r1 Allow"]
    );
    assert_eq!(world.says(asks("r2", Some("a"))), ["=> answer r2 Allow"]);
    assert_eq!(world.says(done("a")), ["tool.completed"]);
}

#[test]
fn approval_covers_only_the_requested_arguments() {
    let other = |request: &str| {
        let BackendEvent::Permission(asked) = asks(request, Some("a")) else {
            unreachable!()
        };
        let arguments = json!({"command": "rm"});
        BackendEvent::Permission(PermissionRequest { arguments, ..asked })
    };
    let mut world = at_work();
    world.says(calls("a"));
    // The reported call differs from the requested one: the user sees the latter.
    world.says(other("r1"));
    let EventData::ApprovalRequired(shown) = &world.events.last().unwrap().data else {
        panic!("no approval is required")
    };
    assert_eq!(shown.tool_call.arguments, json!({"command": "rm"}));
    world.play(Allow("a"));
    assert_eq!(world.says(other("r2")), ["=> answer r2 Allow"]);
    assert_eq!(
        world.says(asks("r3", Some("a"))),
        [
            "output.message.completed",
            "tool.started",
            "approval.required"
        ]
    );
    assert_eq!(
        world.play(Deny("r3")),
        ["approval.decided", "tool.completed", "=> answer r3 Deny"]
    );
    // A request with only the call's name is not covered by the approval either.
    let BackendEvent::Permission(asked) = asks("r4", Some("a")) else {
        unreachable!()
    };
    let arguments = Value::Null;
    let bare = PermissionRequest { arguments, ..asked };
    let said = world.says(BackendEvent::Permission(bare));
    assert_eq!(said.last().unwrap(), "approval.required");
}

#[test]
fn denial_ends_the_call() {
    let mut world = at_work();
    assert_eq!(
        world.says(asks("r1", Some("a"))),
        [
            "output.message.completed",
            "tool.started",
            "approval.required"
        ]
    );
    assert_eq!(
        world.play(Deny("#a")),
        ["approval.decided", "tool.completed", "=> answer r1 Deny"]
    );
    // Further events of the external agent change nothing.
    assert!(world.says(calls("a")).is_empty());
    assert!(world.says(done("a")).is_empty());
    assert_eq!(world.says(asks("r2", Some("a"))), ["=> answer r2 Deny"]);
}

#[test]
fn approval_can_cover_the_turn() {
    let mut world = at_work();
    world.says(asks("r1", Some("a")));
    world.play(AllowRest("a"));
    world.says(calls("b"));
    assert_eq!(world.says(asks("r2", Some("b"))), ["=> answer r2 Allow"]);
}

#[test]
fn request_without_a_call_becomes_a_call() {
    let mut world = at_work();
    world.says(asks("r1", None));
    assert_eq!(
        world.play(Allow("r1")),
        ["approval.decided", "tool.completed", "=> answer r1 Allow"]
    );
    world.says(asks("r2", None));
    let withdrawn = BackendEvent::PermissionWithdrawn {
        request_id: "r2".to_owned(),
    };
    assert_eq!(
        world.says(withdrawn),
        ["approval.decided", "tool.completed"]
    );
}

#[test]
fn reused_request_id_is_a_new_request() {
    let mut world = at_work();
    world.says(calls("a"));
    world.says(asks("r1", Some("a")));
    assert!(
        world.says(asks("r1", Some("a"))).is_empty(),
        "it still waits"
    );
    world.play(Allow("a"));
    world.says(calls("b"));
    assert_eq!(world.says(asks("r1", Some("b"))), ["approval.required"]);
    assert_eq!(
        world.play(Deny("b")),
        ["approval.decided", "tool.completed", "=> answer r1 Deny"]
    );
    // Also where the request itself is the call.
    for _ in 0..2 {
        assert_eq!(
            world.says(asks("r2", None)).last().unwrap(),
            "approval.required"
        );
        assert_eq!(
            world.play(Allow("r2")).last().unwrap(),
            "=> answer r2 Allow"
        );
    }
    world.ends_with(ends(BackendEnd::Completed));
}

#[test]
fn withdrawn_request_leaves_its_call_running() {
    let mut world = at_work();
    world.says(asks("r1", Some("a")));
    world.says(BackendEvent::PermissionWithdrawn {
        request_id: "r1".to_owned(),
    });
    assert_eq!(world.says(done("a")), ["tool.completed"]);
    world.says(asks("r2", Some("b")));
    assert_eq!(
        world.says(done("b")),
        ["approval.decided", "tool.completed"]
    );
}

#[test]
fn permission_request_expires() {
    let patient = TurnPlan {
        wait_timeout: Some(std::time::Duration::from_secs(5)),
        ..agent_plan()
    };
    let mut world = World::after(patient, &[Say("hi")]);
    world.says(established("s1"));
    world.says(asks("r1", Some("a")));
    assert_eq!(
        world.play(After(6)),
        [
            "approval.timeout",
            "approval.decided",
            "tool.completed",
            "=> answer r1 Deny"
        ]
    );
}

#[test]
fn accepted_steer_is_positioned_where_it_was_accepted() {
    let mut world = at_work();
    world.says(text("first"));
    assert_eq!(
        world.play(Steer("wait")),
        ["turn.steered", "input.message", "=> steer wait"]
    );
    let message_id = world.thread.turn().unwrap().steered[0].id;
    let exec_id = run_of(&world.thread);
    world.given(Input::BackendSteered {
        exec_id,
        message_id,
    });
    world.says(text("then"));
    let end = world.ends_with(ends(BackendEnd::Completed));
    assert_eq!(end.last().unwrap(), "session.idled");
    assert_eq!(
        world.transcript(),
        ["user hi", "agent first", "user wait", "agent then"]
    );
}

#[test]
fn rejected_steer_is_the_next_prompt() {
    let mut world = at_work();
    world.play(Steer("wait"));
    world.says(text("first"));
    let end = world.ends_with(ends(BackendEnd::Completed));
    assert_eq!(
        end,
        [
            "output.message.completed",
            "backend.completed",
            "backend.started",
            "=> backend resume s1 Words"
        ]
    );
    assert_eq!(world.thread.backend_prompt(9).unwrap().text, "wait");
    assert_eq!(world.transcript(), ["user hi", "agent first", "user wait"]);
}

#[test]
fn unread_steer_is_sent_by_the_next_turn() {
    let mut world = at_work();
    world.says(text("first"));
    world.play(Steer("wait"));
    world.play(Interrupt);
    assert_eq!(
        world.play(Say("more")).last().unwrap(),
        "=> backend resume s1 Words"
    );
    assert_eq!(world.thread.backend_prompt(9).unwrap().text, "wait\n\nmore");
    // The external agent does not know the session any more: the messages are still sent only once.
    world.ends_with(fails(BackendErrorKind::ResumeRefused));
    let prompt = world.thread.backend_prompt(1_000).unwrap().text;
    assert!(
        prompt.contains("User: hi") && !prompt.contains("User: wait"),
        "{prompt}"
    );
    assert!(prompt.ends_with("wait\n\nmore"), "{prompt}");
    world.says(established("s2"));
    world.ends_with(ends(BackendEnd::Completed));
    world.play(Say("last"));
    assert_eq!(world.thread.backend_prompt(9).unwrap().text, "last");
}

#[test]
fn interrupt_preserves_text_and_ends_open_calls() {
    let mut world = at_work();
    world.says(calls("a"));
    world.says(asks("r1", Some("b")));
    world.says(text("half"));
    assert_eq!(
        world.play(Interrupt),
        [
            "turn.interrupt_requested",
            "tool.completed",
            "approval.decided",
            "tool.completed",
            "output.message.completed",
            "backend.completed",
            "turn.cancelled",
            "session.idled",
            "=> stop backend"
        ]
    );
    assert_eq!(
        world.play(Say("more")).last().unwrap(),
        "=> backend resume s1 Words"
    );
}

#[test]
fn failure_of_the_agent_fails_the_turn_with_its_reason() {
    let mut world = at_work();
    assert_eq!(
        world.ends_with(fails(BackendErrorKind::Auth)),
        [
            "output.message.completed",
            "backend.completed",
            "turn.failed",
            "session.idled"
        ]
    );
    let EventData::TurnFailed(data) = world.last("turn.failed") else {
        unreachable!()
    };
    assert_eq!(data.error_code.as_deref(), Some("backend_auth"));
}

#[test]
fn full_session_stops_the_run() {
    let held = |max_events| TurnPlan {
        limits: Limits {
            max_messages: None,
            max_events,
        },
        ..agent_plan()
    };
    let mut world = World::after(held(Some(8)), &[Say("hi")]);
    world.says(established("s1"));
    // 5 events so far; a call that has begun comes to its end.
    world.says(calls("a"));
    assert_eq!(world.says(done("a")), ["tool.completed"]);
    assert_eq!(
        world.says(calls("b")),
        [
            "backend.completed",
            "turn.failed",
            "session.idled",
            "=> stop backend"
        ]
    );
    let EventData::TurnFailed(data) = world.last("turn.failed") else {
        unreachable!()
    };
    assert_eq!(data.error_code.as_deref(), Some("quota_exceeded"));

    // So does unlimited text in consecutive messages.
    let mut world = World::after(held(Some(5)), &[Say("hi")]);
    world.says(established("s1"));
    let exec_id = run_of(&world.thread);
    let paused = world.given(Input::BackendPause { exec_id });
    assert!(paused.contains(&"turn.failed".to_owned()), "{paused:?}");
    // A run with a single answer is read to its end.
    let mut world = World::after(held(Some(5)), &[Say("hi")]);
    world.says(established("s1"));
    let end = world.ends_with(ends(BackendEnd::Completed));
    assert!(end.contains(&"turn.completed".to_owned()), "{end:?}");
}

#[test]
fn unknown_session_is_replaced_once() {
    let mut world = at_work();
    world.ends_with(ends(BackendEnd::Completed));
    world.play(Say("more"));
    let refused = world.ends_with(fails(BackendErrorKind::ResumeRefused));
    assert_eq!(
        refused,
        [
            "backend.completed",
            "backend.notice",
            "backend.started",
            "=> backend new History"
        ]
    );
    let text = world.thread.backend_prompt(1_000).unwrap().text;
    assert!(
        text.contains("User: hi") && text.ends_with("more"),
        "{text}"
    );
    let again = world.ends_with(fails(BackendErrorKind::ResumeRefused));
    assert!(again.contains(&"turn.failed".to_owned()), "{again:?}");
}

#[test]
fn aborts_before_the_session_is_there_are_tried_again_five_times() {
    let mut world = World::after(agent_plan(), &[Say("hi")]);
    let mut aborted = fails(BackendErrorKind::Killed(6));
    aborted.aborted_signal = true;
    for _ in 0..4 {
        let tried = world.ends_with(aborted.clone());
        assert_eq!(tried.last().unwrap(), "=> backend new History");
        assert_eq!(world.thread.backend_prompt(9).unwrap().text, "hi");
    }
    let given_up = world.ends_with(aborted);
    assert!(given_up.contains(&"turn.failed".to_owned()), "{given_up:?}");
}

fn limited(reset_in: Option<i64>, world: &World) -> BackendOutcome {
    let mut outcome = fails(BackendErrorKind::RateLimit);
    outcome.rate_limit_exit = true;
    let now = world.events.last().map(|event| event.ts);
    outcome.rate_limit_reset_at = now
        .zip(reset_in)
        .map(|(now, seconds)| now + chrono::Duration::seconds(seconds));
    outcome
}

#[test]
fn rate_limit_parks_the_turn_until_it_resets() {
    let mut world = at_work();
    let outcome = limited(Some(60), &world);
    assert_eq!(
        world.ends_with(outcome),
        ["backend.completed", "backend.waiting"]
    );
    assert!(world.pending().is_empty());
    assert!(world.play(After(30)).is_empty());
    assert_eq!(world.play(Crash), ["turn.resumed"]);
    assert_eq!(
        world.play(After(30)),
        ["backend.started", "=> backend resume s1 GoOn"]
    );
    assert_eq!(world.thread.turn().unwrap().crashes, 0);
    // Without a time, the waits become longer.
    let outcome = limited(None, &world);
    world.ends_with(outcome);
    assert!(
        world.play(After(30)).is_empty(),
        "the second wait is longer"
    );
    assert_eq!(world.play(After(30)).len(), 2);
}

#[test]
fn reported_reset_time_is_bounded_and_trusted_once() {
    const DAY: i64 = 24 * 3600;
    let wait = |world: &mut World, reset_in| {
        let outcome = limited(reset_in, world);
        world.ends_with(outcome);
        let EventData::BackendWaiting(data) = world.last("backend.waiting") else {
            unreachable!()
        };
        let now = world.events.last().unwrap().ts;
        (data.until - now).num_seconds()
    };
    let mut world = at_work();
    assert_eq!(wait(&mut world, Some(900 * DAY)), 8 * DAY);
    let mut world = at_work();
    assert_eq!(wait(&mut world, Some(1)), 1);
    world.play(After(1));
    // It was not over by then.
    assert_eq!(wait(&mut world, Some(1)), 60);
    world.play(After(60));
    assert_eq!(wait(&mut world, Some(3600)), 3600);
}

#[test]
fn endless_rate_limit_fails_the_turn() {
    let mut world = at_work();
    for _ in 0..50 {
        let outcome = limited(Some(1), &world);
        let said = world.ends_with(outcome);
        assert_eq!(said.last().unwrap(), "backend.waiting");
        world.play(After(3600));
    }
    let outcome = limited(Some(1), &world);
    let said = world.ends_with(outcome);
    assert!(said.contains(&"turn.failed".to_owned()), "{said:?}");
    let EventData::TurnFailed(data) = world.last("turn.failed") else {
        unreachable!()
    };
    assert_eq!(data.error_code.as_deref(), Some("backend_rate_limit"));
}

#[test]
fn session_totals_survive_a_run_without_a_report() {
    let mut world = at_work();
    let mut outcome = ends(BackendEnd::Completed);
    outcome.totals.cost_usd = Some(0.5);
    world.ends_with(outcome);
    world.play(Say("more"));
    let outcome = limited(Some(5), &world);
    world.ends_with(outcome);
    assert_eq!(
        world.play(After(5)).last().unwrap(),
        "=> backend resume s1 Words"
    );
    let known = world.thread.backend_session().unwrap();
    assert_eq!(known.totals.cost_usd, Some(0.5));
    // The messages that it never received are sent with the others.
    world.ends_with(fails(BackendErrorKind::Auth));
    assert_eq!(
        world.play(Say("again")).last().unwrap(),
        "=> backend new History"
    );
}

#[test]
fn wait_for_a_rate_limit_is_interrupted() {
    let mut world = at_work();
    let outcome = limited(None, &world);
    world.ends_with(outcome);
    assert_eq!(
        world.play(Interrupt),
        [
            "turn.interrupt_requested",
            "turn.cancelled",
            "session.idled"
        ]
    );
}

#[test]
fn late_words_of_a_run_are_stale() {
    let mut world = at_work();
    let exec_id = run_of(&world.thread);
    world.ends_with(ends(BackendEnd::Completed));
    for input in [
        Input::BackendReported {
            exec_id,
            event: Box::new(text("late")),
        },
        Input::BackendPause { exec_id },
        Input::BackendEnded {
            exec_id,
            outcome: Box::new(ends(BackendEnd::Completed)),
        },
    ] {
        assert!(world.decide(input).is_err());
    }
}

#[test]
fn notices_are_recorded_and_change_nothing() {
    let mut world = at_work();
    let before = world.transcript();
    let notice = BackendEvent::Notice(BackendNotice::Warning("careful".to_owned()));
    assert_eq!(world.says(notice), ["backend.notice"]);
    assert_eq!(world.transcript(), before);
}

#[test]
fn attempts_are_recorded() {
    let mut world = World::after(agent_plan(), &[Say("hi")]);
    let mut aborted = fails(BackendErrorKind::Killed(6));
    aborted.aborted_signal = true;
    world.ends_with(aborted);
    let EventData::BackendStarted(data) = world.last("backend.started") else {
        unreachable!()
    };
    let expected = Attempts {
        aborts_in_a_row: 1,
        has_started_fresh: false,
    };
    assert_eq!(data.attempts, expected);
    let _: Value = serde_json::to_value(data).unwrap();
}
