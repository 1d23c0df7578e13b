//! New sessions on disk with one turn each, compared with a bare loop that makes the same requests and stores nothing.

use std::time::Duration;

use reqwest::Client;
use serde_json::Value;
use tokio::task::JoinSet;
use windlass_core::{AgentId, AgentLoopError, HarnessId};
use windlass_runtime::{
    AgentBuilder, HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, RuntimeBackends,
    SessionBuilder,
};
use windlass_store::sqlite::{SqliteOptions, SqliteStore};
use windlass_testkit::Wire;

use super::server::{AnswerScript, ModelServer};
use super::sessions::{driver_registry, model, turn};
use super::{Result, bare, broke};
use crate::machine;
use crate::report::{Bound, Report};

const WIRE: Wire = Wire::OpenAi;
/// Sessions that run one after the other in a round.
const IN_SEQUENCE: usize = 100;
const ROUNDS: usize = 5;
const AT_ONCE: usize = 1_000;

pub async fn measure(report: &mut Report) -> Result<()> {
    report.progress("new sessions on disk with one turn each");
    let request = bare::recorded(WIRE, AnswerScript::Plain, 1)
        .await?
        .remove(0);
    let server = ModelServer::start(WIRE, AnswerScript::Plain).await?;
    let client = bare::client()?;
    let directory = tempfile::tempdir().map_err(|error| broke("no directory", error))?;
    let durable = Durable::open(directory.path(), &server.url).await?;

    // The first session creates the shared state.
    durable.session().await?;
    let (mut ours, mut bare) = (Duration::ZERO, Duration::ZERO);
    let before = durable.used_bytes().await?;
    for _ in 0..ROUNDS {
        let start = machine::cpu_time();
        for _ in 0..IN_SEQUENCE {
            durable.session().await?;
        }
        let middle = machine::cpu_time();
        for _ in 0..IN_SEQUENCE {
            bare::ask(&client, &server.url, &request).await?;
        }
        ours += middle - start;
        bare += machine::cpu_time() - middle;
    }
    let count = (ROUNDS * IN_SEQUENCE) as f64;
    let stored = (durable.used_bytes().await? - before) as f64 / count;
    figures(report, "new session, one turn", count, ours, bare, 3.0);

    report.progress(&format!("{AT_ONCE} new sessions on disk at once"));
    let start = machine::cpu_time();
    durable.sessions_at_once().await?;
    let middle = machine::cpu_time();
    requests_at_once(&client, &server.url, &request).await?;
    let (ours, bare) = (middle - start, machine::cpu_time() - middle);
    let label = format!("{AT_ONCE} new sessions at once");
    figures(report, &label, AT_ONCE as f64, ours, bare, 2.0);

    report.figure(
        "new session, one turn: bytes on disk",
        stored / 1e3,
        "KB",
        Bound::AtMost(5.0),
    );
    Ok(())
}

fn figures(
    report: &mut Report,
    label: &str,
    count: f64,
    ours: Duration,
    bare: Duration,
    at_most: f64,
) {
    let micros = |cpu: Duration| cpu.as_secs_f64() * 1e6 / count;
    let name = |figure: &str| format!("durable, {label}: {figure}");
    report.figure(&name("CPU"), micros(ours), "us", Bound::None);
    report.figure(&name("CPU, bare loop"), micros(bare), "us", Bound::None);
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    report.figure(
        &name("CPU / bare loop"),
        ratio,
        "ratio",
        Bound::AtMost(at_most),
    );
}

async fn requests_at_once(client: &Client, url: &str, request: &Value) -> Result<()> {
    let mut requests = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (client, url, request) = (client.clone(), url.to_owned(), request.clone());
        requests.spawn(async move { bare::ask(&client, &url, &request).await });
    }
    while let Some(answered) = requests.join_next().await {
        answered.map_err(|error| broke("a request ended", error))??;
    }
    Ok(())
}

/// A runtime on SQLite whose sessions share a harness and an agent.
#[derive(Clone)]
struct Durable {
    store: SqliteStore,
    runtime: InProcessRuntime,
    harness: HarnessId,
    agent: AgentId,
}

impl Durable {
    async fn open(directory: &std::path::Path, url: &str) -> Result<Self> {
        let harness = HarnessBuilder::new("math", "You are a math assistant.")
            .capability("test_math")
            .build();
        let agent = AgentBuilder::new("a", "Use tools.").build();
        let (harness_id, agent_id) = (harness.id, agent.public_id);
        let store = SqliteStore::open(SqliteOptions::new(directory)).await;
        let store = store.map_err(|error| broke("no store", error))?;
        let runtime = InProcessRuntimeBuilder::new()
            .backends(RuntimeBackends::on_sqlite(&store))
            .driver_registry(driver_registry()?)
            .default_model(model(WIRE, url))
            .harness(harness)
            .agent(agent)
            .build()
            .await?;
        Ok(Self {
            store,
            runtime,
            harness: harness_id,
            agent: agent_id,
        })
    }

    async fn used_bytes(&self) -> Result<u64> {
        let used = self.store.used_bytes().await;
        used.map_err(|error| broke("the store cannot be read", error))
    }

    /// Creates a session and runs one turn in it.
    async fn session(&self) -> Result<()> {
        // A clone of a builder would have the same ID.
        let session = SessionBuilder::new(self.harness).agent(self.agent).build();
        let id = session.id;
        self.runtime.add_session(session).await?;
        turn(&self.runtime, id).await
    }

    async fn sessions_at_once(&self) -> Result<()> {
        let mut turns = JoinSet::new();
        for _ in 0..AT_ONCE {
            let durable = self.clone();
            turns.spawn(async move { durable.session().await });
        }
        while let Some(ended) = turns.join_next().await {
            ended.map_err(|error| AgentLoopError::config(error.to_string()))??;
        }
        Ok(())
    }
}
