//! The fold of a journal: turns with their metrics, items with their texts, open turns and open waits.

use serde_json::json;
use windlass_core::events::*;
use windlass_core::items::{ItemStatus, TurnLog, TurnStatus, WaitKind};
use windlass_core::tools::ToolShape;
use windlass_core::typed_id::{ItemId, TurnId};

use super::journal::{
    ANSWER, CALL, INPUT, Journal, MODEL, STEER, TURN, answered, at, call, completed, item, line,
    tool_done,
};

fn lines(log: &TurnLog) -> Vec<String> {
    log.items_of(TURN).map(|item| line(&item)).collect()
}

#[test]
fn running_turn_shows_streamed_text() {
    let mut journal = Journal::begun();
    journal.text_starts();
    journal.text("hel");
    journal.text("lo");
    let log = TurnLog::fold(&journal.events);
    assert_eq!(
        lines(&log),
        ["UserMessage (completed): hello", "AgentMessage: hello"]
    );
    let open: Vec<_> = log.open_items().collect();
    assert_eq!(open.len(), 1);
    assert_eq!(
        (open[0].id, open[0].started_at),
        (item(ANSWER), Some(at(5)))
    );
    let turn = log.turn(TURN).unwrap();
    assert_eq!(turn.status, TurnStatus::InProgress);
    assert_eq!(turn.outline.item_ids, [item(INPUT), item(ANSWER)]);
    assert_eq!(turn.input_message_id, Some(INPUT));
    assert_eq!(
        (
            turn.outline.created_at,
            turn.outline.started_at,
            turn.ended_at
        ),
        (Some(at(0)), Some(at(1)), None)
    );
}

#[test]
fn complete_text_replaces_streamed_text() {
    let mut journal = Journal::begun();
    journal.text_starts();
    journal.text("hel");
    journal.step(MODEL, answered("hello!"));
    journal.turn(completed());
    let log = TurnLog::fold(&journal.events);
    let said = log.item(item(ANSWER)).unwrap();
    assert_eq!(said.detail(), "hello!");
    assert_eq!((said.started_at, said.ended_at), (Some(at(5)), Some(at(7))));
    assert_eq!(log.open_items().count(), 0);
    let turn = log.turn(TURN).unwrap();
    assert_eq!(turn.status, TurnStatus::Completed);
    assert_eq!((turn.ended_at, turn.duration_ms), (Some(at(8)), Some(9)));
    assert_eq!(turn.outline.item_ids, [item(INPUT), item(ANSWER)]);
    assert_eq!(turn.outline.input_summary, "hello");
}

#[test]
fn ended_call_retains_its_arguments() {
    let mut journal = Journal::begun();
    journal.tool_starts(Some(ToolShape::Command));
    let log = TurnLog::fold(&journal.events);
    assert_eq!(log.item(item(CALL)).unwrap().detail(), r#"{"at":1}"#);
    // Also where the end does not repeat them.
    journal.step(
        CALL,
        ToolCompletedData {
            arguments: None,
            started_at: None,
            ..tool_done(ToolStatus::Success)
        },
    );
    let log = TurnLog::fold(&journal.events);
    let done = log.item(item(CALL)).unwrap();
    assert_eq!(done.detail(), "seen");
    let tool = done.tool().unwrap();
    assert_eq!(tool.arguments, Some(&json!({ "at": 1 })));
    assert_eq!(tool.status, Some(ToolStatus::Success));
    assert_eq!((done.exec_id, done.started_at), (Some(CALL), Some(at(5))));
    assert_eq!(log.turn(TURN).unwrap().tool_call_count, 1);
}

#[test]
fn wait_is_open_until_its_answer_or_the_end_of_its_call() {
    let mut journal = Journal::begun();
    journal.tool_starts(None);
    let required = ApprovalRequiredData {
        tool_call: call(),
        digest: String::new(),
        display_name: None,
        expires_at: Some(at(99)),
        request_id: None,
    };
    journal.step(CALL, required);
    let mut log = TurnLog::fold(&journal.events);
    assert_eq!(log.turn(TURN).unwrap().waiting_for, [WaitKind::Approval]);
    let waits: Vec<_> = log.open_waits().collect();
    assert_eq!((waits.len(), waits[0].item_id), (1, item(CALL)));

    let mut decided = Journal::default();
    decided.step(
        CALL,
        ApprovalDecidedData {
            tool_call_id: "c1".to_owned(),
            decision: Decision::Allow,
            reason: None,
            timed_out: None,
            remember: None,
            project: None,
            withdrawn: None,
        },
    );
    let before = log.clone();
    log.apply(&decided.events[0]);
    assert!(log.turn(TURN).unwrap().waiting_for.is_empty());
    assert_eq!(log.open_waits().count(), 0);

    log = before;
    decided.step(CALL, tool_done(ToolStatus::Cancelled));
    log.apply(&decided.events[1]);
    assert!(log.turn(TURN).unwrap().waiting_for.is_empty());
    let status = log.item(item(CALL)).unwrap().status;
    assert_eq!(status, ItemStatus::Interrupted);
}

#[test]
fn counters_of_a_running_turn() {
    let mut journal = Journal::begun();
    journal.turn(TurnSteeredData {
        turn_id: TURN,
        message_id: STEER,
        input_text: None,
    });
    journal.input(STEER, "more");
    journal.turn(TurnResumedData {
        extended_ms: None,
        turn_id: TURN,
        attempt: 1,
    });
    for _ in 0..2 {
        let usage = TokenUsage {
            input_tokens: 10,
            output_tokens: 2,
            ..TokenUsage::default()
        };
        journal.step(
            MODEL,
            ReasonCompletedData {
                success: true,
                has_tool_calls: false,
                tool_call_count: 0,
                text_preview: None,
                error: None,
                duration_ms: None,
                usage: Some(usage),
            },
        );
    }
    let log = TurnLog::fold(&journal.events);
    let turn = log.turn(TURN).unwrap();
    assert_eq!(
        (turn.outline.steer_count, turn.outline.resumed_count),
        (1, 1)
    );
    assert_eq!((turn.iterations, turn.llm_call_count), (1, 2));
    assert_eq!(turn.usage.map(|usage| usage.total_tokens()), Some(24));
    assert_eq!(
        lines(&log),
        [
            "UserMessage (completed): hello",
            "UserMessage (completed): more"
        ]
    );
}

#[test]
fn unrelated_event_changes_nothing() {
    let mut journal = Journal::begun();
    journal.text("lost");
    journal.step(MODEL, answered("hello"));
    journal.step(MODEL, answered("again"));
    journal.turn(completed());
    journal.tool_starts(None);
    journal.turn(TurnCompletedData {
        duration_ms: Some(1),
        ..completed()
    });
    let other = TurnId::from_seed(50);
    let step = EventContext::of_step(other, CALL);
    journal.add(step, tool_done(ToolStatus::Success));
    let log = TurnLog::fold(&journal.events);
    assert_eq!(
        lines(&log),
        [
            "UserMessage (completed): hello",
            "AgentMessage (completed): hello"
        ]
    );
    assert_eq!(log.turn(TURN).unwrap().duration_ms, Some(9));
    assert_eq!(log.turns().len(), 1);
    assert_eq!(log.items_of(other).count(), 0);
    assert!(log.item(ItemId::from_seed(1000)).is_none());
}
