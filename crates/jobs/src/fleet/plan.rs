//! The plan of a fleet run and its limits.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use windlass_macros::omit_none;

use crate::error::{JobError, check_length, check_name, check_optional_name};
use crate::spec::JobSpec;

/// Maximum number of tasks of a run.
const MAX_TASKS: usize = 1000;
/// Maximum number of workers of a run.
const MAX_WORKERS: usize = 64;
/// Maximum length of a name in bytes.
const NAME_BYTES: usize = 256;
/// Maximum number of labels.
const MAX_LABELS: usize = 32;
/// Maximum length of a task's objective in bytes.
const OBJECTIVE_BYTES: usize = 1024;
/// Maximum size of all texts of a plan in bytes.
const PLAN_BYTES: usize = 1024 * 1024;

/// The plan of a fleet run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FleetPlan {
    /// Name for display.
    pub name: String,
    /// The tasks. `max_attempts` of a task limits its attempts.
    pub tasks: Vec<FleetTaskSpec>,
    /// The workers that execute the tasks.
    pub workers: Vec<WorkerSpec>,
    /// Labels of the client, not interpreted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When its first task may start.
    #[serde(default, skip_serializing_if = "FleetStart::is_at_once")]
    pub begins: FleetStart,
}

/// When the first task of a run may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetStart {
    /// Immediately after the creation of the run.
    #[default]
    AtOnce,
    /// When a client starts the run.
    WhenStarted,
}

impl FleetStart {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    fn is_at_once(&self) -> bool {
        *self == Self::AtOnce
    }
}

/// A task of a run.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetTaskSpec {
    /// ID, unique within the run.
    pub task_id: String,
    /// Name for display.
    pub name: Option<String>,
    /// Short description of the purpose; the agent receives `spec.prompt`.
    pub objective: Option<String>,
    /// Role of the worker.
    pub role: Option<String>,
    /// The work to do.
    pub spec: JobSpec,
}

impl FleetTaskSpec {
    /// Creates a task with an ID.
    pub fn new(task_id: impl Into<String>, spec: JobSpec) -> Self {
        Self {
            task_id: task_id.into(),
            name: None,
            objective: None,
            role: None,
            spec,
        }
    }

    /// Checks limits; returns the first violation.
    pub fn check(&self) -> Result<(), JobError> {
        check_name("id", &self.task_id, NAME_BYTES)?;
        self.spec.check()?;
        check_optional_name("name", self.name.as_ref(), NAME_BYTES)?;
        check_optional_name("role", self.role.as_ref(), NAME_BYTES)?;
        self.objective
            .iter()
            .try_for_each(|text| check_length("objective", text, OBJECTIVE_BYTES))
    }

    fn bytes(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let policy = &self.spec.policy;
        let of_spec = [&self.spec.workspace, &policy.model, &policy.backend];
        let texts = [&self.name, &self.objective, &self.role];
        let texts: usize = texts.into_iter().chain(of_spec).map(of).sum();
        self.task_id.len() + self.spec.prompt.len() + texts
    }
}

/// A worker of a run: a thread of this daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSpec {
    /// ID, unique within the run.
    pub worker_id: String,
    /// Its role, for display.
    #[serde(default)]
    pub role: String,
    /// The external agent that executes its tasks, unless a task names one; default: the built-in loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}

impl WorkerSpec {
    /// Checks limits; returns the first violation.
    pub fn check(&self) -> Result<(), JobError> {
        check_length("role", &self.role, NAME_BYTES)?;
        check_optional_name("backend", self.backend.as_ref(), NAME_BYTES)
    }
}

impl FleetPlan {
    /// Checks limits; returns the first violation.
    pub fn check(&self) -> Result<(), JobError> {
        check_name("name", &self.name, NAME_BYTES)?;
        let tasks = self.tasks.iter().map(|task| task.task_id.as_str());
        check_ids("tasks", tasks, MAX_TASKS)?;
        let workers = self.workers.iter().map(|worker| worker.worker_id.as_str());
        check_ids("workers", workers, MAX_WORKERS)?;
        self.tasks.iter().try_for_each(FleetTaskSpec::check)?;
        let bytes: usize = self.tasks.iter().map(FleetTaskSpec::bytes).sum();
        if bytes > PLAN_BYTES {
            let reason = format!("has texts of {bytes} bytes, and {PLAN_BYTES} are allowed");
            return Err(JobError::invalid("tasks", reason));
        }
        self.workers.iter().try_for_each(WorkerSpec::check)?;
        if self.labels.len() > MAX_LABELS {
            let reason = format!("has more than {MAX_LABELS} labels");
            return Err(JobError::invalid("labels", reason));
        }
        for (name, value) in &self.labels {
            check_name("labels", name, NAME_BYTES)?;
            check_length("labels", value, NAME_BYTES)?;
        }
        Ok(())
    }
}

fn check_ids<'a>(
    field: &'static str,
    ids: impl ExactSizeIterator<Item = &'a str>,
    limit: usize,
) -> Result<(), JobError> {
    if !(1..=limit).contains(&ids.len()) {
        let reason = format!("must have from 1 to {limit} entries, not {}", ids.len());
        return Err(JobError::invalid(field, reason));
    }
    let mut seen = HashSet::new();
    for id in ids {
        check_name(field, id, NAME_BYTES)?;
        if !seen.insert(id) {
            return Err(JobError::invalid(field, format!("has `{id}` twice")));
        }
    }
    Ok(())
}
