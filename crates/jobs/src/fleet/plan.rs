//! What a run of a fleet is asked to do, and what it may not ask.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::error::{JobError, check_name, check_text};
use crate::spec::JobSpec;

/// The most tasks of a run.
const TASKS: usize = 1000;
/// The most workers of a run.
const WORKERS: usize = 64;
/// The longest name, and how many labels there may be.
const NAME_BYTES: usize = 256;
const LABELS: usize = 32;
/// The longest objective of a task.
const OBJECTIVE_BYTES: usize = 1024;
/// How much all prompts of a run have together.
const PLAN_BYTES: usize = 1024 * 1024;

/// What a run is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FleetPlan {
    /// What people call it.
    pub name: String,
    /// What is to be done, each by one worker. `max_attempts` of a task is how often it may be tried.
    pub tasks: Vec<FleetTaskSpec>,
    /// Who does it.
    pub workers: Vec<WorkerSpec>,
    /// Words of the client.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When its first task may begin.
    #[serde(default, skip_serializing_if = "FleetBegins::is_at_once")]
    pub begins: FleetBegins,
}

/// When the first task of a run may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetBegins {
    /// As soon as it is made.
    #[default]
    AtOnce,
    /// When somebody starts it.
    WhenStarted,
}

impl FleetBegins {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_at_once(&self) -> bool {
        *self == Self::AtOnce
    }
}

/// A task of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetTaskSpec {
    /// Names it among those of its run.
    pub task_id: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for, in short; the agent is told `spec.prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// In which role it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// What is to be done.
    pub spec: JobSpec,
}

impl FleetTaskSpec {
    /// Asks for something under a name.
    pub fn new(task_id: impl Into<String>, spec: JobSpec) -> Self {
        Self {
            task_id: task_id.into(),
            name: None,
            objective: None,
            role: None,
            spec,
        }
    }

    /// Refuses what is over a bound.
    pub fn check(&self) -> Result<(), JobError> {
        check_name("id", &self.task_id, NAME_BYTES)?;
        self.spec.check()?;
        for (field, value) in [("name", &self.name), ("role", &self.role)] {
            if let Some(value) = value {
                check_name(field, value, NAME_BYTES)?;
            }
        }
        check_text(
            "objective",
            self.objective.as_deref().unwrap_or_default(),
            OBJECTIVE_BYTES,
            false,
        )
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
    /// Names it among those of its run.
    pub worker_id: String,
    /// What it is for.
    #[serde(default)]
    pub role: String,
    /// The foreign agent that works in its place, unless the task names one; the built-in loop where neither does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}

impl WorkerSpec {
    /// Refuses what is over a bound.
    pub fn check(&self) -> Result<(), JobError> {
        check_text("role", &self.role, NAME_BYTES, false)?;
        match &self.backend {
            Some(backend) => check_name("backend", backend, NAME_BYTES),
            None => Ok(()),
        }
    }
}

impl FleetPlan {
    /// Refuses what is over a bound.
    pub fn check(&self) -> Result<(), JobError> {
        check_name("name", &self.name, NAME_BYTES)?;
        let tasks = self.tasks.iter().map(|task| task.task_id.as_str());
        check_ids("tasks", tasks, TASKS)?;
        let workers = self.workers.iter().map(|worker| worker.worker_id.as_str());
        check_ids("workers", workers, WORKERS)?;
        self.tasks.iter().try_for_each(FleetTaskSpec::check)?;
        let bytes: usize = self.tasks.iter().map(FleetTaskSpec::bytes).sum();
        if bytes > PLAN_BYTES {
            let reason = format!("has texts of {bytes} bytes, and {PLAN_BYTES} are allowed");
            return Err(JobError::invalid("tasks", reason));
        }
        self.workers.iter().try_for_each(WorkerSpec::check)?;
        if self.labels.len() > LABELS {
            let reason = format!("has more than {LABELS} labels");
            return Err(JobError::invalid("labels", reason));
        }
        for (name, value) in &self.labels {
            check_name("labels", name, NAME_BYTES)?;
            check_text("labels", value, NAME_BYTES, false)?;
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
