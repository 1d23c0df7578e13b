//! The runtime that a program embeds.

mod commands;
mod context_usage;
mod copies;
mod events;
mod fork_point;
mod forks;
mod host_adapter;
mod look;
mod queue;
mod resume;
mod sessions;
mod shutdown;
mod spending;
mod threads;
mod turns;

use std::fmt;
use std::sync::Arc;

use windlass_core::error::Result;
use windlass_core::message::{Controls, Message, MessageRole};
use windlass_core::runtime_context::AssembledTurnContext;
use windlass_core::session::Session;
use windlass_core::session_file::SessionFile;
use windlass_core::typed_id::SessionId;

use crate::builder::InProcessRuntimeBuilder;
use crate::inner::Inner;
use crate::turn_context::{ContextRequest, Discovery, assemble, assemble_unkept};

pub use context_usage::ContextUsage;
pub use events::EventStream;
pub use fork_point::ForkAt;
pub(crate) use fork_point::fork_point;
pub use forks::ForkOptions;
pub use host_adapter::RuntimeHostAdapter;
pub use look::OpenTurn;
pub(crate) use sessions::{is_same, open_session, own_records, reopen_session};
pub use threads::SessionSummary;
pub(crate) use turns::CallerGuard;

/// Runs agents inside of a program. Clones share everything.
#[derive(Clone)]
pub struct InProcessRuntime {
    pub(crate) inner: Arc<Inner>,
}

impl fmt::Debug for InProcessRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessRuntime")
            .field("platform", &self.inner.platform)
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}

impl InProcessRuntime {
    /// Begins a runtime.
    #[must_use]
    pub fn builder() -> InProcessRuntimeBuilder {
        InProcessRuntimeBuilder::new()
    }

    /// Returns where the events of all sessions are kept, for a host that reads more of them than is offered here.
    #[must_use]
    pub fn journal(&self) -> Arc<dyn windlass_store::Journal> {
        Arc::clone(&self.inner.backends.journal)
    }

    /// Returns what answers about the threads and turns of all sessions; `None` where the backends were made without.
    #[must_use]
    pub fn queries(&self) -> Option<Arc<dyn windlass_store::Queries>> {
        self.inner.backends.queries.clone()
    }

    /// Returns who speaks with MCP servers, if somebody does.
    #[must_use]
    pub fn mcp(&self) -> Option<Arc<dyn windlass_core::mcp::McpConnector>> {
        self.inner.mcp.clone()
    }

    /// Returns what the turns of this process came to since it began.
    #[must_use]
    pub fn turn_figures(&self) -> crate::TurnFigures {
        self.inner.figures.read()
    }

    /// Sets who looks at agents before they begin that models start, once: whoever comes later is not asked.
    pub fn set_subagent_host(&self, host: Arc<dyn crate::SubagentHost>) {
        let _ = self.inner.subagent_host.set(host);
    }

    /// Returns the session that `single_session` made.
    #[must_use]
    pub fn default_session_id(&self) -> Option<SessionId> {
        self.inner.default_session_id
    }

    /// Returns all messages of a session, oldest first.
    pub async fn messages(&self, session_id: SessionId) -> Result<Vec<Message>> {
        let history = self.inner.history(session_id).await?;
        Ok(history
            .iter()
            .map(|message| Message::clone(message))
            .collect())
    }

    /// Returns what the model reads of a session: all messages, or a summary and what came after it.
    pub async fn context_messages(&self, session_id: SessionId) -> Result<Vec<Message>> {
        let slot = self.inner.slot(session_id).await?;
        let thread = self.inner.look_at(&slot).await?;
        let context = thread.context();
        Ok(context
            .iter()
            .map(|message| Message::clone(message))
            .collect())
    }

    /// Returns one page of a session's messages; costs what it returns.
    pub async fn messages_page(
        &self,
        session_id: SessionId,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Message>> {
        let history = self.inner.history(session_id).await?;
        Ok(history
            .page(offset, limit)
            .map(|message| Message::clone(message))
            .collect())
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

    /// Returns everything that the next turn would work with.
    pub async fn load_context(&self, session_id: SessionId) -> Result<AssembledTurnContext> {
        let history = self.inner.history(session_id).await?;
        let asked = ContextRequest {
            controls: last_controls(history.iter().rev().map(|m| &**m)),
            discovery: self.recorded_tools(session_id).await?,
            ..ContextRequest::default()
        };
        let assembled = assemble(&self.inner, session_id, asked).await?;
        Ok(assembled.into_view(
            history
                .iter()
                .map(|message| Message::clone(message))
                .collect(),
        ))
    }

    /// Looking asks no MCP server: what was offered last is shown.
    async fn recorded_tools(&self, session_id: SessionId) -> Result<Discovery> {
        if self.inner.mcp.is_none() {
            return Ok(Discovery::Skip);
        }
        let slot = self.inner.slot(session_id).await?;
        let thread = self.inner.look_at(&slot).await?;
        Ok(Discovery::Recorded(Arc::clone(thread.discovered())))
    }

    /// Returns everything that the first turn of a session would work with. The session is not kept, and its files are
    /// not put in place.
    pub async fn preview_context(&self, session: Session) -> Result<AssembledTurnContext> {
        let assembled = Box::pin(assemble_unkept(&self.inner, session)).await?;
        Ok(assembled.into_view(Vec::new()))
    }
}

/// Returns what the newest input of a conversation wished, newest first.
pub(crate) fn last_controls<'a>(
    newest_first: impl IntoIterator<Item = &'a Message>,
) -> Option<Controls> {
    let newest = newest_first
        .into_iter()
        .find(|message| message.role == MessageRole::User)?;
    newest.controls.clone()
}
