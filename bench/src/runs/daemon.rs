//! A daemon in this process, on a database of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use chrono::Utc;
use tokio::task::JoinSet;
use windlass_core::AgentLoopError;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::runs::{RunEnded, RunRecord, RunStarted, Termination};
use windlass_runtime::{
    HarnessBuilder, InProcessRuntimeBuilder, RuntimeBackends, SqliteOptions, SqliteStore,
};
use windlass_server::{Access, Server, Settings, SqliteWireStore};
use windlass_store::{Begun, RunLog};

use super::client::Socket;
use super::failed;

/// How many clients or writers fill the log at once.
const AT_ONCE: usize = 200;

pub struct Daemon {
    pub address: SocketAddr,
    store: SqliteStore,
    _directory: tempfile::TempDir,
}

impl Daemon {
    pub async fn start() -> Result<Self, AgentLoopError> {
        let directory = tempfile::tempdir().map_err(failed("make a directory"))?;
        let options = SqliteOptions::new(directory.path().join("data"));
        let store = SqliteStore::open(options).await.map_err(failed("open"))?;
        let harness = HarnessBuilder::new("bench", "Be brief.").build();
        let harness_id = harness.id;
        let runtime = InProcessRuntimeBuilder::new()
            .backends(RuntimeBackends::on_sqlite(&store))
            .llm_sim(LlmSimConfig::echo())
            .harness(harness)
            .build()
            .await?;
        let settings = Settings::new(directory.path(), harness_id, Access::Open);
        let wire = Arc::new(SqliteWireStore::new(&store, 10));
        let server = Server::bind(runtime, settings, wire)
            .await
            .map_err(failed("serve"))?;
        let address = server.address();
        tokio::spawn(server.run(std::future::pending()));
        Ok(Self {
            address,
            store,
            _directory: directory,
        })
    }

    /// Writes ended runs of the agent `filler`, past the socket.
    pub async fn fill(&self, count: usize) -> Result<(), AgentLoopError> {
        let mut writers = JoinSet::new();
        for writer in 0..AT_ONCE {
            let log = self.store.runs();
            writers.spawn(async move {
                for number in 0..count / AT_ONCE {
                    end_one(&log, format!("{writer}-{number}")).await?;
                }
                Ok::<_, AgentLoopError>(())
            });
        }
        while let Some(done) = writers.join_next().await {
            done.map_err(failed("a writer"))??;
        }
        Ok(())
    }

    /// Lets clients start and complete runs.
    pub async fn pairs(&self, count: usize) -> Result<(), AgentLoopError> {
        let mut clients = JoinSet::new();
        for _ in 0..AT_ONCE {
            let mut socket = Socket::connect(self.address).await?;
            clients.spawn(async move {
                for _ in 0..count / AT_ONCE {
                    socket.pair().await?;
                }
                Ok::<_, AgentLoopError>(())
            });
        }
        while let Some(done) = clients.join_next().await {
            done.map_err(failed("a client"))??;
        }
        Ok(())
    }
}

async fn end_one(log: &impl RunLog, run_id: String) -> Result<(), AgentLoopError> {
    let started = RunStarted {
        run_id: run_id.clone(),
        agent_id: "filler".to_owned(),
        intent: "be one of many".to_owned(),
        outcome_description: None,
        started_at: Utc::now(),
    };
    let begun = log.begin(started, "bench").await.map_err(failed("begin"))?;
    let Begun::New(run) = begun else {
        return Err(AgentLoopError::config(format!(
            "run {run_id} is there already"
        )));
    };
    let ended = RunRecord::Ended(RunEnded {
        run_id,
        agent_id: "filler".to_owned(),
        termination: Termination::Incomplete,
        ended_at: Utc::now(),
    });
    log.append(&run, vec![ended]).await.map_err(failed("end"))?;
    Ok(())
}
