//! Permissions of token scopes. The required scope is declared at each route and method; `docs/tokens.md` documents it.

use windlass_protocol::operations::RequiredScope;
use windlass_protocol::{ErrorCode, Mode, TurnPolicyParams};

use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::tokens::{ApiCaller, TokenScope};

fn forbidden(text: &str) -> ApiError {
    ApiError::new(ErrorCode::Forbidden, text)
}

/// Returns the error message for a path or method that agents may not use.
fn closed_to_agents(target: &str) -> &'static str {
    let words = [
        (
            "/approvals/",
            "decides no approvals; a client's or an admin's does",
        ),
        (
            "/user-input/",
            "answers no questions; a client's or an admin's does",
        ),
        (
            "/records",
            "reads no raw records; the events of its own threads are open to it",
        ),
        ("/verify", "checks no records, which reads all of them"),
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
    let matching = words.iter().find(|(part, _)| target.contains(part));
    matching.map_or(
        "may not do this: it is for its own threads, tasks and runs",
        |(_, text)| text,
    )
}

impl Service {
    /// Checks that a caller may make a request, for a thread if one is named; `target` is the path or the method.
    pub async fn check_scope(
        &self,
        caller: &ApiCaller,
        required: RequiredScope,
        thread: &str,
        target: &str,
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
                let text = format!("an agent's token {}", closed_to_agents(target));
                Err(forbidden(&text))
            }
        }
    }

    /// For an agent, threads of other owners do not exist.
    async fn check_owner(&self, agent: &str, id: &str) -> Result<()> {
        match self.find(id).await?.thread.agent.as_deref() {
            Some(owner) if owner == agent => Ok(()),
            _ => Err(ApiError::thread_not_found(id)),
        }
    }
}

impl ApiCaller {
    /// Returns the agent of the token, if it is limited to one.
    pub(crate) fn agent(&self) -> Option<&str> {
        match &self.scope {
            TokenScope::Agent(agent) => Some(agent),
            TokenScope::Admin | TokenScope::Client => None,
        }
    }

    /// Rejects an agent's request to run calls without approval.
    pub(super) fn check_approves_all(&self) -> Result<()> {
        self.check_trust(&TurnPolicyParams {
            auto_approve: Some(true),
            ..TurnPolicyParams::default()
        })
    }

    /// Rejects options with which an agent would disable its own approvals.
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
