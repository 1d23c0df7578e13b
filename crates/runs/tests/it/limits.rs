//! Limits of reported data, and that ended runs occupy no memory.

use serde_json::{Value, json};
use windlass_core::runs::RunRecord;
use windlass_runs::{
    DropReason, ListRuns, Reads, RecordOutcome, RunCaller, RunLimits, RunSettings,
};

use crate::support::{RunFixture, turn};

async fn limited(limits: RunLimits) -> RunFixture {
    RunFixture::new(RunSettings {
        limits,
        reads: Reads::Open,
        ..RunSettings::default()
    })
    .await
}

#[tokio::test]
async fn oversized_input_is_rejected_with_the_limit() {
    let fixture = limited(RunLimits {
        intent_bytes: 10,
        agent_bytes: 5,
        open_runs: 2,
        ..RunLimits::default()
    })
    .await;
    let caller = RunCaller::new();
    for (start, limit) in [
        (json!({"intent": "12345678901", "agent_id": "a"}), "10"),
        (json!({"intent": "i", "agent_id": "123456"}), "5"),
        (
            json!({"intent": "i", "agent_id": "a", "outcome_description": "12345678901"}),
            "10",
        ),
    ] {
        let refused = fixture.try_start(&caller, start).await.unwrap_err();
        assert_eq!(refused.reason(), "limit");
        assert!(refused.to_string().contains(limit), "{refused}");
    }
    let blank = fixture
        .try_start(&caller, json!({"intent": " \n", "agent_id": "a"}))
        .await;
    assert_eq!(
        blank.unwrap_err().to_string(),
        "runs.start requires a non-empty `intent`"
    );
    let first = fixture.start(&caller, "a").await;
    fixture.start(&caller, "a").await;
    let full = fixture
        .try_start(&caller, json!({"intent": "i", "agent_id": "a"}))
        .await;
    assert_eq!(full.unwrap_err().reason(), "limit");
    fixture.start(&RunCaller::new(), "a").await;
    fixture.complete(&caller, &first).await.unwrap();
    fixture.start(&caller, "a").await;
}

#[tokio::test]
async fn turns_are_recorded_all_or_none() {
    let fixture = limited(RunLimits {
        turns_per_call: 3,
        turns_per_run: 5,
        text_bytes: 40,
        turn_bytes: 400,
        ..RunLimits::default()
    })
    .await;
    let caller = RunCaller::new();
    let run = fixture.start(&caller, "a").await;
    for count in [0, 4] {
        let turns = vec![turn("t"); count];
        let refused = fixture.runs.record_turns(&caller, &run, turns).await;
        assert_eq!(refused.unwrap_err().reason(), "invalid_params");
    }
    let record = async |turns: Vec<Value>| {
        let turns = turns
            .into_iter()
            .map(|turn| serde_json::from_value(turn).unwrap());
        fixture
            .runs
            .record_turns(&caller, &run, turns.collect())
            .await
            .unwrap()
    };
    let recorded = record(vec![
        json!({"index": 77, "tool": "t"}),
        json!({"output": "ä".repeat(100)}),
    ])
    .await;
    assert_eq!(
        recorded,
        RecordOutcome::Recorded {
            base_index: 0,
            count: 2
        }
    );
    let many = json!((0..200).collect::<Vec<_>>());
    let recorded = record(vec![json!({"tool": "t", "output": many})]).await;
    assert_eq!(
        recorded,
        RecordOutcome::Recorded {
            base_index: 2,
            count: 1
        }
    );
    let rule = "x".repeat(500);
    let too_big = json!({"policy_rejected": {"rule": rule}});
    let refused = record(vec![json!({"tool": "t"}), too_big]).await;
    assert_eq!(refused, RecordOutcome::Dropped(DropReason::TurnTooLarge));
    let refused = record(vec![json!({"tool": "t"}); 3]).await;
    assert_eq!(refused, RecordOutcome::Dropped(DropReason::RunTurnLimit));
    let recorded = record(vec![json!({"tool": "t"}); 2]).await;
    assert_eq!(
        recorded,
        RecordOutcome::Recorded {
            base_index: 3,
            count: 2
        }
    );

    let turns: Vec<Value> = fixture.records(&run).await[1..]
        .iter()
        .map(|record| serde_json::to_value(record).unwrap())
        .collect();
    let indexes: Vec<_> = turns
        .iter()
        .map(|turn| turn["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indexes, [0, 1, 2, 3, 4]);
    let cut = turns[1]["output"].as_str().unwrap();
    assert!(cut.ends_with("…[truncated]") && cut.len() <= 40, "{cut}");
    assert_eq!(turns[2]["output"], "[omitted: too large]");
    assert_eq!(turns[0]["verifier_verdict"], "not_run");
}

#[tokio::test]
async fn model_reply_is_recorded_as_a_turn() {
    let fixture = limited(RunLimits::default()).await;
    let caller = RunCaller::new();
    let run = fixture.start(&caller, "a").await;
    fixture.turn(&caller, &run).await;
    let reply = json!({"turn_index": 1, "assistant_text": "hi", "model_id": "m", "duration_ms": 5,
        "requested_tool_calls": [{"id": "c1", "name": "bash", "arguments": {}}], "token_usage": {"prompt_tokens": 11}});
    let reply = serde_json::from_value(reply).unwrap();
    let recorded = fixture
        .runs
        .record_model_turn(&caller, &run, reply)
        .await
        .unwrap();
    assert_eq!(
        recorded,
        RecordOutcome::Recorded {
            base_index: 1,
            count: 1
        }
    );
    let records = fixture.records(&run).await;
    assert!(
        matches!(&records[2], RunRecord::ModelTurn(turn) if turn.index == 1),
        "{records:?}"
    );
}

#[tokio::test]
async fn lists_and_traces_come_in_pages() {
    let fixture = limited(RunLimits {
        list_page: 4,
        trace_page: 4,
        ..RunLimits::default()
    })
    .await;
    let caller = RunCaller::new();
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(fixture.start(&caller, "a").await);
    }
    ids.reverse();
    let (mut seen, mut list) = (Vec::new(), ListRuns::default());
    loop {
        let page = fixture.runs.list(&caller, list.clone()).await.unwrap();
        assert!(page.runs.len() <= 4);
        seen.extend(page.runs.into_iter().map(|run| run.run_id));
        match page.next_cursor {
            Some(cursor) => list.cursor = cursor,
            None => break,
        }
    }
    assert_eq!(seen, ids);
    for limit in [0, 5] {
        let list = ListRuns {
            limit: Some(limit),
            ..ListRuns::default()
        };
        let refused = fixture.runs.list(&caller, list).await.unwrap_err();
        assert_eq!(refused.reason(), "invalid_params");
    }
    for _ in 0..6 {
        fixture.turn(&caller, &ids[0]).await;
    }
    let (mut records, mut cursor) = (Vec::new(), Some(0));
    while let Some(at) = cursor {
        let page = fixture
            .runs
            .trace(&caller, &ids[0], at, Some(3))
            .await
            .unwrap()
            .unwrap();
        records.extend(page.records);
        cursor = page.next_cursor;
    }
    assert_eq!(records, fixture.records(&ids[0]).await);
    let past = fixture
        .runs
        .trace(&caller, &ids[0], 99, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((past.records.len(), past.next_cursor), (0, None));
}

#[tokio::test]
async fn n07_ended_runs_leave_memory() {
    let fixture = limited(RunLimits::default()).await;
    let caller = RunCaller::new();
    for _ in 0..500 {
        let run = fixture.start(&caller, "a").await;
        fixture.turn(&caller, &run).await;
        fixture.complete(&caller, &run).await.unwrap();
        assert_eq!(fixture.runs.open_count(), 0);
    }
    assert_eq!(fixture.runs.current_run(&caller.client_id), None);
    fixture.runs.disconnect(&caller);
    assert_eq!(fixture.runs.next_deadline(), None);
}
