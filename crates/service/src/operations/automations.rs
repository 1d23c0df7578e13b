//! Automations: making, changing and running them.

use windlass_protocol::api::{Call, Page};
use windlass_protocol::operations as op;
use windlass_protocol::{AutomationRecord, AutomationRunRecord, ErrorCode, PatchAutomation};
use windlass_work::{
    Automation, AutomationId, AutomationStatus, MissedRuns, Plan, WorkError, WorkSpec,
};

use super::start::said;
use super::tasks::{DEFAULT_LIMIT, MAX_LIMIT};
use super::thread_record::stored_options;
use super::{RequestContext, limit};
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::ids;
use crate::service::Service;
use crate::work::{automation_record, run_record, thread_for};

/// How many are read at a time.
const PAGE: usize = 32;
/// How many bytes of prompts a list shows whole, and how much of each beyond.
pub(super) const LIST_BYTES: usize = 4 * 1024 * 1024;
const SHORT_CHARS: usize = 200;

fn not_found(id: &str) -> ApiError {
    let text = format!("no automation has the id `{id}`");
    ApiError::new(ErrorCode::AutomationNotFound, text)
}

fn missed(missed: windlass_protocol::MissedRuns) -> MissedRuns {
    match missed {
        windlass_protocol::MissedRuns::Skip => MissedRuns::Skip,
        windlass_protocol::MissedRuns::Once => MissedRuns::Once,
        windlass_protocol::MissedRuns::All => MissedRuns::All,
    }
}

fn status(status: windlass_protocol::AutomationStatus) -> AutomationStatus {
    match status {
        windlass_protocol::AutomationStatus::Active => AutomationStatus::Active,
        windlass_protocol::AutomationStatus::Paused => AutomationStatus::Paused,
    }
}

/// Makes an automation.
impl Handle<op::CreateAutomation> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::CreateAutomation>,
    ) -> Result<AutomationRecord> {
        context.unknown_fields.refuse_limits()?;
        let request = call.request;
        let automations = &self.work()?.automations;
        self.check_serving()?;
        let policy = stored_options(request.policy());
        let plan = Plan {
            name: request.name,
            spec: WorkSpec {
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
        self.check_plan(context, &plan)?;
        let (owner, status) = (context.caller.owner(), status(request.status));
        let made = match &context.repeatable {
            Some(request) => {
                let id = AutomationId::from_uuid(ids::made_by(request).uuid());
                automations.create_once(id, &owner, plan, status).await?
            }
            None => automations.create(&owner, plan, status).await?,
        };
        automation_record(&made)
    }
}

/// Lists automations, newest first.
impl Handle<op::ListAutomations> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        _: Call<op::ListAutomations>,
    ) -> Result<Page<AutomationRecord>> {
        let automations = &self.work()?.automations;
        let mut listed: Vec<Automation> = Vec::new();
        let (mut before, mut bytes) = (None, 0);
        loop {
            let page = automations.list(before, PAGE).await?;
            before = page.last().map(|last| last.id);
            let is_last = page.len() < PAGE;
            let mine = page.into_iter();
            for mut one in mine.filter(|one| context.caller.may_see(&one.owner)) {
                // Whoever wants the whole of it asks for that one.
                if bytes > LIST_BYTES {
                    one.plan.spec.prompt = beginning(&one.plan.spec.prompt);
                }
                bytes += one.plan.spec.prompt.len();
                listed.push(one);
            }
            if is_last {
                break;
            }
        }
        // Ids that come from requests do not sort by time.
        listed.sort_by_key(|one| std::cmp::Reverse(one.created_at));
        let records: Result<Vec<_>> = listed.iter().map(automation_record).collect();
        Ok(records?.into())
    }
}

/// Returns an automation.
impl Handle<op::GetAutomation> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::GetAutomation>,
    ) -> Result<AutomationRecord> {
        let id = &call.path.id;
        automation_record(&self.find_automation(context, id).await?)
    }
}

/// Changes an automation. Its runs are begun for its owner, so that one must be allowed what it then does.
impl Handle<op::PatchAutomation> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::PatchAutomation>,
    ) -> Result<AutomationRecord> {
        context.unknown_fields.refuse_limits()?;
        let id = &call.path.id;
        let request = call.request;
        let automations = &self.work()?.automations;
        let before = self.find_changeable(context, id).await?;
        if request == PatchAutomation::default() {
            return Err(ApiError::new(
                ErrorCode::NoChanges,
                "at least one field of the automation is required",
            ));
        }
        let wanted = request.status;
        let mut plan = before.plan.clone();
        change(&mut plan, &request);
        let owner = RequestContext::new(self.caller_of(&before.owner)?);
        self.check_plan(&owner, &plan)?;
        let mut after = before;
        if plan != after.plan {
            let apply = move |plan: &mut Plan| change(plan, &request);
            after = automations.update(after.id, apply).await?;
        }
        match wanted.map(status) {
            Some(AutomationStatus::Active) => after = automations.resume(after.id).await?,
            Some(AutomationStatus::Paused) => after = automations.pause(after.id).await?,
            None => {}
        }
        automation_record(&after)
    }
}

/// Removes an automation, and returns it as it was.
impl Handle<op::DeleteAutomation> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::DeleteAutomation>,
    ) -> Result<AutomationRecord> {
        let id = &call.path.id;
        let found = self.find_changeable(context, id).await?;
        self.work()?.automations.remove(found.id).await?;
        automation_record(&found)
    }
}

/// Runs an automation now.
impl Handle<op::RunAutomation> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::RunAutomation>,
    ) -> Result<AutomationRunRecord> {
        let id = &call.path.id;
        let found = self.find_automation(context, id).await?;
        let automations = &self.work()?.automations;
        let run = automations.run_now(found.id, context.repeatable.as_deref());
        let run = run.await?;
        Ok(run_record(self, &run))
    }
}

/// Lets an automation run by itself no more.
impl Handle<op::PauseAutomation> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::PauseAutomation>,
    ) -> Result<AutomationRecord> {
        let id = &call.path.id;
        let found = self.find_changeable(context, id).await?;
        automation_record(&self.work()?.automations.pause(found.id).await?)
    }
}

/// Lets an automation run by itself again.
impl Handle<op::ResumeAutomation> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::ResumeAutomation>,
    ) -> Result<AutomationRecord> {
        let id = &call.path.id;
        let found = self.find_changeable(context, id).await?;
        automation_record(&self.work()?.automations.resume(found.id).await?)
    }
}

/// Lists the runs of an automation, newest first.
impl Handle<op::ListAutomationRuns> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::ListAutomationRuns>,
    ) -> Result<Page<AutomationRunRecord>> {
        let id = &call.path.id;
        let limit = limit(call.query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let found = self.find_automation(context, id).await?;
        let runs = self.work()?.automations.runs(found.id, None, limit).await?;
        let runs: Vec<_> = runs.iter().map(|run| run_record(self, run)).collect();
        Ok(runs.into())
    }
}

impl Service {
    /// Refuses what no run could begin with.
    fn check_plan(&self, context: &RequestContext, plan: &Plan) -> Result<()> {
        said(&plan.spec.prompt)?;
        plan.check_bounds()?;
        for directory in &plan.cwds {
            self.workspace(directory)?;
        }
        let spec = WorkSpec {
            workspace: plan.cwds.first().cloned(),
            ..plan.spec.clone()
        };
        self.draft(context, thread_for(&spec)?)?;
        Ok(())
    }

    /// Finds an automation; what belongs to others does not exist for an agent.
    async fn find_automation(&self, context: &RequestContext, id: &str) -> Result<Automation> {
        let automations = &self.work()?.automations;
        let parsed: AutomationId = ids::exact(id).ok_or_else(|| not_found(id))?;
        match automations.get(parsed).await {
            Ok(found) if context.caller.may_see(&found.owner) => Ok(found),
            // In the same words, so that nobody learns whether there is one.
            Ok(_) | Err(WorkError::NotFound { .. }) => Err(not_found(id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds an automation that clients can change.
    async fn find_changeable(&self, context: &RequestContext, id: &str) -> Result<Automation> {
        let found = self.find_automation(context, id).await?;
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

/// Puts what a request names in the place of what was there.
fn change(plan: &mut Plan, request: &PatchAutomation) {
    fn set<T: Clone>(place: &mut T, value: Option<&T>) {
        if let Some(value) = value {
            place.clone_from(value);
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

pub(super) fn beginning(prompt: &str) -> String {
    match prompt.char_indices().nth(SHORT_CHARS) {
        Some((end, _)) => format!("{}…", &prompt[..end]),
        None => prompt.to_owned(),
    }
}
