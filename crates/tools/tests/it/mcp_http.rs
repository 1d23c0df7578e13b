//! Tools of MCP servers over HTTP.
