//! Calls that wait for an approval or an answer.

use serde_json::json;
use windlass_core::events::EventContext;
use windlass_core::items::WaitKind;
use windlass_core::typed_id::ExecId;

use super::subject::{QueryStoresRef, ThreadFixture};
use crate::conformance::check::CheckOutcome;
use crate::queries::ThreadState;

pub(super) async fn waits_are_in_all_answers_until_they_end(store: QueryStoresRef) -> CheckOutcome {
    let queries = &store.queries;
    let mut one = ThreadFixture::new(&store, "one").await?;
    let mut two = ThreadFixture::new(&store, "two").await?;
    let (a, b) = (one.start().await?, two.start().await?);
    let (first, second) = (one.call(a).await?, one.call(a).await?);
    let third = two.call(b).await?;
    one.ask(a, second).await?;
    let question = json!({"request_id": "q", "prompt": {}});
    let step = EventContext::of_step(b, third);
    two.say(step.clone(), "user_input.required", question)
        .await?;
    one.ask(a, first).await?;
    let waits = queries.waits(None).await?;
    let shown: Vec<_> = waits.iter().map(|wait| (wait.exec_id, wait.kind)).collect();
    let expected = [
        (second, WaitKind::Approval),
        (first, WaitKind::Approval),
        (third, WaitKind::UserInput),
    ];
    require_eq!(shown, expected, "all waits");
    let of_two = queries.waits(Some(&two.key)).await?;
    require_eq!(of_two, waits[2..], "those of one thread");
    require_eq!(
        queries.wait(first).await?.as_ref(),
        waits.get(1),
        "one by its call"
    );
    require_eq!(queries.wait(ExecId::new()).await?, None, "no wait");
    require_eq!(two.thread().await?.state, ThreadState::Waiting, "state");
    let turn = queries.turn(&one.key, a).await?;
    let waiting = turn.map(|turn| (turn.view.waiting_for, turn.waits));
    let expected = (vec![WaitKind::Approval], waits[..2].to_vec());
    require_eq!(waiting, Some(expected), "the turn");

    let answer = json!({"request_id": "q", "answer": 1});
    two.say(step, "user_input.answered", answer).await?;
    require_eq!(two.thread().await?.state, ThreadState::Running, "answered");
    let decided = json!({"tool_call_id": "c", "decision": "allow"});
    let step = EventContext::of_step(a, first);
    one.say(step, "approval.decided", decided).await?;
    let shown: Vec<_> = queries.waits(None).await?;
    let shown: Vec<_> = shown.iter().map(|wait| wait.exec_id).collect();
    require_eq!(shown, [second], "the remaining waits");
    let over = queries.wait(first).await?;
    let over = over.map(|wait| (wait.stream, wait.is_open));
    require_eq!(over, Some((one.key.clone(), false)), "an ended wait");
    Ok(())
}

pub(super) async fn turn_end_closes_its_waits(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    let turn = thread.start().await?;
    let call = thread.call(turn).await?;
    thread.ask(turn, call).await?;
    // A call that has ended waits for nothing, even if an earlier event made it wait.
    let done = json!({
        "tool_call_id": "c", "tool_name": "shell", "success": false, "status": "error",
    });
    let again = thread.call(turn).await?;
    thread.ask(turn, again).await?;
    let step = EventContext::of_step(turn, again);
    thread.say(step, "tool.completed", done).await?;
    require_eq!(store.queries.waits(None).await?.len(), 1, "after a call");
    thread.cancel(turn).await?;
    require!(store.queries.waits(None).await?.is_empty(), "after a turn");
    let is_open = store.queries.wait(call).await?.map(|wait| wait.is_open);
    require_eq!(is_open, Some(false), "the wait itself");
    require_eq!(thread.thread().await?.state, ThreadState::Idle, "state");
    Ok(())
}
