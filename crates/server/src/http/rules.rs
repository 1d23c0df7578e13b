//! What each scope of a token may do. Who may call a route is said where the route is; `docs/tokens.md` says it to people.

use windlass_protocol::{ErrorCode, Mode};

use super::scope;
use crate::app::App;
use crate::error::ApiError;
use crate::routes::MayCall;
use crate::tokens::{Caller, TokenScope};

fn forbidden(text: &str) -> ApiError {
    ApiError::new(ErrorCode::Forbidden, text)
}

impl App {
    /// Checks that a caller may send a request, as far as its route tells.
    pub(crate) async fn check_scope(
        &self,
        caller: &Caller,
        may_call: MayCall,
        path: &str,
    ) -> Result<(), ApiError> {
        match (&caller.scope, may_call) {
            (TokenScope::Admin, _) | (_, MayCall::Agent | MayCall::Anyone) => Ok(()),
            (TokenScope::Client, MayCall::Client | MayCall::Owner) => Ok(()),
            (TokenScope::Agent(agent), MayCall::Owner) => {
                let thread = path.split('/').nth(3).unwrap_or_default();
                self.check_owner(agent, thread).await
            }
            (TokenScope::Client, MayCall::Admin) => Err(forbidden(
                "only an admin token may change what the machine is opened to",
            )),
            (TokenScope::Agent(_), MayCall::Admin | MayCall::Client) => Err(forbidden(
                "the token of an agent is for its own threads only",
            )),
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
