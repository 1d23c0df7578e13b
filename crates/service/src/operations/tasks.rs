//! Adds, lists and cancels tasks.

use windlass_core::turn_policy::TurnPolicyOptions;
use windlass_jobs::{JobError, JobSpec, NewTask, Task, TaskId};
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;
use windlass_protocol::{ErrorCode, TaskCounts, TaskList, TaskRecord, TaskStatus};

use super::start::said;
use super::thread_record::{params_of_thread, stored_options};
use super::{RequestContext, limit};
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::ids;
use crate::jobs::{Jobs, task_status, thread_for};
use crate::service::Service;

/// Number of tasks per read, and of reads per response; beyond that, the response contains a cursor.
const PAGE: usize = 250;
const PAGES: usize = 8;

/// Default and maximum number of listed entries.
pub(super) const DEFAULT_LIMIT: usize = 50;
pub(super) const MAX_LIMIT: usize = 500;

impl Service {
    /// Returns the job queue.
    pub(crate) fn jobs(&self) -> Result<&Jobs> {
        self.jobs.as_ref().ok_or_else(|| {
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

/// Queues a task. Its options are fixed here: they are shown to clients and do not change later.
impl Handle<op::CreateTask> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::CreateTask>,
    ) -> Result<TaskRecord> {
        context.unknown_fields.refuse_limits()?;
        let request = call.request;
        let jobs = self.jobs()?;
        self.check_serving()?;
        said(&request.prompt)?;
        let mut spec = JobSpec {
            policy: stored_options(request.policy()),
            prompt: request.prompt,
            workspace: request.workspace,
            max_attempts: request.max_attempts.unwrap_or(1),
        };
        spec.check()?;
        let draft = self.draft(context, thread_for(&spec)?)?;
        // Defaults depend on the server that runs the task, so another server leaves them open.
        if self.runs_jobs() {
            let settled = stored_options(params_of_thread(&draft.policy));
            let reasoning_effort = spec.policy.reasoning_effort;
            spec.policy = TurnPolicyOptions {
                reasoning_effort,
                ..settled
            };
        } else if spec.policy.model.is_some() {
            spec.policy.model = Some(draft.policy.model);
        }
        // A task without a directory works in the directory of the daemon that runs it.
        spec.workspace = spec.workspace.map(|_| draft.workspace);
        spec.policy.backend = draft.policy.backend;
        let task = NewTask {
            request: context.repeatable.clone(),
            ..NewTask::new(spec)
        };
        let task = jobs.tasks.submit(&context.caller.owner(), task).await?;
        self.task_record(&task).await
    }
}

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

impl Handle<op::CancelTask> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::CancelTask>,
    ) -> Result<TaskRecord> {
        let id = &call.path.id;
        let task = self.find_task(context, id).await?;
        let task = self.jobs()?.tasks.cancel(task.id).await?;
        self.task_record(&task).await
    }
}

/// Lists tasks, newest first, with a cursor for the next page.
impl Handle<op::ListTasks> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::ListTasks>,
    ) -> Result<TaskList> {
        let query = call.query;
        let limit = limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let statuses = query.status.map(|list| list.0).unwrap_or_default();
        let tasks = &self.jobs()?.tasks;
        let owner = context.caller.agent().map(|_| context.caller.owner());
        let cursor = query.cursor.as_deref().map(str::parse::<TaskId>);
        let mut before = cursor
            .transpose()
            .map_err(|_| ApiError::query("cursor must be the one of the page before"))?;
        let mut listed = Vec::new();
        'pages: for _ in 0..PAGES {
            let size = if statuses.is_empty() {
                limit - listed.len()
            } else {
                PAGE
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
            // An agent must not learn the workload of other owners.
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
    /// Finds a task. For an agent, tasks of other owners do not exist.
    async fn find_task(&self, context: &RequestContext, id: &str) -> Result<Task> {
        let tasks = &self.jobs()?.tasks;
        let parsed: TaskId = ids::exact(id).ok_or_else(|| not_found(id))?;
        match tasks.get(parsed).await {
            Ok(task) if context.caller.may_see(&task.owner) => Ok(task),
            // The same error, so that it does not reveal whether the task exists.
            Ok(_) | Err(JobError::NotFound { .. }) => Err(not_found(id)),
            Err(error) => Err(error.into()),
        }
    }
}

fn counts(counts: windlass_jobs::TaskCounts) -> TaskCounts {
    TaskCounts {
        queued: counts.queued as u64,
        running: counts.running as u64,
        completed: counts.completed,
        failed: counts.failed,
        canceled: counts.canceled,
    }
}

/// Counts the tasks of a list by status.
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
