//! Many subscribers of one thread: an event is encoded once, so each further subscriber costs little more than a write.

use std::path::Path;

use tokio::task::JoinSet;

use super::child::DaemonProcess;
use super::client::{BenchClient, BenchEvents};
use super::{Error, PROMPT, Result};
use crate::report::{Bound, Report};

const SUBSCRIBERS: usize = 1_000;
/// Turns for one subscriber; with a thousand subscribers, fewer turns are enough.
const TURNS_FOR_ONE: usize = 400;
const TURNS_FOR_ALL: usize = 20;

pub async fn measure(report: &mut Report, binary: &Path) -> Result<()> {
    let one = cpu_per_write(report, binary, 1, TURNS_FOR_ONE).await?;
    let many = cpu_per_write(report, binary, SUBSCRIBERS, TURNS_FOR_ALL).await?;
    report.figure(
        &format!("CPU per event written, {SUBSCRIBERS} subscribers / 1"),
        many / one,
        "ratio",
        Bound::None,
    );
    Ok(())
}

/// Returns the daemon's CPU per event written to a socket, in microseconds; the work of the turns is included.
async fn cpu_per_write(
    report: &mut Report,
    binary: &Path,
    subscribers: usize,
    turns: usize,
) -> Result<f64> {
    report.progress(&format!("{subscribers} subscribers of one thread"));
    let home = tempfile::tempdir()?;
    let daemon = DaemonProcess::start(binary, home.path())?;
    let client = BenchClient::new(&daemon.address)?;
    let thread = client.thread().await?;
    let mut driver = client.events(&thread).await?;
    let mut others = Vec::with_capacity(subscribers - 1);
    for _ in 1..subscribers {
        others.push(client.events(&thread).await?);
    }
    // A first turn warms up the daemon and every connection.
    run(&client, &thread, &mut driver, 1).await?;
    let mut warm = JoinSet::new();
    for mut events in others {
        warm.spawn(async move {
            read(&mut events, 1).await?;
            Ok::<BenchEvents, Error>(events)
        });
    }
    let mut readers = JoinSet::new();
    while let Some(events) = warm.join_next().await {
        let mut events = events??;
        readers.spawn(async move { read(&mut events, turns).await });
    }
    let before = daemon.cpu_time();
    let mut written = run(&client, &thread, &mut driver, turns).await?;
    while let Some(read) = readers.join_next().await {
        written += read??;
    }
    let micros = (daemon.cpu_time() - before).as_secs_f64() * 1e6 / written as f64;
    report.figure(
        &format!("{subscribers} subscribers of one thread: CPU per event written"),
        micros,
        "us",
        Bound::None,
    );
    Ok(micros)
}

/// Runs turns one after the other and returns the number of events.
async fn run(
    client: &BenchClient,
    thread: &str,
    events: &mut BenchEvents,
    turns: usize,
) -> Result<usize> {
    let mut count = 0;
    for _ in 0..turns {
        client.turn(thread, PROMPT).await?;
        count += read(events, 1).await?;
    }
    Ok(count)
}

/// Reads until `turns` turns have ended and returns the number of events.
async fn read(events: &mut BenchEvents, turns: usize) -> Result<usize> {
    let (mut count, mut ended) = (0, 0);
    while ended < turns {
        count += 1;
        ended += usize::from(events.next().await?.name == "turn.completed");
    }
    Ok(count)
}
