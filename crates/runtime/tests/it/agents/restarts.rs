//! An agent's turn across several processes.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::events::{EventData, ToolStatus};
use windlass_runtime::{Clock, MemoryJournal, StopReason, TurnResult};

use super::fake::{AgentScript, Fake};
use super::{count, failure, life, recorded, run, submit, transcript};
use crate::support::{Fixture, Gate, Setup, SpyJournal, TestClock, soon};

/// Leaves a turn behind in which the agent got as far as the script.
async fn left_behind(journal: &Arc<MemoryJournal>, script: AgentScript, until: &str) -> Fixture {
    let gate = Gate::shut();
    let fake = Fake::new([script.wait(&gate)]);
    let first = life(journal, &fake, Setup::new([])).await;
    drop(submit(&first, "go").await);
    gate.reached(1).await;
    recorded(&first, until).await;
    first
}

#[tokio::test]
async fn turn_is_resumed_from_every_stage() {
    let stages = [
        (
            AgentScript::default().silent(),
            "backend.session_chosen",
            "new s1",
            "go",
        ),
        // It has its session, and there is no evidence that it received the prompt.
        (
            AgentScript::default(),
            "backend.session_chosen",
            "new s1",
            "go",
        ),
        (
            AgentScript::says("half"),
            "output.message.delta",
            "resume s1",
            "You were stopped",
        ),
        (
            AgentScript::default().call("a"),
            "tool.started",
            "resume s1",
            "You were stopped",
        ),
        (
            AgentScript::default().call("a").done("a"),
            "tool.completed",
            "resume s1",
            "You were stopped",
        ),
    ];
    for (script, until, session, prompt) in stages {
        let journal = Arc::new(MemoryJournal::new());
        let first = left_behind(&journal, script, until).await;
        let fake = Fake::new([AgentScript::says("whole")]);
        let next = life(&journal, &fake, Setup::new([])).await;
        let turn = soon(next.resume().await.unwrap().wait()).await.unwrap();
        assert_eq!(turn.response, "whole", "{until}");
        assert_eq!(fake.opened(), [session], "{until}");
        assert!(
            fake.prompts()[0].starts_with(prompt),
            "{until}: {:?}",
            fake.prompts()
        );
        let repeated = usize::from(until == "backend.session_chosen");
        assert_eq!(count(&next, "backend.notice").await, repeated, "{until}");
        next.assert_sound().await;
        drop(first);
    }
}

#[tokio::test]
async fn unconfirmed_prompt_is_sent_again() {
    let journal = Arc::new(MemoryJournal::new());
    let gate = Gate::shut();
    let fake = Fake::new([AgentScript::says("one"), AgentScript::default().wait(&gate)]);
    let first = life(&journal, &fake, Setup::new([])).await;
    run(&first, "1").await;
    drop(submit(&first, "2").await);
    gate.reached(1).await;

    let fake = Fake::new([AgentScript::says("two")]);
    let next = life(&journal, &fake, Setup::new([])).await;
    let turn = soon(next.resume().await.unwrap().wait()).await.unwrap();
    assert_eq!(turn.response, "two");
    assert_eq!(fake.opened(), ["resume s1"]);
    assert_eq!(fake.prompts(), ["2"]);
    assert_eq!(count(&next, "backend.notice").await, 1);
    next.assert_sound().await;
}

#[tokio::test]
async fn open_call_of_a_crashed_process_has_an_unknown_outcome() {
    let journal = Arc::new(MemoryJournal::new());
    let _first = left_behind(
        &journal,
        AgentScript::says("I look").call("a"),
        "tool.started",
    )
    .await;
    let fake = Fake::new([AgentScript::says("whole")]);
    let next = life(&journal, &fake, Setup::new([])).await;
    soon(next.resume().await.unwrap().wait()).await.unwrap();
    let events = next.events().await;
    let statuses = events.iter().filter_map(|event| match &event.data {
        EventData::ToolCompleted(data) => Some(data.status),
        _ => None,
    });
    assert_eq!(statuses.collect::<Vec<_>>(), [ToolStatus::Unknown]);
    assert_eq!(
        transcript(&next).await,
        ["user go", "agent I look [a]", "tool_result", "agent whole"]
    );
}

#[tokio::test]
async fn three_crashes_in_a_row_fail_the_turn() {
    let journal = Arc::new(MemoryJournal::new());
    let mut lives = vec![left_behind(&journal, AgentScript::default(), "backend.started").await];
    for _ in 0..2 {
        let gate = Gate::shut();
        let fake = Fake::new([AgentScript::default().wait(&gate)]);
        let next = life(&journal, &fake, Setup::new([])).await;
        drop(next.resume().await.unwrap());
        gate.reached(1).await;
        lives.push(next);
    }
    let last = life(&journal, &Fake::new([]), Setup::new([])).await;
    let turn = soon(last.resume().await.unwrap().wait()).await.unwrap();
    assert!(!turn.success);
    assert_eq!(failure(&last).await.as_deref(), Some("crashed"));
    last.assert_sound().await;
}

#[tokio::test]
async fn orderly_stop_is_no_crash_and_ends_the_process() {
    let journal = Arc::new(MemoryJournal::new());
    for n in 0..4 {
        let gate = Gate::shut();
        let fake = Fake::new([AgentScript::says("half").wait(&gate)]);
        let next = life(&journal, &fake, Setup::new([])).await;
        match n {
            0 => drop(submit(&next, "go").await),
            _ => drop(next.resume().await.unwrap()),
        }
        gate.reached(1).await;
        recorded(&next, "output.message.delta").await;
        next.runtime.shutdown(Duration::ZERO).await;
        assert_eq!(
            *fake.processes.borrow(),
            0,
            "no process outlives its runtime"
        );
    }
    let fake = Fake::new([AgentScript::says("whole")]);
    let last = life(&journal, &fake, Setup::new([])).await;
    let turn = soon(last.resume().await.unwrap().wait()).await.unwrap();
    assert_eq!(turn.response, "whole");
}

#[tokio::test]
async fn approval_survives_a_restart_and_applies_to_the_repeated_request() {
    let journal = Arc::new(MemoryJournal::new());
    let first = Fake::new([AgentScript::default().call("a").ask("r1", "a")]);
    let before = life(&journal, &first, Setup::new([])).await;
    assert_eq!(
        run(&before, "go").await.stop_reason,
        StopReason::WaitingForApproval
    );

    let fake = Fake::new([AgentScript::default()
        .call("b")
        .ask("r2", "b")
        .done("b")
        .text("done")]);
    let next = life(&journal, &fake, Setup::new([])).await;
    drop(next.resume().await.unwrap());
    assert!(
        fake.opened().is_empty(),
        "nothing runs while an approval is pending"
    );
    let decided = next
        .runtime
        .decide_tool_call(next.session, "a", true)
        .await
        .unwrap();
    assert_eq!(soon(decided.wait()).await.unwrap().response, "done");
    assert_eq!(fake.opened(), ["resume s1"]);
    assert_eq!(*fake.answers.lock().unwrap(), [("r2".to_owned(), true)]);
    next.assert_sound().await;
}

/// Asks for a call, is killed, gets this decision, and is resumed with this script.
async fn decided_after_a_kill(is_allowed: bool, resumed: AgentScript) -> (Arc<Fake>, TurnResult) {
    let journal = Arc::new(MemoryJournal::new());
    let first = Fake::new([AgentScript::default().call("a").ask("r1", "a")]);
    let before = life(&journal, &first, Setup::new([])).await;
    run(&before, "go").await;
    let fake = Fake::new([resumed]);
    let next = life(&journal, &fake, Setup::new([])).await;
    drop(next.resume().await.unwrap());
    let decided = next
        .runtime
        .decide_tool_call(next.session, "a", is_allowed)
        .await
        .unwrap();
    let turn = soon(decided.wait()).await.unwrap();
    (fake, turn)
}

#[tokio::test]
async fn resumed_agent_receives_the_decision_on_its_lost_call() {
    for (is_allowed, decision) in [(true, "approved"), (false, "refused")] {
        let (fake, turn) = decided_after_a_kill(is_allowed, AgentScript::says("done")).await;
        assert_eq!(turn.response, "done");
        let prompts = fake.prompts();
        let prompt: Vec<&str> = prompts[0]
            .lines()
            .filter(|line| line.contains("Bash"))
            .collect();
        let [line] = prompt[..] else {
            panic!("{}", prompts[0])
        };
        assert!(line.contains(decision), "{line}");
        assert!(line.contains(r#"{"command":"ls"}"#), "{line}");
    }
}

#[tokio::test]
async fn approval_of_a_lost_call_applies_to_one_equal_call() {
    let resumed = AgentScript::default()
        .call("b")
        .ask("r2", "b")
        .done("b")
        .call("c")
        .ask("r3", "c");
    let (fake, turn) = decided_after_a_kill(true, resumed).await;
    assert_eq!(turn.stop_reason, StopReason::WaitingForApproval);
    assert_eq!(*fake.answers.lock().unwrap(), [("r2".to_owned(), true)]);
}

#[tokio::test]
async fn rate_limit_wait_survives_a_restart() {
    let journal = Arc::new(MemoryJournal::new());
    let clock = TestClock::default();
    let setup = || {
        let mut setup = Setup::new([]);
        setup.clock = clock.clone();
        setup
    };
    let until = clock.now() + chrono::Duration::seconds(60);
    let first = Fake::new([AgentScript::limited(Some(until))]);
    let before = life(&journal, &first, setup()).await;
    drop(submit(&before, "go").await);
    recorded(&before, "backend.waiting").await;
    before.runtime.shutdown(Duration::ZERO).await;

    let fake = Fake::new([AgentScript::says("at last")]);
    let next = life(&journal, &fake, setup()).await;
    let handle = next.resume().await.unwrap();
    clock.advance(Duration::from_secs(30));
    tokio::task::yield_now().await;
    assert!(fake.opened().is_empty());
    clock.advance(Duration::from_secs(31));
    assert_eq!(soon(handle.wait()).await.unwrap().response, "at last");
    assert_eq!(fake.opened(), ["resume s1"]);
    next.assert_sound().await;
}

#[tokio::test]
async fn temporary_journal_failure_loses_neither_turn_nor_process() {
    let journal = SpyJournal::new(MemoryJournal::new());
    let (gate, stuck) = (Gate::shut(), Gate::shut());
    let first = AgentScript::default().call("x").done("x");
    let first = first.wait(&gate).call("a").wait(&stuck);
    let fake = Fake::new([first, AgentScript::says("whole")]);
    let fixture = life(&journal, &fake, Setup::new([])).await;
    drop(submit(&fixture, "go").await);
    gate.reached(1).await;
    recorded(&fixture, "tool.completed").await;
    // There is no room for the call.
    journal.fail_after(0);
    gate.open();
    let pause = Duration::from_secs(5);
    fixture.clock.asleep_for(pause).await;
    fixture.clock.advance(pause);
    recorded(&fixture, "turn.completed").await;
    assert_eq!(
        transcript(&fixture).await,
        ["user go", "agent  [x]", "tool_result", "agent whole"]
    );
    assert_eq!(fake.opened(), ["new s1"]);
    assert!(fake.prompts()[1].starts_with("You were stopped"));
    fixture.assert_sound().await;
}
