//! The shared budget of a turn and its subagents.

use serde_json::json;
use windlass_core::budget::{Budget, Reserve};
use windlass_core::tools::ToolExecutionResult;
use windlass_runtime::{StopReason, TurnResult};

use super::*;
use crate::durability::Life;
use crate::support::{FnTool, Gate, tool};

const RESERVE: u64 = 30_000;
/// Slightly more than is reserved for a first call.
const PRICE: u64 = 31_000;
const LIMIT: u64 = 1_000_000;
const AGENTS: usize = 20;

fn work() -> FnTool {
    tool("work", |_, _| async {
        ToolExecutionResult::success("done")
    })
}

fn working(n: usize) -> ScriptedCall {
    let calls = vec![call(&format!("c{n}"), "work", json!({}))];
    costing(
        ScriptedCall::new().say(LlmStreamEvent::ToolCalls(calls)),
        0.031,
    )
}

fn limited(setup: Setup) -> Setup {
    setup.tool(&work()).settings(|settings| {
        settings.budgets.turn = Budget {
            micro_usd: Some(LIMIT),
            ..Budget::default()
        };
        settings.reserve = Reserve {
            tokens: 0,
            micro_usd: RESERVE,
        };
    })
}

fn many() -> SubagentSettings {
    SubagentSettings {
        at_once: AGENTS,
        per_turn: AGENTS,
        ..SubagentSettings::default()
    }
}

/// A turn that starts twenty subagents, each of which would work forever.
fn script(model: &ScriptedModel) {
    start_agents(model);
    for n in 0..AGENTS {
        work_on(model, n);
    }
}

/// The same, but each agent comes to a call that takes long: some with their first, the others with their second.
fn script_with_gate(model: &ScriptedModel, gate: &Gate, slow: usize) {
    start_agents(model);
    for n in 0..AGENTS {
        let agent = format!("agent {n}");
        if n >= slow {
            model.when(&agent, working(60));
        }
        model.when(&agent, ScriptedCall::new().wait(gate));
        work_on(model, n);
    }
}

fn start_agents(model: &ScriptedModel) {
    let agents = (0..AGENTS).map(|n| spawn(&n.to_string(), &format!("agent {n}")));
    let calls = LlmStreamEvent::ToolCalls(agents.collect());
    model.when("go", costing(ScriptedCall::new().say(calls), 0.031));
}

fn work_on(model: &ScriptedModel, n: usize) {
    for m in 0..60 {
        model.when(&format!("agent {n}"), working(m));
    }
}

fn is_over_budget(turn: &TurnResult) -> bool {
    turn.stop_reason == StopReason::Failed && turn.error_code.as_deref() == Some("budget_exceeded")
}

/// Totals from the journals of a tree: completed calls, their cost, and the number of calls that were cut off.
async fn spent(fixture: &Fixture) -> (u64, u64, u64) {
    let (mut calls, mut cost, mut cut_off) = (0, 0, 0);
    let mut next = vec![ROOT];
    while let Some(session) = next.pop() {
        for event in events_of(fixture, session).await {
            let EventData::LlmGeneration(data) = &event.data else {
                continue;
            };
            match &data.metadata.usage {
                Some(usage) => {
                    calls += 1;
                    cost += windlass_core::budget::cost(usage).unwrap();
                }
                None => cut_off += u64::from(data.metadata.provider.is_none()),
            }
        }
        next.extend(children(fixture, session).await);
    }
    (calls, cost, cut_off)
}

#[tokio::test]
async fn twenty_concurrent_subagents_share_their_turns_budget() {
    let fixture = process(limited(Setup::new([])), many()).await;
    script(&fixture.model);
    let turn = fixture.run("go").await;
    assert!(is_over_budget(&turn), "{turn:?}");
    assert_eq!(children(&fixture, ROOT).await.len(), AGENTS);
    let (calls, cost, cut_off) = spent(&fixture).await;
    assert_eq!((cost, cut_off), (calls * PRICE, 0));
    assert_eq!(fixture.model.calls() as u64, calls);
    assert!(cost <= LIMIT + RESERVE, "{cost} is too much");
    assert!(cost > LIMIT - 2 * PRICE, "{cost} is too little");
    // Every subagent reports why it stopped.
    for result in results(&fixture, ROOT).await {
        let error = result["error"].as_str().unwrap();
        assert!(error.contains("turn_usd"), "{error}");
    }
    // The next turn has its own budget.
    fixture
        .model
        .when("go", costing(ScriptedCall::new().text("more"), 0.031));
    assert!(fixture.run("continue").await.success);
}

#[cfg(feature = "sqlite")]
#[test]
fn crash_among_twenty_subagents_leaves_the_budget_exact() {
    use windlass_runtime::{SqliteOptions, SqliteStore};
    let directory = tempfile::tempdir().unwrap();
    let (model, gate) = (ScriptedModel::default(), Gate::shut());
    // All wait when the process dies, so that it never dies behind the end: 26 calls of the 32 that the limit allows.
    script_with_gate(&model, &gate, 15);
    // The disk outlives every process.
    let machine = Life::new();
    let options = SqliteOptions::new(directory.path().join("data"));
    let store = machine.run(SqliteStore::open(options)).unwrap();
    let start = async || {
        let backends = RuntimeBackends::on_sqlite(&store);
        let setup = limited(Setup::of(&model)).backends(backends);
        process(setup, many()).await
    };
    let life = Life::new();
    let before = life.run(async {
        let fixture = start().await;
        drop(fixture.runtime.submit(ROOT, "go").await.unwrap());
        gate.reached(AGENTS).await;
        fixture.model.calls()
    });
    drop(life);
    Life::new().run(async {
        let fixture = start().await;
        let turns = soon(fixture.runtime.resume_open_turns()).await.unwrap();
        for turn in turns {
            let turn = soon(turn.wait()).await.unwrap();
            assert!(is_over_budget(&turn), "{turn:?}");
        }
        assert!(fixture.model.calls() > before, "nothing continued");
        assert_eq!(children(&fixture, ROOT).await.len(), AGENTS);
        let (calls, cost, cut_off) = spent(&fixture).await;
        assert_eq!(cost, calls * PRICE);
        assert!(cut_off >= AGENTS as u64, "{cut_off}");
        // An interrupted call is charged as reserved, which is the price of the previous call.
        let counted = cost + cut_off * PRICE;
        assert!(cost <= LIMIT + RESERVE, "{cost} is too much");
        assert!(
            cost + cut_off * RESERVE <= LIMIT + RESERVE,
            "{cost} {cut_off}"
        );
        assert!(counted > LIMIT - 2 * PRICE, "{counted} is too little");
        // The read model has the same total.
        let queries = fixture.runtime.queries().unwrap();
        let usage = queries.usage(windlass_store::queries::UsageQuery {
            since: None,
            until: None,
            by: windlass_store::queries::UsageBy::Thread,
        });
        let total = usage.await.unwrap().total.cost_usd;
        assert_eq!(windlass_core::budget::micro_usd(total), cost);
    });
    machine.run(store.close());
}

#[tokio::test]
async fn thread_budget_includes_subagents_of_earlier_turns() {
    let fixture = process(
        limited(Setup::new([])).settings(|settings| {
            settings.budgets.thread.micro_usd = Some(100_000);
            settings.reserve.micro_usd = 1_000;
        }),
        SubagentSettings::default(),
    )
    .await;
    let spawning = LlmStreamEvent::ToolCalls(vec![spawn("1", "agent")]);
    fixture
        .model
        .when("go", costing(ScriptedCall::new().say(spawning), 0.02));
    fixture
        .model
        .when("agent", costing(ScriptedCall::new().text("dear"), 0.05));
    fixture
        .model
        .when("go", costing(ScriptedCall::new().text("done"), 0.02));
    assert!(fixture.run("go").await.success);
    // 0.09 are used, and the next call may use 0.02.
    let turn = fixture.run("more").await;
    assert!(is_over_budget(&turn), "{turn:?}");
    assert_eq!(fixture.model.calls(), 3);
}

#[tokio::test]
async fn subagents_share_model_calls_and_tool_calls() {
    let setup = Setup::new([]).tool(&work()).settings(|settings| {
        settings.budgets.turn = Budget {
            tool_calls: Some(4),
            model_calls: Some(9),
            ..Budget::default()
        };
    });
    let fixture = process(setup, SubagentSettings::default()).await;
    let calls = vec![spawn("1", "agent 1"), spawn("2", "agent 2")];
    fixture.model.when("go", ScriptedCall::tools(calls));
    for name in ["agent 1", "agent 2"] {
        for n in 0..9 {
            let calls = vec![call(&format!("c{n}"), "work", json!({}))];
            fixture.model.when(name, ScriptedCall::tools(calls));
        }
    }
    let turn = fixture.run("go").await;
    assert!(is_over_budget(&turn), "{turn:?}");
    assert_eq!(fixture.model.calls(), 9);
    let mut done = 0;
    for child in children(&fixture, ROOT).await {
        let results = results(&fixture, child).await;
        done += results.iter().filter(|result| *result == "done").count();
    }
    // The two that started agents count.
    assert_eq!(done, 2);
}

#[tokio::test]
async fn usage_of_a_turn_without_subagents_counts_for_the_thread() {
    use windlass_core::budget::Budgets;
    use windlass_core::message::InputMessage;
    let setup = Setup::new([]).settings(|settings| settings.reserve.micro_usd = 1_000);
    let fixture = process(setup, SubagentSettings::default()).await;
    let limited = TurnRequest {
        budgets: Some(Budgets {
            thread: Budget {
                micro_usd: Some(100_000),
                ..Budget::default()
            },
            ..Budgets::default()
        }),
        ..TurnRequest::default()
    };
    let free = TurnRequest {
        disallowed_tools: vec!["spawn_agent".to_owned()],
        ..TurnRequest::default()
    };
    let spawning = LlmStreamEvent::ToolCalls(vec![spawn("1", "agent")]);
    let calls = [
        costing(ScriptedCall::new().text("first"), 0.01),
        costing(ScriptedCall::new().text("second"), 0.06),
        costing(ScriptedCall::new().say(spawning), 0.01),
    ];
    calls
        .into_iter()
        .for_each(|call| fixture.model.when("1", call));
    for n in 0..9 {
        let calls = vec![call(&format!("c{n}"), "unknown", json!({}))];
        let again = ScriptedCall::new().say(LlmStreamEvent::ToolCalls(calls));
        fixture.model.when("agent", costing(again, 0.01));
    }
    let mut turns = Vec::new();
    for (text, request) in [("1", limited.clone()), ("2", free), ("3", limited)] {
        let input = InputMessage::user(text).with_turn_request(request);
        turns.push(soon(fixture.runtime.run_turn(ROOT, input)).await.unwrap());
    }
    assert!(turns[0].success && turns[1].success, "{turns:?}");
    assert!(is_over_budget(&turns[2]), "{:?}", turns[2]);
    let (_, cost, _) = spent(&fixture).await;
    assert!(cost <= 101_000, "{cost} is too much");
}
