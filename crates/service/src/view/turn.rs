//! A turn on the wire.

use windlass_core::events as core;
use windlass_core::items::{TurnStatus, TurnView, WaitKind as CoreWait};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_protocol::{
    RECORD_SCHEMA_VERSION, Status, TokenUsage, Turn, TurnEnvironmentParams, UnapprovedCalls,
    WaitKind,
};
use windlass_runtime::PROCESS_STOPPED;

use crate::convert::convert_variants;
use crate::ids;

convert_variants! {
    pub(crate) fn status(TurnStatus) -> Status { InProgress Completed Failed Interrupted }
    pub(crate) fn wait_kind(CoreWait) -> WaitKind { Approval UserInput ExternalTool }
}

pub(crate) fn usage(usage: &core::TokenUsage) -> TokenUsage {
    let hit = usage.cache_read_tokens.map(u64::from);
    TokenUsage {
        input_tokens: usage.input_tokens.into(),
        output_tokens: usage.output_tokens.into(),
        prompt_cache_hit_tokens: hit,
        prompt_cache_miss_tokens: hit.map(|hit| u64::from(usage.input_tokens).saturating_sub(hit)),
        prompt_cache_write_tokens: usage.cache_creation_tokens.map(u64::from),
        cost_usd: usage.actual_cost_usd.or(usage.estimated_cost_usd),
        ..TokenUsage::default()
    }
}

/// Converts a turn.
pub(crate) fn turn(view: &TurnView) -> Turn {
    let outline = &view.outline;
    let labels = outline.labels.as_ref();
    let provider = labels
        .and_then(|labels| labels.provider.clone())
        .or_else(|| outline.provider.clone())
        .or_else(|| outline.backend.clone());
    let created_at = outline.created_at.or(outline.started_at);
    let ended_usage = view.is_ended().then(|| view.usage.unwrap_or_default());
    Turn {
        schema_version: RECORD_SCHEMA_VERSION,
        id: view.id.to_string(),
        thread_id: ids::thread(view.session_id),
        status: status(view.status),
        input_summary: outline.input_summary.clone(),
        created_at: created_at.map(ids::time).unwrap_or_default(),
        started_at: outline.started_at.map(ids::time),
        ended_at: view.ended_at.map(ids::time),
        duration_ms: view.duration_ms,
        usage: ended_usage.or(view.usage).as_ref().map(usage),
        effective_provider_id: provider.clone(),
        effective_provider: provider,
        effective_model: outline.model.clone(),
        error: if is_end_of_process(view) {
            Some("Interrupted by process restart".to_owned())
        } else {
            view.error.clone()
        },
        error_code: view.error_code.as_deref().map(error_code),
        item_ids: outline.item_ids.iter().map(ToString::to_string).collect(),
        steer_count: outline.steer_count,
        environment: outline.environment.as_ref().map(environment),
        waiting_for: waiting_for(view),
        resumed_count: Some(outline.resumed_count).filter(|count| *count > 0),
        unapproved_calls: unapproved(view.unapproved),
    }
}

/// Converts calls that did not run because they were not approved, if there are any.
pub(crate) fn unapproved(calls: windlass_core::items::UnapprovedCalls) -> Option<UnapprovedCalls> {
    (!calls.is_empty()).then_some(UnapprovedCalls {
        refused: calls.refused,
        timed_out: calls.timed_out,
    })
}

/// Returns the kinds of input that a turn waits for.
pub(crate) fn waiting_for(view: &TurnView) -> Option<Vec<WaitKind>> {
    let kinds = view.waiting_for.iter().copied().map(wait_kind);
    (!view.waiting_for.is_empty()).then(|| kinds.collect())
}

pub(super) fn environment(at: &TurnEnvironment) -> TurnEnvironmentParams {
    TurnEnvironmentParams {
        environment_id: at.environment_id.clone(),
        cwd: at.cwd.clone(),
    }
}

/// Returns whether a turn was ended because its process was gone.
pub(super) fn is_end_of_process(view: &TurnView) -> bool {
    view.status == TurnStatus::Interrupted && view.error.as_deref() == Some(PROCESS_STOPPED)
}

/// Returns whether the final answer of a turn is a JSON value that matches its schema.
pub(crate) fn has_output(view: &TurnView) -> bool {
    view.outline.has_output_schema && view.status == TurnStatus::Completed
}

/// The wire has a separate code for a turn that crashed the process repeatedly.
fn error_code(code: &str) -> String {
    match code {
        "crashed" => "crash_loop",
        code => code,
    }
    .to_owned()
}
