//! The defaults of the configuration, from the settings types that use them.

use std::time::Duration;

use windlass_runtime::{RuntimeSettings, SubagentSettings};
use windlass_server::{ClientLimits, JobSettings, RpcSettings, Upkeep};
use windlass_tools::{CheckpointLimits, OutputLimits, ShellSettings};

use crate::config::{Layer, Origin};
use crate::daemon::agent::{DEFER_ABOVE, PENDING_CALLS, WAIT, WAITING_INPUTS};
use crate::daemon::budget::{RESERVE_TOKENS, RESERVE_USD};
use crate::daemon::jobs::system_zone;
use crate::terminal::NOTIFY_AFTER;

pub(super) fn layer() -> Layer {
    let (limits, rpc) = (ClientLimits::default(), RpcSettings::default());
    let (shell, upkeep) = (ShellSettings::default(), Upkeep::default());
    let (settings, outputs) = (RuntimeSettings::default(), OutputLimits::default());
    let (subagents, jobs) = (SubagentSettings::default(), JobSettings::default());
    let none: Vec<String> = Vec::new();
    let mut layer = Layer::new(Origin::Default)
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
        .with(&["prompt", "environment"], true)
        .with(&["repository", "instructions"], true)
        .with(&["terminal", "notify"], "off")
        .with(&["checkpoints", "enabled"], true);
    let minutes = |time: Duration| time.as_secs() / 60;
    let numbers: &[(&str, u64)] = &[
        ("terminal.notify_after_seconds", NOTIFY_AFTER.as_secs()),
        ("limits.body_bytes", limits.body_bytes as u64),
        ("limits.threads", limits.threads as u64),
        ("limits.subscribers", limits.subscribers as u64),
        ("limits.connections", limits.connections as u64),
        ("limits.pending_calls", PENDING_CALLS as u64),
        ("limits.waiting_inputs", WAITING_INPUTS as u64),
        ("limits.wait_seconds", WAIT.as_secs()),
        ("subagents.max_depth", u64::from(subagents.max_depth)),
        ("subagents.at_once", subagents.at_once as u64),
        ("subagents.per_turn", subagents.per_turn as u64),
        ("tasks.workers", jobs.tasks.workers as u64),
        ("fleet.workers", jobs.fleet.workers as u64),
        ("fleet.open_runs", jobs.fleet.open_runs as u64),
        ("budget.reserve_tokens", RESERVE_TOKENS),
        ("runs.grace_ms", rpc.grace.as_millis() as u64),
        ("runs.lease_ms", rpc.lease.as_millis() as u64),
        ("runs.message_bytes", rpc.limits.message_bytes as u64),
        (
            "shell.max_background",
            shell.max_background_of_session as u64,
        ),
        (
            "shell.background_minutes",
            minutes(shell.max_background_time),
        ),
        ("outputs.each_mb", outputs.bytes_each >> 20),
        ("outputs.max_mb", outputs.bytes_all >> 20),
        (
            "tools.max_result_bytes",
            settings.max_tool_result_bytes as u64,
        ),
        ("tools.defer_above", DEFER_ABOVE as u64),
        (
            "checkpoints.max_mb",
            CheckpointLimits::default().stored_bytes >> 20,
        ),
    ];
    // Settings without a limit have no default.
    let optional = [
        (
            "shell.max_memory_mb",
            shell.max_memory_bytes.map(|bytes| bytes >> 20),
        ),
        ("shell.max_processes", shell.max_processes),
        (
            "tools.timeout_seconds",
            settings.tool_timeout.map(|time| time.as_secs()),
        ),
        ("retention.every_minutes", upkeep.every.map(minutes)),
    ];
    let optional = optional
        .into_iter()
        .filter_map(|(key, number)| Some((key, number?)));
    for (key, number) in numbers.iter().copied().chain(optional) {
        if let Ok(number) = i64::try_from(number) {
            let path: Vec<&str> = key.split('.').collect();
            layer = layer.with(&path, number);
        }
    }
    layer
}
