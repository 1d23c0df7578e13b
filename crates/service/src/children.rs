//! Threads of agents that models start; each inherits the settings of its parent thread.

use async_trait::async_trait;
use windlass_core::error::AgentLoopError;
use windlass_core::thread_record::{ThreadParent, ThreadRecord};
use windlass_runtime::{ChildDraft, SubagentHost};

use crate::error::{ApiError, Result};
use crate::operations::threads::thread_record::inherited_record;
use crate::service::{Service, WeakService};

/// Creates the threads of agents that models start.
pub(crate) struct ChildThreads(WeakService);

impl ChildThreads {
    pub(crate) fn new(app: &Service) -> Self {
        Self(app.downgrade())
    }
}

#[async_trait]
impl SubagentHost for ChildThreads {
    async fn admit(&self, draft: &mut ChildDraft) -> windlass_core::error::Result<()> {
        let app = self.0.upgrade().ok_or(AgentLoopError::ShuttingDown)?;
        let admitted = app.admit(draft).await;
        admitted.map_err(|error| AgentLoopError::config(error.to_string()))
    }
}

impl Service {
    async fn admit(&self, draft: &mut ChildDraft) -> Result<()> {
        let parent = self.thread(draft.parent).await?.record;
        let models = &self.effective().models;
        let mut turn = draft.controls.turn.take().unwrap_or_default();
        let backend = turn.backend.as_deref();
        let requested = draft.model.as_deref();
        let model = requested.map(|_| self.resolve_model(backend, requested));
        let model = model.transpose()?;
        // An external agent uses the operator's login, so it must not be available to every client that can reach the port.
        let is_open = self.settings.access.is_open();
        if backend.is_some_and(|name| is_open || !self.settings.backends.contains(name)) {
            return Err(ApiError::field(
                "/backend",
                "external agents need a daemon that requires a token, and a name from its configuration",
            ));
        }
        // An existing thread already has its quota and its record.
        if self.look_up(draft.session.id).await?.is_none() {
            self.reserve_thread(parent.owner.as_deref()).await?;
        }
        let mut record = ThreadRecord {
            title: draft.session.title.clone(),
            client_tools: Vec::new(),
            parent: Some(ThreadParent {
                session_id: draft.parent,
                turn_id: draft.parent_turn,
            }),
            ..inherited_record(parent)
        };
        record.policy.backend.clone_from(&turn.backend);
        if let Some(model) = model {
            if turn.backend.is_some() {
                turn.model = Some(model.clone());
            } else {
                draft.controls.model_id = models.id(&model);
                turn.model = models.provider_model_name(&model);
            }
            models.set(&mut record.policy, model);
        }
        draft.controls.turn = Some(turn);
        draft.record = Some(Box::new(record));
        Ok(())
    }
}
