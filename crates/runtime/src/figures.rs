//! What the turns of this process came to, counted when it is recorded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use windlass_core::events::{Event, EventData};
use windlass_core::items::{Change, TurnStatus, change};

/// The bounds of what a turn took, in seconds; the last group has none.
const SECONDS: [f64; 10] = [0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// What the turns of this process came to since it began.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct TurnFigures {
    /// Turns that were started.
    pub started: u64,
    /// Turns that came to their end.
    pub completed: u64,
    /// Turns that failed.
    pub failed: u64,
    /// Turns that were stopped.
    pub interrupted: u64,
    /// Model calls that ended, whichever way.
    pub model_calls: u64,
    /// Model calls that the provider failed, after they were tried again.
    pub model_errors: u64,
    /// Tokens that ended turns read.
    pub input_tokens: u64,
    /// Tokens that ended turns wrote.
    pub output_tokens: u64,
    /// How long ended turns took in all.
    pub duration_ms: u64,
    /// How many ended turns took at most so many seconds.
    pub durations: Vec<(f64, u64)>,
}

/// Counts them.
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
    /// Counts what was recorded.
    pub(crate) fn observe(&self, events: &[Arc<Event>]) {
        for event in events {
            match &event.data {
                EventData::TurnStarted(_) => add(&self.started, 1),
                EventData::LlmGeneration(call) => {
                    // One that was cut off by us, or by the end of a process, names no provider: it did nothing wrong.
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

    pub(crate) fn read(&self) -> TurnFigures {
        let of = |count: &AtomicU64| count.load(Relaxed);
        // They are counted last and read first, so that none is larger than the number of turns that have ended.
        let durations = SECONDS.iter().zip(&self.durations);
        let durations = durations
            .map(|(bound, count)| (*bound, count.load(Acquire)))
            .collect();
        TurnFigures {
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
