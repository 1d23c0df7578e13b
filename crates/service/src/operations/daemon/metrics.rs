//! Metrics for Prometheus.

use std::fmt::Display;
use std::sync::atomic::Ordering::Relaxed;

use windlass_jobs::TaskCounts;
use windlass_runtime::TurnMetrics;

use crate::operations::prelude::*;

impl Handle<op::GetMetrics> for Service {
    #[rustfmt::skip]
    async fn handle(&self, _: &RequestContext, _: Call<op::GetMetrics>) -> Result<String> {
    let (app, of) = (self, &self.counters);
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let turns = app.runtime.turn_metrics();
    let mut figures = vec![
        ("http_requests_total", "counter", "Requests that were answered.", of.requests.load(Relaxed)),
        ("http_failures_total", "counter", "Requests that failed with an internal error.", of.failures.load(Relaxed)),
        ("turns_started_total", "counter", "Turns that were started.", turns.started),
        ("model_calls_total", "counter", "Model calls that ended, failed ones included.", turns.model_calls),
        ("model_errors_total", "counter", "Model calls that failed after all retries.", turns.model_errors),
        ("events_sent_total", "counter", "Events that were sent to subscribers.", of.frames.load(Relaxed)),
        ("subscribers", "gauge", "Event streams that are open.", number(of.subscribers.load(Relaxed))),
        ("connections", "gauge", "Connections that are open.", number(of.connections.load(Relaxed))),
        ("upkeeps_total", "counter", "Completed maintenance runs of the store.", of.upkeeps.load(Relaxed)),
        ("upkeep_failures_total", "counter", "Failed maintenance runs of the store.", of.failed_upkeeps.load(Relaxed)),
        ("unremovable_bytes_over_limit", "gauge", "Bytes by which rows that retention never removes exceed retention.max_bytes.", of.over_limit.load(Relaxed)),
        ("removed_records_total", "counter", "Records that retention has removed.", of.removed.load(Relaxed)),
    ];
    // An unknown metric is omitted, because a wrong value would be worse.
    match app.store.stored_bytes().await {
        Ok(bytes) => figures.extend(bytes.map(|bytes| ("stored_bytes", "gauge", "Bytes of the database in use.", bytes))),
        Err(error) => tracing::warn!(%error, "the size of the store cannot be read"),
    }
    match app.queries.counts().await {
        Ok(counts) => figures.extend([
            ("threads", "gauge", "Threads.", counts.current + counts.archived),
            ("turns_open", "gauge", "Open turns, parked ones included.", counts.open),
            ("turns_waiting", "gauge", "Parked turns, which wait for a client or a user.", counts.waiting),
            ("turns_active", "gauge", "Turns that are executing.", counts.open.saturating_sub(counts.waiting)),
        ]),
        Err(error) => tracing::warn!(%error, "threads cannot be counted"),
    }
    let mut metrics = Metrics(String::new());
    for (name, kind, help, value) in figures {
        metrics.head(name, kind, help);
        metrics.value(name, value);
    }
    metrics.turns(&turns);
    metrics.labelled("background_panics_total", "counter", "Panics of background loops since the start, by loop.", "loop", &app.loops.panics());
    if let Some(jobs) = &app.jobs {
        match jobs.tasks.counts().await {
            Ok(counts) => metrics.tasks(&counts),
            Err(error) => tracing::warn!(%error, "tasks cannot be counted"),
        }
    }
    Ok(metrics.0)
}
}

/// Metrics in the text format of Prometheus.
struct Metrics(String);

impl Metrics {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let head = format!("# HELP windlass_{name} {help}\n# TYPE windlass_{name} {kind}\n");
        self.0.push_str(&head);
    }

    /// Adds a value of a metric; `name` includes its labels.
    fn value(&mut self, name: &str, value: impl Display) {
        self.0.push_str(&format!("windlass_{name} {value}\n"));
    }

    /// Adds a metric with one value for each value of a label.
    fn labelled(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        label: &str,
        values: &[(&str, u64)],
    ) {
        self.head(name, kind, help);
        for (of, value) in values {
            self.value(&format!("{name}{{{label}=\"{of}\"}}"), value);
        }
    }

    fn tasks(&mut self, counts: &TaskCounts) {
        let open = [
            ("queued", counts.queued as u64),
            ("running", counts.running as u64),
        ];
        self.labelled("tasks", "gauge", "Open tasks.", "status", &open);
        let ended = [
            ("completed", counts.completed),
            ("failed", counts.failed),
            ("canceled", counts.canceled),
        ];
        let help = "Ended tasks by status since the creation of the store.";
        self.labelled("tasks_ended_total", "counter", help, "status", &ended);
    }

    fn turns(&mut self, turns: &TurnMetrics) {
        let ended = [
            ("completed", turns.completed),
            ("failed", turns.failed),
            ("interrupted", turns.interrupted),
        ];
        let help = "Ended turns by status.";
        self.labelled("turns_ended_total", "counter", help, "status", &ended);
        let tokens = [
            ("input", turns.input_tokens),
            ("output", turns.output_tokens),
        ];
        let help = "Tokens of ended turns.";
        self.labelled("tokens_total", "counter", help, "kind", &tokens);
        let name = "turn_duration_seconds";
        self.head(
            name,
            "histogram",
            "Duration of ended turns, including waits.",
        );
        let all = turns.completed + turns.failed + turns.interrupted;
        for (bound, count) in &turns.durations {
            self.value(&format!("{name}_bucket{{le=\"{bound}\"}}"), count);
        }
        self.value(&format!("{name}_bucket{{le=\"+Inf\"}}"), all);
        let (seconds, rest) = (turns.duration_ms / 1000, turns.duration_ms % 1000);
        self.value(&format!("{name}_sum"), format!("{seconds}.{rest:03}"));
        self.value(&format!("{name}_count"), all);
    }
}
