//! What a running tool may record: only through its thread, and only while it runs.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventRequest};
use windlass_core::traits::EventEmitter;
use windlass_core::typed_id::{ExecId, SessionId};

use crate::inner::Inner;

/// Hands what a tool emits to the thread, whatever session or step the tool claims.
pub(super) struct StepEmitter {
    inner: Weak<Inner>,
    session_id: SessionId,
    exec_id: ExecId,
}

impl StepEmitter {
    pub(super) fn new(inner: &Arc<Inner>, session_id: SessionId, exec_id: ExecId) -> Self {
        Self {
            inner: Arc::downgrade(inner),
            session_id,
            exec_id,
        }
    }
}

#[async_trait]
impl EventEmitter for StepEmitter {
    async fn emit(&self, mut request: EventRequest) -> Result<Event> {
        request.session_id = self.session_id;
        let inner = self
            .inner
            .upgrade()
            .ok_or_else(|| AgentLoopError::event("the runtime is gone"))?;
        inner.emit(self.exec_id, request).await
    }
}
