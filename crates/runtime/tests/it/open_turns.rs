//! Turns that a previous process left open: reading and resuming them.

use std::sync::Arc;

use serde_json::json;
use windlass_core::error::AgentLoopError;
use windlass_core::message::Message;
use windlass_core::session::SessionStatus;
use windlass_core::tools::{ToolDefinition, ToolExecutionResult, ToolPolicy};
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    MemoryJournal, Need, RecoveryPolicy, ResumePolicy, RuntimeBackends, StopReason,
};

use crate::support::{Fixture, Gate, ScriptedCall, Setup, SpyJournal, call, soon, tool, types};

/// A new process on an existing journal. The previous ones are not shut down, and their later writes are refused.
async fn life(journal: &Arc<MemoryJournal>, setup: Setup) -> Fixture {
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let risky = tool("risky", |_, _| async { ToolExecutionResult::success(1) })
        .policy(ToolPolicy::RequiresApproval);
    setup
        .tool(&risky)
        .backends(RuntimeBackends::on_journal(Arc::clone(journal) as _))
        .session(|session| session.session_id(SessionId::from_seed(7)).agent_tool(ask))
        .build()
        .await
}

/// Leaves a turn behind whose model never answers.
async fn with_open_turn(journal: &Arc<MemoryJournal>) -> Fixture {
    let stuck = Gate::shut();
    let first = life(
        journal,
        Setup::new([ScriptedCall::new().text("half").wait(&stuck)]),
    )
    .await;
    drop(first.runtime.submit(first.session, "go").await.unwrap());
    stuck.reached(1).await;
    first
}

/// Leaves a turn behind that waits for an approval and a result.
async fn with_waiting_turn(journal: &Arc<MemoryJournal>) -> Fixture {
    let calls = vec![
        call("a", "ask", json!({"n": 1})),
        call("r", "risky", json!({})),
    ];
    let first = life(journal, Setup::new([ScriptedCall::tools(calls)])).await;
    let parked = first.run("go").await;
    assert_eq!(parked.stop_reason, StopReason::WaitingForApproval);
    first
}

fn texts(messages: &[Message]) -> Vec<&str> {
    messages
        .iter()
        .filter_map(|message| message.text())
        .collect()
}

#[tokio::test]
async fn reading_resumes_no_turn() {
    let journal = Arc::new(MemoryJournal::new());
    let first = with_open_turn(&journal).await;
    let before = first.events().await;
    for _ in 0..20 {
        let looking = life(&journal, Setup::new([])).await;
        let (runtime, session) = (&looking.runtime, looking.session);
        assert_eq!(texts(&looking.messages().await), ["go"]);
        assert_eq!(
            texts(&runtime.context_messages(session).await.unwrap()),
            ["go"]
        );
        assert_eq!(runtime.messages_page(session, 0, 9).await.unwrap().len(), 1);
        let status = runtime.session(session).await.unwrap().status;
        assert_eq!(status, SessionStatus::Active);
        runtime.load_context(session).await.unwrap();
        runtime.list_sessions().await.unwrap();
        assert_eq!(runtime.unfinished_sessions().await.unwrap(), [session]);
        let open = runtime.open_turn(session).await.unwrap().unwrap();
        assert_eq!((open.resumed_count, open.pending.len()), (0, 0));
        assert_eq!(looking.events().await, before);
        assert_eq!(looking.model.calls(), 0);
    }
    let last = life(&journal, Setup::new([ScriptedCall::answer("whole")])).await;
    let turn = soon(last.resume().await.unwrap().wait()).await.unwrap();
    assert_eq!((turn.success, turn.response.as_str()), (true, "whole"));
    last.assert_usable().await;
}

#[tokio::test]
async fn notes_and_refused_requests_resume_no_turn() {
    let journal = Arc::new(MemoryJournal::new());
    with_open_turn(&journal).await;
    let second = life(&journal, Setup::new([])).await;
    let note = windlass_core::events::SessionUpdatedData {
        title: Some("renamed".to_owned()),
        record: None,
        changed_fields: None,
    };
    let (runtime, session) = (&second.runtime, second.session);
    soon(runtime.note_session(session, note)).await.unwrap();
    let turn_id = runtime.open_turn(session).await.unwrap().unwrap().turn_id;
    let rewind = soon(runtime.rewind_session(session, turn_id)).await;
    assert!(rewind.is_err(), "{rewind:?}");
    let events = second.events().await;
    assert!(!types(&events).contains(&"turn.resumed"), "{events:?}");
    assert_eq!(second.model.calls(), 0);
    assert!(
        soon(second.resume().await.unwrap().wait())
            .await
            .unwrap()
            .success
    );
}

#[tokio::test]
async fn interrupt_ends_an_open_turn_without_resuming_it_and_the_queue_waits() {
    let journal = Arc::new(MemoryJournal::new());
    let first = with_open_turn(&journal).await;
    first.runtime.submit(first.session, "next").await.unwrap();
    let second = life(&journal, Setup::new([ScriptedCall::answer("second")])).await;
    soon(second.runtime.cancel_turn(second.session))
        .await
        .unwrap();
    let events = second.events().await;
    let recorded = types(&events);
    assert!(
        recorded.ends_with(&["turn.cancelled", "session.idled"]),
        "{recorded:?}"
    );
    assert!(!recorded.contains(&"turn.resumed"), "{recorded:?}");
    assert_eq!(second.model.calls(), 0);

    let queued = soon(second.resume().await.unwrap().wait()).await.unwrap();
    assert_eq!(queued.response, "second");
    assert!(second.resume().await.is_none(), "nothing is open any more");
}

#[tokio::test]
async fn an_open_turn_can_be_removed_with_its_session() {
    let journal = Arc::new(MemoryJournal::new());
    with_open_turn(&journal).await;
    let second = life(&journal, Setup::new([])).await;
    soon(second.runtime.remove_session(second.session))
        .await
        .unwrap();
    let gone = second.runtime.messages(second.session).await;
    assert!(
        matches!(gone, Err(AgentLoopError::SessionNotFound(_))),
        "{gone:?}"
    );
}

#[tokio::test]
async fn all_open_turns_are_resumed_on_request_or_at_build() {
    for resume_policy in [ResumePolicy::OnDemand, ResumePolicy::AtStartup] {
        let journal = Arc::new(MemoryJournal::new());
        with_open_turn(&journal).await;
        let setup = Setup::new([ScriptedCall::answer("whole")]);
        let setup = setup.settings(|settings| settings.resume_policy = resume_policy);
        let second = life(&journal, setup).await;
        let events = second.events().await;
        let is_resumed = types(&events).contains(&"turn.resumed");
        assert_eq!(
            is_resumed,
            resume_policy == ResumePolicy::AtStartup,
            "{resume_policy:?}"
        );
        let mut turns = soon(second.runtime.resume_open_turns()).await.unwrap();
        // With `AtStartup` it may have ended before the test asks for it.
        match turns.pop() {
            Some(turn) => assert_eq!(soon(turn.wait()).await.unwrap().response, "whole"),
            None => assert_eq!(resume_policy, ResumePolicy::AtStartup),
        }
        second.assert_usable().await;
    }
}

#[tokio::test]
async fn turn_ended_by_its_resumption_is_not_reported_as_open() {
    for recovery in [RecoveryPolicy::Resume, RecoveryPolicy::Interrupt] {
        let journal = Arc::new(MemoryJournal::new());
        with_open_turn(&journal).await;
        let setup = Setup::new([ScriptedCall::answer("whole")]);
        let setup = setup.settings(|settings| settings.recovery = recovery);
        let second = life(&journal, setup).await;
        let turns = soon(second.runtime.resume_open_turns()).await.unwrap();
        let is_open: Vec<_> = turns.iter().map(|turn| turn.is_open()).collect();
        assert_eq!(is_open, [recovery == RecoveryPolicy::Resume]);
    }
}

#[tokio::test]
async fn parked_turn_is_visible_and_stays_parked_when_resumed() {
    let journal = Arc::new(MemoryJournal::new());
    with_waiting_turn(&journal).await;
    for times in 1..=5 {
        let next = life(&journal, Setup::new([])).await;
        let open = next.runtime.open_turn(next.session).await.unwrap().unwrap();
        let pending: Vec<_> = open
            .pending
            .iter()
            .map(|call| (call.id.as_str(), call.need))
            .collect();
        assert_eq!(pending, [("a", Need::Result), ("r", Need::Approval)]);
        assert_eq!(
            (open.resumed_count, &open.pending[0].arguments),
            (times - 1, &json!({"n": 1}))
        );
        // A second request changes nothing.
        for _ in 0..2 {
            let parked = soon(next.resume().await.unwrap().wait()).await.unwrap();
            assert_eq!(parked.stop_reason, StopReason::WaitingForApproval);
        }
        let open = next.runtime.open_turn(next.session).await.unwrap().unwrap();
        assert_eq!(open.resumed_count, times);
    }
}

#[tokio::test]
async fn repeated_journal_failures_are_no_crash() {
    let journal = SpyJournal::new(MemoryJournal::new());
    let backends = RuntimeBackends::on_journal(Arc::clone(&journal) as _);
    let fixture = Setup::new([]).backends(backends).build().await;
    journal.fail_after(1);
    assert!(fixture.try_run("go").await.is_err());
    for _ in 0..5 {
        // The release and the resumption are recorded, and then the journal fails.
        journal.fail_after(2);
        let turn = fixture.resume().await.unwrap();
        assert!(soon(turn.wait()).await.is_err());
    }
    let turn = soon(fixture.resume().await.unwrap().wait()).await.unwrap();
    assert!(turn.success, "{turn:?}");
    fixture.assert_usable().await;
}
