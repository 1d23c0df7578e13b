//! The runtime that a program embeds.

mod commands;
mod context_usage;
mod copies;
mod events;
mod fork_point;
mod forks;
mod host_adapter;
mod open_turn;
mod queue;
mod resume;
mod sessions;
mod shutdown;
mod spending;
mod threads;
mod turns;

use std::sync::Arc;

use windlass_core::error::Result;
use windlass_core::history::History;
use windlass_core::message::{Controls, Message, MessageRole};
use windlass_core::runtime_context::AssembledTurnContext;
use windlass_core::session::Session;
use windlass_core::session_file::SessionFile;
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;

use crate::builder::InProcessRuntimeBuilder;
use crate::inner::Inner;
use crate::thread::{ReplySender, ThreadCommand};
use crate::turn_context::{ContextRequest, Discovery, assemble, assemble_preview};

pub use context_usage::ContextUsage;
pub use events::EventStream;
pub use fork_point::ForkAt;
pub(crate) use fork_point::fork_point;
pub use forks::ForkOptions;
pub use host_adapter::RuntimeHostAdapter;
pub use open_turn::OpenTurn;
pub(crate) use sessions::{has_same_json, open_session, own_records, reopen_session};
pub use threads::SessionSummary;
#[cfg(feature = "sqlite")]
pub(crate) use threads::apply_thread;
pub(crate) use turns::CallerGuard;

/// Runs agents inside of a program. Clones share all state.
#[derive(OpaqueDebug, Clone)]
pub struct InProcessRuntime {
    pub(crate) inner: Arc<Inner>,
}

impl InProcessRuntime {
    /// Creates a builder with the defaults.
    #[must_use]
    pub fn builder() -> InProcessRuntimeBuilder {
        InProcessRuntimeBuilder::new()
    }

    /// Returns the journal of all sessions, for a host that needs reads which the runtime does not offer.
    #[must_use]
    pub fn journal(&self) -> Arc<dyn windlass_store::Journal> {
        Arc::clone(&self.inner.backends.journal)
    }

    /// Returns the operator's approval rules, for a host that reads files for a turn.
    #[must_use]
    pub fn approval_rules(&self) -> &windlass_policy::ApprovalRules {
        &self.inner.settings.approvals
    }

    /// Returns the queries over the threads and turns of all sessions; `None` if the backends have none.
    #[must_use]
    pub fn queries(&self) -> Option<Arc<dyn windlass_store::Queries>> {
        self.inner.backends.queries.clone()
    }

    /// Returns the connector to MCP servers, if one is configured.
    #[must_use]
    pub fn mcp(&self) -> Option<Arc<dyn windlass_core::mcp::McpConnector>> {
        self.inner.mcp.clone()
    }

    /// Returns the metrics of this process's turns since it started.
    #[must_use]
    pub fn turn_metrics(&self) -> crate::TurnMetrics {
        self.inner.turn_counters.read()
    }

    /// Sets the host that checks subagents before they start. It can be set once; later calls are ignored.
    pub fn set_subagent_host(&self, host: Arc<dyn crate::SubagentHost>) {
        let _ = self.inner.subagent_host.set(host);
    }

    /// Returns the session that `single_session` added.
    #[must_use]
    pub fn default_session_id(&self) -> Option<SessionId> {
        self.inner.default_session_id
    }

    /// Returns all messages of a session, oldest first.
    pub async fn messages(&self, session_id: SessionId) -> Result<Vec<Message>> {
        Ok(to_messages(self.inner.history(session_id).await?.iter()))
    }

    /// Returns the messages of a session that the model reads: all of them, or a summary and the later ones.
    pub async fn context_messages(&self, session_id: SessionId) -> Result<Vec<Message>> {
        let thread = self.inner.thread(session_id).await?;
        Ok(to_messages(thread.context().iter()))
    }

    /// Returns one page of a session's messages; the cost depends only on the size of the page.
    pub async fn messages_page(
        &self,
        session_id: SessionId,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Message>> {
        let history = self.inner.history(session_id).await?;
        Ok(to_messages(history.page(offset, limit)))
    }

    /// Sends a command to the thread of a session and waits for its answer.
    async fn ask<T>(
        &self,
        session_id: SessionId,
        command: impl FnOnce(ReplySender<T>) -> ThreadCommand,
    ) -> Result<T> {
        let slot = self.inner.slot(session_id).await?;
        slot.ask(&self.inner, command).await
    }

    /// Reads a file of a session.
    pub async fn read_file(
        &self,
        session_id: SessionId,
        path: &str,
    ) -> Result<Option<SessionFile>> {
        self.inner.slot(session_id).await?;
        self.inner.files.read_file(session_id, path).await
    }

    /// Returns the complete context of the next turn.
    pub async fn load_context(&self, session_id: SessionId) -> Result<AssembledTurnContext> {
        let history = self.inner.history(session_id).await?;
        let request = ContextRequest {
            controls: last_controls(&history),
            discovery: self.recorded_tools(session_id).await?,
            ..ContextRequest::default()
        };
        let assembled = assemble(&self.inner, session_id, request).await?;
        Ok(assembled.into_view(to_messages(history.iter())))
    }

    /// Returns the tools of MCP servers and the texts of the environment that were recorded last. A preview queries no server.
    async fn recorded_tools(&self, session_id: SessionId) -> Result<Discovery> {
        let thread = self.inner.thread(session_id).await?;
        Ok(Discovery::Recorded(Arc::clone(thread.discovered())))
    }

    /// Returns the complete context of a session's first turn. The session is not stored and its files are not written.
    pub async fn preview_context(&self, session: Session) -> Result<AssembledTurnContext> {
        let request = ContextRequest::default();
        let assembled = Box::pin(assemble_preview(&self.inner, session, request)).await?;
        Ok(assembled.into_view(Vec::new()))
    }

    /// Returns the complete context of a session's first turn with these controls, as it would start now: MCP servers and the environment are
    /// queried. The session is not stored and its files are not written.
    pub async fn preview_first_turn(
        &self,
        session: Session,
        controls: Controls,
    ) -> Result<AssembledTurnContext> {
        let request = ContextRequest {
            controls: Some(controls),
            discovery: Discovery::Ask(Arc::default()),
            ..ContextRequest::default()
        };
        let assembled = Box::pin(assemble_preview(&self.inner, session, request)).await?;
        Ok(assembled.into_view(Vec::new()))
    }
}

/// Returns the controls of the newest input of a conversation.
fn last_controls(history: &History) -> Option<Controls> {
    let mut newest_first = history.iter().rev();
    let input = newest_first.find(|message| message.role == MessageRole::User)?;
    input.controls.clone()
}

/// Copies shared messages.
pub(crate) fn to_messages<'a>(messages: impl Iterator<Item = &'a Arc<Message>>) -> Vec<Message> {
    messages.map(|message| Message::clone(message)).collect()
}
