//! An answer from outside that comes again when its turn is over: it is answered as it was the first time.

use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_store::StreamKey;
use windlass_turn::Thread;

use super::waiters::ended;
use crate::errors::from_journal;
use crate::inner::Inner;
use crate::turn_result::{TurnHandle, TurnResult};

/// How many events are looked at together.
const PAGE: u64 = 64;

/// Returns a handle on the turn that ended last, also where the answer was to a turn before it: the machine knows repeats of
/// those too, and not which turn they were for.
pub(super) async fn handle_on_ended_turn(inner: &Inner, thread: &Thread) -> Result<TurnHandle> {
    let session_id = thread.session_id();
    let ended = last_result(inner, thread).await?;
    let ended = ended.ok_or(AgentLoopError::NoActiveTurn(session_id))?;
    let (tell, result) = oneshot::channel();
    let turn_id = ended.turn_id;
    // Whoever listens is in the same function.
    let _ = tell.send(ended);
    Ok(TurnHandle {
        session_id,
        turn_id,
        message_id: None,
        first_event: None,
        result,
    })
}

/// Looks for the end of the last turn, from the newest event on. It is rarely asked for, so it is not kept.
async fn last_result(inner: &Inner, thread: &Thread) -> Result<Option<TurnResult>> {
    let key = StreamKey::from(thread.session_id());
    let mut before = thread.head();
    while before > 0 {
        let after = before.saturating_sub(PAGE);
        let reading = inner.backends.journal.read(&key, after, PAGE as usize);
        let page = reading.await.map_err(from_journal)?;
        let mut newest_first = page.events.iter().rev().filter(|event| had_begun(event));
        if let Some(result) = newest_first.find_map(|event| ended(thread, event)) {
            return Ok(Some(result));
        }
        before = after;
    }
    Ok(None)
}

/// Tells the end of a turn from that of an input which never had one.
fn had_begun(event: &Arc<Event>) -> bool {
    !matches!(&event.data, EventData::TurnCancelled(data) if data.iterations.is_none())
}
