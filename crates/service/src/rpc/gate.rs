//! The daemon's tokens as roles of a socket: the operator's and admin tokens are the host's; an agent's token binds the socket to the agent.

use windlass_runs::rpc::{Gate, TokenRole, ValidToken};

use crate::service::Service;
use crate::settings::{Access, Validity};
use crate::tokens::{ApiCaller, SessionLookup, TokenScope, authenticate};

pub(super) struct ServerGate(pub(super) Service);

impl Gate for ServerGate {
    fn requires_token(&self) -> bool {
        !self.0.settings.access.is_open()
    }

    fn validate(&self, token: &str) -> Option<ValidToken> {
        let access = &self.0.settings.access;
        let caller = authenticate(access, token.trim().as_bytes());
        caller.ok().flatten().map(socket_identity)
    }

    fn validate_session(&self, cookie: &str, key: &str) -> Option<ValidToken> {
        let settings = &self.0.settings;
        let (cookie, key) = (cookie.as_bytes(), key.as_bytes());
        match settings
            .logins
            .as_ref()?
            .find(&settings.access, cookie, key)
        {
            SessionLookup::Present(caller) => Some(socket_identity(caller)),
            SessionLookup::Absent | SessionLookup::Unknown => None,
        }
    }

    fn is_still_valid(&self, credential: &str) -> bool {
        self.0.settings.validity(credential) == Validity::Valid
    }
}

/// Returns the identity of a caller on a socket.
pub fn socket_identity(caller: ApiCaller) -> ValidToken {
    let token_id = caller.credential().map(str::to_owned);
    let role = match caller.scope {
        TokenScope::Admin => TokenRole::Host,
        TokenScope::Client => TokenRole::Client,
        TokenScope::Agent(id) => TokenRole::Agent(id),
    };
    ValidToken { role, token_id }
}

pub(super) fn has_token(access: &Access, agent_id: &str) -> bool {
    match access {
        Access::Tokens { stored, .. } => stored.by_agent(agent_id).is_present(),
        Access::Token(_) | Access::Open => false,
    }
}
