//! Memory of many sessions that all wait in the middle of an answer.

use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::task::JoinSet;
use windlass_testkit::Wire;

use super::server::{AnswerScript, ModelServer};
use super::sessions::{Sessions, turn};
use super::{Result, bare, broke, name, runtime, wire};
use crate::machine;
use crate::report::{Bound, Report};

/// The argument that starts this program as one side.
pub const WORD: &str = "model-memory";

const SESSIONS: usize = 1_000;
/// Time limit for reading the last bytes of the first half.
const SETTLE: Duration = Duration::from_millis(300);

/// Memory of one side in bytes.
#[derive(Serialize, Deserialize)]
struct Weight {
    empty: u64,
    held: u64,
}

impl Weight {
    fn per_session(&self) -> f64 {
        self.held.saturating_sub(self.empty) as f64 / SESSIONS as f64 / 1e3
    }
}

pub async fn measure(report: &mut Report) -> Result<()> {
    for wire in Wire::ALL {
        let label = |what: &str| format!("{}, {SESSIONS} sessions: {what}", name(wire));
        report.progress(&label("memory"));
        let asked = bare::recorded(wire, AnswerScript::Plain, 1).await?[0].to_string();
        let ours = weigh(wire, "windlass", &asked).await?;
        let bare = weigh(wire, "bare", &asked).await?;
        let kb = "KB";
        report.figure(&label("per session"), ours.per_session(), kb, Bound::None);
        report.figure(&label("bare loop"), bare.per_session(), kb, Bound::None);
        report.figure(
            &label("process / bare loop's"),
            ours.held as f64 / bare.held as f64,
            "ratio",
            Bound::AtMost(1.5),
        );
    }
    Ok(())
}

/// Each side is a separate process, because memory freed by one would distort the other.
async fn weigh(wire: Wire, side: &str, asked: &str) -> Result<Weight> {
    let failed = |error| broke("the measured process does not start", error);
    let program = std::env::current_exe().map_err(failed)?;
    let out = Command::new(program)
        .args([WORD, name(wire), side, asked])
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(failed)?;
    serde_json::from_slice(&out.stdout).map_err(|error| broke("the measured process failed", error))
}

/// Runs one side: parks all sessions in the middle of an answer, and prints their memory.
pub fn hold(api: &str, side: &str, asked: &str) -> Result<String> {
    let wire = wire(api)?;
    let weight = runtime()?.block_on(async {
        match side {
            "windlass" => hold_sessions(wire).await,
            _ => hold_bare(wire, asked).await,
        }
    })?;
    serde_json::to_string(&weight).map_err(|error| broke("no JSON", error))
}

async fn hold_sessions(wire: Wire) -> Result<Weight> {
    let server = ModelServer::start(wire, AnswerScript::Held).await?;
    let empty = machine::resident_bytes();
    let sessions = Sessions::start(wire, &server.url, SESSIONS).await?;
    let mut running = JoinSet::new();
    for id in &sessions.ids {
        let (runtime, id) = (sessions.runtime.clone(), *id);
        running.spawn(async move { turn(&runtime, id).await });
    }
    finish(server, running, empty).await
}

async fn hold_bare(wire: Wire, asked: &str) -> Result<Weight> {
    let server = ModelServer::start(wire, AnswerScript::Held).await?;
    let empty = machine::resident_bytes();
    let client = bare::client()?;
    let mut running = JoinSet::new();
    for _ in 0..SESSIONS {
        let (client, url, asked) = (client.clone(), server.url.clone(), asked.to_owned());
        running.spawn(async move {
            let done = bare::post(&client, &url, asked.clone().into(), |_| ()).await;
            // The next request of the conversation starts with this answer.
            drop(asked);
            done
        });
    }
    finish(server, running, empty).await
}

async fn finish(
    mut server: ModelServer,
    mut running: JoinSet<Result<()>>,
    empty: u64,
) -> Result<Weight> {
    for _ in 0..SESSIONS {
        server.line().await?;
    }
    tokio::time::sleep(SETTLE).await;
    let held = machine::resident_bytes();
    server.release().await?;
    while let Some(ended) = running.join_next().await {
        ended.map_err(|error| broke("a session broke", error))??;
    }
    Ok(Weight { empty, held })
}
