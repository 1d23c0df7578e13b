//! Limits of reported data, and that ended runs occupy no memory.

use serde_json::{Value, json};
use windlass_core::runs::RunRecord;
use windlass_runs::{Caller, Dropped, ListRuns, Reads, Recorded, RunLimits, RunSettings};

use crate::support::{World, turn};

async fn limited(limits: RunLimits) -> World {
    World::new(RunSettings {
        limits,
        reads: Reads::Open,
        ..RunSettings::default()
    })
    .await
}

#[tokio::test]
async fn too_much_is_refused_with_its_limit() {
    let world = limited(RunLimits {
        intent_bytes: 10,
        agent_bytes: 5,
        open_runs: 2,
        ..RunLimits::default()
    })
    .await;
    let caller = Caller::new();
    for (start, said) in [
        (json!({"intent": "12345678901", "agent_id": "a"}), "10"),
        (json!({"intent": "i", "agent_id": "123456"}), "5"),
        (
            json!({"intent": "i", "agent_id": "a", "outcome_description": "12345678901"}),
            "10",
        ),
    ] {
        let refused = world.try_start(&caller, start).await.unwrap_err();
        assert_eq!(refused.reason(), "limit");
        assert!(refused.to_string().contains(said), "{refused}");
    }
    let blank = world
        .try_start(&caller, json!({"intent": " \n", "agent_id": "a"}))
        .await;
    assert_eq!(
        blank.unwrap_err().to_string(),
        "runs.start requires a non-empty `intent`"
    );
    let first = world.start(&caller, "a").await;
    world.start(&caller, "a").await;
    let full = world
        .try_start(&caller, json!({"intent": "i", "agent_id": "a"}))
        .await;
    assert_eq!(full.unwrap_err().reason(), "limit");
    world.start(&Caller::new(), "a").await;
    world.complete(&caller, &first).await.unwrap();
    world.start(&caller, "a").await;
}

#[tokio::test]
async fn turns_are_all_kept_or_none() {
    let world = limited(RunLimits {
        turns_per_call: 3,
        turns_per_run: 5,
        text_bytes: 40,
        turn_bytes: 400,
        ..RunLimits::default()
    })
    .await;
    let caller = Caller::new();
    let run = world.start(&caller, "a").await;
    for count in [0, 4] {
        let turns = vec![turn("t"); count];
        let refused = world.runs.record_turns(&caller, &run, turns).await;
        assert_eq!(refused.unwrap_err().reason(), "invalid_params");
    }
    let record = async |turns: Vec<Value>| {
        let turns = turns
            .into_iter()
            .map(|turn| serde_json::from_value(turn).unwrap());
        world
            .runs
            .record_turns(&caller, &run, turns.collect())
            .await
            .unwrap()
    };
    let kept = record(vec![
        json!({"index": 77, "tool": "t"}),
        json!({"output": "ä".repeat(100)}),
    ])
    .await;
    assert_eq!(
        kept,
        Recorded::Kept {
            base_index: 0,
            count: 2
        }
    );
    let many = json!((0..200).collect::<Vec<_>>());
    let kept = record(vec![json!({"tool": "t", "output": many})]).await;
    assert_eq!(
        kept,
        Recorded::Kept {
            base_index: 2,
            count: 1
        }
    );
    let rule = "x".repeat(500);
    let too_big = json!({"policy_rejected": {"rule": rule}});
    let refused = record(vec![json!({"tool": "t"}), too_big]).await;
    assert_eq!(refused, Recorded::Dropped(Dropped::TurnTooLarge));
    let refused = record(vec![json!({"tool": "t"}); 3]).await;
    assert_eq!(refused, Recorded::Dropped(Dropped::RunTurnLimit));
    let kept = record(vec![json!({"tool": "t"}); 2]).await;
    assert_eq!(
        kept,
        Recorded::Kept {
            base_index: 3,
            count: 2
        }
    );

    let turns: Vec<Value> = world.records(&run).await[1..]
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
async fn a_reply_of_a_model_is_a_turn() {
    let world = limited(RunLimits::default()).await;
    let caller = Caller::new();
    let run = world.start(&caller, "a").await;
    world.turn(&caller, &run).await;
    let reply = json!({"turn_index": 1, "assistant_text": "hi", "model_id": "m", "duration_ms": 5,
        "requested_tool_calls": [{"id": "c1", "name": "bash", "arguments": {}}], "token_usage": {"prompt_tokens": 11}});
    let reply = serde_json::from_value(reply).unwrap();
    let kept = world
        .runs
        .record_model_turn(&caller, &run, reply)
        .await
        .unwrap();
    assert_eq!(
        kept,
        Recorded::Kept {
            base_index: 1,
            count: 1
        }
    );
    let records = world.records(&run).await;
    assert!(
        matches!(&records[2], RunRecord::ModelTurn(turn) if turn.index == 1),
        "{records:?}"
    );
}

#[tokio::test]
async fn lists_and_traces_come_in_pages() {
    let world = limited(RunLimits {
        list_page: 4,
        trace_page: 4,
        ..RunLimits::default()
    })
    .await;
    let caller = Caller::new();
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(world.start(&caller, "a").await);
    }
    ids.reverse();
    let (mut seen, mut list) = (Vec::new(), ListRuns::default());
    loop {
        let page = world.runs.list(&caller, list.clone()).await.unwrap();
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
        let refused = world.runs.list(&caller, list).await.unwrap_err();
        assert_eq!(refused.reason(), "invalid_params");
    }
    for _ in 0..6 {
        world.turn(&caller, &ids[0]).await;
    }
    let (mut records, mut cursor) = (Vec::new(), Some(0));
    while let Some(at) = cursor {
        let page = world
            .runs
            .trace(&caller, &ids[0], at, Some(3))
            .await
            .unwrap()
            .unwrap();
        records.extend(page.records);
        cursor = page.next_cursor;
    }
    assert_eq!(records, world.records(&ids[0]).await);
    let past = world
        .runs
        .trace(&caller, &ids[0], 99, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((past.records.len(), past.next_cursor), (0, None));
}

#[tokio::test]
async fn n07_what_has_ended_leaves_memory() {
    let world = limited(RunLimits::default()).await;
    let caller = Caller::new();
    for _ in 0..500 {
        let run = world.start(&caller, "a").await;
        world.turn(&caller, &run).await;
        world.complete(&caller, &run).await.unwrap();
        assert_eq!(world.runs.open_count(), 0);
    }
    assert_eq!(world.runs.current_run(&caller.client_id), None);
    world.runs.disconnect(&caller);
    assert_eq!(world.runs.next_deadline(), None);
}
