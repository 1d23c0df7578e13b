//! The tokens of the daemon, as sockets show them: the operator's and those for everything are the host's, those of
//! agents bind to their agent.

use windlass_rpc::{Gate, Standing};

use crate::http::auth::who_shows;
use crate::settings::Access;
use crate::tokens::TokenScope;

pub(super) struct ServerGate(pub(super) Access);

impl Gate for ServerGate {
    fn is_needed(&self) -> bool {
        !matches!(self.0, Access::Open)
    }

    fn judge(&self, token: &str) -> Option<Standing> {
        let caller = who_shows(&self.0, token.trim().as_bytes())?;
        Some(standing(caller.scope))
    }
}

pub(super) fn standing(scope: TokenScope) -> Standing {
    match scope {
        TokenScope::Admin => Standing::Host,
        TokenScope::Client => Standing::Client,
        TokenScope::Agent(id) => Standing::Agent(id),
    }
}

pub(super) fn has_token(access: &Access, agent_id: &str) -> bool {
    match access {
        Access::Tokens { stored, .. } => stored.has_agent(agent_id),
        Access::Token(_) | Access::Open => false,
    }
}
