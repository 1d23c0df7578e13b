//! Outcomes of this process's turns, counted when they are recorded.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::events::{Event, EventData};
use windlass_core::items::{Change, TurnStatus, change};

use windlass_core::lock::lock;

/// Upper bounds of the duration buckets, in seconds; the last bucket has none.
const SECONDS: [f64; 10] = [0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// Outcomes of this process's turns since it started.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct TurnMetrics {
    /// Turns that were started.
    pub started: u64,
    /// Turns that completed.
    pub completed: u64,
    /// Turns that failed.
    pub failed: u64,
    /// Turns that were interrupted.
    pub interrupted: u64,
    /// Model calls that ended, with any outcome.
    pub model_calls: u64,
    /// Model calls that the provider failed, after all retries.
    pub model_errors: u64,
    /// Input tokens of ended turns.
    pub input_tokens: u64,
    /// Output tokens of ended turns.
    pub output_tokens: u64,
    /// Total duration of ended turns.
    pub duration_ms: u64,
    /// Number of ended turns per upper bound in seconds (cumulative).
    pub durations: Vec<(f64, u64)>,
}

/// Counts turns by outcome, since the runtime was built.
#[derive(Debug)]
pub(crate) struct TurnCounters(Mutex<TurnMetrics>);

impl Default for TurnCounters {
    fn default() -> Self {
        Self(Mutex::new(TurnMetrics {
            durations: SECONDS.map(|bound| (bound, 0)).into(),
            ..TurnMetrics::default()
        }))
    }
}

impl TurnCounters {
    /// Counts recorded events.
    pub(crate) fn observe(&self, events: &[Arc<Event>]) {
        let mut metrics = lock(&self.0);
        for event in events {
            match &event.data {
                EventData::TurnStarted(_) => metrics.started += 1,
                EventData::LlmGeneration(call) => {
                    // A call that we cut off, or that the end of a process cut off, names no provider and is not the provider's error.
                    let is_error = !call.metadata.success && call.metadata.provider.is_some();
                    metrics.model_calls += 1;
                    metrics.model_errors += u64::from(is_error);
                }
                data if data.ends_turn() => metrics.add_ended(event),
                _ => {}
            }
        }
    }

    pub(crate) fn read(&self) -> TurnMetrics {
        lock(&self.0).clone()
    }
}

impl TurnMetrics {
    fn add_ended(&mut self, event: &Event) {
        let Some(Change::TurnEnded(turn)) = change(event) else {
            return;
        };
        match turn.status {
            TurnStatus::Completed => self.completed += 1,
            TurnStatus::Failed => self.failed += 1,
            TurnStatus::Interrupted => self.interrupted += 1,
            TurnStatus::InProgress => return,
        }
        let usage = turn.usage.unwrap_or_default();
        self.input_tokens += u64::from(usage.input_tokens);
        self.output_tokens += u64::from(usage.output_tokens);
        let duration = Duration::from_millis(turn.duration_ms.unwrap_or_default());
        self.duration_ms += turn.duration_ms.unwrap_or_default();
        for (bound, count) in &mut self.durations {
            *count += u64::from(duration.as_secs_f64() <= *bound);
        }
    }
}
