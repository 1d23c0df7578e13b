//! What the row of a turn says beside what it is found by.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::events::{ErrorFields, TokenUsage, TurnOutline};
use windlass_core::items::{TurnView, WaitKind};

/// The stored form of the rest of a [`TurnView`]; the ids and times that rows have as columns are not repeated.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TurnDetail {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) input: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "is_zero")]
    steered: u32,
    #[serde(skip_serializing_if = "is_zero")]
    resumed: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_token_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<TokenUsage>,
    /// Iterations, ended model calls, begun tool calls.
    counts: (usize, usize, usize),
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_fields: Option<ErrorFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compaction: Option<bool>,
    /// Only of turns that are folded on reading: an ended one waits for nothing.
    #[serde(skip)]
    waiting_for: Vec<WaitKind>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl TurnDetail {
    pub(super) fn of(view: &TurnView) -> Self {
        let outline = &view.outline;
        // Most turns begin when they are asked for.
        let created_at = outline
            .created_at
            .filter(|at| Some(*at) != outline.started_at);
        Self {
            input: outline.input_summary.clone(),
            model: outline.model.clone(),
            provider: outline.provider.clone(),
            created_at,
            steered: outline.steer_count,
            resumed: outline.resumed_count,
            duration_ms: view.duration_ms,
            first_token_ms: view.time_to_first_token_ms,
            usage: view.usage,
            counts: (view.iterations, view.llm_call_count, view.tool_call_count),
            error: view.error.clone(),
            error_code: view.error_code.clone(),
            error_fields: view.error_fields.clone(),
            labels: outline.labels.clone(),
            compaction: outline.compaction,
            waiting_for: view.waiting_for.clone(),
        }
    }

    /// Makes the view again; its ids, status and times are those of the row.
    pub(super) fn into_view(self, row: super::rows::TurnKey) -> TurnView {
        let (iterations, llm_call_count, tool_call_count) = self.counts;
        TurnView {
            id: row.id,
            session_id: row.session,
            status: row.status,
            input_message_id: row.input,
            outline: TurnOutline {
                input_summary: self.input,
                model: self.model,
                provider: self.provider,
                created_at: self.created_at.or(row.started_at),
                started_at: row.started_at,
                item_ids: row.item_ids,
                steer_count: self.steered,
                resumed_count: self.resumed,
                labels: self.labels,
                compaction: self.compaction,
            },
            ended_at: row.ended_at,
            duration_ms: self.duration_ms,
            time_to_first_token_ms: self.first_token_ms,
            usage: self.usage,
            iterations,
            llm_call_count,
            tool_call_count,
            final_message_id: row.answer,
            error: self.error,
            error_code: self.error_code,
            error_fields: self.error_fields,
            waiting_for: self.waiting_for,
        }
    }
}
