//! Inputs that wait for their turns, changed and removed before they begin.

use windlass_core::error::AgentLoopError;
use windlass_core::message::ContentPart;
use windlass_runtime::{QueueEdit, StopReason};

use crate::support::{Gate, ScriptedCall, Setup, soon};

#[tokio::test]
async fn queued_inputs_are_edited_and_removed_before_they_begin() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new().wait(&gate).text("first").done()])
        .build()
        .await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    let first = runtime.submit(session, "first").await.unwrap();
    let removed = runtime.submit(session, "removed").await.unwrap();
    let edited = runtime.submit(session, "old").await.unwrap();
    let edit = QueueEdit {
        content: Some(vec![ContentPart::text("new")]),
        position: Some(0),
    };
    let queue = runtime.edit_queued_input(session, edited.turn_id(), edit);
    let queue = queue.await.unwrap();
    assert_eq!(queue, runtime.queued_inputs(session).await.unwrap());
    let turns: Vec<_> = queue.iter().map(|queued| queued.turn_id).collect();
    assert_eq!(turns, [edited.turn_id(), removed.turn_id()]);
    let turn_id = removed.turn_id();
    let remove = || runtime.remove_queued_input(session, turn_id, None);
    remove().await.unwrap();
    assert!(matches!(
        remove().await,
        Err(AgentLoopError::TurnNotQueued { .. })
    ));
    let result = soon(removed.wait()).await.unwrap();
    assert_eq!(result.stop_reason, StopReason::Cancelled);
    gate.open();
    assert!(soon(first.wait()).await.unwrap().success);
    assert!(soon(edited.wait()).await.unwrap().success);
    let messages = fixture.messages().await;
    let said = messages.iter().filter_map(|message| message.text());
    assert!(said.into_iter().any(|text| text == "new"));
    assert!(
        !messages
            .iter()
            .any(|it| matches!(it.text(), Some("old" | "removed")))
    );
}
