//! Skills and MCP servers.

use windlass_core::mcp::McpReach;
use windlass_protocol::apps::SwitchSkill;

use super::{Answer, Id, ok};
use crate::http::body::Payload;
use crate::http::path::Path;
use crate::http::query::Query;
use crate::http::request::Asked;
use windlass_service::ApiError;

pub(super) async fn skills(asked: Asked) -> Answer {
    ok(&asked.list_skills().await?)
}

pub(super) async fn switch_skill(
    asked: Asked,
    Path(name): Id,
    body: Payload<SwitchSkill>,
) -> Answer {
    ok(&asked.switch_skill(&name, body.0).await?)
}

pub(super) async fn servers(asked: Asked) -> Answer {
    ok(&asked.list_mcp_servers())
}

pub(super) async fn tools(asked: Asked, query: Query) -> Answer {
    let reach = match query.flag("connect")? {
        // Any page can make a browser send a GET, so one that starts programs must prove more than that it arrived.
        true if asked.settings.access.is_open() => {
            return Err(ApiError::query(
                "connect=true starts programs, which a daemon without a token refuses; start it without --insecure",
            )
            .into());
        }
        true => McpReach::All,
        false => McpReach::Connected,
    };
    ok(&asked.list_mcp_tools(query.text("server"), reach).await?)
}
