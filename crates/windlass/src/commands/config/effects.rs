//! Summarizes the effects of a configuration file that the user trusts.

use std::collections::BTreeSet;

use windlass_config::{BackendEntry, BackendHome, McpApproval, McpServerEntry, without_login};
use windlass_core::bounds::one_line;

use crate::cli::{note, printable};
use crate::config::{ApprovalAction, ApprovalRule, Config, EnvironmentNetwork, SecretEntry};

/// Prints where keys are sent, which programs run, and which calls need no approval, so that the user sees what the file does.
pub(super) fn note_effects(config: &Config) {
    for (name, provider) in &config.providers {
        if let Some(url) = &provider.base_url {
            note(format!(
                "requests and the API key of {name} are sent to {:?}",
                without_login(url)
            ));
        }
    }
    if let Some(proxy) = &config.proxy {
        note(format!(
            "requests to providers are sent through {:?}",
            without_login(proxy)
        ));
    }
    for (name, server) in &config.mcp_servers {
        note_server(name, server);
    }
    for (name, backend) in &config.backends {
        note_backend(name, backend);
    }
    for (name, secret) in &config.secrets {
        note_secret(name, secret);
    }
    if !config.shell.hosts.is_empty() {
        let hosts = &config.shell.hosts;
        note(format!(
            "commands with a filtered network can reach {hosts:?}"
        ));
    }
    for (paths, access) in [
        (&config.shell.home_paths, "read"),
        (&config.shell.writable_home_paths, "change"),
    ] {
        for path in paths {
            let path = printable(path);
            note(format!("commands may {access} {path} in your home"));
        }
    }
    if config.shell.terminals {
        note("under Landlock, commands may read from and write to your terminals");
    }
    if let Some(text) = &config.prompt.text {
        note(format!("the agent's instructions are {text:?}"));
    }
    for rule in &config.approvals.rules {
        note_rule(rule);
    }
    if config.approvals.default == Some(ApprovalAction::Allow) {
        note("calls that match no rule run without an approval");
    }
    for host in &config.web.allow {
        note(format!(
            "pages of {host:?} are read without an approval, also in private networks"
        ));
    }
    for (name, entry) in &config.environments {
        let root = printable(&entry.root);
        let write = if entry.write {
            ""
        } else {
            ", without changing files"
        };
        let shell = match (entry.shell, entry.network) {
            (false, _) => ", without commands",
            (true, EnvironmentNetwork::None) => ", with commands",
            (true, EnvironmentNetwork::Filtered) => ", with commands and a filtered network",
            (true, EnvironmentNetwork::Inherit) => ", with commands and the network",
        };
        note(format!(
            "agents can work in {root}, as {name:?}{write}{shell}"
        ));
    }
    for (name, entry) in &config.automations {
        let schedule = entry.cron.as_ref().or(entry.schedule.as_ref());
        let schedule = schedule.map_or("", String::as_str);
        let prompt = &entry.prompt;
        note(format!(
            "the automation {name:?} runs unattended by {schedule:?} with the prompt {prompt:?}"
        ));
        if entry.auto_approve == Some(true) {
            note(format!(
                "the automation {name:?} calls tools without approval"
            ));
        }
    }
    if config.shell.network == Some(EnvironmentNetwork::Inherit) {
        note("commands have this machine's network access, whatever your own file says");
    }
    let backends = &config.subagents.backends;
    if !backends.is_empty() {
        note(format!("agents can start agents on {backends:?}"));
    }
    if let Some(file) = &config.ca_file {
        note(format!("certificates of {} are trusted", printable(file)));
    }
}

/// Describes a rule with all its conditions.
fn note_rule(rule: &ApprovalRule) {
    let ApprovalRule {
        tool,
        arguments,
        command,
        action,
    } = rule;
    let command = command.iter().map(|command| ("command", command));
    let arguments = arguments.iter().map(|(name, value)| (name.as_str(), value));
    let conditions = command.chain(arguments);
    let conditions: Vec<_> = conditions
        .map(|(name, value)| format!("{} {value:?}", one_line(name)))
        .collect();
    let conditions = if conditions.is_empty() {
        String::new()
    } else {
        format!(" with {}", conditions.join(" and "))
    };
    let outcome = match action {
        ApprovalAction::Allow => "run without an approval",
        ApprovalAction::Ask => "need an approval",
        ApprovalAction::Deny => "are denied",
    };
    note(format!("calls of {tool:?}{conditions} {outcome}"));
}

fn note_server(name: &str, server: &McpServerEntry) {
    if let Some(command) = &server.command {
        let line: Vec<&str> = std::iter::once(command.as_str())
            .chain(server.args.iter().map(String::as_str))
            .collect();
        note(format!("the MCP server {name:?} is the program {line:?}"));
    }
    if let Some(url) = &server.url {
        let url = without_login(url);
        note(format!("the MCP server {name:?} is at {url:?}"));
    }
    let values = server.env.values().chain(server.headers.values());
    let values = values.chain(&server.url).chain(&server.args);
    let names: BTreeSet<&str> = values.flat_map(|text| variables_in(text)).collect();
    if !names.is_empty() {
        note(format!("it gets the values of these variables: {names:?}"));
    }
    if server.approval == McpApproval::Never {
        note("its tools run without an approval");
    }
    if server.trust_read_only {
        note("calls of tools that it declares read-only are not checkpointed");
    }
}

fn note_backend(name: &str, backend: &BackendEntry) {
    if let Some(command) = &backend.command {
        note(format!(
            "the agent {name:?} is the program {}",
            printable(command)
        ));
    }
    if !backend.arguments.is_empty() {
        let arguments = &backend.arguments;
        note(format!("the agent {name:?} is started with {arguments:?}"));
    }
    if !backend.variables.is_empty() {
        let names = &backend.variables;
        note(format!(
            "the agent {name:?} gets the values of these variables: {names:?}"
        ));
    }
    if backend.home == BackendHome::User {
        note(format!("the agent {name:?} can access your home directory"));
    }
}

fn note_secret(name: &str, secret: &SecretEntry) {
    if let Some(variable) = &secret.variable {
        note(format!("the secret {name:?} is your variable {variable:?}"));
    }
    if let Some(file) = &secret.file {
        note(format!(
            "the secret {name:?} is the file {}",
            printable(file)
        ));
    }
    let (commands, hosts) = (secret.commands, &secret.hosts);
    if commands {
        note(format!("commands get the secret {name:?}"));
    }
    if !hosts.is_empty() {
        note(format!("requests to {hosts:?} contain the secret {name:?}"));
    }
    if !secret.agents.is_empty() {
        let agents = &secret.agents;
        note(format!(
            "threads of {agents:?} also have the secret {name:?}"
        ));
    }
}

/// Returns the variable names in `${NAME}` references.
fn variables_in(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("${").skip(1);
    parts.filter_map(|part| part.split_once('}').map(|(name, _)| name))
}
