//! Ends subagents together with the turn that they work for.

use std::sync::Arc;

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::Event;
use windlass_core::message::Message;
use windlass_core::turn_request::ParentTurn;
use windlass_core::typed_id::SessionId;
use windlass_turn::Thread;

use crate::inner::Inner;
use crate::thread::ThreadCommand;

/// Why the turn of an agent is stopped.
pub(crate) const PARENT_ENDED: &str = "the turn that it worked for has ended";

/// Stops the subagents of turns that have just ended. It runs in its own task, so that it does not block the thread. If the process ends first, such
/// a subagent is stopped when it is resumed ([`is_parent_open`]).
pub(crate) fn stop_children(inner: &Arc<Inner>, thread: &Thread, events: &[Arc<Event>]) {
    let ended = events.iter().filter(|event| event.data.ends_turn());
    for turn_id in ended.filter_map(|event| event.context.turn_id) {
        let of_turn = thread.children().iter().rev();
        let of_turn = of_turn.filter(|child| child.turn_id == turn_id && !child.is_done);
        for child in of_turn {
            let (inner, child) = (Arc::clone(inner), child.session_id);
            tokio::spawn(async move {
                match stop(&inner, child).await {
                    Ok(()) | Err(AgentLoopError::SessionNotFound(_)) => {}
                    Err(error) => {
                        tracing::warn!(session = %child, %error, "an agent could not be stopped with its parent");
                    }
                }
            });
        }
    }
}

/// Cancels the turn of a subagent, including one that is about to begin.
pub(super) async fn stop(inner: &Arc<Inner>, child: SessionId) -> Result<()> {
    let slot = inner.slot(child).await?;
    let thread = inner.read_thread(&slot).await?;
    let turn_id = match thread.turn() {
        // A client may have started a turn there since.
        Some(turn) if parent_of(&thread).is_none() => {
            tracing::debug!(session = %child, turn = %turn.id, "a turn without a parent is not stopped");
            return Ok(());
        }
        turn => turn.map(|turn| turn.id),
    };
    let reason = Some(PARENT_ENDED.to_owned());
    let stopped = slot.ask(inner, |reply| ThreadCommand::Interrupt {
        turn_id,
        reason,
        reply,
    });
    match stopped.await {
        // The turn has already ended.
        Err(AgentLoopError::NoActiveTurn(_) | AgentLoopError::TurnNotFound { .. }) => Ok(()),
        stopped => stopped,
    }
}

/// Returns the turn that the open turn of a thread works for.
pub(super) fn parent_of(thread: &Thread) -> Option<ParentTurn> {
    open_turn_input(thread)?.turn_request()?.parent
}

/// Returns the input that began the open turn of a thread.
pub(crate) fn open_turn_input(thread: &Thread) -> Option<&Arc<Message>> {
    let input = thread.turn()?.input_message_id;
    let mut newest_first = thread.history().iter().rev();
    newest_first.find(|message| message.id == input)
}

/// Returns whether the parent's turn is still open.
pub(crate) async fn is_parent_open(inner: &Arc<Inner>, parent: &ParentTurn) -> Result<bool> {
    match inner.thread(parent.session_id).await {
        Ok(thread) => Ok(thread.turn().is_some_and(|turn| turn.id == parent.turn_id)),
        Err(AgentLoopError::SessionNotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
