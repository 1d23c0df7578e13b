//! Creates fleet runs. Options that are not supported are rejected: a limit that is accepted but not enforced would be worse than none.

use crate::operations::thread_record::{USE_PERMISSIONS, stored_options};
use std::collections::{BTreeSet, HashSet};
use windlass_core::turn_policy::TurnPolicyOptions;

use windlass_jobs::fleet::{FleetStart, FleetTaskSpec, WorkerSpec};
use windlass_jobs::{FleetPlan, JobSpec};
use windlass_protocol::api::Call;
use windlass_protocol::fleet as wire;
use windlass_protocol::operations as op;

use super::HERE;
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::jobs::thread_for;
use crate::operations::RequestContext;
use crate::service::Service;

/// Maximum and default number of workers of a run.
const MAX_WORKERS: usize = 64;
const USUAL_WORKERS: usize = 8;

fn not_served(field: &str, why: &str) -> ApiError {
    let text = format!("`{field}` is not served: {why}");
    ApiError::field(field, text)
}

/// Creates a run. Every task is validated like a thread before anything is stored.
impl Handle<op::CreateFleetRun> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::CreateFleetRun>,
    ) -> Result<wire::CreatedFleetRun> {
        // An unknown field may be meant as a limit, so it is rejected. A retry policy limits nothing, so unknown fields in it are ignored.
        context.unknown_fields.refuse(&["retry_policy"])?;
        let request = call.request;
        self.check_serving()?;
        let fleet = self.fleet()?.clone();
        // The location of the tasks in the body.
        let tasks = if request.workflow.is_some() {
            "/workflow/tasks"
        } else {
            "/tasks"
        };
        let plan = plan(request, tasks)?;
        check_bounds(&plan, tasks)?;
        self.check_tasks(context, &plan, tasks).await?;
        let (owner, repeated) = (context.caller.owner(), context.repeatable.clone());
        let made = self.carry(async move { fleet.create(&owner, plan, repeated.as_deref()).await });
        let run = made.await??;
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
    async fn check_tasks(
        &self,
        context: &RequestContext,
        plan: &FleetPlan,
        tasks: &str,
    ) -> Result<()> {
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
                let checked = thread_for(&spec).and_then(|thread| self.draft(context, thread));
                checked.map_err(|error| {
                    let text = format!("task `{}`: {}", task.task_id, error.message());
                    let is_of_worker = task.spec.policy.backend.is_none() && backend.is_some();
                    let at = match error.pointer().unwrap_or_default() {
                        "/backend" if is_of_worker => format!("/workers/{worker}/backend"),
                        field => of_task(tasks, index, field.trim_start_matches('/')),
                    };
                    error.at(&at).saying(text)
                })?;
            }
        }
        Ok(())
    }
}

/// Returns the JSON pointer of a task's field in the body, where its name may differ from the plan.
fn of_task(tasks: &str, index: usize, field: &str) -> String {
    let field = match field {
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
    let field_of = |error: &ApiError| error.pointer().unwrap_or_default().to_owned();
    for (index, task) in plan.tasks.iter().enumerate() {
        task.check().map_err(|error| {
            let error = ApiError::from(error);
            let field = field_of(&error);
            error.at(&of_task(tasks, index, field.trim_start_matches('/')))
        })?;
    }
    for (index, worker) in plan.workers.iter().enumerate() {
        worker.check().map_err(|error| {
            let error = ApiError::from(error);
            let field = field_of(&error);
            error.at(&format!("/workers/{index}{field}"))
        })?;
    }
    plan.check().map_err(|error| {
        let error = ApiError::from(error);
        match error.pointer() {
            Some("/tasks") => error.at(tasks),
            _ => error,
        }
    })
}

/// Converts a request to a plan; `at` is the JSON pointer of its tasks.
fn plan(request: wire::CreateFleetRun, at: &str) -> Result<FleetPlan> {
    if request.security_policy.is_some() {
        return Err(not_served(
            "/security_policy",
            "what a worker may do is said by its task",
        ));
    }
    if request
        .target
        .as_deref()
        .is_some_and(|target| target != HERE)
    {
        return Err(not_served(
            "/target",
            "runs are carried out on `this_computer`",
        ));
    }
    let workflow = request.workflow;
    let kind = workflow.as_ref().and_then(|it| it.kind.as_deref());
    if kind.is_some_and(|kind| kind != "parallel") {
        return Err(not_served(
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
                "tasks stand in `workflow` or in `tasks`, not in both",
            ));
        }
    };
    let roles = known_roles(request.roles)?;
    let tasks: Vec<_> = tasks
        .into_iter()
        .enumerate()
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
        return Err(not_served(&field, "there are no profiles"));
    }
    Ok(Some(roles.into_iter().map(|role| role.name).collect()))
}

fn workers(
    wanted: Option<Vec<wire::FleetWorkerRequest>>,
    max: Option<usize>,
    tasks: usize,
) -> Result<Vec<WorkerSpec>> {
    let named = |index: usize, worker: wire::FleetWorkerRequest| WorkerSpec {
        worker_id: format!("w{}", index + 1),
        role: worker.role.unwrap_or_default(),
        backend: worker.backend,
    };
    let wanted = match (wanted, max) {
        (Some(_), Some(_)) => {
            return Err(ApiError::field(
                "/max_workers",
                "workers are listed in `workers` or counted by `max_workers`, not both",
            ));
        }
        (Some(wanted), None) => wanted,
        (None, Some(count)) if !(1..=MAX_WORKERS).contains(&count) => {
            let text = format!("must be from 1 to {MAX_WORKERS}, not {count}");
            return Err(ApiError::field("/max_workers", text));
        }
        (None, max) => {
            let count = max.unwrap_or(tasks.clamp(1, USUAL_WORKERS));
            vec![wire::FleetWorkerRequest::default(); count]
        }
    };
    let numbered = wanted.into_iter().enumerate();
    Ok(numbered
        .map(|(index, worker)| named(index, worker))
        .collect())
}

fn task(
    task: wire::FleetTaskSpec,
    roles: Option<&BTreeSet<String>>,
    at: &str,
) -> Result<FleetTaskSpec> {
    refuse_unserved(&task, at)?;
    let prompt = told(&task);
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
fn told(task: &wire::FleetTaskSpec) -> String {
    let mut told = task.instructions.clone();
    for text in &task.context {
        told.push_str("\n\n");
        told.push_str(text);
    }
    if !task.input_files.is_empty() {
        told.push_str("\n\nRead these files first:");
        for file in &task.input_files {
            told.push_str("\n- ");
            told.push_str(file);
        }
    }
    told
}

fn refuse_unserved(task: &wire::FleetTaskSpec, at: &str) -> Result<()> {
    let worker = task.worker.clone().unwrap_or_default();
    let workspace = task.workspace.clone().unwrap_or_default();
    let asked = [
        (
            task.budget.is_some(),
            "budget",
            "use the budgets of the daemon or of the token",
        ),
        (
            task.scorer.is_some(),
            "scorer",
            "nothing judges what a task did",
        ),
        (
            task.alert_policy.is_some(),
            "alert_policy",
            "nobody is alerted",
        ),
        (
            task.timeout_seconds.is_some(),
            "timeout_seconds",
            "a task ends with its turn",
        ),
        (
            !task.expected_artifacts.is_empty(),
            "expected_artifacts",
            "nothing collects them",
        ),
        (
            worker.agent_profile.is_some(),
            "worker/agent_profile",
            "there are no profiles",
        ),
        (
            worker.tool_profile.is_some(),
            "worker/tool_profile",
            "there are no profiles",
        ),
        (!worker.tools.is_empty(), "worker/tools", USE_PERMISSIONS),
        (
            !worker.capabilities.is_empty(),
            "worker/capabilities",
            USE_PERMISSIONS,
        ),
        (
            !workspace.required_files.is_empty(),
            "workspace/required_files",
            "nothing is looked for before a task begins",
        ),
        (
            !workspace.writable_paths.is_empty(),
            "workspace/writable_paths",
            "the environment says what can be written",
        ),
        (
            workspace.environment.is_some(),
            "workspace/environment",
            "the operator says which variables there are",
        ),
    ];
    for (is_asked, field, why) in asked {
        if is_asked {
            return Err(not_served(&format!("{at}/{field}"), why));
        }
    }
    Ok(())
}
