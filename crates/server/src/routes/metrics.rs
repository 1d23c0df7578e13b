//! Figures for Prometheus.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use axum::extract::State;
use axum::response::IntoResponse;

use super::Answer;
use crate::app::Shared;

#[rustfmt::skip]
pub(super) async fn metrics(State(app): State<Shared>) -> Answer {
    let of = &app.counters;
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let mut figures = vec![
        ("http_requests_total", "counter", "Requests that were answered.", of.requests.load(Relaxed)),
        ("http_failures_total", "counter", "Requests that failed inside.", of.failures.load(Relaxed)),
        ("turns_started_total", "counter", "Turns that were started.", of.turns.load(Relaxed)),
        ("events_sent_total", "counter", "Events that were sent to subscribers.", of.frames.load(Relaxed)),
        ("subscribers", "gauge", "Event streams that are open.", number(of.subscribers.load(Relaxed))),
        ("connections", "gauge", "Connections that are open.", number(of.connections.load(Relaxed))),
        ("upkeeps_total", "counter", "Times that the store was looked after.", of.upkeeps.load(Relaxed)),
        ("upkeep_failures_total", "counter", "Times that looking after the store failed.", of.failed_upkeeps.load(Relaxed)),
        ("removed_records_total", "counter", "Records that the retention has removed.", of.removed.load(Relaxed)),
        ("stored_bytes", "gauge", "Bytes of the database in use at the last upkeep.", of.stored_bytes.load(Relaxed)),
    ];
    match app.queries.counts().await {
        Ok(counts) => figures.extend([
            ("threads", "gauge", "Threads.", counts.current + counts.archived),
            ("turns_open", "gauge", "Turns that have no end.", counts.open),
            ("turns_waiting", "gauge", "Turns that wait for somebody.", counts.waiting),
        ]),
        // A figure that is not known is left out: none would be wrong.
        Err(error) => tracing::warn!(%error, "threads cannot be counted"),
    }
    let mut text = String::new();
    for (name, kind, help, value) in figures {
        let name = format_args!("windlass_{name}");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    let media = [("content-type", "text/plain; version=0.0.4; charset=utf-8")];
    Ok((media, text).into_response())
}
