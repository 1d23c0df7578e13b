//! What each scope of a token may do. Who may call a route or a method is said where that is; `docs/tokens.md` says it to people.

use windlass_protocol::operations::RequiredScope;
use windlass_protocol::{ErrorCode, Mode, TurnPolicyParams};

use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::tokens::{Caller, TokenScope};

fn forbidden(text: &str) -> ApiError {
    ApiError::new(ErrorCode::Forbidden, text)
}

/// Says what an agent may not do, as it asked for it.
fn closed_to_agents(what: &str) -> &'static str {
    let words = [
        (
            "/approvals/",
            "decides no approvals; a client's or an admin's does",
        ),
        (
            "/user-input/",
            "answers no questions; a client's or an admin's does",
        ),
        ("/replay", "replays nothing, not its own threads either"),
        ("/snapshots", "sees and restores no snapshots"),
        ("/usage", "reads no usage"),
        ("/metrics", "reads no metrics"),
        ("/environments", "adds and removes no environments"),
        ("/config", "neither reads nor changes the configuration"),
        ("/providers", "neither reads nor changes the providers"),
        (
            "/skills",
            "neither reads nor switches the skills of the daemon",
        ),
        ("/apps/", "does not read which MCP servers there are"),
    ];
    let said = words.iter().find(|(part, _)| what.contains(part));
    said.map_or(
        "may not do this: it is for its own threads, tasks and runs",
        |(_, text)| text,
    )
}

impl Service {
    /// Checks that a caller may ask for something, of a thread if one is named; `what` is the path or the method.
    pub async fn check_scope(
        &self,
        caller: &Caller,
        required: RequiredScope,
        thread: &str,
        what: &str,
    ) -> Result<()> {
        match (&caller.scope, required) {
            (TokenScope::Admin, _) | (_, RequiredScope::Agent | RequiredScope::Anyone) => Ok(()),
            (TokenScope::Client, RequiredScope::Client | RequiredScope::Owner) => Ok(()),
            (TokenScope::Agent(agent), RequiredScope::Owner) => {
                self.check_owner(agent, thread).await
            }
            (TokenScope::Client, RequiredScope::Admin) => Err(forbidden(
                "only an admin token may change what the machine is opened to",
            )),
            (TokenScope::Agent(_), RequiredScope::Admin | RequiredScope::Client) => {
                let text = format!("an agent's token {}", closed_to_agents(what));
                Err(forbidden(&text))
            }
        }
    }

    /// What belongs to others does not exist for an agent.
    async fn check_owner(&self, agent: &str, id: &str) -> Result<()> {
        match self.find(id).await?.thread.agent.as_deref() {
            Some(owner) if owner == agent => Ok(()),
            _ => Err(ApiError::thread_not_found(id)),
        }
    }
}

impl Caller {
    /// Returns the agent that it speaks for.
    pub(crate) fn agent(&self) -> Option<&str> {
        match &self.scope {
            TokenScope::Agent(agent) => Some(agent),
            TokenScope::Admin | TokenScope::Client => None,
        }
    }

    /// Refuses an agent that would run calls without an approval.
    pub(super) fn check_approves_all(&self) -> Result<()> {
        self.check_trust(&TurnPolicyParams {
            auto_approve: Some(true),
            ..TurnPolicyParams::default()
        })
    }

    /// Refuses options with which an agent would switch its own approvals off.
    pub(super) fn check_trust(&self, policy: &TurnPolicyParams) -> Result<()> {
        let trusts = policy.auto_approve == Some(true)
            || policy.trust_mode == Some(true)
            || policy.mode == Some(Mode::Yolo);
        match self.agent() {
            Some(_) if trusts => Err(forbidden(
                "the token of an agent cannot switch approvals off",
            )),
            _ => Ok(()),
        }
    }
}
