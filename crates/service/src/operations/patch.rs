//! Changing a thread.

use serde_json::{Map, Value};
use windlass_core::events::SessionUpdatedData;
use windlass_core::typed_id::SessionId;
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;
use windlass_protocol::{ErrorCode, PatchThread, Thread};

use super::create::{check_short, check_title, filled};
use super::{RequestContext, budget as budgets};
use crate::environments::LOCAL;
use crate::error::{ApiError, Result};
use crate::external;
use crate::handle::Handle;
use crate::service::Service;
use crate::threads::FoundThread;

/// Changes a thread.
impl Handle<op::PatchThread> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::PatchThread>,
    ) -> Result<Thread> {
        let id = &call.path.id;
        let request = call.request;
        let found = self.find(id).await?;
        if request == PatchThread::default() {
            return Err(ApiError::new(
                ErrorCode::NoChanges,
                "At least one thread field is required",
            ));
        }
        self.change(context, found.id, request).await
    }
}

impl Service {
    /// Changes a thread's record.
    pub(super) async fn change(
        &self,
        context: &RequestContext,
        id: SessionId,
        request: PatchThread,
    ) -> Result<Thread> {
        let _alone = self.changing.lock(&id.to_string()).await;
        let FoundThread {
            row,
            thread: before,
            ..
        } = self.thread(id).await?;
        if request.workspace.is_some()
            && let Some(active) = row.open_turn()
        {
            return Err(ApiError::turn_active(active.id));
        }
        context
            .caller
            .check_trust(request.auto_approve, request.trust_mode, request.mode)?;
        check_title(request.title.as_deref())?;
        check_short("reasoning_effort", request.reasoning_effort.as_deref())?;
        let after = self.changed(context, before.clone(), request)?;
        self.keep_changes(id, before, after).await
    }

    /// Nobody is asked in the thread any more, because an answer is to be remembered.
    pub(super) async fn remember_approval(&self, id: SessionId) -> Result<()> {
        let _alone = self.changing.lock(&id.to_string()).await;
        let before = self.thread(id).await?.thread;
        let after = Thread {
            approvals_remembered: before.approvals_remembered || !before.auto_approve,
            auto_approve: true,
            ..before.clone()
        };
        self.keep_changes(id, before, after).await?;
        Ok(())
    }

    /// Records what is different. What is as it was makes no event.
    async fn keep_changes(&self, id: SessionId, before: Thread, after: Thread) -> Result<Thread> {
        let changes = differences(&before, &after)?;
        if changes.is_empty() {
            return Ok(before);
        }
        let record = serde_json::to_value(&after).map_err(ApiError::internal)?;
        let data = SessionUpdatedData {
            title: after.title,
            record: Some(record),
            changes: Some(Value::Object(changes)),
        };
        self.runtime.note_session(id, data).await?;
        Ok(self.thread(id).await?.thread)
    }

    fn changed(
        &self,
        context: &RequestContext,
        mut thread: Thread,
        request: PatchThread,
    ) -> Result<Thread> {
        let PatchThread {
            archived,
            allow_shell,
            trust_mode,
            auto_approve,
            model,
            mode,
            title,
            system_prompt,
            workspace,
            reasoning_effort,
            dynamic_tools,
            environments,
            on_restart,
            budget,
        } = request;
        set(&mut thread.archived, archived);
        set(&mut thread.allow_shell, allow_shell);
        set(&mut thread.trust_mode, trust_mode);
        if let Some(auto_approve) = auto_approve {
            thread.auto_approve = auto_approve;
            thread.approvals_remembered = false;
        }
        set(&mut thread.mode, mode);
        set_text(&mut thread.title, title);
        set_text(&mut thread.system_prompt, system_prompt);
        set_text(&mut thread.reasoning_effort, reasoning_effort);
        thread.on_restart = on_restart.or(thread.on_restart);
        if budget.is_some() {
            let after = budgets::checked(budget)?;
            let before = thread.budget.as_ref();
            context.caller.check_raise(before, after.as_ref())?;
            thread.budget = after;
        }
        if let Some(model) = model {
            if model.trim().is_empty() {
                return Err(ApiError::new(
                    ErrorCode::ModelRequired,
                    "the model is blank; name one, or `auto` for the configured one",
                ));
            }
            let chosen = self.chosen();
            match self.is_external(thread.backend.as_deref()) {
                true => thread.model = chosen.models.name_for_agent(Some(&model))?,
                false => {
                    let name = chosen.models.name(Some(&model))?;
                    chosen.models.set(&mut thread, name);
                }
            }
        }
        if let Some(tools) = dynamic_tools {
            external::check(&tools, &self.builtin_tools)?;
            thread.dynamic_tools = Some(tools).filter(|tools| !tools.is_empty());
        }
        if let Some(environments) = environments {
            let resolved = self.resolve_environments(&environments)?;
            thread.environments = Some(resolved).filter(|list| !list.is_empty());
        }
        if let Some(workspace) = workspace {
            thread.workspace = self.workspace(&workspace)?;
            let first = thread
                .environments
                .as_mut()
                .and_then(|list| list.first_mut());
            if let Some(first) = first.filter(|first| first.environment_id == LOCAL) {
                first.cwd = thread.workspace.clone().into();
            }
        }
        Ok(thread)
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// An empty text clears.
fn set_text(field: &mut Option<String>, value: Option<String>) {
    if value.is_some() {
        *field = filled(value);
    }
}

fn differences(before: &Thread, after: &Thread) -> Result<Map<String, Value>> {
    let object = |thread: &Thread| match serde_json::to_value(thread) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(ApiError::internal(error)),
    };
    let (before, after) = (object(before)?, object(after)?);
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    Ok(names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| (name.clone(), after.get(name).cloned().unwrap_or_default()))
        .collect())
}
