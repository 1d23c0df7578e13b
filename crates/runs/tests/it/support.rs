//! Runs on a manual clock, and helpers for tests.

use std::sync::Arc;

use chrono::DateTime;
use serde_json::{Value, json};
use windlass_core::ManualClock;
use windlass_core::runs::{RunOutcome, RunRecord, RunStatus, RunTurn};
use windlass_runs::{
    Agents, ListRuns, RecordOutcome, Role, RunCaller, RunError, RunSettings, Runs, StartRun,
    Started,
};
use windlass_store::{MemoryRunLog, RunLog};

pub(crate) struct RunFixture {
    pub(crate) runs: Runs,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) log: Arc<dyn RunLog>,
}

impl RunFixture {
    pub(crate) async fn new(settings: RunSettings) -> Self {
        Self::on(Arc::new(MemoryRunLog::default()), settings).await
    }

    pub(crate) async fn on(log: Arc<dyn RunLog>, settings: RunSettings) -> Self {
        let clock = Arc::new(ManualClock::at(DateTime::UNIX_EPOCH));
        let runs = Runs::open_log(Arc::clone(&log), clock.clone(), settings);
        Self {
            runs: runs.await.unwrap(),
            clock,
            log,
        }
    }

    pub(crate) async fn start(&self, caller: &RunCaller, agent_id: &str) -> String {
        let started = self.try_start(caller, json!({"intent": "work", "agent_id": agent_id}));
        started.await.unwrap().run_id
    }

    pub(crate) async fn try_start(
        &self,
        caller: &RunCaller,
        start: Value,
    ) -> Result<Started, RunError> {
        let start: StartRun = serde_json::from_value(start).unwrap();
        self.runs.start(caller, start).await
    }

    pub(crate) async fn complete(&self, caller: &RunCaller, run_id: &str) -> Result<(), RunError> {
        self.runs.complete(caller, run_id, outcome("success")).await
    }

    pub(crate) async fn turn(&self, caller: &RunCaller, run_id: &str) -> RecordOutcome {
        let turns = vec![turn("t")];
        self.runs.record_turns(caller, run_id, turns).await.unwrap()
    }

    pub(crate) async fn status(&self, run_id: &str) -> RunStatus {
        self.log.get(run_id).await.unwrap().unwrap().summary.status
    }

    pub(crate) async fn records(&self, run_id: &str) -> Vec<RunRecord> {
        let page = self.log.read(run_id, 0, 10_000, usize::MAX).await;
        page.unwrap().records
    }

    pub(crate) async fn listed(&self, caller: &RunCaller, list: ListRuns) -> Vec<String> {
        let page = self.runs.list(caller, list).await.unwrap();
        page.runs.into_iter().map(|run| run.run_id).collect()
    }
}

pub(crate) fn outcome(status: &str) -> RunOutcome {
    serde_json::from_value(json!({"status": status})).unwrap()
}

pub(crate) fn turn(tool: &str) -> RunTurn {
    serde_json::from_value(json!({"tool": tool, "output": "o"})).unwrap()
}

pub(crate) fn bound(agent_id: &str) -> RunCaller {
    RunCaller {
        role: Role::Bound(agent_id.to_owned()),
        ..RunCaller::new()
    }
}

pub(crate) fn host() -> RunCaller {
    RunCaller {
        role: Role::Host,
        ..RunCaller::new()
    }
}

/// Settings under which the agents `a` and `b` have tokens.
pub(crate) fn with_tokens() -> RunSettings {
    RunSettings {
        agents: Agents {
            has_token: Arc::new(|agent| ["a", "b"].contains(&agent)),
            default_agent: None,
        },
        ..RunSettings::default()
    }
}
