//! Events of a running tool: they are recorded only through its thread, and only while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData, EventRequest};
use windlass_core::traits::EventEmitter;
use windlass_core::typed_id::{ExecId, SessionId};
use windlass_turn::UnflushedText;

use crate::inner::Inner;
use windlass_core::lock::lock;

/// Sends a tool's events to the thread, whatever session or step the tool claims.
pub(super) struct StepEmitter {
    inner: Weak<Inner>,
    session_id: SessionId,
    exec_id: ExecId,
    /// Ends of output that may be the start of a secret, by stream; they wait for the output that follows.
    held: Mutex<BTreeMap<String, EventRequest>>,
}

impl StepEmitter {
    pub(super) fn new(inner: &Arc<Inner>, session_id: SessionId, exec_id: ExecId) -> Self {
        Self {
            inner: Arc::downgrade(inner),
            session_id,
            exec_id,
            held: Mutex::default(),
        }
    }

    /// Holds back an end of output that may be the start of a secret.
    fn hold(&self, inner: &Inner, request: &mut EventRequest) {
        let Some(mask) = inner.secrets.mask(self.session_id) else {
            return;
        };
        let mut rest = request.clone();
        let (EventData::ToolOutputDelta(data), EventData::ToolOutputDelta(after)) =
            (&mut request.data, &mut rest.data)
        else {
            return;
        };
        let mut held = lock(&self.held);
        let mut text = match held.remove(&data.stream).map(|before| before.data) {
            Some(EventData::ToolOutputDelta(before)) => before.delta,
            _ => String::new(),
        };
        text.push_str(&data.delta);
        let thinking = String::new();
        let (shown, waits) = mask.split_tail(&UnflushedText { text, thinking });
        data.delta = shown.text;
        after.delta = waits.text;
        if !after.delta.is_empty() {
            held.insert(data.stream.clone(), rest);
        }
    }

    /// Emits the buffered output at the end of the call.
    pub(super) async fn flush_held(&self) {
        let held = std::mem::take(&mut *lock(&self.held));
        let Some(inner) = self.inner.upgrade() else {
            return;
        };
        for request in held.into_values() {
            // Progress that cannot be emitted is still part of the result.
            let _ = inner.emit(self.exec_id, request).await;
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
        self.hold(&inner, &mut request);
        inner.emit(self.exec_id, request).await
    }
}
