//! Estimates how much of a model's context window a conversation uses.

use windlass_core::message::Controls;
use windlass_core::turn_request::TurnRequest;
use windlass_core::typed_id::TurnId;
use windlass_protocol::ContextUsage;

use crate::ids;
use crate::operations::prelude::*;
use crate::threads::FoundThread;

/// Estimates the next model call of a thread.
impl Handle<op::GetThreadContext> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::GetThreadContext>,
    ) -> Result<ContextUsage> {
        let found = self.find(&call.path.id).await?;
        self.context_of(&found, None).await
    }
}

/// Estimates the next model call of a thread that would be resumed from a saved session.
impl Handle<op::GetSessionContext> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::GetSessionContext>,
    ) -> Result<ContextUsage> {
        let (session, found) = self.session_and_thread(ctx, &call.path.id).await?;
        let turn = ids::parse_turn(&session.turn_id).ok_or_else(ApiError::turn_not_found)?;
        self.context_of(&found, Some(turn)).await
    }
}

impl Service {
    async fn context_of(&self, found: &FoundThread, at: Option<TurnId>) -> Result<ContextUsage> {
        let effective = self.effective();
        let models = &effective.models;
        let model = &found.thread.model;
        let turn = TurnRequest {
            model: models.provider_model_name(model),
            ..TurnRequest::default()
        };
        let controls = Controls {
            model_id: models.id(model),
            turn: Some(Box::new(turn)),
            ..Controls::default()
        };
        // Assembling the context of a turn makes the future large.
        let usage = Box::pin(self.runtime.context_usage(found.id, controls, at)).await?;
        let window = usage.window_tokens;
        let used = usage.estimated_tokens.min(window);
        Ok(ContextUsage {
            thread_id: ids::thread(found.id),
            provider: models.provider_of(model).unwrap_or_default().to_owned(),
            model: model.clone(),
            estimated_input_tokens: usage.estimated_tokens,
            context_window_tokens: window,
            remaining_context_tokens: window - used,
            used_percent: percent(used, window),
            auto_compact_enabled: usage.compacts_automatically,
            auto_compact_threshold_tokens: usage.compacts_above,
            auto_compact_threshold_percent: percent(usage.compacts_above, window),
            source: "estimated_current_messages".to_owned(),
        })
    }
}

/// Returns a share in percent with one decimal place.
fn percent(part: u64, whole: u64) -> f64 {
    let tenths = u128::from(part) * 1000 / u128::from(whole.max(1));
    f64::from(u32::try_from(tenths).unwrap_or(u32::MAX)) / 10.0
}
