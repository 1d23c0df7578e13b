//! What counts where nobody says anything, asked of those who would use it.

use windlass_runtime::{RuntimeSettings, SubagentSettings};
use windlass_server::{Limits, RpcSettings, Upkeep, WorkSettings};
use windlass_tools::{CheckpointLimits, OutputLimits, ShellSettings};

use crate::config::{Layer, Origin};
use crate::daemon::agent::{DEFER_ABOVE, PENDING_CALLS, WAIT, WAITING_INPUTS};
use crate::daemon::budget::{RESERVE_TOKENS, RESERVE_USD};
use crate::daemon::work::system_zone;

pub(super) fn layer() -> Layer {
    let (limits, rpc) = (Limits::default(), RpcSettings::default());
    let (shell, upkeep) = (ShellSettings::default(), Upkeep::default());
    let (settings, outputs) = (RuntimeSettings::default(), OutputLimits::default());
    let (subagents, work) = (SubagentSettings::default(), WorkSettings::default());
    let none: Vec<String> = Vec::new();
    let mut layer = Layer::of(Origin::Default)
        .with(&["models"], none.clone())
        .with(&["tools", "disabled"], none.clone())
        .with(&["web", "enabled"], true)
        .with(&["web", "allow"], none.clone())
        .with(&["web", "deny"], none.clone())
        .with(&["shell", "hosts"], none.clone())
        .with(&["shell", "network"], "inherit")
        .with(&["subagents", "enabled"], true)
        .with(&["subagents", "backends"], none)
        .with(&["tasks", "time_zone"], system_zone())
        .with(&["approvals", "default"], "ask")
        .with(&["compaction", "enabled"], true)
        .with(&["unknown_models"], "default_provider")
        .with(&["shell", "sandbox"], "auto")
        .with(&["budget", "reserve_usd"], RESERVE_USD)
        .with(&["repository", "instructions"], true)
        .with(&["checkpoints", "enabled"], true);
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).ok();
    let numbers = [
        (
            "limits",
            "body_bytes",
            u64::try_from(limits.body_bytes).ok(),
        ),
        ("limits", "threads", u64::try_from(limits.threads).ok()),
        (
            "limits",
            "subscribers",
            u64::try_from(limits.subscribers).ok(),
        ),
        (
            "limits",
            "connections",
            u64::try_from(limits.connections).ok(),
        ),
        ("limits", "pending_calls", u64::try_from(PENDING_CALLS).ok()),
        (
            "limits",
            "waiting_inputs",
            u64::try_from(WAITING_INPUTS).ok(),
        ),
        ("limits", "wait_seconds", Some(WAIT.as_secs())),
        (
            "subagents",
            "max_depth",
            Some(u64::from(subagents.max_depth)),
        ),
        (
            "subagents",
            "at_once",
            u64::try_from(subagents.at_once).ok(),
        ),
        (
            "subagents",
            "per_turn",
            u64::try_from(subagents.per_turn).ok(),
        ),
        ("tasks", "workers", u64::try_from(work.tasks.workers).ok()),
        ("fleet", "workers", u64::try_from(work.fleet.workers).ok()),
        (
            "fleet",
            "open_runs",
            u64::try_from(work.fleet.open_runs).ok(),
        ),
        ("budget", "reserve_tokens", Some(RESERVE_TOKENS)),
        ("runs", "grace_ms", millis(rpc.grace)),
        ("runs", "lease_ms", millis(rpc.lease)),
        (
            "runs",
            "message_bytes",
            u64::try_from(rpc.limits.message_bytes).ok(),
        ),
        (
            "shell",
            "max_memory_mb",
            shell.max_memory_bytes.map(|bytes| bytes >> 20),
        ),
        ("shell", "max_processes", shell.max_processes),
        (
            "shell",
            "max_background",
            u64::try_from(shell.max_background_of_session).ok(),
        ),
        (
            "shell",
            "background_minutes",
            Some(shell.max_background_time.as_secs() / 60),
        ),
        ("outputs", "each_mb", Some(outputs.bytes_each >> 20)),
        ("outputs", "max_mb", Some(outputs.bytes_all >> 20)),
        (
            "tools",
            "timeout_seconds",
            settings.tool_timeout.map(|time| time.as_secs()),
        ),
        (
            "tools",
            "max_result_bytes",
            u64::try_from(settings.max_tool_result_bytes).ok(),
        ),
        ("tools", "defer_above", u64::try_from(DEFER_ABOVE).ok()),
        (
            "checkpoints",
            "max_mb",
            Some(CheckpointLimits::default().stored_bytes >> 20),
        ),
        (
            "retention",
            "every_minutes",
            upkeep.every.map(|every| every.as_secs() / 60),
        ),
    ];
    for (table, name, number) in numbers {
        if let Some(number) = number.and_then(|number| i64::try_from(number).ok()) {
            layer = layer.with(&[table, name], number);
        }
    }
    layer
}
