//! Automations: making, changing and running them.

use crate::service::thread_record::stored_options;
use windlass_protocol::{
    AutomationRecord, AutomationRunRecord, CreateAutomation, ErrorCode, PatchAutomation,
};
use windlass_work::{
    Automation, AutomationId, AutomationStatus, MissedRuns, Plan, WorkError, WorkSpec,
};

use super::Asked;
use super::start::said;
use crate::app::Shared;
use crate::error::{ApiError, Result};
use crate::ids;
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

impl Asked {
    /// Makes an automation.
    pub(crate) async fn create_automation(
        &self,
        request: CreateAutomation,
    ) -> Result<AutomationRecord> {
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
        self.check_plan(&plan)?;
        let (owner, status) = (self.caller.owner(), status(request.status));
        let made = match &self.repeatable {
            Some(request) => {
                let id = AutomationId::from_uuid(ids::made_by(request).uuid());
                automations.create_once(id, &owner, plan, status).await?
            }
            None => automations.create(&owner, plan, status).await?,
        };
        automation_record(&made)
    }

    /// Refuses what no run could begin with.
    fn check_plan(&self, plan: &Plan) -> Result<()> {
        said(&plan.spec.prompt)?;
        plan.check_bounds()?;
        for directory in &plan.cwds {
            self.workspace(directory)?;
        }
        let spec = WorkSpec {
            workspace: plan.cwds.first().cloned(),
            ..plan.spec.clone()
        };
        self.draft(thread_for(&spec)?)?;
        Ok(())
    }

    /// Lists automations, newest first.
    pub(crate) async fn list_automations(&self) -> Result<Vec<AutomationRecord>> {
        let automations = &self.work()?.automations;
        let mut listed: Vec<Automation> = Vec::new();
        let (mut before, mut bytes) = (None, 0);
        loop {
            let page = automations.list(before, PAGE).await?;
            before = page.last().map(|last| last.id);
            let is_last = page.len() < PAGE;
            let mine = page.into_iter();
            for mut one in mine.filter(|one| self.caller.may_see(&one.owner)) {
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
        listed.iter().map(automation_record).collect()
    }

    /// Finds an automation; what belongs to others does not exist for an agent.
    async fn find_automation(&self, id: &str) -> Result<Automation> {
        let automations = &self.work()?.automations;
        let parsed: AutomationId = ids::exact(id).ok_or_else(|| not_found(id))?;
        match automations.get(parsed).await {
            Ok(found) if self.caller.may_see(&found.owner) => Ok(found),
            // In the same words, so that nobody learns whether there is one.
            Ok(_) | Err(WorkError::NotFound { .. }) => Err(not_found(id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds an automation that clients can change.
    async fn find_changeable(&self, id: &str) -> Result<Automation> {
        let found = self.find_automation(id).await?;
        if found.is_declared() {
            let text = format!(
                "the automation `{}` is declared in the configuration of the daemon; change [automations.{0}] there and reload it",
                found.plan.name
            );
            return Err(ApiError::new(ErrorCode::AutomationDeclared, text));
        }
        Ok(found)
    }

    /// Returns an automation.
    pub(crate) async fn automation(&self, id: &str) -> Result<AutomationRecord> {
        automation_record(&self.find_automation(id).await?)
    }

    /// Changes an automation. Its runs are begun for its owner, so that one must be allowed what it then does.
    pub(crate) async fn patch_automation(
        &self,
        id: &str,
        request: PatchAutomation,
    ) -> Result<AutomationRecord> {
        let automations = &self.work()?.automations;
        let before = self.find_changeable(id).await?;
        if request == PatchAutomation::default() {
            return Err(ApiError::new(
                ErrorCode::NoChanges,
                "at least one field of the automation is required",
            ));
        }
        let wanted = request.status;
        let mut plan = before.plan.clone();
        change(&mut plan, &request);
        let owner = Self {
            app: Shared::clone(&self.app),
            caller: self.caller_of(&before.owner)?,
            repeatable: None,
        };
        owner.check_plan(&plan)?;
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

    /// Removes an automation, and returns it as it was.
    pub(crate) async fn remove_automation(&self, id: &str) -> Result<AutomationRecord> {
        let found = self.find_changeable(id).await?;
        self.work()?.automations.remove(found.id).await?;
        automation_record(&found)
    }

    /// Runs an automation now.
    pub(crate) async fn run_automation(&self, id: &str) -> Result<AutomationRunRecord> {
        let found = self.find_automation(id).await?;
        let automations = &self.work()?.automations;
        let run = automations.run_now(found.id, self.repeatable.as_deref());
        let run = run.await?;
        Ok(run_record(self, &run))
    }

    /// Lets an automation run by itself no more.
    pub(crate) async fn pause_automation(&self, id: &str) -> Result<AutomationRecord> {
        let found = self.find_changeable(id).await?;
        automation_record(&self.work()?.automations.pause(found.id).await?)
    }

    /// Lets an automation run by itself again.
    pub(crate) async fn resume_automation(&self, id: &str) -> Result<AutomationRecord> {
        let found = self.find_changeable(id).await?;
        automation_record(&self.work()?.automations.resume(found.id).await?)
    }

    /// Lists the runs of an automation, newest first.
    pub(crate) async fn automation_runs(
        &self,
        id: &str,
        limit: usize,
    ) -> Result<Vec<AutomationRunRecord>> {
        let found = self.find_automation(id).await?;
        let runs = self.work()?.automations.runs(found.id, None, limit).await?;
        Ok(runs.iter().map(|run| run_record(self, run)).collect())
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
