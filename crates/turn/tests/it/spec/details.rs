//! Details of records that other code reads: turn IDs, step IDs and counts.

use windlass_core::events::{Event, EventData, SessionUpdatedData, ToolStatus};
use windlass_core::message::{ContentPart, ExecutionPhase};
use windlass_core::tool_types::ToolResultImage;
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::ExecId;
use windlass_turn::{Answer, Input, ToolOutcome, TurnPlan};

use crate::world::ThreadAction::*;
use crate::world::{World, check, plan};

fn newest<'a>(world: &'a World, kind: &str) -> &'a Event {
    let mut newest_first = world.events.iter().rev();
    newest_first
        .find(|event| event.event_type == kind)
        .unwrap_or_else(|| panic!("there is no {kind}"))
}

#[test]
fn queued_input_belongs_to_its_future_turn() {
    let world = World::after(plan(), &[Say("x"), Say("y")]);
    let event = newest(&world, "input.queued");
    let EventData::InputQueued(queued) = &event.data else {
        panic!("another event")
    };
    assert_eq!(event.context.turn_id, Some(queued.turn_id));
    assert_ne!(
        event.context.turn_id,
        world.thread.turn().map(|turn| turn.id)
    );
}

#[test]
fn session_records_belong_to_no_turn() {
    let mut world = World::after(plan(), &[Say("x")]);
    let noted = SessionUpdatedData {
        title: Some("another title".to_owned()),
        record: None,
        changed_fields: None,
    };
    let decision = world.decide(Input::Note { data: noted.into() }).unwrap();
    world.take(decision);
    assert_eq!(newest(&world, "session.updated").context.turn_id, None);
}

#[test]
fn summary_counts_as_a_model_call() {
    let given = [Say("x"), Model("a", &[]), Compact, ModelUsing(&[], 7)];
    let world = World::after(plan(), &given);
    let EventData::TurnCompleted(data) = world.last("turn.completed") else {
        panic!("another event")
    };
    assert_eq!(data.llm_call_count, Some(1));
}

/// Says that the newest event of a type fits no other step than its own.
#[track_caller]
fn is_of_its_step_alone(
    given: &[crate::world::ThreadAction],
    last: crate::world::ThreadAction,
    kind: &str,
) {
    let before = World::after(plan(), given);
    let mut after = World::after(plan(), given);
    after.play(last);
    let begin = before.events.len();
    let mut thread = before.thread;
    for event in &after.events[begin..] {
        if event.event_type == kind {
            let mut foreign = Event::clone(event);
            foreign.context.exec_id = Some(ExecId::from_seed(99));
            assert!(thread.clone().evolve(&foreign).is_err(), "{kind}");
            assert!(thread.evolve(event).is_ok(), "{kind}");
            return;
        }
        thread
            .evolve(event)
            .unwrap_or_else(|invalid| panic!("{invalid}"));
    }
    panic!("there is no {kind}")
}

#[test]
fn event_of_a_step_is_invalid_for_another_step() {
    let compacting = [Say("x"), Model("a", &[]), Compact];
    let answer = Model("they met", &[]);
    is_of_its_step_alone(&compacting, answer, "llm.generation");
    is_of_its_step_alone(&compacting, answer, "context.compacted");
    is_of_its_step_alone(&[Say("x")], Model("a", &[]), "reason.completed");
}

#[test]
fn result_with_the_id_of_another_call_is_invalid() {
    let given = [Say("x"), Model("", &[("a", "once"), ("b", "once")])];
    let mut before = World::after(plan(), &given);
    let mut after = World::after(plan(), &given);
    after.play(Done("a"));
    let event = newest(&after, "tool.completed");
    let mut foreign = Event::clone(event);
    let EventData::ToolCompleted(data) = &mut foreign.data else {
        panic!("another event")
    };
    data.tool_call_id = "b".to_owned();
    assert!(before.thread.clone().evolve(&foreign).is_err());
    assert!(before.thread.evolve(event).is_ok());
}

#[test]
fn pending_approvals_count_as_running() {
    let one_at_a_time = || TurnPlan {
        max_parallel_calls: 1,
        ..plan()
    };
    let two = Model("", &[("a", "ask"), ("b", "ask")]);
    let world = World::after(one_at_a_time(), &[Say("x"), two]);
    assert_eq!(world.count("approval.required"), 1);
    // Calls without approval are included.
    let three = Model("", &[("a", "ask"), ("b", "ask"), ("c", "ask")]);
    let given = [Say("x"), three, AllowRest("a")];
    check(
        one_at_a_time(),
        &given,
        Done("a"),
        &["tool.completed", "tool.started", "=> run b"],
    );
}

#[test]
fn only_a_users_answer_is_private() {
    let given = [Say("x"), Model("", &[("a", "once"), ("b", "once")])];
    let asked = [Done("b"), Asks("a"), Replies("a", "yes")];
    let world = World::after(plan(), &[&given[..], &asked].concat());
    let private = |id: &str| {
        let mut ended = world.events.iter().filter_map(|event| match &event.data {
            EventData::ToolCompleted(data) if data.tool_call_id == id => Some(data.private),
            _ => None,
        });
        ended.next().unwrap()
    };
    assert_eq!((private("a"), private("b")), (Some(true), None));
}

#[test]
fn act_counts_successful_calls() {
    let calls = Model("", &[("a", "client"), ("b", "once"), ("c", "once")]);
    let given = [Say("x"), calls, Done("b"), Done("c"), ResultFails("a")];
    let world = World::after(plan(), &given);
    let EventData::ActCompleted(data) = world.last("act.completed") else {
        panic!("another event")
    };
    assert_eq!(data.success_count, 2);
}

#[test]
fn image_of_a_result_retains_its_url_or_data() {
    for (base64, url) in [("https://example.com/a.png", true), ("aGk=", false)] {
        let mut world = World::after(plan(), &[Say("x"), Model("", &[("a", "once")])]);
        let image = ToolResultImage {
            base64: base64.to_owned(),
            media_type: "image/png".to_owned(),
        };
        let result = ToolResult {
            images: Some(vec![image]),
            ..ToolResult::success("a", 1)
        };
        let finished = Input::ToolFinished {
            exec_id: world.exec("a"),
            outcome: Box::new(ToolOutcome {
                status: ToolStatus::Success,
                result,
                duration_ms: None,
                wait: None,
                refused: false,
            }),
        };
        let decision = world.decide(finished).unwrap();
        world.take(decision);
        let message = world.thread.history().last().unwrap();
        let shown = message.content.iter().find_map(|part| match part {
            ContentPart::Image(image) => Some((image.url.clone(), image.base64.clone())),
            _ => None,
        });
        let text = Some(base64.to_owned());
        let expected = if url { (text, None) } else { (None, text) };
        assert_eq!(shown, Some(expected));
    }
}

#[test]
fn approved_call_is_not_remembered_automatically() {
    let given = [Say("x"), Model("", &[("a", "ask")])];
    for (step, remember) in [
        (Allow("a"), None),
        (AllowRest("a"), Some(true)),
        (Deny("a"), None),
    ] {
        let mut world = World::after(plan(), &given);
        world.play(step);
        let EventData::ApprovalDecided(data) = world.last("approval.decided") else {
            panic!("another event")
        };
        assert_eq!(data.remember, remember, "{step:?}");
    }
}

#[test]
fn late_answer_is_rejected_with_the_reason() {
    for (reason, word) in [
        (None, "turn_terminal"),
        (Some(windlass_turn::PROCESS_STOPPED), "process_restart"),
    ] {
        let calls = Model("", &[("a", "ask"), ("b", "client")]);
        let mut world = World::after(plan(), &[Say("x"), calls]);
        // By the name of the turn that runs.
        let interrupt = Input::Interrupt {
            turn_id: world.thread.turn().map(|turn| turn.id),
            reason: reason.map(str::to_owned),
        };
        let decision = world.decide(interrupt).unwrap();
        world.take(decision);
        let EventData::ApprovalDecided(decided) = world.last("approval.decided") else {
            panic!("another event")
        };
        assert_eq!(decided.reason.as_deref(), Some(word));
        assert_eq!(world.count("turn.cancelled"), 1);
        assert!(world.thread.turn().is_none());
    }
}

#[test]
fn external_failure_has_an_error_for_the_model() {
    let given = [Say("x"), Model("", &[("a", "client")]), ResultFails("a")];
    let world = World::after(plan(), &given);
    let EventData::ToolCompleted(data) = world.last("tool.completed") else {
        panic!("another event")
    };
    let value = data.result.iter().flatten().find_map(|part| match part {
        ContentPart::ToolResult(part) => part.result.clone(),
        _ => None,
    });
    assert_eq!(value, Some(serde_json::json!({"error": "broken"})));
}

#[test]
fn host_records_only_session_events() {
    let mut world = World::after(plan(), &[Say("x"), Model("a", &[])]);
    let of_turn = world.last("turn.completed").clone();
    assert!(world.decide(Input::Note { data: of_turn }).is_err());
    let before = world.events.len();
    let noted = SessionUpdatedData {
        title: None,
        record: None,
        changed_fields: None,
    };
    let decision = world.decide(Input::Note { data: noted.into() }).unwrap();
    world.take(decision);
    assert_eq!(world.events.len(), before + 1);
}

#[test]
fn unanswered_question_expires() {
    let plan = TurnPlan {
        wait_timeout: Some(std::time::Duration::from_secs(5)),
        ..plan()
    };
    let given = [Say("x"), Model("", &[("a", "once")]), Asks("a"), After(6)];
    let world = World::after(plan, &given);
    let EventData::UserInputCanceled(data) = world.last("user_input.canceled") else {
        panic!("another event")
    };
    assert_eq!(data.reason, "timeout");
    assert_eq!(world.count("tool.call_timeout"), 0);
}

#[test]
fn message_retains_phase_thinking_and_reasoning() {
    let mut world = World::after(plan(), &[Say("x")]);
    let answer = Answer {
        text: "hello".to_owned(),
        thinking: Some("hm".to_owned()),
        thinking_signature: Some("signed".to_owned()),
        reasoning_items: vec![serde_json::json!({"id": "r"})],
        phase: Some(ExecutionPhase::FinalAnswer),
        ..Answer::default()
    };
    let finished = Input::ModelFinished {
        exec_id: world.model(),
        answer: Box::new(answer),
    };
    let decision = world.decide(finished).unwrap();
    world.take(decision);
    let message = world.thread.history().last().unwrap();
    assert_eq!(message.thinking.as_deref(), Some("hm"));
    assert_eq!(message.thinking_signature.as_deref(), Some("signed"));
    assert_eq!(message.reasoning_items, [serde_json::json!({"id": "r"})]);
    assert_eq!(message.phase, Some(ExecutionPhase::FinalAnswer));
}

#[test]
fn answer_records_whether_it_has_calls() {
    for (calls, has_calls) in [(&[][..], false), (&[("a", "once")][..], true)] {
        let calls: &'static [(&str, &str)] = calls;
        let world = World::after(plan(), &[Say("x"), Model("t", calls)]);
        let EventData::ReasonCompleted(data) = world.last("reason.completed") else {
            panic!("another event")
        };
        assert_eq!(
            (data.has_tool_calls, data.tool_call_count),
            (has_calls, calls.len())
        );
    }
}

#[test]
fn expired_call_records_its_timeout() {
    let plan = TurnPlan {
        wait_timeout: Some(std::time::Duration::from_secs(5)),
        ..plan()
    };
    let given = [Say("x"), Model("", &[("a", "client")]), After(6)];
    let world = World::after(plan, &given);
    let EventData::ToolCallTimeout(data) = world.last("tool.call_timeout") else {
        panic!("another event")
    };
    assert_eq!(data.timeout_ms, Some(5000));
}

#[test]
fn only_a_silent_turn_has_no_output() {
    let fails = |given: &[crate::world::ThreadAction], answer: Answer| {
        let plan = TurnPlan {
            needs_output: true,
            ..plan()
        };
        let mut world = World::after(plan, &[&[Say("x")], given].concat());
        let finished = Input::ModelFinished {
            exec_id: world.model(),
            answer: Box::new(answer),
        };
        let decision = world.decide(finished).unwrap();
        world.take(decision);
        world.count("turn.failed") == 1
    };
    let nothing = Answer::default;
    assert!(fails(&[], nothing()));
    for given in [
        &[Streams("a")][..],
        &[Thinks("a")],
        &[UnflushedText("a")],
        &[Steer("more")],
        &[Model("", &[("a", "once")]), Done("a")],
    ] {
        assert!(!fails(given, nothing()), "{given:?}");
    }
    let thinks = Answer {
        thinking: Some("hm".to_owned()),
        ..Answer::default()
    };
    let says = Answer {
        text: "hello".to_owned(),
        ..Answer::default()
    };
    assert!(!fails(&[], thinks));
    assert!(!fails(&[], says));
}
