//! Adds, lists and cancels tasks.

use windlass_core::turn_policy::TurnPolicyOptions;
use windlass_jobs::{JobSpec, NewTask, Task, TaskId};
use windlass_protocol::{TaskCounts, TaskList, TaskRecord, TaskStatus};

use crate::ids;
use crate::jobs::{Jobs, task_status, thread_request};
use crate::operations::prelude::*;
use crate::operations::threads::thread_record::{params_of_thread, stored_options};
use crate::operations::turns::start::require_prompt;

/// Number of tasks per read, and of reads per response; beyond that, the response contains a cursor.
const PAGE: usize = 250;
const PAGES: usize = 8;

/// Default and maximum number of listed entries.
pub(crate) const DEFAULT_LIMIT: usize = 50;
pub(crate) const MAX_LIMIT: usize = 500;

impl Service {
    /// Returns the job ledgers; an error if this process has none.
    pub(crate) fn jobs(&self) -> Result<&Jobs> {
        self.jobs.as_ref().ok_or_else(|| {
            ApiError::new(
                ErrorCode::NotConfigured,
                "this process runs no tasks and automations; start `windlass serve`",
            )
        })
    }
}

fn not_found(id: &str) -> ApiError {
    let text = format!("no task has the id `{id}`");
    ApiError::new(ErrorCode::TaskNotFound, text)
}

/// Queues a task. Its options are fixed here: they are shown to clients and do not change later.
impl Handle<op::CreateTask> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::CreateTask>) -> Result<TaskRecord> {
        ctx.unknown_fields.refuse_limits()?;
        let request = call.request;
        let jobs = self.jobs()?;
        self.check_serving()?;
        require_prompt(&request.prompt)?;
        let mut spec = JobSpec {
            policy: stored_options(request.policy()),
            prompt: request.prompt,
            workspace: request.workspace,
            max_attempts: request.max_attempts.unwrap_or(1),
        };
        spec.check()?;
        let draft = self.draft(ctx, thread_request(&spec)?)?;
        // Defaults depend on the daemon that runs the task, so another daemon leaves them open.
        if self.runs_jobs() {
            spec.policy = TurnPolicyOptions {
                reasoning_effort: spec.policy.reasoning_effort,
                ..stored_options(params_of_thread(&draft.policy))
            };
        } else if spec.policy.model.is_some() {
            spec.policy.model = Some(draft.policy.model);
        }
        // A task without a directory works in the directory of the daemon that runs it.
        spec.workspace = spec.workspace.map(|_| draft.workspace);
        spec.policy.backend = draft.policy.backend;
        let task = NewTask {
            request: ctx.repeatable.clone(),
            ..NewTask::new(spec)
        };
        let task = jobs.tasks.submit(&ctx.caller.owner(), task).await?;
        self.task_record(&task).await
    }
}

impl Handle<op::GetTask> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::GetTask>) -> Result<TaskRecord> {
        let task = self.find_task(ctx, &call.path.id).await?;
        self.task_record(&task).await
    }
}

impl Handle<op::CancelTask> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::CancelTask>) -> Result<TaskRecord> {
        let task = self.find_task(ctx, &call.path.id).await?;
        let task = self.jobs()?.tasks.cancel(task.id).await?;
        self.task_record(&task).await
    }
}

/// Lists tasks, newest first, with a cursor for the next page.
impl Handle<op::ListTasks> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::ListTasks>) -> Result<TaskList> {
        let query = call.query;
        let limit = limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let statuses = query.status.map(|list| list.0).unwrap_or_default();
        let tasks = &self.jobs()?.tasks;
        let owner = ctx.caller.agent().map(|_| ctx.caller.owner());
        let cursor = query.cursor.as_deref().map(str::parse::<TaskId>);
        let mut before = cursor
            .transpose()
            .map_err(|_| ApiError::query("cursor must be the one of the previous page"))?;
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
    async fn find_task(&self, ctx: &RequestContext, id: &str) -> Result<Task> {
        let tasks = &self.jobs()?.tasks;
        let not_found = || not_found(id);
        let found = tasks.get(ids::exact(id).ok_or_else(not_found)?).await;
        accessible(ctx, found, |task| &task.owner, not_found)
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
