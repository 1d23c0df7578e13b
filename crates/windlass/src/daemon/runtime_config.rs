//! Converts the configured environments, tools and approvals.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use windlass_policy::{ApprovalAction, ApprovalRule, ApprovalRules};
use windlass_protocol::{CreateEnvironment, EnvironmentPolicy, NetworkPolicy};
use windlass_runtime::{CompactionSettings, RuntimeSettings};
use windlass_server::HostConfig;

use super::{subagents, web};
use crate::config::{self, Config};
use crate::model;

/// Returns the configured environments, and the workspace if the configuration sets its network.
pub(super) fn environments(config: &Config, workspace: &Path) -> Vec<CreateEnvironment> {
    let local = config
        .shell
        .network
        .map(|network_setting| CreateEnvironment {
            id: "local".to_owned(),
            kind: None,
            root: workspace.to_owned(),
            policy: EnvironmentPolicy {
                network: network(network_setting),
                ..EnvironmentPolicy::default()
            },
        });
    let configured = config.environments.iter();
    let entries = configured.map(|(id, entry)| CreateEnvironment {
        id: id.clone(),
        kind: None,
        // Relative paths of a configuration file with a relative path start in the daemon's working directory.
        root: std::path::absolute(&entry.root).unwrap_or_else(|_| entry.root.clone()),
        policy: EnvironmentPolicy {
            write: entry.write,
            shell: entry.shell,
            network: network(entry.network),
        },
    });
    local.into_iter().chain(entries).collect()
}

fn network(configured: config::EnvironmentNetwork) -> NetworkPolicy {
    match configured {
        config::EnvironmentNetwork::Inherit => NetworkPolicy::Inherit,
        config::EnvironmentNetwork::None => NetworkPolicy::None,
        config::EnvironmentNetwork::Filtered => NetworkPolicy::Filtered,
    }
}

/// Returns the rules that allow, ask about or deny calls. A disabled tool is a rule that denies all its calls.
pub(super) fn approvals(config: &Config) -> anyhow::Result<ApprovalRules> {
    let disabled = config.tools.disabled.iter().map(|tool| ApprovalRule {
        tool: tool.clone(),
        arguments: BTreeMap::new(),
        command: None,
        action: ApprovalAction::Deny,
    });
    let rules = config.approvals.rules.iter().map(|rule| ApprovalRule {
        tool: rule.tool.clone(),
        arguments: rule.arguments.clone(),
        command: rule.command.clone(),
        action: action(rule.action),
    });
    let pages = web::approvals(&config.web.allow);
    let rules: Vec<_> = disabled.chain(rules).chain(pages).collect();
    for rule in &rules {
        let checked = rule.check().map_err(anyhow::Error::msg);
        checked.context("[approvals] or [tools] of the configuration is invalid")?;
    }
    Ok(ApprovalRules {
        default: config.approvals.default.map(action),
        rules,
    })
}

fn action(configured: config::ApprovalAction) -> ApprovalAction {
    match configured {
        config::ApprovalAction::Allow => ApprovalAction::Allow,
        config::ApprovalAction::Ask => ApprovalAction::Ask,
        config::ApprovalAction::Deny => ApprovalAction::Deny,
    }
}

/// Returns the part of the configuration that clients can read.
pub(super) fn host(config: &Config) -> HostConfig {
    let starts = subagents::settings(&config.subagents, std::iter::empty());
    HostConfig {
        providers: model::entries(config, |name| std::env::var(name).ok()),
        approvals: config.approvals.default.map(action),
        compacts: config.compaction.enabled != Some(false),
        subagent_depth: starts.map(|starts| starts.max_depth),
        file_keys: windlass_config::schema::keys(),
        reads_repository: config.repository.instructions != Some(false),
        ..HostConfig::default()
    }
}

/// Returns the settings for automatic compaction; `None` if it is disabled.
pub(super) fn compaction(config: &config::Compaction) -> Option<CompactionSettings> {
    (config.enabled != Some(false)).then_some(CompactionSettings {
        window_tokens: config.window_tokens,
        reserve_tokens: config.reserve_tokens,
        keep_recent_tokens: None,
    })
}

/// Applies the configured limits of tools and of external agents' output; unset limits remain as in `settings`.
pub(super) fn with_limits_of(mut settings: RuntimeSettings, config: &Config) -> RuntimeSettings {
    let tools = &config.tools;
    match tools.timeout_seconds {
        Some(0) => settings.tool_timeout = None,
        Some(seconds) => settings.tool_timeout = Some(Duration::from_secs(seconds)),
        None => {}
    }
    if let Some(bytes) = tools.max_result_bytes {
        settings.max_tool_result_bytes = bytes;
    }
    match tools.defer_above {
        Some(0) => settings.defer_above = None,
        Some(count) => settings.defer_above = Some(count),
        None => {}
    }
    if let Some(bytes) = config.limits.backend_output_bytes {
        settings.backend_output_bytes = bytes.get();
    }
    settings
}
