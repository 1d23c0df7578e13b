//! Each record of a turn is readable without the earlier ones.

use std::time::Duration;

use windlass_core::events::{Decision, EventData, ToolCompletedData, TurnOutline};
use windlass_core::message::InputMessage;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_request::{TurnLabels, TurnRequest};
use windlass_turn::{Input, OnBusy, TurnPlan};

use crate::world::ThreadAction::*;
use crate::world::{ThreadAction, World, check, plan};

fn results(world: &World) -> Vec<&ToolCompletedData> {
    let ended = world.events.iter().filter_map(|event| match &event.data {
        EventData::ToolCompleted(data) => Some(&**data),
        _ => None,
    });
    ended.collect()
}

#[test]
fn result_records_the_approval_of_its_call() {
    let given = [
        Say("x"),
        Model("", &[("a", "ask"), ("b", "ask"), ("c", "once")]),
        Deny("b"),
        Allow("a"),
        Done("c"),
        Done("a"),
    ];
    let world = World::after(plan(), &given);
    let decided = results(&world)
        .into_iter()
        .map(|data| (data.tool_call_id.as_str(), data.approval));
    let decided: Vec<_> = decided.collect();
    let (allow, deny) = (Some(Decision::Allow), Some(Decision::Deny));
    assert_eq!(decided, [("b", deny), ("c", None), ("a", allow)]);
}

#[test]
fn external_result_retains_the_approval() {
    let given = [
        Say("x"),
        Model("", &[("a", "ask")]),
        Allow("a"),
        Connects("a"),
        Results(&[("a", 1)]),
    ];
    let world = World::after(plan(), &given);
    assert_eq!(results(&world)[0].approval, Some(Decision::Allow));
}

#[test]
fn records_of_a_call_show_external_execution() {
    for (tool, finish, external) in [
        ("client", Results(&[("a", 1)]), Some(true)),
        ("once", Done("a"), None),
    ] {
        let calls: &'static [(&str, &str)] = match tool {
            "client" => &[("a", "client")],
            _ => &[("a", "once")],
        };
        let world = World::after(plan(), &[Say("x"), Model("", calls), finish]);
        let EventData::ToolStarted(started) = world.last("tool.started") else {
            panic!("another event")
        };
        assert_eq!(started.external, external, "{tool}");
        assert_eq!(results(&world)[0].external, external, "{tool}");
    }
}

fn outlines(world: &World) -> Vec<TurnOutline> {
    let outline = |data: &EventData| match data {
        EventData::TurnStarted(data) => data.outline.clone(),
        EventData::TurnCompleted(data) => data.outline.clone(),
        _ => None,
    };
    let outlines = world.events.iter().filter_map(|event| outline(&event.data));
    outlines.collect()
}

#[test]
fn end_of_a_turn_repeats_its_outline() {
    let request = TurnRequest {
        environment: Some(TurnEnvironment::new("local", "/srv").read_only()),
        input_summary: Some("in short".to_owned()),
        labels: Some(TurnLabels {
            provider: Some("p".to_owned()),
        }),
        ..TurnRequest::default()
    };
    let mut world = World::new(plan());
    let message = InputMessage::user("at length").with_turn_request(request.clone());
    let input = Input::Submit {
        message,
        on_busy: OnBusy::Refuse,
        timeout: None,
        turn_id: None,
    };
    let decision = world.decide(input).unwrap();
    world.take(decision);
    world.play(After(5));
    world.play(Model("y", &[]));
    let begun_at = world.events[0].ts;
    let outlines = outlines(&world);
    assert_eq!(outlines.len(), 2);
    for outline in &outlines {
        assert_eq!(outline.input_summary, "in short");
        assert_eq!(outline.model.as_deref(), Some("model"));
        assert_eq!(outline.environment, request.environment);
        assert_eq!(outline.labels, request.labels);
        assert_eq!(outline.created_at, None, "it did not wait");
    }
    assert_eq!(outlines[1].started_at, Some(begun_at), "when it began");
}

#[test]
fn outline_of_a_queued_turn_has_its_creation_time() {
    let given = [
        Say("x"),
        Say("y"),
        After(5),
        Model("a", &[]),
        Begin,
        Model("b", &[]),
    ];
    let world = World::after(plan(), &given);
    let said_at = world.events[0].ts;
    let last = outlines(&world).pop().unwrap();
    assert_eq!(last.created_at, Some(said_at));
    assert_eq!(last.started_at, Some(said_at + Duration::from_secs(5)));
}

#[test]
fn unflushed_text_is_empty_without_text_and_thinking() {
    for (text, thinking, length) in [("", "", 0), ("ab", "", 2), ("", "c", 1), ("ab", "c", 3)] {
        let tail = windlass_turn::UnflushedText {
            text: text.to_owned(),
            thinking: thinking.to_owned(),
        };
        assert_eq!((tail.is_empty(), tail.len()), (length == 0, length));
    }
}

#[test]
fn unflushed_text_is_output() {
    let needs_output = || TurnPlan {
        needs_output: true,
        ..plan()
    };
    let ends = |given: &[ThreadAction]| {
        let mut world = World::after(needs_output(), given);
        let said = world.play(Model("", &[]));
        said.into_iter().find(|kind| kind.starts_with("turn."))
    };
    let failed = Some("turn.failed".to_owned());
    let completed = Some("turn.completed".to_owned());
    assert_eq!(ends(&[Say("x")]), failed);
    assert_eq!(ends(&[Say("x"), UnflushedText("")]), failed);
    assert_eq!(ends(&[Say("x"), UnflushedText("y")]), completed);
}

#[test]
fn late_answer_is_not_a_summary() {
    let mut world = World::after(plan(), &[Say("x"), Model("y", &[])]);
    world.remember_model();
    world.play(Compact);
    assert_eq!(world.play(Model("late", &[])), ["! stale"]);
    assert_eq!(world.play(ModelFails), ["! stale"]);
    assert_eq!(world.pending(), ["=> summarise"]);
    let summarised = [
        "llm.generation",
        "context.compacted",
        "turn.completed",
        "session.idled",
    ];
    let given = [Say("x"), Model("y", &[]), Compact];
    check(plan(), &given, Model("short", &[]), &summarised);
}
