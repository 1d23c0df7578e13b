//! The part of a model's context window that a conversation uses.

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::message::Controls;
use windlass_core::typed_id::{SessionId, TurnId};

use super::InProcessRuntime;
use crate::turn_context::{ContextRequest, assemble};

/// An estimate of the next model call, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextUsage {
    /// Tokens of the prompt, the tools and the conversation.
    pub estimated_tokens: u64,
    /// Size of the model's window in tokens; 64,000 if it is unknown.
    pub window_tokens: u64,
    /// Number of tokens above which the history is compacted before a model call.
    pub compacts_above: u64,
    /// Whether it is compacted automatically.
    pub compacts_automatically: bool,
}

impl InProcessRuntime {
    /// Estimates how much of the context window a session uses, now or at the end of a turn, for the model that `controls` selects. No
    /// provider or MCP server is queried.
    ///
    /// # Errors
    ///
    /// [`AgentLoopError::TurnNotFound`] if the session has no such ended turn.
    pub async fn context_usage(
        &self,
        session_id: SessionId,
        controls: Controls,
        at: Option<TurnId>,
    ) -> Result<ContextUsage> {
        let thread = self.inner.thread(session_id).await?;
        let request = ContextRequest {
            controls: Some(controls),
            discovery: self.recorded_tools(session_id).await?,
            ..ContextRequest::default()
        };
        let context = assemble(&self.inner, session_id, request).await?.context;
        let plan = context.window_plan();
        let estimated_tokens = match at {
            None => thread.context_tokens(&plan),
            Some(turn_id) => thread.context_tokens_at(&plan, turn_id).ok_or_else(|| {
                AgentLoopError::TurnNotFound {
                    session_id,
                    turn_id,
                }
            })?,
        };
        Ok(ContextUsage {
            estimated_tokens,
            window_tokens: plan.window_tokens,
            compacts_above: plan.window_tokens.saturating_sub(plan.reserve_tokens),
            compacts_automatically: context.plan.compaction.is_some(),
        })
    }
}
