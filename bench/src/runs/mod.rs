//! Run tracing on disk: durable pairs of start and complete over WebSocket, a page of a long list, and memory.
//!
//! The yardstick in the same run is a WebSocket that keeps the same bytes in a bare group commit and sends them back:
//! what remains are the rules, the chain and the row that lists need.

mod bare;
mod client;
mod daemon;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use windlass_core::AgentLoopError;

use crate::machine;
use crate::report::{Report, Target};
use client::Socket;
use daemon::Daemon;

/// How long one round of pairs is measured, and how many rounds there are.
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;
/// How many runs are there when a list is looked at.
const MANY: usize = 100_000;
const LOOKS: usize = 200;
/// How many further pairs must leave memory as it is.
const PAIRS: usize = 50_000;

pub fn run(mut report: Report) -> Result<Report, AgentLoopError> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let tokio = tokio.map_err(failed("no async runtime"))?;
    tokio.block_on(measure(&mut report))?;
    Ok(report)
}

/// Turns any error into one that says what was tried.
fn failed<E: std::fmt::Display>(doing: &str) -> impl Fn(E) -> AgentLoopError {
    move |error| AgentLoopError::config(format!("{doing}: {error}"))
}

async fn measure(report: &mut Report) -> Result<(), AgentLoopError> {
    let daemon = Daemon::start().await?;
    let bare = bare::start().await?;
    for connections in [1, 50] {
        report.progress(&format!("pairs at {connections} connections"));
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let yardstick = rate(bare.address, connections).await?;
            let pairs = rate(daemon.address, connections).await?;
            ratios.push(pairs / yardstick);
            ours.push(pairs);
            theirs.push(yardstick);
        }
        let name = |what: &str| format!("{what}, {connections} connections");
        report.figure(
            &name("durable start + complete"),
            median(ours),
            "pairs/s",
            Target::None,
        );
        report.figure(
            &name("echo + bare group commit"),
            median(theirs),
            "pairs/s",
            Target::None,
        );
        report.figure(
            &name("ratio of the two"),
            median(ratios),
            "",
            Target::AtLeast(0.6),
        );
    }
    list(report, &daemon).await?;
    memory(report, &daemon).await
}

/// Counts pairs on so many connections for a while.
async fn rate(address: SocketAddr, connections: usize) -> Result<f64, AgentLoopError> {
    let mut sockets = Vec::new();
    for _ in 0..connections {
        sockets.push(Socket::connect(address).await?);
    }
    let begin = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for mut socket in sockets {
        clients.spawn(async move {
            let mut pairs = 0_u32;
            while begin.elapsed() < ROUND {
                socket.pair().await?;
                pairs += 1;
            }
            Ok::<_, AgentLoopError>(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(done) = clients.join_next().await {
        pairs += done.map_err(failed("a client"))??;
    }
    Ok(f64::from(pairs) / begin.elapsed().as_secs_f64())
}

async fn list(report: &mut Report, daemon: &Daemon) -> Result<(), AgentLoopError> {
    report.progress(&format!("a list of {MANY} runs"));
    daemon.fill(MANY).await?;
    let mut socket = Socket::connect(daemon.address).await?;
    let mut times = Vec::new();
    for _ in 0..LOOKS {
        let begin = Instant::now();
        socket.list("filler").await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let name = "runs.list, one page of 200 among 100,000 runs";
    report.figure(name, median(times), "ms", Target::AtMost(5.0));
    Ok(())
}

async fn memory(report: &mut Report, daemon: &Daemon) -> Result<(), AgentLoopError> {
    report.progress(&format!("memory after {PAIRS} further pairs"));
    daemon.pairs(PAIRS / 5).await?;
    let before = machine::resident_bytes();
    daemon.pairs(PAIRS).await?;
    let after = machine::resident_bytes();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let per_run = after.saturating_sub(before) as f64 / PAIRS as f64;
    report.figure(
        "memory per finished run",
        per_run,
        "bytes",
        Target::AtMost(64.0),
    );
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
