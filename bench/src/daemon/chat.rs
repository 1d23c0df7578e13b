//! A long conversation: the cost of a turn must not grow with the turns before it.

use super::child::DaemonProcess;
use super::client::BenchClient;
use super::{PROMPT, Result};
use crate::report::{Bound, Report};

const TURNS: usize = 400;
/// Turns at each end that are compared.
const COMPARED: usize = 40;
/// Number of conversations, whose metrics are summed.
const THREADS: usize = 3;

pub async fn measure(report: &mut Report, daemon: &DaemonProcess) -> Result<()> {
    report.progress(&format!("{THREADS} conversations of {TURNS} turns"));
    let client = BenchClient::new(&daemon.address)?;
    let (mut first, mut last) = (0.0, 0.0);
    for number in 0..=THREADS {
        let thread = client.thread().await?;
        let mut events = client.events(&thread).await?;
        let mut ends = vec![daemon.cpu_time()];
        for _ in 0..TURNS {
            client.turn(&thread, PROMPT).await?;
            while events.next().await?.name != "turn.completed" {}
            ends.push(daemon.cpu_time());
        }
        let cpu = |from: usize| (ends[from + COMPARED] - ends[from]).as_secs_f64();
        // The first conversation warms up the daemon.
        if number > 0 {
            first += cpu(0);
            last += cpu(TURNS - COMPARED);
        }
    }
    let turns = (THREADS * COMPARED) as f64;
    let name = |figure: &str| format!("a chat of {TURNS} turns: {figure}");
    report.figure(
        &name("CPU of a turn, first 40"),
        first * 1e3 / turns,
        "ms",
        Bound::None,
    );
    report.figure(
        &name("CPU, last 40 / first 40"),
        last / first,
        "ratio",
        Bound::AtMost(1.1),
    );
    Ok(())
}
