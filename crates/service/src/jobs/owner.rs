//! Owners of jobs.
//!
//! A job outlives the request that created it, so its owner is recorded as text and not as a token: `operator`, `token:<id>`, or `agent:<id>` for
//! all tokens of one agent. Workers are divided among owners, and an agent can access only its own jobs.

use windlass_protocol::ErrorCode;

use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::settings::Access;
use crate::tokens::{ApiCaller, TokenLookup, TokenScope, tokens_unavailable};

const OPERATOR: &str = "operator";
const TOKEN: &str = "token:";
const AGENT: &str = "agent:";

/// Returns the agent that owns a job, if an agent does.
pub(super) fn owner_agent(owner: &str) -> Option<&str> {
    owner.strip_prefix(AGENT)
}

impl ApiCaller {
    /// Returns the caller as the owner of a job.
    pub(crate) fn owner(&self) -> String {
        match (&self.scope, &self.token_id) {
            (TokenScope::Agent(agent), _) => format!("{AGENT}{agent}"),
            (_, Some(token)) => format!("{TOKEN}{token}"),
            (_, None) => OPERATOR.to_owned(),
        }
    }

    /// Returns whether the caller may read and change jobs of this owner.
    pub(crate) fn can_access(&self, owner: &str) -> bool {
        self.agent().is_none() || self.owner() == owner
    }
}

impl Service {
    /// Returns the caller with whose rights the jobs of an owner run; an error if its token was revoked.
    pub(crate) fn owner_as_caller(&self, owner: &str) -> Result<ApiCaller> {
        let token = owner.strip_prefix(TOKEN);
        let scope = match (owner_agent(owner), token) {
            (Some(agent), _) => TokenScope::Agent(agent.to_owned()),
            (None, Some(_)) => TokenScope::Client,
            (None, None) => TokenScope::Admin,
        };
        let is_valid = match (&self.settings.access, &scope, token) {
            (Access::Open, ..) | (_, TokenScope::Admin, _) => true,
            (Access::Token(_), ..) => false,
            (Access::Tokens { stored, .. }, scope, token) => {
                let lookup = match scope {
                    TokenScope::Agent(agent) => stored.by_agent(agent),
                    _ => stored.by_id(token.unwrap_or_default()),
                };
                if lookup == TokenLookup::Unknown {
                    return Err(tokens_unavailable());
                }
                lookup.is_present()
            }
        };
        if !is_valid {
            let text = format!(
                "the token that requested this job is no longer valid ({owner}); request it again with another one"
            );
            return Err(ApiError::new(ErrorCode::Forbidden, text));
        }
        let token_id = token.map(str::to_owned);
        Ok(ApiCaller {
            token_id,
            scope,
            session: None,
        })
    }
}
