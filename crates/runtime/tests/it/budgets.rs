//! Budgets of turns, threads and days.

use std::sync::Arc;

use serde_json::json;
use windlass_core::budget::{Budget, Budgets, Reserve};
use windlass_core::events::EventData;
use windlass_core::llm_driver_registry::{LlmCompletionMetadata, LlmStreamEvent};
use windlass_core::message::InputMessage;
use windlass_core::tools::ToolExecutionResult;
use windlass_core::turn_request::TurnRequest;
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    Clock, DailyLimit, DayLimits, Journal, MemoryJournal, Replay, RuntimeBackends, SessionBuilder,
    SpendingLedger, StopReason, TurnResult,
};

use crate::durability::Life;
use crate::support::{Fixture, FnTool, Gate, ScriptedCall, Setup, TestClock, call, soon, tool};

/// Ends a call with this cost.
fn costing(call: ScriptedCall, usd: f64) -> ScriptedCall {
    call.say(LlmStreamEvent::Done(Box::new(LlmCompletionMetadata {
        prompt_tokens: Some(10),
        completion_tokens: Some(5),
        estimated_cost_usd: Some(usd),
        ..LlmCompletionMetadata::default()
    })))
}

/// A tool call with this cost.
fn working(n: usize, usd: f64) -> ScriptedCall {
    let calls = vec![call(&format!("c{n}"), "work", json!({}))];
    costing(
        ScriptedCall::new().say(LlmStreamEvent::ToolCalls(calls)),
        usd,
    )
}

fn work() -> FnTool {
    tool("work", |_, _| async {
        ToolExecutionResult::success("done")
    })
}

fn micro_usd(n: u64) -> Reserve {
    Reserve {
        tokens: 0,
        micro_usd: n,
    }
}

fn budget(micro_usd: u64) -> Budget {
    Budget {
        micro_usd: Some(micro_usd),
        ..Budget::default()
    }
}

fn is_over_budget(turn: &TurnResult) -> bool {
    turn.stop_reason == StopReason::Failed && turn.error_code.as_deref() == Some("budget_exceeded")
}

/// Returns the recorded cost of a session's model calls, in millionths of a US dollar.
async fn recorded(fixture: &Fixture) -> u64 {
    let events = fixture.events().await;
    let calls = events.iter().filter_map(|event| match &event.data {
        EventData::LlmGeneration(data) => data.metadata.usage,
        _ => None,
    });
    calls
        .filter_map(|usage| windlass_core::budget::cost(&usage))
        .sum()
}

/// A process on a journal that outlives it.
async fn process(
    journal: &Arc<MemoryJournal>,
    calls: Vec<ScriptedCall>,
    thread_micro_usd: u64,
) -> Fixture {
    Setup::new(calls)
        .tool(&work())
        .backends(RuntimeBackends::on_memory(journal))
        .session(|session| session.session_id(SessionId::from_seed(7)))
        .settings(|settings| {
            settings.budgets.thread = budget(thread_micro_usd);
            settings.reserve = micro_usd(1_000);
        })
        .build()
        .await
}

#[tokio::test]
async fn thread_stops_before_exceeding_its_budget_and_continues_after_a_raise() {
    let journal = Arc::new(MemoryJournal::new());
    let calls = || (0..9).map(|n| working(n, 0.02)).collect();
    let fixture = process(&journal, calls(), 50_000).await;
    let turn = fixture.run("go").await;
    assert!(is_over_budget(&turn), "{turn:?}");
    assert_eq!(fixture.model.calls(), 2);
    assert_eq!(recorded(&fixture).await, 40_000);
    // The budget is still exhausted, even for a small turn.
    assert!(is_over_budget(&fixture.run("a little more").await));
    assert_eq!(fixture.model.calls(), 2);
    fixture.assert_sound().await;
    drop(fixture);

    let raised = process(&journal, calls(), 90_000).await;
    assert!(is_over_budget(&raised.run("continue").await));
    assert_eq!(raised.model.calls(), 2);
    assert_eq!(recorded(&raised).await, 80_000);
    // It continues with the existing history: the model reads the earlier results.
    let sent = raised.model.sent(0);
    assert_eq!(
        sent.iter().filter(|said| said.starts_with("Tool")).count(),
        2
    );
    assert_eq!(sent.last().unwrap(), "User: continue");
    drop(raised);

    // Turns are replayed with the budget that they had, whatever the current one is.
    for today in [1_000, 60_000, 900_000] {
        let later = process(&journal, Vec::new(), today).await;
        let report = soon(Replay::of(&later.runtime, later.session).run()).await;
        let divergence = report.unwrap().divergence.map(|it| it.to_string());
        assert_eq!(divergence, None, "{today}");
    }
}

#[test]
fn sums_match_the_journal_after_a_crash_during_a_call() {
    let (journal, gate) = (Arc::new(MemoryJournal::new()), Gate::shut());
    let life = Life::new();
    life.run(async {
        let lost = ScriptedCall::new().text("lost").wait(&gate);
        let fixture = process(&journal, vec![working(0, 0.02), lost], 50_000).await;
        drop(fixture.runtime.submit(fixture.session, "go").await.unwrap());
        gate.reached(1).await;
    });
    drop(life);
    Life::new().run(async {
        // 0.02 is recorded, and the lost call counts as one like it: a third of the kind does not fit.
        let fixture = process(&journal, vec![working(1, 0.01)], 59_999).await;
        let turn = fixture.resume().await.expect("the turn is open");
        assert!(is_over_budget(&soon(turn.wait()).await.unwrap()));
        assert_eq!(fixture.model.calls(), 0);
        assert_eq!(recorded(&fixture).await, 20_000);
        fixture.assert_sound().await;
    });
    Life::new().run(async {
        let answer = costing(ScriptedCall::new().text("done"), 0.005);
        let fixture = process(&journal, vec![working(1, 0.01), answer], 60_000).await;
        assert!(fixture.run("continue").await.success);
        assert_eq!(recorded(&fixture).await, 35_000);
    });
}

#[tokio::test]
async fn turn_budget_can_only_lower_the_hosts_budget() {
    for (asked, calls) in [(30_000, 1), (500_000, 2)] {
        let fixture = Setup::new((0..9).map(|n| working(n, 0.02)))
            .tool(&work())
            .settings(|settings| settings.budgets.turn = budget(50_000))
            .build()
            .await;
        let request = TurnRequest {
            budgets: Some(Budgets {
                turn: budget(asked),
                thread: Budget::default(),
            }),
            ..TurnRequest::default()
        };
        let input = InputMessage::user("go").with_turn_request(request);
        let turn = soon(fixture.runtime.run_turn(fixture.session, input)).await;
        assert!(is_over_budget(&turn.unwrap()));
        assert_eq!(fixture.model.calls(), calls);
    }
}

fn limited(journal: &Arc<MemoryJournal>, usd: u64) -> RuntimeBackends {
    let limits = DayLimits {
        micro_usd: Some(usd),
        ..DayLimits::default()
    };
    let limit = DailyLimit::new(limits, journal.ledger());
    RuntimeBackends::on_memory(journal).with_daily_limit(limit)
}

/// Returns today's settled and reserved amounts, in millionths of a US dollar.
async fn spent_today(journal: &MemoryJournal, clock: &TestClock) -> (u64, u64) {
    let spending = journal.ledger().spending(clock.now().date_naive()).await;
    let spending = spending.unwrap().into_iter();
    spending.fold((0, 0), |(settled, reserved), owner| {
        let of_owner = (owner.settled.micro_usd, owner.reserved.micro_usd);
        (settled + of_owner.0, reserved + of_owner.1)
    })
}

#[tokio::test]
async fn twenty_concurrent_sessions_share_the_daily_limit() {
    const RESERVE: u64 = 30_000;
    let journal = Arc::new(MemoryJournal::new());
    let clock = TestClock::default();
    let backends = limited(&journal, 1_000_000);
    // Every call costs slightly more than was reserved for the first ones.
    let mut setup = Setup::new((0..500).map(|n| working(n, 0.031)))
        .tool(&work())
        .backends(backends)
        .settings(|settings| settings.reserve = micro_usd(RESERVE));
    setup.clock = clock.clone();
    let fixture = setup.build().await;
    let first = fixture.runtime.session(fixture.session).await.unwrap();
    let mut sessions = vec![fixture.session];
    for _ in 1..20 {
        let session = SessionBuilder::new(first.harness_id).build();
        let session = windlass_core::session::Session {
            agent_id: first.agent_id,
            capabilities: first.capabilities.clone(),
            ..session
        };
        sessions.push(session.id);
        fixture.runtime.add_session(session).await.unwrap();
    }
    let turns: Vec<_> = sessions
        .iter()
        .map(|session| {
            let (runtime, session) = (fixture.runtime.clone(), *session);
            tokio::spawn(async move { runtime.run_text_turn(session, "go").await })
        })
        .collect();
    for turn in turns {
        let turn = soon(turn).await.unwrap().unwrap();
        assert!(is_over_budget(&turn), "{turn:?}");
    }
    let mut spent = 0;
    for session in sessions {
        let of_session = Fixture {
            session,
            ..fixture.clone()
        };
        spent += recorded(&of_session).await;
    }
    assert_eq!(spent_today(&journal, &clock).await, (spent, 0));
    assert_eq!(
        spent,
        31_000 * u64::try_from(fixture.model.calls()).unwrap()
    );
    assert!(spent > 1_000_000 - 2 * RESERVE, "{spent} is too little");
    assert!(spent <= 1_000_000 + RESERVE, "{spent} is too much");
}

#[tokio::test]
async fn usage_and_unfinished_calls_of_a_previous_process_count_for_the_day() {
    let journal = Arc::new(MemoryJournal::new());
    let clock = TestClock::default();
    let gate = Gate::shut();
    let calls = vec![
        costing(ScriptedCall::new().text("one"), 0.1),
        working(1, 0.2),
        ScriptedCall::new().text("lost").wait(&gate),
    ];
    let backends = limited(&journal, 1_000_000);
    let mut setup = Setup::new(calls).tool(&work()).backends(backends);
    setup.settings.reserve = micro_usd(1_000);
    setup.clock = clock.clone();
    let first = setup.build().await;
    assert!(first.run("first").await.success);
    let turn = first.start("second");
    gate.reached(1).await;
    // As much is reserved for the open call as the one before it has used. It stays charged if its process is gone.
    assert_eq!(spent_today(&journal, &clock).await, (300_000, 200_000));
    assert_eq!(recorded(&first).await, 300_000);
    assert!(journal.open(None, 9).await.unwrap().len() == 1);
    turn.abort();
    // The next day has a new budget.
    clock.advance(std::time::Duration::from_secs(48 * 3600));
    assert_eq!(spent_today(&journal, &clock).await, (0, 0));
}

#[tokio::test]
async fn call_ending_after_midnight_counts_for_the_new_day() {
    let journal = Arc::new(MemoryJournal::new());
    let (clock, gate) = (TestClock::default(), Gate::shut());
    let second = std::time::Duration::from_secs(1);
    let tomorrow = (clock.now() + chrono::Days::new(1)).date_naive();
    let midnight = tomorrow.and_time(chrono::NaiveTime::MIN).and_utc();
    clock.advance((midnight - clock.now()).to_std().unwrap() - second);
    let calls = vec![
        costing(ScriptedCall::new().text("late").wait(&gate), 0.1),
        costing(ScriptedCall::new().text("early"), 0.2),
    ];
    let backends = limited(&journal, 1_000_000);
    let mut setup = Setup::new(calls).backends(backends);
    setup.settings.reserve = micro_usd(1_000);
    setup.clock = clock.clone();
    let fixture = setup.build().await;
    let turn = fixture.start("first");
    gate.reached(1).await;
    clock.advance(2 * second);
    gate.open();
    assert!(soon(turn).await.unwrap().unwrap().success);
    assert!(fixture.run("second").await.success);
    assert_eq!(spent_today(&journal, &clock).await, (300_000, 0));
}

#[tokio::test]
async fn a_used_up_day_names_the_time_at_which_it_renews() {
    let journal = Arc::new(MemoryJournal::new());
    let clock = TestClock::default();
    let backends = limited(&journal, 100_000);
    let mut setup = Setup::new([costing(ScriptedCall::new().text("all"), 0.1)]).backends(backends);
    setup.settings.reserve = micro_usd(1_000);
    setup.clock = clock.clone();
    let fixture = setup.build().await;
    let refusal = async || fixture.runtime.day_budget_refusal(None).await.unwrap();
    assert_eq!(refusal().await, None);
    assert!(fixture.run("go").await.success);
    let refused = refusal().await.unwrap();
    let tomorrow = (clock.now() + chrono::Days::new(1)).date_naive();
    let midnight = tomorrow.and_time(chrono::NaiveTime::MIN).and_utc();
    assert_eq!((refused.name, refused.renews_at), ("day_usd", midnight));
    assert!(is_over_budget(&fixture.run("more").await));
    let ended_at = clock.now();
    clock.advance((midnight - ended_at).to_std().unwrap());
    assert_eq!(refusal().await, None);
    // The refusal of a turn that ended before midnight is still known afterwards.
    let earlier = fixture.runtime.day_budget_refusal_at(None, ended_at).await;
    assert_eq!(earlier.unwrap().unwrap().renews_at, midnight);
}

#[tokio::test]
async fn removed_session_refunds_nothing() {
    let journal = Arc::new(MemoryJournal::new());
    let clock = TestClock::default();
    let mut setup = Setup::new([costing(ScriptedCall::new().text("all"), 0.1)]);
    setup = setup.backends(limited(&journal, 100_000));
    setup.settings.reserve = micro_usd(1_000);
    setup.clock = clock.clone();
    let fixture = setup.build().await;
    assert!(fixture.run("go").await.success);
    fixture
        .runtime
        .remove_session(fixture.session)
        .await
        .unwrap();
    assert_eq!(spent_today(&journal, &clock).await, (100_000, 0));
    let refused = fixture.runtime.day_budget_refusal(None).await.unwrap();
    assert_eq!(refused.map(|refusal| refusal.name), Some("day_usd"));
}
