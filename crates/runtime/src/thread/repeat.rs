//! Repeated external answers after the end of their turn get the same reply as the first time.

use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::error::Result;
use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::ExecId;
use windlass_store::StreamKey;
use windlass_turn::Thread;

use super::actor::Actor;
use super::command::ReplySender;
use super::commit::AcceptedInput;
use super::waiters::ended;
use crate::errors::from_journal;
use crate::inner::Inner;
use crate::turn_result::{TurnHandle, TurnResult};

/// Number of events read at a time.
const PAGE: u64 = 64;

impl Actor {
    /// Answers with a handle on the turn that accepted an answer, now or the first time.
    pub(super) async fn answer_or_repeat(
        &mut self,
        outcome: Result<AcceptedInput>,
        name: Option<&str>,
        reply: ReplySender<TurnHandle>,
    ) {
        let is_repeat = outcome.as_ref().is_ok_and(|taken| taken.events.is_empty());
        let found = match name.filter(|_| is_repeat) {
            Some(name) => result_of_answer(&self.inner, &self.thread, name).await,
            None => Ok(None),
        };
        match found {
            Ok(Some(result)) => drop(reply.send(Ok(handle_on(&self.thread, result)))),
            Ok(None) => self.answer_with_handle(outcome, reply),
            Err(error) => drop(reply.send(Err(error))),
        }
    }
}

fn handle_on(thread: &Thread, ended: TurnResult) -> TurnHandle {
    let (tell, result) = oneshot::channel();
    let turn_id = ended.turn_id;
    // The receiver is in the same function.
    let _ = tell.send(ended);
    TurnHandle {
        session_id: thread.session_id(),
        turn_id,
        message_id: None,
        first_event: None,
        is_open: false,
        result,
    }
}

/// Finds the end of the turn that accepted an answer, from the newest event backwards; `None` while that turn is open. It is rarely requested, so it
/// is not cached.
async fn result_of_answer(
    inner: &Inner,
    thread: &Thread,
    name: &str,
) -> Result<Option<TurnResult>> {
    let key = StreamKey::from(thread.session_id());
    let mut ends: Vec<Arc<Event>> = Vec::new();
    let mut before = thread.head();
    while before > 0 {
        let after = before.saturating_sub(PAGE);
        let reading = inner.backends.journal.read(&key, after, PAGE as usize);
        let page = reading.await.map_err(from_journal)?;
        for event in page.events.iter().rev() {
            if event.data.ends_turn() {
                ends.push(Arc::clone(event));
            }
            if is_answer(event, name) {
                let of_turn = |end: &&Arc<Event>| end.context.turn_id == event.context.turn_id;
                let end = ends.iter().find(of_turn);
                return Ok(end.and_then(|end| ended(thread, end)));
            }
        }
        before = after;
    }
    Ok(None)
}

/// Returns whether an event records the answer with this name: that of a step, of a call or of a question.
fn is_answer(event: &Event, name: &str) -> bool {
    let own_name = match &event.data {
        EventData::ToolCallResolved(data) => &data.tool_call_id,
        EventData::ApprovalDecided(data) => &data.tool_call_id,
        EventData::UserInputAnswered(data) => &data.request_id,
        _ => return false,
    };
    match name.parse::<ExecId>() {
        Ok(exec_id) => event.context.exec_id == Some(exec_id),
        Err(_) => own_name == name,
    }
}
