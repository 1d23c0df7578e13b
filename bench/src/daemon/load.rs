//! Many subscribers at once, some of which do not read.

use std::time::Instant;

use tokio::task::JoinSet;

use super::child::DaemonProcess;
use super::client::{BenchClient, BenchEvents};
use super::{Error, Result};
use crate::report::{Bound, Report};

const THREADS: usize = 100;
const SUBSCRIBERS: usize = 1_000;
const STALLED: usize = 10;
const ROUNDS: usize = 10;

/// Every subscriber must get every event in order; a subscriber that does not read catches up later.
pub async fn measure(report: &mut Report, daemon: &DaemonProcess) -> Result<()> {
    report.progress("1,000 subscribers on 100 threads, 10 of them stalled");
    let client = BenchClient::new(&daemon.address)?;
    let mut threads = Vec::with_capacity(THREADS);
    let mut drivers = Vec::with_capacity(THREADS);
    for _ in 0..THREADS {
        let thread = client.thread().await?;
        drivers.push(Driver {
            events: client.events(&thread).await?,
            thread: thread.clone(),
        });
        threads.push(thread);
    }
    let mut live = JoinSet::new();
    let mut stalled = Vec::with_capacity(STALLED);
    for number in 0..SUBSCRIBERS {
        let events = client.events(&threads[number % THREADS]).await?;
        if number < STALLED {
            stalled.push(events);
        } else {
            live.spawn(follow(events));
        }
    }
    let started = Instant::now();
    let mut resident = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        drivers = turn_on_each(&client, drivers, round).await?;
        resident.push(daemon.resident_bytes() as f64);
    }
    let mut delivered = 0;
    while let Some(followed) = live.join_next().await {
        delivered += followed??;
    }
    let took = started.elapsed();
    let mut caught_up = 0;
    for events in stalled {
        caught_up += usize::from(follow(events).await? > 0);
    }
    let label = |what: &str| format!("{SUBSCRIBERS} subscribers: {what}");
    report.figure(
        &label("events delivered in order, without gap"),
        delivered as f64,
        "",
        Bound::AtLeast(1.0),
    );
    report.figure(
        &label("events delivered per second"),
        delivered as f64 / took.as_secs_f64(),
        "1/s",
        Bound::None,
    );
    report.figure(
        &label("stalled ones that caught up"),
        caught_up as f64,
        "",
        Bound::AtLeast(STALLED as f64),
    );
    report.figure(
        &label("daemon's memory, last round / middle round"),
        resident[ROUNDS - 1] / resident[ROUNDS / 2],
        "ratio",
        Bound::AtMost(1.1),
    );
    report.figure(
        &label("daemon's memory"),
        resident[ROUNDS - 1] / 1e6,
        "MB",
        Bound::None,
    );
    Ok(())
}

/// Starts the turns of a thread one after the other.
struct Driver {
    thread: String,
    events: BenchEvents,
}

async fn turn_on_each(
    client: &BenchClient,
    drivers: Vec<Driver>,
    round: usize,
) -> Result<Vec<Driver>> {
    let mut turns = JoinSet::new();
    for mut driver in drivers {
        let client = client.clone();
        turns.spawn(async move {
            client
                .turn(&driver.thread, &format!("round {round}"))
                .await?;
            while driver.events.next().await?.name != "turn.completed" {}
            Ok::<_, Error>(driver)
        });
    }
    let mut drivers = Vec::with_capacity(THREADS);
    while let Some(driver) = turns.join_next().await {
        drivers.push(driver??);
    }
    Ok(drivers)
}

/// Reads to the end of the last turn, checks the links between events, and returns their number.
async fn follow(mut events: BenchEvents) -> Result<usize> {
    let (mut previous, mut count, mut turns) = (0, 0, 0);
    while turns < ROUNDS {
        let frame = events.next().await?;
        let follows = frame.data["previous_seq"].as_u64().unwrap_or_default();
        if follows != previous || frame.seq <= previous {
            return Err(Error::from(format!(
                "event {} follows {follows}, but {previous} came before it",
                frame.seq
            )));
        }
        previous = frame.seq;
        count += 1;
        turns += usize::from(frame.name == "turn.completed");
    }
    Ok(count)
}
