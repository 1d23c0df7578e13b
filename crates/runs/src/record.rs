//! Recording turns: all turns of a call or none, numbered by the server.

use serde::Serialize;
use serde_json::Value;
use windlass_core::bounds::{json_bytes, prefix};
use windlass_core::runs::{ModelTurn, RunRecord, RunTurn};

use crate::caller::RunCaller;
use crate::error::RunError;
use crate::limits::RunLimits;
use crate::runs::{Appended, Runs, WriteAccess};
use crate::turns::external_write_error;

/// Suffix of a truncated text.
const TRUNCATED: &str = "…[truncated]";
/// Replacement for a field that is too large.
const OMITTED: &str = "[omitted: too large]";

/// Result of recording turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOutcome {
    /// The turns are durable.
    Recorded {
        /// Index of the first turn.
        base_index: u64,
        /// Number of turns.
        count: usize,
    },
    /// No turn was recorded.
    Dropped(DropReason),
}

/// Why no turn was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The run does not exist or belongs to another agent.
    RunNotFound,
    /// The run has already ended.
    RunTerminal,
    /// The run has reached its maximum number of turns.
    RunTurnLimit,
    /// A turn is too large even without its large fields.
    TurnTooLarge,
}

impl Runs {
    /// Records turns of a run.
    pub async fn record_turns(
        &self,
        caller: &RunCaller,
        run_id: &str,
        turns: Vec<RunTurn>,
    ) -> Result<RecordOutcome, RunError> {
        let limit = self.settings.limits.turns_per_call;
        if turns.is_empty() || turns.len() > limit {
            return Err(RunError::InvalidParams(format!(
                "runs.record_turns takes 1 to {limit} turns in a call, not {}",
                turns.len()
            )));
        }
        let fitted = turns
            .into_iter()
            .map(|turn| fit_turn(turn, &self.settings.limits));
        self.record(caller, run_id, fitted.collect()).await
    }

    /// Records a model reply.
    pub async fn record_model_turn(
        &self,
        caller: &RunCaller,
        run_id: &str,
        mut turn: ModelTurn,
    ) -> Result<RecordOutcome, RunError> {
        turn.recorded_at = self.clock.now();
        let record = fit_model_turn(turn, &self.settings.limits);
        self.record(caller, run_id, record.map(|record| vec![record]))
            .await
    }

    /// Records turns; `None` if one of them is too large.
    async fn record(
        &self,
        caller: &RunCaller,
        run_id: &str,
        records: Option<Vec<RunRecord>>,
    ) -> Result<RecordOutcome, RunError> {
        let dropped = |reason| Ok(RecordOutcome::Dropped(reason));
        let run = match self.writable(caller, run_id).await? {
            WriteAccess::Open(run) => run,
            WriteAccess::Ended(_) => return dropped(DropReason::RunTerminal),
            // A turn of a thread records its own steps.
            WriteAccess::Turn(run) if run.summary.ended_at.is_none() => {
                return Err(external_write_error(run_id));
            }
            WriteAccess::Turn(_) => return dropped(DropReason::RunTerminal),
            WriteAccess::Unknown => return dropped(DropReason::RunNotFound),
        };
        // Checked last: a caller that does not own the run learns nothing about it, not even from the size of a turn.
        let Some(records) = records else {
            return dropped(DropReason::TurnTooLarge);
        };
        let count = records.len();
        if run.summary.turn_count + count as u64 > self.settings.limits.turns_per_run {
            return dropped(DropReason::RunTurnLimit);
        }
        let appended = self.append(run, |run| {
            let mut records = records.clone();
            for (index, record) in (run.summary.turn_count..).zip(&mut records) {
                record.set_index(index);
            }
            records
        });
        match appended.await? {
            Appended::Done { before } => Ok(RecordOutcome::Recorded {
                base_index: before.summary.turn_count,
                count,
            }),
            Appended::Ended(_) => dropped(DropReason::RunTerminal),
            Appended::Lost => dropped(DropReason::RunNotFound),
        }
    }
}

/// Truncates a record derived from events in the same way as a reported one.
pub(crate) fn fit(record: RunRecord, limits: &RunLimits) -> RunRecord {
    match record {
        RunRecord::Turn(turn) => {
            let (index, tool) = (turn.index, turn.tool.clone());
            fit_turn(turn, limits).unwrap_or_else(|| {
                RunRecord::Turn(RunTurn {
                    index,
                    tool,
                    output: Some(OMITTED.into()),
                    ..RunTurn::default()
                })
            })
        }
        RunRecord::ModelTurn(turn) => {
            let light = ModelTurn {
                requested_tool_calls: Vec::new(),
                token_usage: None,
                ..turn.clone()
            };
            fit_model_turn(turn, limits)
                .or_else(|| fit_model_turn(light.clone(), limits))
                .unwrap_or(RunRecord::ModelTurn(light))
        }
        other => other,
    }
}

fn fit_turn(mut turn: RunTurn, limits: &RunLimits) -> Option<RunRecord> {
    let texts = [&mut turn.prompt, &mut turn.tool].into_iter().flatten();
    texts.for_each(|text| truncate(text, limits.text_bytes));
    let values = [&mut turn.parameters, &mut turn.output];
    for value in values.into_iter().flatten() {
        truncate_texts(value, limits.text_bytes);
    }
    if json_bytes(&turn) > limits.turn_bytes {
        let heavy = [&mut turn.output, &mut turn.parameters];
        heavy.into_iter().flatten().for_each(omit);
    }
    (json_bytes(&turn) <= limits.turn_bytes).then_some(RunRecord::Turn(turn))
}

fn fit_model_turn(mut turn: ModelTurn, limits: &RunLimits) -> Option<RunRecord> {
    truncate(&mut turn.assistant_text, limits.text_bytes);
    truncate(&mut turn.model_id, limits.text_bytes);
    let error = turn.error.iter_mut();
    error.for_each(|error| truncate(error, limits.text_bytes));
    let calls = turn.requested_tool_calls.iter_mut();
    calls.for_each(|call| truncate_texts(call, limits.text_bytes));
    if json_bytes(&turn) > limits.turn_bytes {
        for call in &mut turn.requested_tool_calls {
            call.get_mut("arguments").into_iter().for_each(omit);
        }
    }
    (json_bytes(&turn) <= limits.turn_bytes).then_some(RunRecord::ModelTurn(turn))
}

fn omit(value: &mut Value) {
    *value = Value::String(OMITTED.to_owned());
}

/// Truncates a text at a character boundary.
fn truncate(text: &mut String, limit: usize) {
    if text.len() > limit {
        text.truncate(prefix(text, limit.saturating_sub(TRUNCATED.len())).len());
        text.push_str(TRUNCATED);
    }
}

fn truncate_texts(value: &mut Value, limit: usize) {
    match value {
        Value::String(text) => truncate(text, limit),
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| truncate_texts(value, limit)),
        Value::Object(map) => map
            .values_mut()
            .for_each(|value| truncate_texts(value, limit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n26_texts_are_truncated_between_characters() {
        for limit in 14..40 {
            let mut text = "aä€😀".repeat(10);
            truncate(&mut text, limit);
            assert!(
                text.len() <= limit && text.ends_with(TRUNCATED),
                "{limit}: {text}"
            );
        }
    }
}
