//! Recording turns: all turns of a call or none, numbered by the server.

use serde::Serialize;
use serde_json::Value;
use windlass_core::bounds::prefix;
use windlass_core::runs::{ModelTurn, RunRecord, RunTurn};
use windlass_store::TurnRun;

use crate::caller::Caller;
use crate::error::RunError;
use crate::limits::{RunLimits, size};
use crate::runs::{Appended, Runs, Writable};
use crate::turns::not_from_outside;

/// Suffix of a truncated text.
const CUT: &str = "…[truncated]";
/// Replacement for a field that is too large.
const HEAVY: &str = "[omitted: too large]";

/// Result of recording turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// The turns are durable.
    Kept {
        /// Index of the first turn.
        base_index: u64,
        /// Number of turns.
        count: usize,
    },
    /// No turn was recorded.
    Dropped(Dropped),
}

/// Why no turn was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
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
        caller: &Caller,
        run_id: &str,
        turns: Vec<RunTurn>,
    ) -> Result<Recorded, RunError> {
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
        match fitted.collect::<Option<Vec<_>>>() {
            Some(records) => self.record(caller, run_id, records).await,
            None => self.refuse_or(caller, run_id, Dropped::TurnTooLarge).await,
        }
    }

    /// Records a model reply.
    pub async fn record_model_turn(
        &self,
        caller: &Caller,
        run_id: &str,
        mut turn: ModelTurn,
    ) -> Result<Recorded, RunError> {
        turn.recorded_at = self.clock.now();
        match fit_model_turn(turn, &self.settings.limits) {
            Some(record) => self.record(caller, run_id, vec![record]).await,
            None => self.refuse_or(caller, run_id, Dropped::TurnTooLarge).await,
        }
    }

    async fn record(
        &self,
        caller: &Caller,
        run_id: &str,
        records: Vec<RunRecord>,
    ) -> Result<Recorded, RunError> {
        let run = match self.writable(caller, run_id).await? {
            Writable::Open(run) => run,
            Writable::Ended(_) => return Ok(Recorded::Dropped(Dropped::RunTerminal)),
            Writable::Turn(run) => return of_turn(&run),
            Writable::Unknown => return Ok(Recorded::Dropped(Dropped::RunNotFound)),
        };
        let count = records.len();
        if run.summary.turn_count + count as u64 > self.settings.limits.turns_per_run {
            return Ok(Recorded::Dropped(Dropped::RunTurnLimit));
        }
        let appended = self.append(run, |run| {
            let mut records = records.clone();
            for (index, record) in (run.summary.turn_count..).zip(&mut records) {
                record.set_index(index);
            }
            records
        });
        Ok(match appended.await? {
            Appended::Done { before } => Recorded::Kept {
                base_index: before.summary.turn_count,
                count,
            },
            Appended::Ended(_) => Recorded::Dropped(Dropped::RunTerminal),
            Appended::Lost => Recorded::Dropped(Dropped::RunNotFound),
        })
    }

    /// A caller that does not own the run learns nothing about it, not even from the error for an oversized turn.
    async fn refuse_or(
        &self,
        caller: &Caller,
        run_id: &str,
        why: Dropped,
    ) -> Result<Recorded, RunError> {
        Ok(Recorded::Dropped(
            match self.writable(caller, run_id).await? {
                Writable::Open(_) => why,
                Writable::Ended(_) => Dropped::RunTerminal,
                Writable::Turn(run) => return of_turn(&run),
                Writable::Unknown => Dropped::RunNotFound,
            },
        ))
    }
}

/// A turn of a thread records its own steps.
fn of_turn(run: &TurnRun) -> Result<Recorded, RunError> {
    match run.summary.ended_at {
        Some(_) => Ok(Recorded::Dropped(Dropped::RunTerminal)),
        None => Err(not_from_outside(&run.summary.run_id)),
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
                    output: Some(HEAVY.into()),
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
    texts.for_each(|text| cut(text, limits.text_bytes));
    let values = [&mut turn.parameters, &mut turn.output];
    for value in values.into_iter().flatten() {
        cut_texts(value, limits.text_bytes);
    }
    if size(&turn) > limits.turn_bytes {
        let heavy = [&mut turn.output, &mut turn.parameters];
        heavy.into_iter().flatten().for_each(omit);
    }
    (size(&turn) <= limits.turn_bytes).then_some(RunRecord::Turn(turn))
}

fn fit_model_turn(mut turn: ModelTurn, limits: &RunLimits) -> Option<RunRecord> {
    cut(&mut turn.assistant_text, limits.text_bytes);
    cut(&mut turn.model_id, limits.text_bytes);
    let error = turn.error.iter_mut();
    error.for_each(|error| cut(error, limits.text_bytes));
    let calls = turn.requested_tool_calls.iter_mut();
    calls.for_each(|call| cut_texts(call, limits.text_bytes));
    if size(&turn) > limits.turn_bytes {
        for call in &mut turn.requested_tool_calls {
            call.get_mut("arguments").into_iter().for_each(omit);
        }
    }
    (size(&turn) <= limits.turn_bytes).then_some(RunRecord::ModelTurn(turn))
}

fn omit(value: &mut Value) {
    *value = Value::String(HEAVY.to_owned());
}

/// Truncates a text at a character boundary.
fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        text.truncate(prefix(text, limit.saturating_sub(CUT.len())).len());
        text.push_str(CUT);
    }
}

fn cut_texts(value: &mut Value, limit: usize) {
    match value {
        Value::String(text) => cut(text, limit),
        Value::Array(values) => values.iter_mut().for_each(|value| cut_texts(value, limit)),
        Value::Object(map) => map.values_mut().for_each(|value| cut_texts(value, limit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n26_texts_are_cut_between_characters() {
        for limit in 14..40 {
            let mut text = "aä€😀".repeat(10);
            cut(&mut text, limit);
            assert!(
                text.len() <= limit && text.ends_with(CUT),
                "{limit}: {text}"
            );
        }
    }
}
