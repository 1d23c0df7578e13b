//! Outcomes of this process's turns, counted when they are recorded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use windlass_core::events::{Event, EventData};
use windlass_core::items::{Change, TurnStatus, change};

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
#[derive(Debug, Default)]
pub(crate) struct TurnCounters {
    started: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    interrupted: AtomicU64,
    model_calls: AtomicU64,
    model_errors: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    duration_ms: AtomicU64,
    durations: [AtomicU64; SECONDS.len()],
}

impl TurnCounters {
    /// Counts recorded events.
    pub(crate) fn observe(&self, events: &[Arc<Event>]) {
        for event in events {
            match &event.data {
                EventData::TurnStarted(_) => add(&self.started, 1),
                EventData::LlmGeneration(call) => {
                    // A call that we cut off, or that the end of a process cut off, names no provider and is not the provider's error.
                    let is_error = !call.metadata.success && call.metadata.provider.is_some();
                    add(&self.model_calls, 1);
                    add(&self.model_errors, u64::from(is_error));
                }
                data if data.ends_turn() => self.ended(event),
                _ => {}
            }
        }
    }

    fn ended(&self, event: &Event) {
        let Some(Change::TurnEnded(turn)) = change(event) else {
            return;
        };
        match turn.status {
            TurnStatus::Completed => add(&self.completed, 1),
            TurnStatus::Failed => add(&self.failed, 1),
            TurnStatus::Interrupted => add(&self.interrupted, 1),
            TurnStatus::InProgress => return,
        }
        let usage = turn.usage.unwrap_or_default();
        add(&self.input_tokens, usage.input_tokens.into());
        add(&self.output_tokens, usage.output_tokens.into());
        let took = turn.duration_ms.unwrap_or_default();
        add(&self.duration_ms, took);
        for (bound, count) in SECONDS.iter().zip(&self.durations) {
            #[expect(clippy::cast_precision_loss, reason = "a turn takes no aeons")]
            let seconds = took as f64 / 1000.0;
            count.fetch_add(u64::from(seconds <= *bound), Release);
        }
    }

    pub(crate) fn read(&self) -> TurnMetrics {
        let of = |count: &AtomicU64| count.load(Relaxed);
        // Buckets are written last and read first, so that none exceeds the number of ended turns.
        let durations = SECONDS.iter().zip(&self.durations);
        let durations = durations
            .map(|(bound, count)| (*bound, count.load(Acquire)))
            .collect();
        TurnMetrics {
            started: of(&self.started),
            completed: of(&self.completed),
            failed: of(&self.failed),
            interrupted: of(&self.interrupted),
            model_calls: of(&self.model_calls),
            model_errors: of(&self.model_errors),
            input_tokens: of(&self.input_tokens),
            output_tokens: of(&self.output_tokens),
            duration_ms: of(&self.duration_ms),
            durations,
        }
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Relaxed);
}
