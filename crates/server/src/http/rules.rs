//! What each scope of a token may do. All of it is here; `docs/tokens.md` says it to people.

use axum::http::Method;
use windlass_protocol::{ErrorCode, Mode};

use super::scope;
use crate::app::App;
use crate::error::ApiError;
use crate::tokens::{Caller, TokenScope};

fn forbidden(text: &str) -> ApiError {
    ApiError::new(ErrorCode::Forbidden, text)
}

impl App {
    /// Checks that a caller may send a request, as far as method and path tell.
    pub(crate) async fn check_scope(
        &self,
        caller: &Caller,
        method: &Method,
        path: &str,
    ) -> Result<(), ApiError> {
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match &caller.scope {
            TokenScope::Admin => Ok(()),
            TokenScope::Client => match segments.as_slice() {
                ["v1", "environments", ..] if !method.is_safe() => Err(forbidden(
                    "only an admin token may change what the machine is opened to",
                )),
                _ => Ok(()),
            },
            TokenScope::Agent(agent) => match segments.as_slice() {
                ["v1", "threads"] | ["v1", "threads", "summary"] | ["v1", "stream"] => Ok(()),
                ["v1", "threads", id, ..] => self.check_owner(agent, id).await,
                ["v1", "openapi.json"] | ["v1", "workspace", "status"] => Ok(()),
                ["v1", "environments", ..] if method.is_safe() => Ok(()),
                _ => Err(forbidden(
                    "the token of an agent is for its own threads only",
                )),
            },
        }
    }

    /// What belongs to others does not exist for an agent.
    async fn check_owner(&self, agent: &str, id: &str) -> Result<(), ApiError> {
        match self.find(id).await?.thread.agent.as_deref() {
            Some(owner) if owner == agent => Ok(()),
            _ => Err(ApiError::thread_not_found(id)),
        }
    }
}

/// Returns the agent that the request at hand speaks for.
pub(crate) fn agent() -> Option<String> {
    match scope::caller()?.scope {
        TokenScope::Agent(agent) => Some(agent),
        TokenScope::Admin | TokenScope::Client => None,
    }
}

/// An agent may not let itself do what somebody else must allow.
pub(crate) fn check_trust(
    auto_approve: Option<bool>,
    trust_mode: Option<bool>,
    mode: Option<Mode>,
) -> Result<(), ApiError> {
    let trusts = auto_approve == Some(true) || trust_mode == Some(true) || mode == Some(Mode::Yolo);
    match agent() {
        Some(_) if trusts => Err(forbidden(
            "the token of an agent cannot switch approvals off",
        )),
        _ => Ok(()),
    }
}
