//! Queueing tasks, looking at them, and calling them off.

use windlass_core::turn_policy::TurnPolicyOptions;
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;
use windlass_protocol::{ErrorCode, TaskCounts, TaskList, TaskRecord, TaskStatus};
use windlass_work::{NewTask, Task, TaskId, WorkError, WorkSpec};

use super::start::said;
use super::thread_record::{params_of_thread, stored_options};
use super::{RequestContext, limit};
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::ids;
use crate::service::Service;
use crate::work::{Work, task_status, thread_for};

/// How many tasks are read at a time, and how often, before the answer says where to go on.
const PAGE: usize = 250;
const PAGES: usize = 8;

/// How many entries are listed by default, and at most.
pub(super) const DEFAULT_LIMIT: usize = 50;
pub(super) const MAX_LIMIT: usize = 500;

impl Service {
    /// Returns what carries work out that nobody sits beside.
    pub(crate) fn work(&self) -> Result<&Work> {
        self.work.as_ref().ok_or_else(|| {
            ApiError::new(
                ErrorCode::NotConfigured,
                "this process carries no tasks and automations out; start `windlass serve`",
            )
        })
    }
}

fn not_found(id: &str) -> ApiError {
    ApiError::new(
        ErrorCode::TaskNotFound,
        format!("no task has the id `{id}`"),
    )
}

/// Queues a task. What it works with is settled here: it is shown, and stays.
impl Handle<op::CreateTask> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::CreateTask>,
    ) -> Result<TaskRecord> {
        context.unknown_fields.refuse_limits()?;
        let request = call.request;
        let work = self.work()?;
        self.check_serving()?;
        said(&request.prompt)?;
        let mut spec = WorkSpec {
            policy: stored_options(request.policy()),
            prompt: request.prompt,
            workspace: request.workspace,
            max_attempts: request.max_attempts.unwrap_or(1),
        };
        spec.check()?;
        let draft = self.draft(context, thread_for(&spec)?)?;
        // What is usual where it will be carried out, only that server knows.
        if self.carries_work_out() {
            let settled = stored_options(params_of_thread(&draft.policy));
            let reasoning_effort = spec.policy.reasoning_effort;
            spec.policy = TurnPolicyOptions {
                reasoning_effort,
                ..settled
            };
        } else if spec.policy.model.is_some() {
            spec.policy.model = Some(draft.policy.model);
        }
        // One that names no directory works in the daemon's, whichever that is by then.
        spec.workspace = spec.workspace.map(|_| draft.workspace);
        spec.policy.backend = draft.policy.backend;
        let task = NewTask {
            request: context.repeatable.clone(),
            ..NewTask::new(spec)
        };
        let task = work.tasks.submit(&context.caller.owner(), task).await?;
        self.task_record(&task).await
    }
}

/// Returns a task.
impl Handle<op::GetTask> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::GetTask>,
    ) -> Result<TaskRecord> {
        let id = &call.path.id;
        let task = self.find_task(context, id).await?;
        self.task_record(&task).await
    }
}

/// Calls a task off.
impl Handle<op::CancelTask> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::CancelTask>,
    ) -> Result<TaskRecord> {
        let id = &call.path.id;
        let task = self.find_task(context, id).await?;
        let task = self.work()?.tasks.cancel(task.id).await?;
        self.task_record(&task).await
    }
}

/// Lists tasks, newest first, and says where to go on.
impl Handle<op::ListTasks> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::ListTasks>,
    ) -> Result<TaskList> {
        let query = call.query;
        let limit = limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let statuses = query.status.map(|list| list.0).unwrap_or_default();
        let tasks = &self.work()?.tasks;
        let owner = context.caller.agent().map(|_| context.caller.owner());
        let cursor = query.cursor.as_deref().map(str::parse::<TaskId>);
        let mut before = cursor
            .transpose()
            .map_err(|_| ApiError::query("cursor must be the one of the page before"))?;
        let mut listed = Vec::new();
        'pages: for _ in 0..PAGES {
            let size = match statuses.is_empty() {
                true => limit - listed.len(),
                false => PAGE,
            };
            let page = tasks.list(owner.as_deref(), before, size).await?;
            for task in page.tasks {
                let (id, status) = (task.id, task_status(task.status()));
                if statuses.is_empty() || statuses.contains(&status) {
                    listed.push(task);
                }
                if listed.len() >= limit {
                    before = Some(id);
                    break 'pages;
                }
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        let mut summaries = Vec::with_capacity(listed.len());
        for task in &listed {
            summaries.push(self.task_summary(task).await?);
        }
        let counts = match owner {
            // How busy others are is not an agent's business.
            Some(_) => counted(&listed),
            None => counts(tasks.counts().await?),
        };
        Ok(TaskList {
            tasks: summaries,
            counts,
            next: before.map(|before| before.to_string()),
        })
    }
}

impl Service {
    /// Finds a task; what belongs to others does not exist for an agent.
    async fn find_task(&self, context: &RequestContext, id: &str) -> Result<Task> {
        let tasks = &self.work()?.tasks;
        let parsed: TaskId = ids::exact(id).ok_or_else(|| not_found(id))?;
        match tasks.get(parsed).await {
            Ok(task) if context.caller.may_see(&task.owner) => Ok(task),
            // In the same words, so that nobody learns whether there is one.
            Ok(_) | Err(WorkError::NotFound { .. }) => Err(not_found(id)),
            Err(error) => Err(error.into()),
        }
    }
}

fn counts(counts: windlass_work::TaskCounts) -> TaskCounts {
    TaskCounts {
        queued: counts.queued as u64,
        running: counts.running as u64,
        completed: counts.completed,
        failed: counts.failed,
        canceled: counts.canceled,
    }
}

/// Counts the tasks of a list.
fn counted(tasks: &[Task]) -> TaskCounts {
    let mut counts = TaskCounts::default();
    for task in tasks {
        *match task_status(task.status()) {
            TaskStatus::Queued => &mut counts.queued,
            TaskStatus::Running => &mut counts.running,
            TaskStatus::Completed => &mut counts.completed,
            TaskStatus::Failed => &mut counts.failed,
            TaskStatus::Canceled => &mut counts.canceled,
        } += 1;
    }
    counts
}
