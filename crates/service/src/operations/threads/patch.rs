//! Changes threads.

use windlass_core::events::{ChangedFields, SessionUpdatedData};
use windlass_core::thread_record::ThreadRecord;
use windlass_core::typed_id::SessionId;
use windlass_protocol::{PatchThread, Thread};

use crate::environments::LOCAL;
use crate::external;
use crate::operations::prelude::*;
use crate::operations::threads::budget as budgets;
use crate::operations::threads::create::{check_short, check_title, non_blank};
use crate::operations::threads::thread_record::{
    permit, stored_budget, stored_on_restart, stored_tool, thread, wire_budget,
};
use crate::threads::FoundThread;
use crate::view::fields;

impl Handle<op::PatchThread> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::PatchThread>) -> Result<Thread> {
        let request = call.request;
        let found = self.find(&call.path.id).await?;
        if request == PatchThread::default() {
            return Err(ApiError::new(
                ErrorCode::NoChanges,
                "At least one thread field is required",
            ));
        }
        self.change(ctx, found.id, request).await
    }
}

impl Service {
    /// Changes a thread's record.
    pub(crate) async fn change(
        &self,
        ctx: &RequestContext,
        id: SessionId,
        request: PatchThread,
    ) -> Result<Thread> {
        let _guard = self.write_locks.lock(&id.to_string()).await;
        let FoundThread {
            row,
            record: before,
            ..
        } = self.thread(id).await?;
        if request.workspace.is_some()
            && let Some(active) = row.open_turn()
        {
            return Err(ApiError::turn_active(active.id));
        }
        ctx.caller.check_trust(&request.policy())?;
        check_title(request.title.as_deref())?;
        check_short("reasoning_effort", request.reasoning_effort.as_deref())?;
        let after = self.changed(ctx, before.clone(), request)?;
        self.store_changes(id, before, after).await
    }

    /// Disables approvals in the thread after an "always" decision.
    pub(crate) async fn remember_approval(&self, id: SessionId) -> Result<()> {
        let _guard = self.write_locks.lock(&id.to_string()).await;
        let before = self.thread(id).await?.record;
        let mut after = before.clone();
        after.policy.approvals_remembered |= !before.policy.auto_approve;
        after.policy.auto_approve = true;
        self.store_changes(id, before, after).await?;
        Ok(())
    }

    /// Records the changed fields. If nothing changed, there is no event.
    async fn store_changes(
        &self,
        id: SessionId,
        before: ThreadRecord,
        after: ThreadRecord,
    ) -> Result<Thread> {
        let shown = thread(id, &before);
        let changed = changed_fields(&shown, &thread(id, &after)).map_err(ApiError::internal)?;
        if changed.is_empty() {
            return Ok(shown);
        }
        let data = SessionUpdatedData {
            title: after.title.clone(),
            record: Some(Box::new(after)),
            changed_fields: Some(ChangedFields(changed)),
        };
        self.runtime.note_session(id, data).await?;
        Ok(self.thread(id).await?.thread)
    }

    fn changed(
        &self,
        ctx: &RequestContext,
        mut thread: ThreadRecord,
        request: PatchThread,
    ) -> Result<ThreadRecord> {
        permit(&mut thread.policy, &request.policy());
        thread.archived = request.archived.unwrap_or(thread.archived);
        set_text(&mut thread.title, request.title);
        set_text(&mut thread.system_prompt, request.system_prompt);
        set_text(
            &mut thread.policy.reasoning_effort,
            request.reasoning_effort,
        );
        thread.on_restart = request
            .on_restart
            .map(stored_on_restart)
            .or(thread.on_restart);
        if request.budget.is_some() {
            let after = budgets::checked(request.budget)?;
            let before = thread.budget.as_ref().map(wire_budget);
            ctx.caller.check_raise(before.as_ref(), after.as_ref())?;
            thread.budget = after.as_ref().map(stored_budget);
        }
        if let Some(model) = request.model {
            if model.trim().is_empty() {
                return Err(ApiError::new(
                    ErrorCode::ModelRequired,
                    "the model is blank; name one, or `auto` for the configured one",
                ));
            }
            let backend = thread.policy.backend.as_deref();
            let is_external = self.is_external(backend);
            let model = self.resolve_model(backend, Some(&model))?;
            if is_external {
                thread.policy.model = model;
            } else {
                self.effective().models.set(&mut thread.policy, model);
            }
        }
        if let Some(tools) = request.dynamic_tools {
            external::check(&tools, &self.builtin_tools)?;
            thread.client_tools = tools.iter().map(stored_tool).collect();
        }
        if let Some(environments) = request.environments {
            thread.environments = self.resolve_environments(&environments)?;
        }
        if let Some(workspace) = request.workspace {
            thread.workspace = self.workspace(&workspace)?;
            let first = thread.environments.first_mut();
            if let Some(first) = first.filter(|first| first.environment_id == LOCAL) {
                first.cwd = thread.workspace.clone().into();
            }
        }
        Ok(thread)
    }
}

/// A blank text clears the field.
fn set_text(field: &mut Option<String>, value: Option<String>) {
    if value.is_some() {
        *field = non_blank(value);
    }
}

fn changed_fields(before: &Thread, after: &Thread) -> serde_json::Result<Vec<String>> {
    let (before, after) = (fields(before)?, fields(after)?);
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name));
    Ok(changed.cloned().collect())
}
