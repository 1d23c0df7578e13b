//! Creates, changes and runs automations.

use windlass_core::bounds::shortened;
use windlass_jobs::{Automation, AutomationId, AutomationStatus, JobSpec, MissedRuns, Plan};
use windlass_protocol::api::Page;
use windlass_protocol::{AutomationRecord, AutomationRunRecord, PatchAutomation};

use crate::convert::convert_variants;
use crate::ids;
use crate::jobs::{automation_record, run_record, thread_request};
use crate::operations::jobs::tasks::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::operations::prelude::*;
use crate::operations::threads::thread_record::stored_options;
use crate::operations::turns::start::require_prompt;

/// Number of automations that are read at a time.
const PAGE: usize = 32;
/// Maximum total size of complete prompts in a list, and the length of shortened prompts beyond it.
pub(crate) const LIST_BYTES: usize = 4 * 1024 * 1024;
const SHORT_CHARS: usize = 200;

fn not_found(id: &str) -> ApiError {
    let text = format!("no automation has the id `{id}`");
    ApiError::new(ErrorCode::AutomationNotFound, text)
}

convert_variants! {
    fn missed(windlass_protocol::MissedRuns) -> MissedRuns { Skip Once All }
    fn status(windlass_protocol::AutomationStatus) -> AutomationStatus { Active Paused }
}

impl Handle<op::CreateAutomation> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::CreateAutomation>,
    ) -> Result<AutomationRecord> {
        ctx.unknown_fields.refuse_limits()?;
        let request = call.request;
        let automations = &self.jobs()?.automations;
        self.check_serving()?;
        let policy = stored_options(request.policy());
        let plan = Plan {
            name: request.name,
            spec: JobSpec {
                policy,
                prompt: request.prompt,
                workspace: None,
                max_attempts: request.max_attempts.unwrap_or(1),
            },
            cwds: request.cwds,
            rrule: request.rrule,
            time_zone: request.time_zone,
            missed: request.missed.map(missed).unwrap_or_default(),
        };
        self.check_plan(ctx, &plan)?;
        let (owner, status) = (ctx.caller.owner(), status(request.status));
        let created = match &ctx.repeatable {
            Some(request) => {
                let id = AutomationId::from_uuid(ids::derived(request));
                automations.create_once(id, &owner, plan, status).await?
            }
            None => automations.create(&owner, plan, status).await?,
        };
        automation_record(&created)
    }
}

/// Lists automations, newest first.
impl Handle<op::ListAutomations> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        _: Call<op::ListAutomations>,
    ) -> Result<Page<AutomationRecord>> {
        let automations = &self.jobs()?.automations;
        let mut listed: Vec<Automation> = Vec::new();
        let (mut before, mut bytes) = (None, 0);
        loop {
            let page = automations.list(before, PAGE).await?;
            before = page.last().map(|last| last.id);
            let is_last = page.len() < PAGE;
            let page = page.into_iter();
            for mut automation in page.filter(|it| ctx.caller.can_access(&it.owner)) {
                let prompt = &mut automation.plan.spec.prompt;
                // The complete prompt is available from the automation itself.
                if bytes > LIST_BYTES {
                    *prompt = beginning(prompt);
                }
                bytes += prompt.len();
                listed.push(automation);
            }
            if is_last {
                break;
            }
        }
        // IDs that derive from requests do not sort by time.
        listed.sort_by_key(|it| std::cmp::Reverse(it.created_at));
        let records: Result<Vec<_>> = listed.iter().map(automation_record).collect();
        Ok(records?.into())
    }
}

impl Handle<op::GetAutomation> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::GetAutomation>,
    ) -> Result<AutomationRecord> {
        automation_record(&self.find_automation(ctx, &call.path.id).await?)
    }
}

/// Changes an automation. Its runs start with the rights of its owner, so the owner must be allowed everything that the changed automation does.
impl Handle<op::PatchAutomation> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::PatchAutomation>,
    ) -> Result<AutomationRecord> {
        ctx.unknown_fields.refuse_limits()?;
        let request = call.request;
        let automations = &self.jobs()?.automations;
        let before = self.find_changeable(ctx, &call.path.id).await?;
        if request == PatchAutomation::default() {
            let text = "at least one field of the automation is required";
            return Err(ApiError::new(ErrorCode::NoChanges, text));
        }
        let new_status = request.status.map(status);
        let mut plan = before.plan.clone();
        change(&mut plan, &request);
        let owner = RequestContext::new(self.owner_as_caller(&before.owner)?);
        self.check_plan(&owner, &plan)?;
        let mut after = before;
        if plan != after.plan {
            let apply = move |plan: &mut Plan| change(plan, &request);
            after = automations.update(after.id, apply).await?;
        }
        match new_status {
            Some(AutomationStatus::Active) => after = automations.resume(after.id).await?,
            Some(AutomationStatus::Paused) => after = automations.pause(after.id).await?,
            None => {}
        }
        automation_record(&after)
    }
}

/// Deletes an automation, and returns its last state.
impl Handle<op::DeleteAutomation> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::DeleteAutomation>,
    ) -> Result<AutomationRecord> {
        let found = self.find_changeable(ctx, &call.path.id).await?;
        self.jobs()?.automations.remove(found.id).await?;
        automation_record(&found)
    }
}

/// Runs an automation immediately.
impl Handle<op::RunAutomation> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::RunAutomation>,
    ) -> Result<AutomationRunRecord> {
        let found = self.find_automation(ctx, &call.path.id).await?;
        let automations = &self.jobs()?.automations;
        let run = automations.run_now(found.id, ctx.repeatable.as_deref());
        Ok(run_record(self, &run.await?))
    }
}

/// Stops the schedule of an automation.
impl Handle<op::PauseAutomation> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::PauseAutomation>,
    ) -> Result<AutomationRecord> {
        let found = self.find_changeable(ctx, &call.path.id).await?;
        automation_record(&self.jobs()?.automations.pause(found.id).await?)
    }
}

/// Restarts the schedule of an automation.
impl Handle<op::ResumeAutomation> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ResumeAutomation>,
    ) -> Result<AutomationRecord> {
        let found = self.find_changeable(ctx, &call.path.id).await?;
        automation_record(&self.jobs()?.automations.resume(found.id).await?)
    }
}

/// Lists the runs of an automation, newest first.
impl Handle<op::ListAutomationRuns> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ListAutomationRuns>,
    ) -> Result<Page<AutomationRunRecord>> {
        let limit = limit(call.query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let found = self.find_automation(ctx, &call.path.id).await?;
        let runs = self.jobs()?.automations.runs(found.id, None, limit).await?;
        let runs: Vec<_> = runs.iter().map(|run| run_record(self, run)).collect();
        Ok(runs.into())
    }
}

impl Service {
    /// Rejects a plan with which no run could start.
    fn check_plan(&self, ctx: &RequestContext, plan: &Plan) -> Result<()> {
        require_prompt(&plan.spec.prompt)?;
        plan.check_bounds()?;
        for directory in &plan.cwds {
            self.workspace(directory)?;
        }
        let spec = JobSpec {
            workspace: plan.cwds.first().cloned(),
            ..plan.spec.clone()
        };
        self.draft(ctx, thread_request(&spec)?).map(drop)
    }

    /// Finds an automation. For an agent, automations of other owners do not exist.
    async fn find_automation(&self, ctx: &RequestContext, id: &str) -> Result<Automation> {
        let automations = &self.jobs()?.automations;
        let not_found = || not_found(id);
        let found = automations.get(ids::exact(id).ok_or_else(not_found)?).await;
        accessible(ctx, found, |found| &found.owner, not_found)
    }

    /// Finds an automation that clients can change.
    async fn find_changeable(&self, ctx: &RequestContext, id: &str) -> Result<Automation> {
        let found = self.find_automation(ctx, id).await?;
        if found.is_declared() {
            let text = format!(
                "the automation `{}` is declared in the configuration of the daemon; change [automations.{0}] there and reload it",
                found.plan.name
            );
            return Err(ApiError::new(ErrorCode::AutomationDeclared, text));
        }
        Ok(found)
    }
}

/// Applies the fields of a request to a plan.
fn change(plan: &mut Plan, request: &PatchAutomation) {
    fn set<T: Clone>(field: &mut T, value: Option<&T>) {
        if let Some(value) = value {
            field.clone_from(value);
        }
    }
    set(&mut plan.name, request.name.as_ref());
    set(&mut plan.rrule, request.rrule.as_ref());
    set(&mut plan.cwds, request.cwds.as_ref());
    set(&mut plan.missed, request.missed.map(missed).as_ref());
    if request.time_zone.is_some() {
        plan.time_zone.clone_from(&request.time_zone);
    }
    let spec = &mut plan.spec;
    set(&mut spec.prompt, request.prompt.as_ref());
    set(&mut spec.max_attempts, request.max_attempts.as_ref());
    let before = std::mem::take(&mut spec.policy);
    spec.policy = stored_options(request.policy()).or(before);
}

pub(crate) fn beginning(prompt: &str) -> String {
    shortened(prompt, SHORT_CHARS)
}
