//! The configurations that turns run under.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::tools::{SideEffectClass, ToolPolicy};
use windlass_turn::{BackendPlan, CompactionPlan, Limits, ToolSpec, TurnPlan};

use crate::targets::bytes::Bytes;

/// Every policy, class and promise, alone and together; `unknown` is in no plan.
pub(super) const TOOLS: &[&str] = &[
    "once", "pure", "same", "pure_k", "once_k", "ask", "ask_k", "client", "client_k", "unknown",
];

pub(super) fn plan(bytes: &mut Bytes<'_>) -> TurnPlan {
    let tools = TOOLS
        .iter()
        .filter(|name| **name != "unknown")
        .map(|name| ((*name).to_owned(), spec(name)))
        .collect();
    let seconds = |n: usize| Duration::from_secs(n as u64);
    TurnPlan {
        digest: "plan".to_owned(),
        model: "model".to_owned(),
        max_iterations: 1 + bytes.below(5),
        tools: Arc::new(tools),
        max_parallel_calls: bytes.below(4),
        turn_timeout: bytes.one_in(4).then(|| seconds(20)),
        wait_timeout: bytes.one_in(2).then(|| seconds(5)),
        limits: Limits {
            max_messages: bytes.one_in(8).then_some(9),
            max_events: bytes.one_in(8).then_some(60),
        },
        backend: bytes.one_in(3).then(|| BackendPlan {
            name: "agent".to_owned(),
            allows_all: bytes.one_in(4),
        }),
        compaction: bytes.one_in(3).then(|| CompactionPlan {
            window_tokens: 120,
            reserve_tokens: 20 + bytes.below(40) as u64,
            keep_recent_tokens: bytes.below(80) as u64,
            prompt_tokens: bytes.below(20) as u64,
        }),
        ..TurnPlan::default()
    }
}

fn spec(name: &str) -> ToolSpec {
    let policy = match name {
        "ask" | "ask_k" => ToolPolicy::RequiresApproval,
        "client" | "client_k" => ToolPolicy::ClientSide,
        _ => ToolPolicy::Auto,
    };
    let side_effects = match name {
        "pure" | "pure_k" => SideEffectClass::Pure,
        "same" | "ask_k" => SideEffectClass::Idempotent,
        _ => SideEffectClass::AtMostOnce,
    };
    ToolSpec {
        policy,
        side_effects,
        concurrency_class: name.ends_with("_k").then(|| "k".to_owned()),
        ..ToolSpec::default()
    }
}
