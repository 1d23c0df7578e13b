//! Run tracing on disk: durable pairs of start and complete over WebSocket, a page of a long list, and memory.
//!
//! The daemon is the built binary. The reference in the same run is a WebSocket server that stores the same bytes in a bare group
//! commit and echoes them, also in a separate process: the difference is the rules, the hash chain and the row for
//! lists.

mod bare;
mod client;
mod load;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::daemon::child::{self, DaemonProcess};
use crate::report::{Bound, Report};
use bare::Bare;
use client::RunsClient;

pub use bare::{CHILD, live_as_child};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// Duration of one round of pairs, and number of rounds.
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;
/// Number of stored runs for the list measurement.
const MANY: usize = 100_000;
const LOOKS: usize = 200;
/// Number of further pairs that must not increase memory.
const PAIRS: usize = 50_000;

pub fn run(mut report: Report) -> Result<Report> {
    report.progress("nothing yet: building the daemon");
    let binary = child::build()?;
    let home = tempfile::tempdir()?;
    let daemon = DaemonProcess::start(&binary, home.path())?;
    let executor = tokio::runtime::Runtime::new()?;
    executor.block_on(measure(&mut report, &daemon))?;
    Ok(report)
}

async fn measure(report: &mut Report, daemon: &DaemonProcess) -> Result<()> {
    let address: SocketAddr = daemon.address.parse()?;
    let bare = Bare::start()?;
    for connections in [1, 50] {
        report.progress(&format!("pairs at {connections} connections"));
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let yardstick = load::rate(bare.address, connections, ROUND).await?;
            let pairs = load::rate(address, connections, ROUND).await?;
            ratios.push(pairs / yardstick);
            ours.push(pairs);
            theirs.push(yardstick);
        }
        let name = |what: &str| format!("{what}, {connections} connections");
        report.figure(
            &name("durable start + complete"),
            median(ours),
            "pairs/s",
            Bound::None,
        );
        report.figure(
            &name("echo + bare group commit"),
            median(theirs),
            "pairs/s",
            Bound::None,
        );
        report.figure(
            &name("ratio of the two"),
            median(ratios),
            "",
            Bound::AtLeast(0.6),
        );
    }
    drop(bare);
    list(report, address).await?;
    memory(report, daemon, address).await
}

async fn list(report: &mut Report, address: SocketAddr) -> Result<()> {
    report.progress(&format!("a list of {MANY} runs"));
    load::pairs(address, "filler", MANY).await?;
    let mut socket = RunsClient::connect(address).await?;
    let mut times = Vec::new();
    for _ in 0..LOOKS {
        let begin = Instant::now();
        socket.list("filler").await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let name = "runs.list, one page of 200 among 100,000 runs";
    report.figure(name, median(times), "ms", Bound::AtMost(5.0));
    Ok(())
}

async fn memory(report: &mut Report, daemon: &DaemonProcess, address: SocketAddr) -> Result<()> {
    report.progress(&format!("memory after {PAIRS} further pairs"));
    load::pairs(address, "bench", PAIRS / 5).await?;
    let before = daemon.resident_bytes();
    load::pairs(address, "bench", PAIRS).await?;
    let after = daemon.resident_bytes();
    let per_run = after.saturating_sub(before) as f64 / PAIRS as f64;
    report.figure(
        "memory per finished run",
        per_run,
        "bytes",
        Bound::AtMost(64.0),
    );
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
