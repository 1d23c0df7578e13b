//! Metrics for Prometheus.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use windlass_jobs::TaskCounts;
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;
use windlass_runtime::TurnMetrics;

use crate::error::Result;
use crate::handle::Handle;
use crate::operations::RequestContext;
use crate::service::Service;

impl Handle<op::GetMetrics> for Service {
    #[rustfmt::skip]
    async fn handle(&self, _: &RequestContext, _: Call<op::GetMetrics>) -> Result<String> {
    let (app, of) = (self, &self.counters);
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let turns = app.runtime.turn_metrics();
    let mut figures = vec![
        ("http_requests_total", "counter", "Requests that were answered.", of.requests.load(Relaxed)),
        ("http_failures_total", "counter", "Requests that failed inside.", of.failures.load(Relaxed)),
        ("turns_started_total", "counter", "Turns that were started.", turns.started),
        ("model_calls_total", "counter", "Model calls that ended, whichever way.", turns.model_calls),
        ("model_errors_total", "counter", "Model calls that failed, after they were tried again.", turns.model_errors),
        ("events_sent_total", "counter", "Events that were sent to subscribers.", of.frames.load(Relaxed)),
        ("subscribers", "gauge", "Event streams that are open.", number(of.subscribers.load(Relaxed))),
        ("connections", "gauge", "Connections that are open.", number(of.connections.load(Relaxed))),
        ("upkeeps_total", "counter", "Times that the store was looked after.", of.upkeeps.load(Relaxed)),
        ("upkeep_failures_total", "counter", "Times that looking after the store failed.", of.failed_upkeeps.load(Relaxed)),
        ("unremovable_bytes_over_limit", "gauge", "Bytes by which rows that retention never removes exceed retention.max_bytes.", of.over_limit.load(Relaxed)),
        ("removed_records_total", "counter", "Records that the retention has removed.", of.removed.load(Relaxed)),
    ];
    // An unknown metric is omitted, because a wrong value would be worse.
    match app.store.stored_bytes().await {
        Ok(bytes) => figures.extend(bytes.map(|bytes| ("stored_bytes", "gauge", "Bytes of the database in use.", bytes))),
        Err(error) => tracing::warn!(%error, "the size of the store is not known"),
    }
    match app.queries.counts().await {
        Ok(counts) => figures.extend([
            ("threads", "gauge", "Threads.", counts.current + counts.archived),
            ("turns_open", "gauge", "Turns that have no end.", counts.open),
            ("turns_waiting", "gauge", "Turns that wait for somebody.", counts.waiting),
            ("turns_active", "gauge", "Turns that are at work.", counts.open.saturating_sub(counts.waiting)),
        ]),
        Err(error) => tracing::warn!(%error, "threads cannot be counted"),
    }
    let mut text = String::new();
    for (name, kind, help, value) in figures {
        head(&mut text, name, kind, help);
        let _ = writeln!(text, "windlass_{name} {value}");
    }
    of_turns(&mut text, &turns);
    of_loops(&mut text, app.loops.panics());
    if let Some(jobs) = &app.jobs {
        match jobs.tasks.counts().await {
            Ok(counts) => of_tasks(&mut text, &counts),
            Err(error) => tracing::warn!(%error, "tasks cannot be counted"),
        }
    }
    Ok(text)
}
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(
        text,
        "# HELP windlass_{name} {help}\n# TYPE windlass_{name} {kind}"
    );
}

fn of_loops(text: &mut String, panics: Vec<(&'static str, u64)>) {
    let help = "Panics of background loops since the start, by loop.";
    head(text, "background_panics_total", "counter", help);
    for (name, count) in panics {
        let _ = writeln!(
            text,
            "windlass_background_panics_total{{loop=\"{name}\"}} {count}"
        );
    }
}

fn of_tasks(text: &mut String, counts: &TaskCounts) {
    head(text, "tasks", "gauge", "Tasks that have no end.");
    for (status, count) in [("queued", counts.queued), ("running", counts.running)] {
        let _ = writeln!(text, "windlass_tasks{{status=\"{status}\"}} {count}");
    }
    let help = "Tasks that ended, by how, since the store was made.";
    head(text, "tasks_ended_total", "counter", help);
    for (status, count) in [
        ("completed", counts.completed),
        ("failed", counts.failed),
        ("canceled", counts.canceled),
    ] {
        let _ = writeln!(
            text,
            "windlass_tasks_ended_total{{status=\"{status}\"}} {count}"
        );
    }
}

/// Writes a metric with several labelled values.
fn of_turns(text: &mut String, turns: &TurnMetrics) {
    let help = "Turns that ended, by how.";
    head(text, "turns_ended_total", "counter", help);
    for (status, count) in [
        ("completed", turns.completed),
        ("failed", turns.failed),
        ("interrupted", turns.interrupted),
    ] {
        let _ = writeln!(
            text,
            "windlass_turns_ended_total{{status=\"{status}\"}} {count}"
        );
    }
    let help = "Tokens of turns that ended.";
    head(text, "tokens_total", "counter", help);
    for (kind, count) in [
        ("input", turns.input_tokens),
        ("output", turns.output_tokens),
    ] {
        let _ = writeln!(text, "windlass_tokens_total{{kind=\"{kind}\"}} {count}");
    }
    let name = "turn_duration_seconds";
    let help = "How long turns took, with what they waited for.";
    head(text, name, "histogram", help);
    let all = turns.completed + turns.failed + turns.interrupted;
    for (bound, count) in &turns.durations {
        let _ = writeln!(text, "windlass_{name}_bucket{{le=\"{bound}\"}} {count}");
    }
    let _ = writeln!(text, "windlass_{name}_bucket{{le=\"+Inf\"}} {all}");
    let (seconds, rest) = (turns.duration_ms / 1000, turns.duration_ms % 1000);
    let _ = writeln!(text, "windlass_{name}_sum {seconds}.{rest:03}");
    let _ = writeln!(text, "windlass_{name}_count {all}");
}
