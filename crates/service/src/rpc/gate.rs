//! The daemon's tokens as roles of a socket: the operator's and admin tokens are the host's; an agent's token binds the socket to the agent.

use windlass_runs::rpc::{Gate, TokenRole, ValidToken};

use crate::settings::Access;
use crate::tokens::{ApiCaller, TokenScope, authenticate};

pub(super) struct ServerGate(pub(super) Access);

impl Gate for ServerGate {
    fn requires_token(&self) -> bool {
        !matches!(self.0, Access::Open)
    }

    fn validate(&self, token: &str) -> Option<ValidToken> {
        let caller = authenticate(&self.0, token.trim().as_bytes());
        caller.ok().flatten().map(socket_identity)
    }

    fn is_still_valid(&self, token_id: &str) -> bool {
        self.0.has_token(token_id)
    }
}

/// Returns the identity of a caller on a socket.
pub fn socket_identity(ApiCaller { token_id, scope }: ApiCaller) -> ValidToken {
    let role = match scope {
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
