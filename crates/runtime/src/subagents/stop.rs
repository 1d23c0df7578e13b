//! An agent works for a turn, and no longer than that turn.

use std::sync::Arc;

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::Event;
use windlass_core::message::Message;
use windlass_core::turn_request::ParentTurn;
use windlass_core::typed_id::SessionId;
use windlass_turn::Thread;

use crate::inner::Inner;
use crate::thread::Mail;

/// Why the turn of an agent is stopped.
pub(crate) const PARENT_ENDED: &str = "the turn that it worked for has ended";

/// Stops the agents that work for turns which have just ended. It is done beside the thread, which has other things to do; an
/// agent that hears of it in a later life of the process only is stopped when it is taken up ([`is_wanted`]).
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

/// Stops the turn of an agent that works for another one, also one that is just about to begin.
pub(super) async fn stop(inner: &Arc<Inner>, child: SessionId) -> Result<()> {
    let slot = inner.slot(child).await?;
    let thread = inner.look_at(&slot).await?;
    let turn_id = match thread.turn() {
        // Somebody else may have begun a turn there since.
        Some(turn) if parent_of(&thread).is_none() => {
            tracing::debug!(session = %child, turn = %turn.id, "a turn that works for nobody goes on");
            return Ok(());
        }
        turn => turn.map(|turn| turn.id),
    };
    let reason = Some(PARENT_ENDED.to_owned());
    let stopped = slot.ask(inner, |reply| Mail::Interrupt {
        turn_id,
        reason,
        reply,
    });
    match stopped.await {
        // It has ended by itself.
        Err(AgentLoopError::NoActiveTurn(_) | AgentLoopError::TurnNotFound { .. }) => Ok(()),
        stopped => stopped,
    }
}

/// Returns the turn that the open turn of a thread works for.
pub(super) fn parent_of(thread: &Thread) -> Option<ParentTurn> {
    input_of(thread)?.turn_request()?.parent
}

/// Returns what began the open turn of a thread.
pub(super) fn input_of(thread: &Thread) -> Option<&Arc<Message>> {
    let input = thread.turn()?.input_message_id;
    let mut newest_first = thread.history().iter().rev();
    newest_first.find(|message| message.id == input)
}

/// Tells whether the turn that another one works for is still open.
pub(crate) async fn is_wanted(inner: &Arc<Inner>, parent: &ParentTurn) -> Result<bool> {
    let looked = async {
        let slot = inner.slot(parent.session_id).await?;
        inner.look_at(&slot).await
    };
    match looked.await {
        Ok(thread) => Ok(thread.turn().is_some_and(|turn| turn.id == parent.turn_id)),
        Err(AgentLoopError::SessionNotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
