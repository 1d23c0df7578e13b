//! Conversion of tasks, automations and runs to their wire types.

use chrono::{DateTime, Utc};
use windlass_core::bounds::shortened;
use windlass_core::items::{Item, ItemKind, ItemStatus};
use windlass_core::turn_policy::TurnPolicy;
use windlass_jobs::{ActiveHold, Automation, JobSpec, RunWithTask, Task};
use windlass_protocol::{
    AutomationRecord, AutomationRunRecord, AutomationStatus, HoldCause, JobHold, MissedRuns,
    TaskRecord, TaskStatus, TaskSummary, TaskToolCall, TaskToolStatus, TimelineEntry,
    TurnPolicyParams, UnapprovedCalls, WaitKind,
};

use crate::convert::convert_variants;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::operations::threads::thread_record::{is_settled, new_policy, params, params_of_thread};
use crate::service::Service;
use crate::view::{unapproved, waiting_for};

/// The version of these records.
const VERSION: u32 = 1;
/// Maximum length of a prompt or a message in a list or a timeline, in characters.
const SHORT: usize = 240;
/// Maximum number of items of a turn in a timeline; older ones are omitted.
const ITEMS: usize = 500;

convert_variants! {
    pub(crate) fn task_status(windlass_jobs::TaskStatus) -> TaskStatus { Queued Running Completed Failed Canceled }
    fn hold_cause(windlass_jobs::HoldCause) -> HoldCause { NoRoom Budget Configuration Environment Token Store Shutdown Fault }
    fn automation_status(windlass_jobs::AutomationStatus) -> AutomationStatus { Active Paused }
    fn missed_runs(windlass_jobs::MissedRuns) -> MissedRuns { Skip Once All }
}

fn policy(spec: &JobSpec) -> Result<TurnPolicyParams> {
    let unreadable = |_| ApiError::internal("the mode of a task cannot be read");
    params(&spec.policy).map_err(unreadable)
}

fn short(text: &str) -> String {
    shortened(text, SHORT)
}

fn started_at(task: &Task) -> Option<DateTime<Utc>> {
    task.attempts.first().map(|first| first.started_at)
}

fn duration_ms(task: &Task) -> Option<u64> {
    let duration = task.end()?.at - started_at(task)?;
    u64::try_from(duration.num_milliseconds()).ok()
}

fn error(task: &Task, held: Option<&JobHold>) -> Option<String> {
    match (task.end(), held) {
        (Some(end), _) => end.error.clone(),
        (None, Some(held)) => Some(held.reason.clone()),
        (None, None) => task.attempts.iter().rev().find_map(|it| it.error.clone()),
    }
}

fn thread_id(task: &Task) -> Option<String> {
    (task.attempt() > 0).then(|| ids::thread(task.thread_id()))
}

fn unapproved_calls(task: &Task) -> Option<UnapprovedCalls> {
    unapproved(task.end()?.unapproved)
}

/// Converts a hold.
pub(crate) fn wire_hold(hold: ActiveHold) -> JobHold {
    JobHold {
        cause: hold_cause(hold.cause),
        reason: hold.reason,
        tried_at: ids::time(hold.at),
        retry_at: hold.retry_at.map(ids::time),
    }
}

impl Service {
    /// Returns the options of a task. Options that were left open when it was queued come from its thread, or from the daemon's settings until the
    /// thread exists.
    async fn task_policy(&self, task: &Task) -> Result<TurnPolicyParams> {
        let own = policy(&task.spec)?;
        if is_settled(&own) {
            return Ok(own);
        }
        if task.attempt() > 0
            && let Some(found) = self.look_up(task.thread_id()).await?
        {
            return Ok(TurnPolicyParams {
                trust_mode: own.trust_mode,
                auto_approve: own.auto_approve,
                ..params_of_thread(&found.record.policy)
            });
        }
        let effective = self.effective();
        let model = match &own.model {
            Some(model) => model.clone(),
            None => effective.models.resolve(None)?,
        };
        let settings = params(&effective.overrides.policy).map_err(ApiError::internal)?;
        Ok(params_of_thread(&TurnPolicy {
            model,
            ..new_policy(own.or(settings))
        }))
    }

    /// Returns the kinds of input that a task waits for.
    async fn task_waits_for(&self, task: &Task) -> Result<Option<Vec<WaitKind>>> {
        let turn_id = task.turn_id().filter(|_| task.end().is_none());
        let Some(turn_id) = turn_id else {
            return Ok(None);
        };
        let turn = self.queries.turn(&task.thread_id().into(), turn_id).await?;
        Ok(turn.and_then(|turn| waiting_for(&turn.view)))
    }

    /// Returns the reason for which a task is held.
    fn hold_of(&self, task: &Task) -> Option<JobHold> {
        let hold = self.jobs.as_ref()?.tasks.hold_of(task);
        hold.map(wire_hold)
    }

    /// Returns the list entry of a task.
    pub(crate) async fn task_summary(&self, task: &Task) -> Result<TaskSummary> {
        let policy = self.task_policy(task).await?;
        let waiting_for = self.task_waits_for(task).await?;
        let held = self.hold_of(task);
        Ok(TaskSummary {
            id: task.id.to_string(),
            status: task_status(task.status()),
            waiting_for,
            prompt_summary: short(&task.spec.prompt),
            model: policy.model.unwrap_or_default(),
            mode: policy.mode.unwrap_or_default(),
            created_at: ids::time(task.created_at),
            started_at: started_at(task).map(ids::time),
            ended_at: task.end().map(|end| ids::time(end.at)),
            duration_ms: duration_ms(task),
            error: error(task, held.as_ref()),
            thread_id: thread_id(task),
            turn_id: task.turn_id().map(|turn| turn.to_string()),
            held,
            unapproved_calls: unapproved_calls(task),
        })
    }

    /// Returns a task with its timeline; the newest attempt is read from its thread.
    pub(crate) async fn task_record(&self, task: &Task) -> Result<TaskRecord> {
        let stream = task.thread_id().into();
        let summary = self.task_summary(task).await?;
        let (mut events, mut tool_calls) = (0, Vec::new());
        let mut timeline = task_timeline(task, summary.held.as_ref());
        // The thread is created shortly after the attempt starts, and a client may delete it.
        let mut has_thread = false;
        if let Some(turn_id) = task.turn_id() {
            let thread = self.queries.thread(&stream).await?;
            has_thread = thread.is_some();
            events = thread.map_or(0, |thread| thread.seq);
            if let Some(turn) = self.queries.turn_detail(&stream, turn_id).await? {
                let items: Vec<Item<'_>> = turn.log.items_of(turn_id).collect();
                let newest = &items[items.len().saturating_sub(ITEMS)..];
                tool_calls = newest.iter().filter_map(tool_call).collect();
                timeline.extend(newest.iter().filter_map(timeline_item));
            }
        }
        timeline.sort_by_key(|(at, _)| *at);
        let policy = self.task_policy(task).await?;
        let (spec, end) = (&task.spec, task.end());
        let root = || self.fixed.local.root.display().to_string();
        let record = TaskRecord {
            schema_version: VERSION,
            id: summary.id,
            prompt: spec.prompt.clone(),
            workspace: spec.workspace.clone().unwrap_or_else(root),
            status: summary.status,
            waiting_for: summary.waiting_for,
            created_at: summary.created_at,
            started_at: summary.started_at,
            ended_at: summary.ended_at,
            duration_ms: summary.duration_ms,
            result_summary: end.and_then(|end| end.summary.clone()),
            error: summary.error,
            thread_id: summary.thread_id.filter(|_| has_thread),
            turn_id: summary.turn_id.filter(|_| has_thread),
            runtime_event_count: events,
            lifecycle_seq: task.changes,
            tool_calls,
            timeline: timeline.into_iter().map(|(_, entry)| entry).collect(),
            attempt_count: task.attempt(),
            max_attempts: spec.max_attempts,
            backend: spec.policy.backend.clone(),
            held: summary.held,
            unapproved_calls: summary.unapproved_calls,
            ..TaskRecord::default()
        };
        Ok(record.with_policy(&policy))
    }
}

type TimelineItem = (DateTime<Utc>, TimelineEntry);

fn entry(at: DateTime<Utc>, kind: &str, summary: impl Into<String>) -> TimelineItem {
    let entry = TimelineEntry {
        timestamp: ids::time(at),
        kind: kind.to_owned(),
        summary: summary.into(),
        detail_path: None,
    };
    (at, entry)
}

/// Returns the timeline of the task itself.
fn task_timeline(task: &Task, held: Option<&JobHold>) -> Vec<TimelineItem> {
    let mut timeline = vec![entry(task.created_at, "queued", "It was queued")];
    for (number, attempt) in (1..).zip(&task.attempts) {
        let text = format!("Attempt {number} began");
        timeline.push(entry(attempt.started_at, "started", text));
        if let (Some(at), Some(error)) = (attempt.ended_at, &attempt.error) {
            let text = format!("Attempt {number} did not succeed: {}", short(error));
            timeline.push(entry(at, "attempt_failed", text));
        }
    }
    if let Some(held) = held {
        let text = format!("It is held: {}", short(&held.reason));
        let (_, mut waiting) = entry(Utc::now(), "waiting", text);
        waiting.timestamp.clone_from(&held.tried_at);
        timeline.push((Utc::now(), waiting));
    }
    if let Some(at) = task.cancel_requested_at {
        timeline.push(entry(
            at,
            "cancel_requested",
            "Its cancellation was requested",
        ));
    }
    if let Some(end) = task.end() {
        let (kind, text) = match task_status(task.status()) {
            TaskStatus::Completed => ("completed", "It was done"),
            TaskStatus::Canceled => ("canceled", "It was cancelled"),
            _ => ("failed", "It failed"),
        };
        timeline.push(entry(end.at, kind, text));
    }
    timeline
}

/// Returns the timeline entry of an item. The user's message is omitted, because it is the prompt.
fn timeline_item(item: &Item<'_>) -> Option<TimelineItem> {
    let kind = match item.kind {
        ItemKind::UserMessage | ItemKind::AgentReasoning => return None,
        ItemKind::AgentMessage => "message",
        ItemKind::ToolCall | ItemKind::FileChange | ItemKind::CommandExecution | ItemKind::Plan => {
            "tool_call"
        }
        ItemKind::ContextCompaction | ItemKind::Status => "status",
        ItemKind::Error => "error",
    };
    let at = item.started_at.or(item.ended_at)?;
    Some(entry(at, kind, short(&item.summary())))
}

fn tool_call(item: &Item<'_>) -> Option<TaskToolCall> {
    let tool = item.tool()?;
    let started_at = item.started_at.or(item.ended_at)?;
    Some(TaskToolCall {
        id: item.id.to_string(),
        name: tool.display_name.unwrap_or(tool.name).to_owned(),
        status: match item.status {
            ItemStatus::InProgress => TaskToolStatus::Running,
            ItemStatus::Completed => TaskToolStatus::Success,
            ItemStatus::Failed => TaskToolStatus::Failed,
            ItemStatus::Interrupted => TaskToolStatus::Canceled,
        },
        started_at: ids::time(started_at),
        ended_at: item.ended_at.map(ids::time),
        duration_ms: tool.duration_ms,
        input_summary: tool.arguments.map(|input| short(&input.to_string())),
    })
}

/// Converts an automation.
pub(crate) fn automation_record(automation: &Automation) -> Result<AutomationRecord> {
    let (plan, spec) = (&automation.plan, &automation.plan.spec);
    let record = AutomationRecord {
        schema_version: VERSION,
        id: automation.id.to_string(),
        name: plan.name.clone(),
        prompt: spec.prompt.clone(),
        rrule: plan.rrule.clone(),
        cwds: plan.cwds.clone(),
        status: automation_status(automation.status),
        created_at: ids::time(automation.created_at),
        updated_at: ids::time(automation.updated_at),
        next_run_at: automation.next_run_at.map(ids::time),
        last_run_at: automation.last_run_at.map(ids::time),
        time_zone: plan.time_zone.clone(),
        missed: missed_runs(plan.missed),
        max_attempts: spec.max_attempts,
        ..AutomationRecord::default()
    };
    Ok(record.with_policy(&policy(spec)?))
}

/// Converts a run; its status is the status of its task. A run whose task the queue refused has failed. A run whose task was pruned has completed.
pub(crate) fn run_record(app: &Service, found: &RunWithTask) -> AutomationRunRecord {
    let (run, task) = (&found.run, found.task.as_ref());
    let held = task.and_then(|task| app.hold_of(task));
    let status = match (task, &run.error) {
        (Some(task), _) => task_status(task.status()),
        (None, Some(_)) => TaskStatus::Failed,
        (None, None) if found.is_pending => TaskStatus::Queued,
        (None, None) => TaskStatus::Completed,
    };
    AutomationRunRecord {
        schema_version: VERSION,
        id: run.id.to_string(),
        automation_id: run.automation_id.to_string(),
        scheduled_for: ids::time(run.scheduled_for),
        status,
        created_at: ids::time(run.created_at),
        started_at: task.and_then(started_at).map(ids::time),
        ended_at: task.and_then(Task::end).map(|end| ids::time(end.at)),
        task_id: task.map(|task| task.id.to_string()),
        thread_id: task.and_then(thread_id),
        turn_id: task.and_then(Task::turn_id).map(|turn| turn.to_string()),
        error: run.error.clone().or_else(|| error(task?, held.as_ref())),
        held,
        unapproved_calls: task.and_then(unapproved_calls),
    }
}
