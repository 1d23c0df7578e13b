//! Threads of agents that models start; each inherits the settings of its parent thread.

use async_trait::async_trait;
use chrono::Utc;
use windlass_core::error::AgentLoopError;
use windlass_core::thread_record::{ThreadParent, ThreadRecord};
use windlass_core::turn_policy::TurnPolicy;
use windlass_runtime::{ChildDraft, SubagentHost};

use crate::error::{ApiError, Result};
use crate::service::{Service, WeakService};
use crate::settings::Access;

/// Creates the threads of agents that models start.
pub(crate) struct ChildThreads(WeakService);

impl ChildThreads {
    pub(crate) fn of(app: &Service) -> Self {
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
        let chosen = self.chosen();
        let mut turn = draft.controls.turn.take().unwrap_or_default();
        let mut model = parent.policy.model.clone();
        if let Some(wished) = &draft.model {
            model = match turn.backend {
                Some(_) => chosen.models.name_for_agent(Some(wished))?,
                None => chosen.models.name(Some(wished))?,
            };
            turn.model = match turn.backend {
                Some(_) => Some(model.clone()),
                None => {
                    draft.controls.model_id = chosen.models.id(&model);
                    chosen.models.other_name(&model)
                }
            };
        }
        // It uses the operator's login, so it must not be available to every client that can reach the port.
        let is_open = matches!(self.settings.access, Access::Open);
        let is_there = |name: &String| !is_open && self.settings.backends.contains(name);
        if !turn.backend.as_ref().is_none_or(is_there) {
            return Err(ApiError::field(
                "/backend",
                "agents of others carry no turns of this daemon",
            ));
        }
        // An existing thread already has its quota and its record.
        if self.look_up(draft.session.id).await?.is_none() {
            if let Some(agent) = &parent.owner {
                let limit = self.settings.limits.threads_of_agent;
                self.thread_quota
                    .take_of(&*self.queries, agent, limit)
                    .await?;
            }
            let limit = self.settings.limits.threads;
            self.thread_quota.take(&*self.queries, limit).await?;
        }
        let now = Utc::now();
        let mut record = ThreadRecord {
            created_at: now,
            updated_at: now,
            latest_turn_id: None,
            archived: false,
            title: draft.session.title.clone(),
            policy: TurnPolicy {
                backend: turn.backend.clone(),
                ..parent.policy.inherited()
            },
            client_tools: Vec::new(),
            parent: Some(ThreadParent {
                session_id: draft.parent,
                turn_id: draft.parent_turn,
            }),
            ..parent
        };
        if draft.model.is_some() {
            chosen.models.set(&mut record.policy, model);
        }
        draft.controls.turn = Some(turn);
        draft.record = Some(Box::new(record));
        Ok(())
    }
}
