//! Parses servers in the common format `{"mcpServers": {"name": {"command": …}}}`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use windlass_core::mcp::{McpApproval, McpTransportType, ScopedMcpServer, ScopedMcpServers};

/// Why the servers cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum McpServersError {
    /// The table `mcpServers` is missing.
    #[error("`mcpServers` is missing or not a table")]
    Missing,
    /// One of the servers is invalid.
    #[error("MCP server `{server}`: {reason}")]
    Server {
        server: String,
        /// The problem. It contains no values, because they may be keys.
        reason: String,
    },
}

/// A server in the file format.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ServerEntry {
    #[serde(rename = "type", alias = "transport")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(alias = "serverUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Maximum time without a message during a call, in milliseconds.
    timeout: Option<u64>,
    #[serde(default)]
    disabled: bool,
}

/// Parses servers in the format of other programs. Unknown settings are errors, because they may be protective ones.
///
/// # Errors
/// If any part cannot be parsed.
pub fn servers_from_json(json: &Value) -> Result<ScopedMcpServers, McpServersError> {
    let servers = json.get("mcpServers").and_then(Value::as_object);
    let servers = servers.ok_or(McpServersError::Missing)?;
    let mut read = ScopedMcpServers::new();
    for (name, entry) in servers {
        let failed = |reason: String| McpServersError::Server {
            server: name.clone(),
            reason,
        };
        let entry = ServerEntry::deserialize(entry).map_err(|error| failed(error.to_string()))?;
        if entry.disabled {
            continue;
        }
        read.insert(name.clone(), server(entry).map_err(failed)?);
    }
    Ok(read)
}

fn server(entry: ServerEntry) -> Result<ScopedMcpServer, String> {
    let transport_type = match (entry.kind.as_deref(), &entry.command, &entry.url) {
        (_, Some(_), Some(_)) => return Err("it has both `command` and `url`".to_owned()),
        (None | Some("stdio"), Some(_), None) => McpTransportType::Stdio,
        (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(_)) => {
            McpTransportType::Http
        }
        (Some("sse"), ..) => {
            return Err("the transport `sse` is not supported; use `http`".to_owned());
        }
        (None, None, None) => return Err("it has neither `command` nor `url`".to_owned()),
        (Some(kind), ..) => {
            return Err(format!("`type` {kind:?} does not match its other settings"));
        }
    };
    Ok(ScopedMcpServer {
        transport_type,
        url: entry.url,
        headers: entry.headers,
        command: entry.command,
        args: entry.args,
        env: entry.env,
        approval: McpApproval::Ask,
        timeout_ms: entry.timeout,
        ..ScopedMcpServer::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_in_the_common_format_are_parsed() {
        let servers = servers_from_json(&json!({"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}},
            "far": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}},
            "off": {"command": "x", "disabled": true}
        }}))
        .unwrap();
        assert_eq!(servers.len(), 2);
        assert_eq!(servers["files"].transport_type, McpTransportType::Stdio);
        assert_eq!(servers["files"].args, ["-y", "x"]);
        assert_eq!(servers["far"].transport_type, McpTransportType::Http);
        assert_eq!(servers["far"].approval, McpApproval::Ask);
    }

    #[test]
    fn invalid_server_is_refused_with_its_name() {
        for (entry, word) in [
            (json!({"command": "x", "url": "y"}), "both"),
            (json!({}), "neither"),
            (json!({"type": "sse", "url": "y"}), "sse"),
            (json!({"type": "http", "command": "y"}), "does not match"),
            (json!({"command": "x", "comand": 1}), "comand"),
        ] {
            let read = servers_from_json(&json!({"mcpServers": {"odd": entry}}));
            let error = read.unwrap_err().to_string();
            assert!(error.contains("`odd`") && error.contains(word), "{error}");
        }
        assert!(servers_from_json(&json!({})).is_err());
    }
}
