//! The methods of the JSON-RPC socket: run tracing, and the same threads and turns as over HTTP.

mod gate;
mod methods;
mod tools;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use windlass_runs::rpc::Hub;
use windlass_runs::{Agents, Reads, RunSettings, Runs, ThreadTurns};

use crate::background::supervise::{LoopFailed, supervise};
use crate::open::OpenError;
use crate::service::Service;
use crate::settings::Access;

pub use gate::socket_identity;
pub use methods::socket_methods;

/// Delay after run ends that could not be written.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Interval between searches for old runs.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(600);

/// State shared by all sockets.
#[derive(Clone)]
pub struct Rpc {
    app: Service,
    /// The methods and their connections.
    pub hub: Arc<Hub>,
}

impl Rpc {
    /// Loads the stored runs.
    pub async fn open(app: &Service) -> Result<Self, OpenError> {
        let settings = &app.settings.rpc;
        let access = app.settings.access.clone();
        let reads = match access {
            Access::Open => Reads::Open,
            Access::Token(_) | Access::Tokens { .. } => Reads::HostOnly,
        };
        if let Some(agent) = &settings.default_agent {
            tracing::info!(agent, "runs without an owner belong to this agent");
        }
        let run_settings = RunSettings {
            grace: settings.grace,
            lease: settings.lease,
            limits: settings.run_limits.clone(),
            agents: Agents {
                has_token: Arc::new(move |agent| gate::has_token(&access, agent)),
                default_agent: settings.default_agent.clone(),
            },
            reads,
        };
        let clock = Arc::new(windlass_core::SystemClock);
        let runs = Runs::open_log(app.store.runs(), clock, run_settings).await?;
        let turns = Arc::new(turns::OwnTurns(app.runtime.clone()));
        let own = ThreadTurns {
            journal: app.runtime.journal(),
            queries: Arc::clone(&app.queries),
        };
        let runs = runs.with_turns(own, turns);
        let hub = Hub {
            runs,
            gate: Box::new(gate::ServerGate(Service::clone(app))),
            limits: settings.limits.clone(),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            methods: Box::new(methods::ThreadMethods::new(Service::clone(app))),
        };
        Ok(Self {
            app: Service::clone(app),
            hub: Arc::new(hub),
        })
    }

    /// Ends runs whose connections are lost, and removes old ones, until the server stops.
    pub fn supervise_runs(&self) {
        let (age, runs) = (self.app.settings.rpc.keep_ended, self.hub.runs.clone());
        let lost = runs.clone();
        supervise(&self.app, "lost_runs", move |app| {
            until_stopped(app, end_lost_runs(lost.clone()))
        });
        if let Some(age) = age {
            supervise(&self.app, "old_runs", move |app| {
                until_stopped(app, remove_old_runs(runs.clone(), age))
            });
        }
    }
}

async fn until_stopped(app: Service, running: impl Future<Output = ()>) -> Result<(), LoopFailed> {
    app.stopping.run_until_cancelled(running).await;
    Ok(())
}

async fn end_lost_runs(runs: Runs) {
    loop {
        let Some(deadline) = runs.next_deadline() else {
            runs.deadline_changed().await;
            continue;
        };
        let left = deadline.saturating_sub(runs.elapsed());
        if !left.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = runs.deadline_changed() => continue,
            }
        }
        if runs.sweep().await == 0 && runs.next_deadline() == Some(deadline) {
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

async fn remove_old_runs(runs: Runs, age: Duration) {
    loop {
        match runs.forget_older(age).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "old runs were removed"),
            Err(error) => tracing::warn!(%error, "old runs could not be removed"),
        }
        tokio::time::sleep(REMOVAL_INTERVAL).await;
    }
}
