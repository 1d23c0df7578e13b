//! What a host has to say before an agent begins.

use async_trait::async_trait;
use windlass_core::error::Result;
use windlass_core::message::Controls;
use windlass_core::session::Session;
use windlass_core::thread_record::ThreadRecord;
use windlass_core::typed_id::{SessionId, TurnId};

/// An agent that is about to begin.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChildDraft {
    /// The session that it works for.
    pub parent: SessionId,
    /// The turn of that session.
    pub parent_turn: TurnId,
    /// Its own session, as it will be kept.
    pub session: Session,
    /// What its turn will be asked; the turn's request is in it.
    pub controls: Controls,
    /// The model that is asked for, where it is another than the parent's; it is in the request too, by its name.
    pub model: Option<String>,
    /// The thread record of the session, which is stored in its first event.
    pub record: Option<Box<ThreadRecord>>,
}

/// Looks at agents before they begin.
#[async_trait]
pub trait SubagentHost: Send + Sync {
    /// Completes a draft, or says why the agent may not begin; the model reads that.
    async fn admit(&self, draft: &mut ChildDraft) -> Result<()>;
}
