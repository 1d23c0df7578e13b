//! Processes that end while subagents work.

use super::*;
use crate::durability::Life;
use crate::support::Gate;

/// The prompt that a model writes for a subagent after it has read the mask of a secret.
const TWO: &str = "two, with [secret:TOKEN]";

/// Two subagents, one of which starts a third. The model's answers depend on its input.
fn script(model: &ScriptedModel) {
    model.answer_by(|request| {
        let mut said = request.history.iter();
        let first = said.next().and_then(|first| first.text());
        let results = said.filter(|message| message.tool_call_id().is_some());
        match (first.unwrap_or_default(), results.count()) {
            ("go", 0) => ScriptedCall::tools(vec![spawn("1", "one"), spawn("2", TWO)]),
            ("go", _) => ScriptedCall::answer("done"),
            ("one", 0) => ScriptedCall::tools(vec![spawn("3", "three")]),
            (name, _) => ScriptedCall::answer(&format!("I am {name}")),
        }
    });
}

/// Number of records of a type.
async fn count(fixture: &Fixture, session: SessionId, kind: &str) -> usize {
    let events = events_of(fixture, session).await;
    let meant = events.iter().filter(|event| event.event_type == kind);
    meant.count()
}

#[test]
fn crash_at_any_commit_starts_no_subagent_twice() {
    let mut moments = 0;
    'moments: for appends in 0.. {
        for is_stored in [false, true] {
            let disk = SharedDisk::new();
            let life = Life::new();
            let died = life.run(async {
                let fixture = disk.start().await;
                script(&disk.model);
                disk.journal.hang_after(appends, is_stored);
                let turn = fixture.start("go");
                tokio::select! {
                    () = disk.journal.hung() => true,
                    turn = soon(turn) => {
                        assert!(turn.unwrap().unwrap().success);
                        false
                    }
                }
            });
            drop(life);
            if !died {
                break 'moments;
            }
            moments += 1;
            disk.journal.end_hang();
            Life::new().run(async {
                let fixture = disk.start().await;
                let turns = fixture.runtime.resume_open_turns();
                let turns = soon(turns).await.unwrap();
                for turn in turns {
                    let turn = soon(turn.wait()).await.unwrap();
                    assert!(turn.success, "{appends} {is_stored}: {turn:?}");
                }
                let Some(first) = events_of(&fixture, ROOT).await.first().cloned() else {
                    return;
                };
                assert_eq!(first.event_type, "turn.started");
                assert_eq!(
                    fixture.messages().await.last().unwrap().text(),
                    Some("done")
                );
                let mut all = children(&fixture, ROOT).await;
                assert_eq!(all.len(), 2, "{appends} {is_stored}");
                for child in all.clone() {
                    all.extend(children(&fixture, child).await);
                }
                assert_eq!(all.len(), 3, "{appends} {is_stored}");
                let sessions = fixture.runtime.list_sessions().await.unwrap();
                assert_eq!(sessions.len(), 4, "{appends} {is_stored}");
                for child in &all {
                    assert_eq!(count(&fixture, *child, "turn.started").await, 1);
                    assert_eq!(count(&fixture, *child, "turn.completed").await, 1);
                }
                assert_eq!(count(&fixture, ROOT, "subagent.completed").await, 2);
                let answers = results(&fixture, ROOT).await;
                assert_eq!(answers[0]["answer"], "I am one");
                assert_eq!(answers[1]["answer"], format!("I am {TWO}"));
                fixture.assert_sound().await;
            });
        }
    }
    assert!(moments > 20, "only {moments}");
}

/// A process that crashed while a subagent worked.
fn died_at_work(disk: &SharedDisk) -> SessionId {
    let gate = Gate::shut();
    let life = Life::new();
    let child = life.run(async {
        let fixture = disk.start().await;
        disk.model
            .when("go", ScriptedCall::tools(vec![spawn("1", "child")]));
        disk.model
            .when("child", ScriptedCall::new().text("half").wait(&gate));
        drop(fixture.runtime.submit(ROOT, "go").await.unwrap());
        gate.reached(1).await;
        children(&fixture, ROOT).await[0]
    });
    drop(life);
    child
}

#[test]
fn cancelled_turn_stops_subagents_of_the_previous_process() {
    for are_resumed in [false, true] {
        let disk = SharedDisk::new();
        let child = died_at_work(&disk);
        Life::new().run(async {
            let fixture = disk.start().await;
            let gate = Gate::shut();
            if are_resumed {
                disk.model.when("child", ScriptedCall::new().wait(&gate));
                let turns = fixture.runtime.resume_open_turns();
                assert_eq!(soon(turns).await.unwrap().len(), 2);
                gate.reached(1).await;
            }
            fixture.runtime.cancel_turn(ROOT).await.unwrap();
            recorded(&fixture, child, "turn.cancelled").await;
            assert_eq!(count(&fixture, child, "turn.completed").await, 0);
            assert_eq!(count(&fixture, ROOT, "turn.cancelled").await, 1);
        });
    }
}

#[test]
fn subagent_of_an_ended_parent_is_not_resumed() {
    let disk = SharedDisk::new();
    let child = died_at_work(&disk);
    // The process ends after the end of the turn is recorded, and before the subagent is stopped.
    let life = Life::new();
    life.run(async {
        let fixture = disk.start().await;
        disk.journal.hang_after(0, true);
        let runtime = fixture.runtime.clone();
        let stopping = tokio::spawn(async move { runtime.cancel_turn(ROOT).await });
        soon(disk.journal.hung()).await;
        stopping.abort();
    });
    drop(life);
    disk.journal.end_hang();
    Life::new().run(async {
        let fixture = disk.start().await;
        assert_eq!(count(&fixture, ROOT, "turn.cancelled").await, 1);
        assert_eq!(count(&fixture, child, "turn.cancelled").await, 0);
        let calls = disk.model.calls();
        for turn in soon(fixture.runtime.resume_open_turns()).await.unwrap() {
            soon(turn.wait()).await.unwrap();
        }
        recorded(&fixture, child, "turn.cancelled").await;
        assert_eq!(disk.model.calls(), calls);
    });
}

#[test]
fn orderly_stop_leaves_subagents_to_the_next_process() {
    let disk = SharedDisk::new();
    let gate = Gate::shut();
    let child = Life::new().run(async {
        let fixture = disk.start().await;
        disk.model
            .when("go", ScriptedCall::tools(vec![spawn("1", "child")]));
        disk.model
            .when("child", ScriptedCall::new().text("half").wait(&gate));
        drop(fixture.runtime.submit(ROOT, "go").await.unwrap());
        gate.reached(1).await;
        let child = children(&fixture, ROOT).await[0];
        // No task waits for the subagent, so the clock does not advance.
        let stopping = fixture.runtime.shutdown(std::time::Duration::from_secs(60));
        soon(stopping).await;
        child
    });
    disk.model.when("child", ScriptedCall::answer("whole"));
    disk.model.when("go", ScriptedCall::answer("done"));
    Life::new().run(async {
        let fixture = disk.start().await;
        for turn in soon(fixture.runtime.resume_open_turns()).await.unwrap() {
            assert!(soon(turn.wait()).await.unwrap().success);
        }
        assert_eq!(children(&fixture, ROOT).await, [child]);
        assert_eq!(results(&fixture, ROOT).await[0]["answer"], "whole");
        assert_eq!(count(&fixture, child, "turn.started").await, 1);
    });
}
