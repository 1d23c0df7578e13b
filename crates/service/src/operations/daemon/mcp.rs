//! The MCP servers of all threads, and their tools.

use crate::operations::prelude::*;
use windlass_core::mcp::{McpReach, McpScope};
use windlass_core::typed_id::SessionId;
use windlass_protocol::apps::{
    McpServerEntry, McpServerFailure, McpServerList, McpToolEntry, McpToolList,
};

impl Handle<op::ListMcpServers> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        _: Call<op::ListMcpServers>,
    ) -> Result<McpServerList> {
        let connector = self.runtime.mcp();
        let servers = connector.map(|connector| connector.own_servers());
        let shown = servers.unwrap_or_default().into_iter();
        let shown = shown.map(|server| McpServerEntry {
            name: server.name,
            enabled: true,
            command: server.command,
            url: server.origin,
            connected: server.is_connected,
            ..McpServerEntry::default()
        });
        Ok(McpServerList {
            servers: shown.collect(),
        })
    }
}

/// Lists the tools of one server or of all: of connected servers only, or after connecting to the others too.
impl Handle<op::ListMcpTools> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::ListMcpTools>,
    ) -> Result<McpToolList> {
        let server = call.query.server.as_deref();
        let reach = match call.query.connect.unwrap_or(false) {
            // A web page can make the browser send a GET request, so a request that starts programs must be authenticated.
            true if self.settings.access.is_open() => {
                return Err(ApiError::query(
                    "connect=true starts programs, which a daemon without a token refuses; start it without --insecure",
                ));
            }
            true => McpReach::All,
            false => McpReach::Connected,
        };
        let Some(connector) = self.runtime.mcp() else {
            return match server {
                Some(_) => Err(no_server()),
                None => Ok(McpToolList::default()),
            };
        };
        let servers = connector.own_servers();
        if server.is_some_and(|name| servers.iter().all(|known| known.name != name)) {
            return Err(no_server());
        }
        let scope = McpScope {
            session_id: SessionId::new(),
            owner: None,
            environment: Some(self.local()),
            network_access: None,
        };
        let found = connector.own_tools(server, &scope, reach).await;
        let tools = found.tools.into_iter().map(|tool| McpToolEntry {
            server: tool.server,
            name: tool.tool,
            prefixed_name: tool.definition.name().to_owned(),
            description: Some(tool.definition.description().to_owned()),
            input_schema: tool.definition.parameters().clone(),
        });
        let failures = found.failures.into_iter().map(|failure| McpServerFailure {
            server: failure.server,
            reason: failure.reason,
        });
        Ok(McpToolList {
            tools: tools.collect(),
            failures: failures.collect(),
        })
    }
}

fn no_server() -> ApiError {
    ApiError::new(
        ErrorCode::ServerNotFound,
        "the configuration has no such MCP server",
    )
}
