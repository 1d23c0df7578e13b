//! Creates fleet runs. Options that are not supported are rejected: a limit that is accepted but not enforced would be worse than none.

use std::collections::{BTreeSet, HashSet};

use windlass_core::turn_policy::TurnPolicyOptions;
use windlass_jobs::fleet::{FleetStart, FleetTaskSpec, WorkerSpec};
use windlass_jobs::{FleetPlan, JobError, JobSpec};
use windlass_protocol::fleet as wire;

use super::THIS_COMPUTER;
use crate::jobs::thread_request;
use crate::operations::prelude::*;
use crate::operations::threads::thread_record::{USE_PERMISSIONS, stored_options};

/// Maximum and default number of workers of a run.
const MAX_WORKERS: usize = 64;
const DEFAULT_WORKERS: usize = 8;

fn unsupported(field: &str, why: &str) -> ApiError {
    let text = format!("`{field}` is not supported: {why}");
    ApiError::field(field, text)
}

/// Creates a run. Every task is validated like a thread before anything is stored.
impl Handle<op::CreateFleetRun> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::CreateFleetRun>,
    ) -> Result<wire::CreatedFleetRun> {
        // An unknown field may be meant as a limit, so it is rejected. A retry policy limits nothing, so unknown fields in it are ignored.
        ctx.unknown_fields.refuse(&["retry_policy"])?;
        let request = call.request;
        self.check_serving()?;
        let fleet = self.fleet()?.clone();
        // The location of the tasks in the body.
        let tasks = match request.workflow {
            Some(_) => "/workflow/tasks",
            None => "/tasks",
        };
        let plan = plan(request, tasks)?;
        check_bounds(&plan, tasks)?;
        self.check_tasks(ctx, &plan, tasks).await?;
        let (owner, repeated) = (ctx.caller.owner(), ctx.repeatable.clone());
        let created =
            self.run_detached(async move { fleet.create(&owner, plan, repeated.as_deref()).await });
        let run = created.await??;
        let execution = if run.waits_for_start() {
            "awaiting_start"
        } else {
            "scheduled"
        };
        Ok(wire::CreatedFleetRun {
            execution: execution.to_owned(),
            run: self.show_detail(&run).await?,
            warnings: Vec::new(),
        })
    }
}

impl Service {
    async fn check_tasks(&self, ctx: &RequestContext, plan: &FleetPlan, tasks: &str) -> Result<()> {
        let mut backends: Vec<(usize, &Option<String>)> = Vec::new();
        for (index, worker) in plan.workers.iter().enumerate() {
            if backends.iter().all(|(_, known)| **known != worker.backend) {
                backends.push((index, &worker.backend));
            }
        }
        let mut seen = HashSet::new();
        for (index, task) in plan.tasks.iter().enumerate() {
            for (worker, backend) in &backends {
                let mut spec = task.spec.clone();
                spec.prompt.clear();
                let policy = &mut spec.policy;
                policy.backend = policy.backend.take().or_else(|| (*backend).clone());
                // Most tasks have the same options, which are checked once.
                if !seen.insert(format!("{spec:?}")) {
                    continue;
                }
                // Checking a thousand long paths takes seconds; this lets other requests proceed.
                tokio::task::yield_now().await;
                let checked = thread_request(&spec).and_then(|thread| self.draft(ctx, thread));
                checked.map_err(|error| {
                    let text = format!("task `{}`: {}", task.task_id, error.message());
                    let is_of_worker = task.spec.policy.backend.is_none() && backend.is_some();
                    let at = match error.pointer().unwrap_or_default() {
                        "/backend" if is_of_worker => format!("/workers/{worker}/backend"),
                        field => task_pointer(tasks, index, field),
                    };
                    error.at(&at).with_message(text)
                })?;
            }
        }
        Ok(())
    }
}

/// Returns the JSON pointer of a task's field in the body, where its name may differ from the plan.
fn task_pointer(tasks: &str, index: usize, field: &str) -> String {
    let field = match field.trim_start_matches('/') {
        "prompt" => "instructions",
        "model" => "worker/model",
        "role" => "worker/role",
        "workspace" => "workspace/root",
        "max_attempts" => "retry_policy/max_attempts",
        field => field,
    };
    format!("{tasks}/{index}/{field}")
}

/// Rejects a plan that exceeds a bound, with a pointer to the field in the body.
fn check_bounds(plan: &FleetPlan, tasks: &str) -> Result<()> {
    // Converts an error of a part of the plan, and its field to a pointer into the body.
    let error_at = |error: JobError, pointer: &dyn Fn(&str) -> String| {
        let error = ApiError::from(error);
        let pointer = pointer(error.pointer().unwrap_or_default());
        error.at(&pointer)
    };
    for (index, task) in plan.tasks.iter().enumerate() {
        let pointer = |field: &str| task_pointer(tasks, index, field);
        task.check().map_err(|error| error_at(error, &pointer))?;
    }
    for (index, worker) in plan.workers.iter().enumerate() {
        let pointer = |field: &str| format!("/workers/{index}{field}");
        worker.check().map_err(|error| error_at(error, &pointer))?;
    }
    let pointer = |field: &str| match field {
        "/tasks" => tasks.to_owned(),
        field => field.to_owned(),
    };
    plan.check().map_err(|error| error_at(error, &pointer))
}

/// Converts a request to a plan; `at` is the JSON pointer of its tasks.
fn plan(request: wire::CreateFleetRun, at: &str) -> Result<FleetPlan> {
    if request.security_policy.is_some() {
        return Err(unsupported(
            "/security_policy",
            "the task of a worker defines its permissions",
        ));
    }
    let target = request.target.as_deref();
    if target.is_some_and(|target| target != THIS_COMPUTER) {
        let text = "runs are executed on `this_computer`";
        return Err(unsupported("/target", text));
    }
    let workflow = request.workflow;
    let kind = workflow.as_ref().and_then(|it| it.kind.as_deref());
    if kind.is_some_and(|kind| kind != "parallel") {
        return Err(unsupported(
            "/workflow/kind",
            "tasks of a run do not wait for each other; the kind is `parallel`",
        ));
    }
    let (id, tasks) = match (workflow, request.tasks) {
        (Some(workflow), None) => (Some(workflow.id), workflow.tasks),
        (None, Some(tasks)) => (None, tasks),
        (None, None) => return Err(ApiError::field("/workflow", "there are no tasks")),
        (Some(_), Some(_)) => {
            return Err(ApiError::field(
                "/tasks",
                "tasks are listed in `workflow` or in `tasks`, not in both",
            ));
        }
    };
    let roles = known_roles(request.roles)?;
    let tasks = tasks.into_iter().enumerate();
    let tasks: Vec<_> = tasks
        .map(|(index, spec)| task(spec, roles.as_ref(), &format!("{at}/{index}")))
        .collect::<Result<_>>()?;
    let workers = workers(request.workers, request.max_workers, tasks.len())?;
    let name = request.name.or(id).unwrap_or_else(|| "fleet".to_owned());
    Ok(FleetPlan {
        name,
        tasks,
        workers,
        labels: request.labels.unwrap_or_default(),
        begins: match request.start {
            Some(true) => FleetStart::AtOnce,
            Some(false) | None => FleetStart::WhenStarted,
        },
    })
}

fn known_roles(roles: Option<Vec<wire::FleetRole>>) -> Result<Option<BTreeSet<String>>> {
    let Some(roles) = roles else {
        return Ok(None);
    };
    let mut profiles = roles.iter().map(|role| &role.agent_profile);
    if let Some(index) = profiles.position(Option::is_some) {
        let field = format!("/roles/{index}/agent_profile");
        return Err(unsupported(&field, "there are no profiles"));
    }
    Ok(Some(roles.into_iter().map(|role| role.name).collect()))
}

fn workers(
    requested: Option<Vec<wire::FleetWorkerRequest>>,
    max: Option<usize>,
    tasks: usize,
) -> Result<Vec<WorkerSpec>> {
    let requested = match (requested, max) {
        (Some(_), Some(_)) => {
            return Err(ApiError::field(
                "/max_workers",
                "name the workers in `workers` or their number in `max_workers`, not both",
            ));
        }
        (Some(requested), None) => requested,
        (None, Some(count)) if !(1..=MAX_WORKERS).contains(&count) => {
            let text = format!("must be from 1 to {MAX_WORKERS}, not {count}");
            return Err(ApiError::field("/max_workers", text));
        }
        (None, max) => {
            let count = max.unwrap_or(tasks.clamp(1, DEFAULT_WORKERS));
            vec![wire::FleetWorkerRequest::default(); count]
        }
    };
    let workers = (1..).zip(requested).map(|(number, worker)| WorkerSpec {
        worker_id: format!("w{number}"),
        role: worker.role.unwrap_or_default(),
        backend: worker.backend,
    });
    Ok(workers.collect())
}

fn task(
    task: wire::FleetTaskSpec,
    roles: Option<&BTreeSet<String>>,
    at: &str,
) -> Result<FleetTaskSpec> {
    refuse_unsupported(&task, at)?;
    let prompt = prompt(&task);
    let permissions = stored_options(task.policy());
    let worker = task.worker.unwrap_or_default();
    if let (Some(roles), Some(role)) = (roles, &worker.role)
        && !roles.contains(role)
    {
        let text = format!(
            "task `{}` has the role `{role}`, which `roles` does not have",
            task.id
        );
        return Err(ApiError::field(&format!("{at}/worker/role"), text));
    }
    let spec = JobSpec {
        policy: TurnPolicyOptions {
            model: worker.model,
            mode: task.mode,
            ..permissions
        },
        workspace: task.workspace.and_then(|workspace| workspace.root),
        max_attempts: task.retry_policy.map_or(1, |policy| policy.max_attempts),
        ..JobSpec::new(prompt)
    };
    Ok(FleetTaskSpec {
        name: task.name,
        objective: task.objective,
        role: worker.role,
        ..FleetTaskSpec::new(task.id, spec)
    })
}

/// Returns the prompt for the agent.
fn prompt(task: &wire::FleetTaskSpec) -> String {
    let mut prompt = task.instructions.clone();
    for text in &task.context {
        prompt.push_str("\n\n");
        prompt.push_str(text);
    }
    if !task.input_files.is_empty() {
        prompt.push_str("\n\nRead these files first:\n- ");
        prompt.push_str(&task.input_files.join("\n- "));
    }
    prompt
}

/// Refuses the options of a task that the daemon does not support.
fn refuse_unsupported(task: &wire::FleetTaskSpec, at: &str) -> Result<()> {
    let worker = task.worker.clone().unwrap_or_default();
    let workspace = task.workspace.clone().unwrap_or_default();
    let refuse = |is_present: bool, field: &str, why: &str| {
        if is_present {
            return Err(unsupported(&format!("{at}/{field}"), why));
        }
        Ok(())
    };
    let budgets = "use the budgets of the daemon or of the token";
    refuse(task.budget.is_some(), "budget", budgets)?;
    let scorer = "the daemon does not judge results";
    refuse(task.scorer.is_some(), "scorer", scorer)?;
    let alerts = "the daemon sends no alerts";
    refuse(task.alert_policy.is_some(), "alert_policy", alerts)?;
    let timeout = "a task ends with its turn";
    refuse(task.timeout_seconds.is_some(), "timeout_seconds", timeout)?;
    let artifacts = "the daemon collects no artifacts";
    let has_artifacts = !task.expected_artifacts.is_empty();
    refuse(has_artifacts, "expected_artifacts", artifacts)?;
    let profiles = "there are no profiles";
    refuse(
        worker.agent_profile.is_some(),
        "worker/agent_profile",
        profiles,
    )?;
    refuse(
        worker.tool_profile.is_some(),
        "worker/tool_profile",
        profiles,
    )?;
    refuse(!worker.tools.is_empty(), "worker/tools", USE_PERMISSIONS)?;
    let has_capabilities = !worker.capabilities.is_empty();
    refuse(has_capabilities, "worker/capabilities", USE_PERMISSIONS)?;
    let files = "the daemon does not check files before a task starts";
    let has_files = !workspace.required_files.is_empty();
    refuse(has_files, "workspace/required_files", files)?;
    let paths = "the environment defines the writable paths";
    let has_paths = !workspace.writable_paths.is_empty();
    refuse(has_paths, "workspace/writable_paths", paths)?;
    let variables = "the operator defines the variables";
    refuse(
        workspace.environment.is_some(),
        "workspace/environment",
        variables,
    )
}
