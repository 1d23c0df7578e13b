//! The operator's MCP servers, whose tools are available in all threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use windlass_config::{McpApproval, McpServerEntry, McpServerType};
use windlass_core::mcp::{self, McpConnector, McpTransportType, ScopedMcpServer, ScopedMcpServers};
use windlass_core::named_secrets::NamedSecrets;
use windlass_tools::mcp::{McpClient, McpSettings};
use windlass_tools::{Environments, ShellSettings};

use super::web;
use crate::config::Config;

/// Creates the client of the configured servers; `None` if there are none.
pub(crate) fn client(
    config: &Config,
    environments: &Environments,
    shell: &ShellSettings,
    secrets: &NamedSecrets,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Option<Arc<dyn McpConnector>>> {
    let configured = &config.mcp_servers;
    if configured.is_empty() {
        return Ok(None);
    }
    let mut servers = ScopedMcpServers::new();
    for (name, entry) in configured {
        let server =
            server(entry, secrets, &variable).with_context(|| format!("mcp_servers.{name}"))?;
        servers.insert(name.clone(), server);
    }
    // The hosts of the operator's servers are allowed, even on this machine.
    let hosts = servers
        .values()
        .filter_map(|server| host_of(server.url.as_deref()?));
    let rules = web::rules(config, &hosts.collect::<Vec<_>>())?;
    let egress = Arc::new(web::egress(config, rules)?);
    let (environments, shell) = (environments.clone(), shell.clone());
    let client = McpClient::new(environments, shell, egress, McpSettings::default());
    Ok(Some(Arc::new(client.with_servers(servers))))
}

/// Returns host and port of a URL.
fn host_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

fn server(
    entry: &McpServerEntry,
    secrets: &NamedSecrets,
    variable: &impl Fn(&str) -> Option<String>,
) -> anyhow::Result<ScopedMcpServer> {
    let transport_type = match (entry.kind, &entry.command, &entry.url) {
        (None | Some(McpServerType::Stdio), Some(_), None) => McpTransportType::Stdio,
        (None | Some(McpServerType::Http), None, Some(_)) => McpTransportType::Http,
        (_, Some(_), Some(_)) => bail!("it has both `command` and `url`; a server has one of them"),
        (_, None, None) => bail!("it has neither `command` nor `url`"),
        (Some(_), ..) => {
            bail!("its `type` is inconsistent: `stdio` has a `command`, `http` a `url`")
        }
    };
    // A secret is sent only to its own hosts, and is passed only to programs that may receive it in commands.
    let url = entry.url.as_deref().unwrap_or_default();
    let in_header = |name: &str| match secrets.get(name) {
        None => Ok(variable(name)),
        Some(secret) if secret.goes_to(url) => Ok(Some(secret.value.clone())),
        Some(_) => bail!("secrets.{name} does not name the server's host in `hosts`"),
    };
    let in_program = |name: &str| match secrets.get(name) {
        None => Ok(variable(name)),
        Some(secret) if secret.in_commands => Ok(Some(secret.value.clone())),
        Some(_) => bail!("secrets.{name} is not available to commands"),
    };
    Ok(ScopedMcpServer {
        transport_type,
        url: entry.url.clone(),
        headers: substitute_all(&entry.headers, in_header)?,
        command: entry.command.clone(),
        args: entry.args.clone(),
        env: substitute_all(&entry.env, in_program)?,
        approval: match entry.approval {
            McpApproval::Ask => mcp::McpApproval::Ask,
            McpApproval::Never => mcp::McpApproval::Never,
        },
        trust_read_only: entry.trust_read_only,
        start_timeout_ms: entry.start_timeout_ms,
        timeout_ms: entry.timeout_ms,
        tool_timeouts_ms: entry.tool_timeouts_ms.clone(),
        ..ScopedMcpServer::default()
    })
}

type Values = BTreeMap<String, String>;

fn substitute_all(
    map: &Values,
    value_of: impl Fn(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<Values> {
    let values = map.iter().map(|(name, value)| {
        let value = substitute(value, &value_of).with_context(|| format!("`{name}`"))?;
        Ok((name.clone(), value))
    });
    values.collect()
}

/// Replaces `${NAME}` with secrets and the daemon's environment variables.
fn substitute(
    template: &str,
    value_of: &impl Fn(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            bail!("`${{` is not closed");
        };
        let Some(value) = value_of(name)? else {
            bail!("the daemon has no variable {name}");
        };
        text.push_str(before);
        text.push_str(&value);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use windlass_core::named_secrets::{NamedSecret, SecretHeader};
    use windlass_core::network_access::NetworkAccessList;

    use super::*;

    fn entry(text: &str) -> anyhow::Result<ScopedMcpServer> {
        let text = format!("[mcp_servers.x]\n{text}");
        let config = windlass_config::Config::parse(&text, std::path::Path::new(""))?;
        let variable = |name: &str| (name == "TOKEN").then(|| "7391".to_owned());
        server(&config.mcp_servers["x"], &secrets(), &variable)
    }

    fn secrets() -> NamedSecrets {
        let secret = |name: &str, in_commands, header| NamedSecret {
            name: name.to_owned(),
            value: format!("{name} 4711"),
            in_commands,
            header,
            agents: Vec::new(),
        };
        let header = SecretHeader {
            to: NetworkAccessList::allow_only(["https://far.example"]),
            name: "Authorization".to_owned(),
            before: String::new(),
        };
        let all = vec![
            secret("INNER", true, None),
            secret("OUTER", false, Some(header)),
        ];
        NamedSecrets::new(all).unwrap()
    }

    #[test]
    fn secret_is_sent_only_to_its_hosts_and_programs() {
        let far = |host: &str, name: &str| {
            entry(&format!(
                "url = 'https://{host}/mcp'\nheaders = {{ A = 'x ${{{name}}}' }}"
            ))
        };
        assert_eq!(
            far("far.example", "OUTER").unwrap().headers["A"],
            "x OUTER 4711"
        );
        let near = |name: &str| entry(&format!("command = 'a'\nenv = {{ A = '${{{name}}}' }}"));
        assert_eq!(near("INNER").unwrap().env["A"], "INNER 4711");
        for refused in [
            far("evil.example", "OUTER"),
            far("far.example.evil.example", "OUTER"),
            far("far.example", "INNER"),
            near("OUTER"),
        ] {
            let error = format!("{:#}", refused.unwrap_err());
            assert!(
                error.contains("secrets.") && !error.contains("4711"),
                "{error}"
            );
        }
    }

    #[test]
    fn servers_are_converted() {
        let files = entry("command = 'npx'\nargs = ['a']\nenv = { T = 'x${TOKEN}' }").unwrap();
        assert_eq!(files.transport_type, McpTransportType::Stdio);
        assert_eq!((files.args.len(), files.env["T"].as_str()), (1, "x7391"));
        assert_eq!(files.approval, mcp::McpApproval::Ask);
        let far = "type = 'http'\nurl = 'http://x'\napproval = 'never'\n[mcp_servers.x.headers]\nAuthorization = 'Bearer ${TOKEN}'";
        let far = entry(far).unwrap();
        assert_eq!(far.transport_type, McpTransportType::Http);
        assert_eq!(far.headers["Authorization"], "Bearer 7391");
        assert_eq!(far.approval, mcp::McpApproval::Never);
    }

    #[test]
    fn inconsistent_entries_are_reported() {
        for (text, why) in [
            ("command = 'a'\nurl = 'b'", "both"),
            ("", "neither"),
            ("type = 'http'\ncommand = 'a'", "is inconsistent"),
            ("command = 'a'\nenv = { T = '${NONE}' }", "no variable NONE"),
            ("command = 'a'\nenv = { T = '${TOKEN' }", "not closed"),
        ] {
            let error = format!("{:#}", entry(text).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
