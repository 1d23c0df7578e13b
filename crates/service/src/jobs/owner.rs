//! Whose work it is, in one word that is kept with it.
//!
//! Jobs outlives the request that asked for it, so its owner is a name and no token: `operator`, `token:<id>`, or `agent:<id>` for
//! all tokens of one agent. Workers are shared out between owners, and an agent sees its own work only.

use windlass_protocol::ErrorCode;

use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::settings::Access;
use crate::tokens::{Caller, TokenLookup, TokenScope, tokens_unavailable};

const OPERATOR: &str = "operator";
const TOKEN: &str = "token:";
const AGENT: &str = "agent:";

/// Returns the agent that owns a job, if an agent does.
pub(super) fn agent_of(owner: &str) -> Option<&str> {
    owner.strip_prefix(AGENT)
}

impl Caller {
    /// Names the caller as the owner of work.
    pub(crate) fn owner(&self) -> String {
        match (&self.scope, &self.token_id) {
            (TokenScope::Agent(agent), _) => format!("{AGENT}{agent}"),
            (_, Some(token)) => format!("{TOKEN}{token}"),
            (_, None) => OPERATOR.to_owned(),
        }
    }

    /// Tells whether the caller may see and change work of this owner.
    pub(crate) fn may_see(&self, owner: &str) -> bool {
        self.agent().is_none() || self.owner() == owner
    }
}

impl Service {
    /// Returns the caller for whom work is begun. Jobs of a token that was revoked is not begun any more.
    pub(crate) fn caller_of(&self, owner: &str) -> Result<Caller> {
        let agent = owner.strip_prefix(AGENT);
        let token = owner.strip_prefix(TOKEN);
        let is_good = match &self.settings.access {
            Access::Open => true,
            Access::Token(_) => agent.or(token).is_none(),
            Access::Tokens { stored, .. } => {
                let lookup = match (agent, token) {
                    (Some(agent), _) => Some(stored.by_agent(agent)),
                    (None, Some(token)) => Some(stored.by_id(token)),
                    (None, None) => None,
                };
                match lookup {
                    Some(TokenLookup::Unknown) => return Err(tokens_unavailable()),
                    Some(lookup) => lookup.is_present(),
                    None => true,
                }
            }
        };
        if !is_good {
            return Err(ApiError::new(
                ErrorCode::Forbidden,
                format!(
                    "the work was asked for with a token that does not count any more ({owner}); ask for it again with another"
                ),
            ));
        }
        Ok(Caller {
            token_id: token.map(str::to_owned),
            scope: match (agent, token) {
                (Some(agent), _) => TokenScope::Agent(agent.to_owned()),
                (None, Some(_)) => TokenScope::Client,
                (None, None) => TokenScope::Admin,
            },
        })
    }
}
