//! The run records of a turn, derived from its events.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::own::{end_in, is_step, run_of_turn};
use super::{
    Evidence, EvidenceKind, ModelTurn, OutcomeMetrics, OutcomeStatus, PolicyRejected, RunEnded,
    RunOutcome, RunRecord, RunStarted, RunStatus, RunTurn, Termination,
};
use crate::events::{
    BackendCompletedData, Decision, Event, EventData, LlmGenerationData, ReasonCompletedData,
    TokenUsage, ToolCompletedData, TurnOutline, TurnStartedData,
};
use crate::items::{ANSWERED, plain_text};
use crate::message::ContentPart;
use crate::typed_id::{ExecId, TurnId};

/// Prefix of a cancellation reason that `runs.cancel` set; its receipt follows as JSON.
pub const CANCELLED_BY_CALL: &str = "runs.cancel ";

/// The records of a turn's run, event by event. It begins with the event that starts the turn.
#[derive(Debug, Clone)]
pub struct TurnTrace {
    turn_id: TurnId,
    agent_id: String,
    /// The number of the run's turns so far.
    turns: u64,
    model_call: ModelCall,
    /// The arguments of the running calls.
    arguments: HashMap<ExecId, Value>,
    metrics: OutcomeMetrics,
}

/// The current model call, from the events so far.
#[derive(Debug, Clone, Default)]
struct ModelCall {
    iteration: u64,
    text: String,
    /// The external agent's model, if reported.
    model: Option<String>,
    generation: Option<Box<LlmGenerationData>>,
}

impl TurnTrace {
    /// Creates the trace of a turn without events.
    #[must_use]
    pub fn new(turn_id: TurnId, agent_id: impl Into<String>) -> Self {
        Self {
            turn_id,
            agent_id: agent_id.into(),
            turns: 0,
            model_call: ModelCall::default(),
            arguments: HashMap::new(),
            metrics: OutcomeMetrics::default(),
        }
    }

    /// Applies the next event of the session; returns its record, if the event is one of this turn's.
    pub fn apply(&mut self, event: &Event) -> Option<RunRecord> {
        if event.context.turn_id.is_some_and(|id| id != self.turn_id) {
            return None;
        }
        match &event.data {
            EventData::TurnStarted(data) if data.turn_id == self.turn_id => {
                return Some(RunRecord::Started(self.started(event, data)));
            }
            EventData::TurnCompleted(data) if data.turn_id != self.turn_id => return None,
            EventData::TurnFailed(data) if data.turn_id != self.turn_id => return None,
            EventData::TurnCancelled(data) if data.turn_id != self.turn_id => return None,
            _ => {}
        }
        if let Some((status, outcome)) = end_in(&event.data) {
            return Some(RunRecord::Ended(self.ended(event, status, outcome)));
        }
        // An event without a turn does not belong to this one.
        event.context.turn_id?;
        self.note(event);
        if !is_step(&event.data) {
            return None;
        }
        let mut record = self.step(event);
        record.set_index(self.turns);
        self.turns += 1;
        Some(record)
    }

    fn started(&self, event: &Event, data: &TurnStartedData) -> RunStarted {
        RunStarted {
            run_id: run_of_turn(self.turn_id),
            agent_id: self.agent_id.clone(),
            intent: intent(&data.outline.clone().unwrap_or_default()),
            outcome_description: None,
            started_at: event.ts,
        }
    }

    /// Remembers data for later records.
    fn note(&mut self, event: &Event) {
        match &event.data {
            EventData::ReasonStarted(data) => self.begin_model_call(data.iteration),
            EventData::LlmGeneration(data) => {
                if let Some(retry) = &data.metadata.retry {
                    self.metrics.retries = self.metrics.retries.saturating_add(retry.retries);
                }
                self.model_call.generation = Some(data.clone());
            }
            // An external agent writes several messages; the last one is its answer.
            EventData::OutputMessageCompleted(data) => {
                let text = plain_text(&data.message.content);
                if !text.is_empty() {
                    self.model_call.text = text.into_owned();
                }
            }
            EventData::BackendStarted(data) => self.begin_model_call(data.iteration),
            EventData::BackendEstablished(data) => {
                self.model_call.model.clone_from(&data.model);
            }
            EventData::OutputMessageReplaced(data) => {
                self.model_call.text = plain_text(&data.message.content).into_owned();
            }
            EventData::ToolStarted(data) => {
                if let Some(exec_id) = event.context.exec_id {
                    let arguments = data.tool_call.arguments.clone();
                    self.arguments.insert(exec_id, arguments);
                }
            }
            _ => {}
        }
    }

    fn begin_model_call(&mut self, iteration: usize) {
        self.model_call = ModelCall {
            iteration: iteration as u64,
            ..ModelCall::default()
        };
    }

    fn step(&mut self, event: &Event) -> RunRecord {
        let turn = match &event.data {
            EventData::ReasonCompleted(data) => {
                return RunRecord::ModelTurn(self.model_turn(event.ts, data));
            }
            EventData::BackendCompleted(data) => {
                return RunRecord::ModelTurn(self.backend_turn(event.ts, data));
            }
            EventData::BackendWaiting(data) => {
                let wait = json!({"until": data.until});
                named(&event.event_type, Some(wait), None)
            }
            EventData::ToolCompleted(data) => self.tool_turn(event.context.exec_id, data),
            EventData::TurnSteered(data) => RunTurn {
                prompt: data.input_text.clone(),
                ..named(&event.event_type, None, None)
            },
            EventData::ApprovalRequired(data) => {
                let call = json!({"tool_call_id": data.tool_call.id, "tool": data.tool_call.name,
                    "arguments": data.tool_call.arguments, "expires_at": data.expires_at});
                named(&event.event_type, Some(call), None)
            }
            EventData::ApprovalDecided(data) => {
                let call = json!({"tool_call_id": data.tool_call_id});
                let decision = json!({"decision": data.decision, "reason": data.reason});
                RunTurn {
                    policy_rejected: (data.decision == Decision::Deny).then(|| PolicyRejected {
                        rule: data.reason.clone().unwrap_or_else(|| "denied".to_owned()),
                        param: None,
                    }),
                    ..named(&event.event_type, Some(call), Some(decision))
                }
            }
            EventData::UserInputRequired(data) => {
                let question = json!({"request_id": data.request_id, "prompt": data.prompt});
                named(&event.event_type, Some(question), None)
            }
            EventData::UserInputAnswered(data) => {
                let question = json!({"request_id": data.request_id});
                named(&event.event_type, Some(question), Some(ANSWERED.into()))
            }
            EventData::UserInputCanceled(data) => {
                let question = json!({"request_id": data.request_id});
                let output = json!({"canceled": data.reason});
                named(&event.event_type, Some(question), Some(output))
            }
            EventData::TurnResumed(data) => {
                let attempt = json!({"attempt": data.attempt});
                named(&event.event_type, Some(attempt), None)
            }
            EventData::ContextCompacted(data) => {
                let output = json!({"messages_before": data.messages_before,
                    "messages_after": data.messages_after, "error": data.error});
                named(&event.event_type, None, Some(output))
            }
            EventData::SubagentStarted(data) => {
                let child = json!({"session_id": data.child_session_id, "name": data.name, "task": data.task});
                named(&event.event_type, Some(child), None)
            }
            EventData::SubagentCompleted(data) => {
                let child = json!({"session_id": data.child_session_id, "name": data.name});
                let output = json!({"success": data.success, "result": data.result});
                named(&event.event_type, Some(child), Some(output))
            }
            _ => RunTurn::default(),
        };
        RunRecord::Turn(turn)
    }

    fn backend_turn(&mut self, at: DateTime<Utc>, data: &BackendCompletedData) -> ModelTurn {
        let call = std::mem::take(&mut self.model_call);
        ModelTurn {
            index: 0,
            turn_index: call.iteration,
            assistant_text: call.text,
            requested_tool_calls: Vec::new(),
            model_id: call.model.unwrap_or_else(|| data.backend.clone()),
            token_usage: data.usage.as_ref().map(usage_of),
            duration_ms: data.duration_ms.unwrap_or_default() as f64,
            recorded_at: at,
            error: data.error.clone(),
        }
    }

    fn model_turn(&mut self, at: DateTime<Utc>, data: &ReasonCompletedData) -> ModelTurn {
        let call = std::mem::take(&mut self.model_call);
        let generation = call.generation.map(|generation| *generation);
        let (calls, metadata) = match generation {
            Some(generation) => (generation.output.tool_calls, Some(generation.metadata)),
            None => (Vec::new(), None),
        };
        let usage = data
            .usage
            .or(metadata.as_ref().and_then(|known| known.usage));
        let duration = metadata.as_ref().and_then(|known| known.duration_ms);
        ModelTurn {
            index: 0,
            turn_index: call.iteration,
            assistant_text: call.text,
            requested_tool_calls: calls.iter().map(|call| json!(call)).collect(),
            model_id: metadata.map(|known| known.model).unwrap_or_default(),
            token_usage: usage.as_ref().map(usage_of),
            duration_ms: duration.or(data.duration_ms).unwrap_or_default() as f64,
            recorded_at: at,
            error: data.error.clone(),
        }
    }

    fn tool_turn(&mut self, exec_id: Option<ExecId>, data: &ToolCompletedData) -> RunTurn {
        let started_with = exec_id.and_then(|exec_id| self.arguments.remove(&exec_id));
        let count = if data.success {
            &mut self.metrics.actions_succeeded
        } else {
            &mut self.metrics.actions_failed
        };
        *count = count.saturating_add(1);
        let is_denied = data.approval == Some(Decision::Deny);
        let mut turn = RunTurn {
            policy_rejected: is_denied.then(|| PolicyRejected {
                rule: data.error.clone().unwrap_or_else(|| "denied".to_owned()),
                param: None,
            }),
            ..named(
                &data.tool_name,
                data.arguments.clone().or(started_with),
                Some(output(data)),
            )
        };
        turn.derive_outcomes();
        turn
    }

    fn ended(
        &mut self,
        event: &Event,
        status: RunStatus,
        outcome: Option<OutcomeStatus>,
    ) -> RunEnded {
        let run_id = run_of_turn(self.turn_id);
        let termination = match (status, outcome) {
            (_, Some(outcome)) => Termination::Outcome {
                status: outcome,
                outcome: Box::new(self.outcome(event, outcome)),
            },
            (RunStatus::Cancelled, None) => Termination::Cancelled {
                cancellation: cancellation(event, &run_id),
            },
            (_, None) => Termination::Incomplete,
        };
        RunEnded {
            run_id,
            agent_id: self.agent_id.clone(),
            termination,
            ended_at: event.ts,
        }
    }

    fn outcome(&self, event: &Event, status: OutcomeStatus) -> RunOutcome {
        let mut metrics = self.metrics;
        let (summary, evidence, models, tools, duration) = match &event.data {
            EventData::TurnCompleted(data) => {
                let preview = data.final_answer_preview.clone().unwrap_or_default();
                let (models, tools) = (data.llm_call_count, data.tool_call_count);
                (preview, Vec::new(), models, tools, data.duration_ms)
            }
            EventData::TurnFailed(data) => {
                let why = Evidence {
                    kind: EvidenceKind::StopReason,
                    description: data.error_code.clone().unwrap_or_default(),
                    data: json!(data.error_fields),
                };
                let (models, tools) = (data.llm_call_count, data.tool_call_count);
                (
                    data.error.clone(),
                    vec![why],
                    models,
                    tools,
                    data.duration_ms,
                )
            }
            _ => (String::new(), Vec::new(), None, None, None),
        };
        metrics.turns = to_u32(models);
        metrics.tool_calls = to_u32(tools);
        metrics.duration_ms = duration.unwrap_or_default() as f64;
        RunOutcome {
            status,
            summary,
            evidence,
            metrics,
            timestamp: event.ts,
        }
    }
}

/// Returns the goal of a turn as text.
#[must_use]
pub fn intent(outline: &TurnOutline) -> String {
    match outline.input_summary.as_str() {
        summary if !summary.trim().is_empty() => summary.to_owned(),
        _ if outline.compaction == Some(true) => "make the history shorter".to_owned(),
        _ => "answer an input".to_owned(),
    }
}

fn named(tool: &str, parameters: Option<Value>, output: Option<Value>) -> RunTurn {
    RunTurn {
        tool: Some(tool.to_owned()),
        parameters,
        output,
        ..RunTurn::default()
    }
}

fn to_u32(count: Option<usize>) -> u32 {
    u32::try_from(count.unwrap_or_default()).unwrap_or(u32::MAX)
}

fn usage_of(usage: &TokenUsage) -> Value {
    let mut shown = json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens(),
    });
    let caches = [
        ("cache_read_input_tokens", usage.cache_read_tokens),
        ("cache_creation_input_tokens", usage.cache_creation_tokens),
    ];
    for (name, tokens) in caches {
        if let Some(tokens) = tokens {
            shown[name] = json!(tokens);
        }
    }
    shown
}

fn output(data: &ToolCompletedData) -> Value {
    if data.private == Some(true) {
        return ANSWERED.into();
    }
    let parts = data.result.as_deref().unwrap_or_default();
    match (parts, &data.error) {
        ([], Some(error)) => json!({"status": data.status, "error": error}),
        ([], None) => json!({"status": data.status}),
        ([part], _) => part_value(part),
        (parts, _) => parts.iter().map(part_value).collect(),
    }
}

fn part_value(part: &ContentPart) -> Value {
    match part {
        ContentPart::ToolResult(result) => match (&result.error, &result.result) {
            (Some(error), _) => json!({"error": error}),
            (None, Some(value)) => value.clone(),
            (None, None) => Value::Null,
        },
        other => plain_text(std::slice::from_ref(other)).into_owned().into(),
    }
}

/// Returns the cancellation of a turn, with the receipt if `runs.cancel` caused it.
fn cancellation(event: &Event, run_id: &str) -> Value {
    let reason = match &event.data {
        EventData::TurnCancelled(data) => data.reason.as_deref(),
        _ => None,
    };
    let receipt = reason.and_then(|reason| reason.strip_prefix(CANCELLED_BY_CALL));
    match receipt.and_then(|receipt| serde_json::from_str(receipt).ok()) {
        Some(receipt) => receipt,
        None => json!({"run_id": run_id, "status": "cancelled_confirmed", "reason": reason}),
    }
}
