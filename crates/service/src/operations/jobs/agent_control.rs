//! Cancels agents that a model started, and reminds the model of them.

use std::collections::HashMap;

use windlass_core::error::AgentLoopError;
use windlass_core::message::InputMessage;
use windlass_protocol::agent_runs::{AgentRun, NudgedAgentRuns};

use crate::ids;
use crate::operations::jobs::agent_runs::{LEVELS, not_found, parent_of};
use crate::operations::prelude::*;
use crate::operations::turns::steer::no_active_turn;
use crate::threads::FoundThread;

/// Maximum number of agents that one nudge names.
const MAX_AGENTS: usize = 64;
/// The metadata key that marks a message as a nudge.
const NUDGE: &str = "windlass.nudge";

/// Interrupts the running turn of an agent that works for a thread, directly or through another agent.
impl Handle<op::CancelAgentRun> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::CancelAgentRun>,
    ) -> Result<AgentRun> {
        let agent_id = &call.path.agent_id;
        let owner = self.find(&call.path.id).await?;
        let agent = self.find_agent(ctx, &owner, agent_id).await?;
        let has_ended = || {
            let text = format!("The agent's thread {agent_id} is not active: the agent has ended");
            ApiError::new(ErrorCode::NoActiveTurn, text)
        };
        let turn = agent.row.open_turn().ok_or_else(has_ended)?.id;
        let reason = Some("a client cancelled the agent".to_owned());
        match self.runtime.interrupt(agent.id, Some(turn), reason).await {
            Ok(()) => self.agent_run(ctx, agent_id).await,
            Err(AgentLoopError::NoActiveTurn(_) | AgentLoopError::TurnNotFound { .. }) => {
                Err(has_ended())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Reminds the running turn of a thread of agents that still run. There is no second reminder until the model has read the first.
impl Handle<op::NudgeAgentRuns> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::NudgeAgentRuns>,
    ) -> Result<NudgedAgentRuns> {
        let owner = self.find(&call.path.id).await?;
        let active = owner
            .row
            .open_turn()
            .ok_or_else(|| no_active_turn(&owner))?;
        let active = active.id;
        self.check_trusted(ctx, &owner, active).await?;
        let running = self
            .running_agents(ctx, &owner, call.request.agent_ids)
            .await?;
        let mut nudged = NudgedAgentRuns {
            accepted: !running.is_empty(),
            coalesced: false,
            thread_id: ids::thread(owner.id),
            turn_id: active.to_string(),
            agent_ids: running,
        };
        if !nudged.accepted {
            return Ok(nudged);
        }
        let open = self.runtime.open_turn(owner.id).await?;
        let mut waiting = open.into_iter().flat_map(|turn| turn.steered);
        nudged.coalesced = waiting.any(|message| {
            let metadata = message.metadata.as_ref();
            metadata.is_some_and(|metadata| metadata.contains_key(NUDGE))
        });
        if !nudged.coalesced {
            let mut input = InputMessage::user(reminder(&nudged.agent_ids));
            input.metadata = Some(HashMap::from([(NUDGE.to_owned(), true.into())]));
            match self.runtime.steer_turn(owner.id, active, input).await {
                Ok(_) => {}
                Err(AgentLoopError::NoActiveTurn(_)) => return Err(no_active_turn(&owner)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(nudged)
    }
}

impl Service {
    /// Returns which of the named agents still run, without duplicates.
    async fn running_agents(
        &self,
        ctx: &RequestContext,
        owner: &FoundThread,
        mut ids: Vec<String>,
    ) -> Result<Vec<String>> {
        ids.sort();
        ids.dedup();
        if ids.is_empty() || ids.len() > MAX_AGENTS {
            let text = format!("agent_ids must name 1 to {MAX_AGENTS} agents");
            return Err(ApiError::field("/agent_ids", text));
        }
        let mut running = Vec::new();
        for id in ids {
            let agent = self.find_agent(ctx, owner, &id).await?;
            if agent.row.open_turn().is_some() {
                running.push(id);
            }
        }
        Ok(running)
    }

    /// Finds an agent that works for a thread, directly or through another agent.
    async fn find_agent(
        &self,
        ctx: &RequestContext,
        owner: &FoundThread,
        agent_id: &str,
    ) -> Result<FoundThread> {
        let found = self.find_accessible(ctx, agent_id).await?;
        let mut parent = parent_of(&found);
        for _ in 0..LEVELS {
            match parent {
                Some(id) if id == owner.id => return Ok(found),
                Some(id) => parent = self.look_up(id).await?.as_ref().and_then(parent_of),
                None => break,
            }
        }
        Err(not_found(agent_id))
    }
}

fn reminder(agents: &[String]) -> String {
    format!(
        "These agents that you started are still running: {}. Check whether they make progress; stop those that do not, \
         or continue without them.",
        agents.join(", ")
    )
}
