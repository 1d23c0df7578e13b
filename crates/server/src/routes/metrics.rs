//! Figures for Prometheus.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::IntoResponse;

use super::Answer;
use crate::app::Shared;

pub(super) async fn metrics(State(app): State<Shared>) -> Answer {
    let counters = &app.counters;
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = writeln!(
            text,
            "# HELP windlass_{name} {help}\n# TYPE windlass_{name} {kind}\nwindlass_{name} {value}"
        );
    };
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    add(
        "http_requests_total",
        "counter",
        "Requests that were answered.",
        read(&counters.requests),
    );
    add(
        "http_failures_total",
        "counter",
        "Requests that failed inside.",
        read(&counters.failures),
    );
    add(
        "turns_started_total",
        "counter",
        "Turns that were started.",
        read(&counters.turns),
    );
    add(
        "events_sent_total",
        "counter",
        "Events that were sent to subscribers.",
        read(&counters.frames),
    );
    let subscribers = counters.subscribers.load(Ordering::Relaxed);
    add(
        "subscribers",
        "gauge",
        "Event streams that are open.",
        number(subscribers),
    );
    let connections = counters.connections.load(Ordering::Relaxed);
    add(
        "connections",
        "gauge",
        "Connections that are open.",
        number(connections),
    );
    add(
        "upkeeps_total",
        "counter",
        "Times that the store was looked after.",
        read(&counters.upkeeps),
    );
    add(
        "upkeep_failures_total",
        "counter",
        "Times that looking after the store failed.",
        read(&counters.failed_upkeeps),
    );
    add(
        "removed_records_total",
        "counter",
        "Records that the retention has removed.",
        read(&counters.removed),
    );
    add(
        "stored_bytes",
        "gauge",
        "Bytes of the database in use at the last upkeep.",
        read(&counters.stored_bytes),
    );
    match app.queries.counts().await {
        Ok(counts) => {
            let threads = counts.current + counts.archived;
            add("threads", "gauge", "Threads.", threads);
            add(
                "turns_open",
                "gauge",
                "Turns that have no end.",
                counts.open,
            );
            let help = "Turns that wait for somebody.";
            add("turns_waiting", "gauge", help, counts.waiting);
        }
        // A figure that is not known is left out: none would be wrong.
        Err(error) => tracing::warn!(%error, "threads cannot be counted"),
    }
    let media = [("content-type", "text/plain; version=0.0.4; charset=utf-8")];
    Ok((media, text).into_response())
}
