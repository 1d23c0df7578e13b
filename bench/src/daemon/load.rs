//! Many subscribers at once, some of which do not read.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::child::Daemon;
use super::client::{Client, Events};
use super::{Error, Result};
use crate::report::{Report, Target};

const THREADS: usize = 100;
const SUBSCRIBERS: usize = 1_000;
const STALLED: usize = 10;
const ROUNDS: usize = 10;

/// Every subscriber must get every event in order; whoever does not read catches up later.
pub async fn measure(report: &mut Report, daemon: &Daemon) -> Result<()> {
    report.progress("1,000 subscribers on 100 threads, 10 of them stalled");
    let client = Client::of(&daemon.address)?;
    let mut threads = Vec::with_capacity(THREADS);
    for _ in 0..THREADS {
        threads.push(client.thread().await?);
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
        turn_on_each(&client, &threads, round).await?;
        resident.push(daemon.resident_bytes() as f64);
    }
    let mut delivered = 0;
    while let Some(followed) = live.join_next().await {
        delivered += followed.map_err(|error| Error::from(error.to_string()))??;
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
        Target::AtLeast(1.0),
    );
    report.figure(
        &label("events delivered per second"),
        delivered as f64 / took.as_secs_f64(),
        "1/s",
        Target::None,
    );
    report.figure(
        &label("stalled ones that caught up"),
        caught_up as f64,
        "",
        Target::AtLeast(STALLED as f64),
    );
    report.figure(
        &label("daemon's memory, last round / middle round"),
        resident[ROUNDS - 1] / resident[ROUNDS / 2],
        "ratio",
        Target::AtMost(1.1),
    );
    report.figure(
        &label("daemon's memory"),
        resident[ROUNDS - 1] / 1e6,
        "MB",
        Target::None,
    );
    Ok(())
}

async fn turn_on_each(client: &Client, threads: &[String], round: usize) -> Result<()> {
    let mut turns = JoinSet::new();
    for thread in threads {
        let (client, thread) = (client.clone(), thread.clone());
        turns.spawn(async move {
            // The turn of the round before may just be ending.
            let deadline = Instant::now() + Duration::from_secs(60);
            loop {
                match client.turn(&thread, &format!("round {round}")).await {
                    Err(_) if Instant::now() < deadline => {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    taken => return taken,
                }
            }
        });
    }
    while let Some(turn) = turns.join_next().await {
        turn.map_err(|error| Error::from(error.to_string()))??;
    }
    Ok(())
}

/// Reads to the end of the last turn and returns how many events came, each after the one that it names.
async fn follow(mut events: Events) -> Result<usize> {
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
