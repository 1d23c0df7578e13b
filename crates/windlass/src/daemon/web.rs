//! The agent's access to the web.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use anyhow::Context;
use windlass_policy::{ApprovalAction, ApprovalRule};
use windlass_tools::{
    Environments, OpenHosts, ShellProxy, WebCapability, WebEgress, WebRules, WebSettings,
};

use crate::config::Config;
use crate::sandbox_launcher;

/// The name of the capability and of its tool.
pub(super) const NAME: &str = "web_fetch";

/// Returns whether models get the tool.
pub(super) fn is_enabled(config: &Config) -> bool {
    config.web.enabled.unwrap_or(true)
}

/// Creates the tool that reads pages and its egress.
pub(super) fn tool_and_egress(
    config: &Config,
    environments: &Environments,
) -> anyhow::Result<(WebCapability, WebEgress)> {
    let rules = rules(config, &[])?;
    let egress = egress(config, Arc::clone(&rules))?;
    let settings = WebSettings::default();
    let capability = WebCapability::new(environments.clone(), rules, settings);
    Ok((capability, egress))
}

/// Returns the operator's rules for hosts and networks, with additional allowed hosts.
pub(super) fn rules(config: &Config, opened: &[String]) -> anyhow::Result<Arc<WebRules>> {
    let allow = [config.web.allow.as_slice(), opened].concat();
    let rules = WebRules::parse(&allow, &config.web.deny);
    let rules = rules.context("[web] of the configuration is invalid")?;
    Ok(Arc::new(rules))
}

/// Creates the egress of tools.
pub(super) fn egress(config: &Config, rules: Arc<WebRules>) -> anyhow::Result<WebEgress> {
    let mut egress = WebEgress::new(rules);
    if let Some(file) = &config.ca_file {
        let shown = file.display();
        let pem = fs::read(file).with_context(|| format!("{shown} cannot be read"))?;
        let trusting = egress.with_certificates(&pem).map_err(anyhow::Error::msg);
        egress = trusting.with_context(|| format!("{shown} cannot be used"))?;
    }
    Ok(egress)
}

/// Creates the proxy for commands in environments that filter the network.
pub(super) fn proxy(config: &Config) -> anyhow::Result<ShellProxy> {
    let egress = egress(config, rules(config, &[])?)?;
    let hosts = OpenHosts::parse(&config.shell.hosts);
    let hosts = hosts.context("`hosts` in [shell] of the configuration is invalid")?;
    let own = std::env::current_exe().context("this program cannot be found")?;
    Ok(ShellProxy::new(
        egress,
        hosts,
        sandbox_launcher::launcher(own),
    ))
}

/// Returns the rules that allow pages of the operator's hosts without approval.
///
/// Rules match the text of a URL. Only a prefix with the complete host name and a slash is certain to mean that host. Wildcards, prefixes and
/// networks therefore yield no rule, and calls to them need approval.
pub(super) fn approvals(allow: &[String]) -> impl Iterator<Item = ApprovalRule> {
    let hosts = allow.iter().filter(|host| !host.contains(['*', '/']));
    let urls = hosts.flat_map(|host| {
        let of = |scheme: &str| {
            [
                format!("{scheme}://{host}"),
                format!("{scheme}://{host}/**"),
            ]
        };
        [of("https"), of("http")].concat()
    });
    urls.map(|url| ApprovalRule {
        tool: NAME.to_owned(),
        arguments: BTreeMap::from([("url".to_owned(), url)]),
        command: None,
        action: ApprovalAction::Allow,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_policy::ApprovalRules;

    use super::*;

    #[test]
    fn only_named_hosts_need_no_approval() {
        let allow = [
            "docs.rs",
            "127.0.0.1:8080",
            "*.open.example",
            "10.0.0.0/8",
            "https://a.example/b",
        ];
        let rules = ApprovalRules {
            default: None,
            rules: approvals(&allow.map(str::to_owned)).collect(),
        };
        let asked = |url: &str| rules.decide(NAME, &json!({ "url": url }), true);
        for url in [
            "https://docs.rs",
            "https://docs.rs/",
            "http://docs.rs/a/b?c=d",
            "http://127.0.0.1:8080/x",
        ] {
            assert_eq!(asked(url), ApprovalAction::Allow, "{url}");
        }
        for url in [
            "https://docs.rs.evil.example/",
            "https://docs.rs@evil.example/",
            "https://docs.rs:x@evil.example/",
            "https://docs.rs\\@evil.example/",
            "https://evil.example/https://docs.rs/",
            "https://docs.rs:8080/",
            "http://127.0.0.1/",
            "http://127.0.0.1:80801/",
            "https://x.open.example/",
            "https://evil.example?.open.example/",
            "http://10.0.0.1/",
            "https://a.example/b/../c",
        ] {
            assert_eq!(asked(url), ApprovalAction::Ask, "{url}");
        }
    }

    #[test]
    fn invalid_rules_are_reported() {
        let read = |text: &str| {
            let config = Config::parse(text, std::path::Path::new("")).unwrap();
            tool_and_egress(&config, &Environments::new()).map(drop)
        };
        read("[web]\nallow = ['docs.rs', '10.0.0.0/8']\ndeny = ['*']").unwrap();
        for (text, named) in [
            ("[web]\nallow = ['10.0.0.0/99']", "10.0.0.0/99"),
            ("[web]\nallow = ['*']", "private network"),
            ("[web]\ndeny = ['a b']", "a b"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains("[web]") && error.contains(named), "{error}");
        }
    }
}
