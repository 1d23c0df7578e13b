//! The host's decision before a subagent starts.

use async_trait::async_trait;
use windlass_core::error::Result;
use windlass_core::message::Controls;
use windlass_core::session::Session;
use windlass_core::thread_record::ThreadRecord;
use windlass_core::typed_id::{SessionId, TurnId};

/// A subagent that is about to start.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChildDraft {
    /// The parent session.
    pub parent: SessionId,
    /// The parent's turn.
    pub parent_turn: TurnId,
    /// The subagent's session, as it will be stored.
    pub session: Session,
    /// Controls of its turn, including the turn's request.
    pub controls: Controls,
    /// The requested model, if it differs from the parent's; its name is also in the request.
    pub model: Option<String>,
    /// The thread record of the session, which is stored in its first event.
    pub record: Option<Box<ThreadRecord>>,
}

/// Checks subagents before they start.
#[async_trait]
pub trait SubagentHost: Send + Sync {
    /// Completes a draft, or returns why the subagent may not start; the model reads the error.
    async fn admit(&self, draft: &mut ChildDraft) -> Result<()>;
}
