//! Agents that models start: threads that work for another thread.

use windlass_core::items::TurnStatus;
use windlass_core::typed_id::SessionId;
use windlass_protocol::agent_runs::{
    AgentRun, AgentRunFollowUp, AgentRunList, AgentRunSpec, AgentRunStatus, AgentRunTakeover,
    AgentRunUsage, AgentRunVerification,
};
use windlass_store::queries::ThreadState;

use crate::ids;
use crate::operations::prelude::*;
use crate::threads::FoundThread;

/// Default and maximum number of listed agents.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;

/// Number of agents that are read at a time.
const PAGE: usize = 200;
/// Maximum number of pages that are read for one response.
const PAGES: usize = 16;
/// Maximum depth of nested agents that is counted.
pub(crate) const LEVELS: u32 = 16;
/// Maximum length of a displayed objective, in characters; the thread contains the complete text.
const OBJECTIVE: usize = 500;

pub(crate) fn not_found(id: &str) -> ApiError {
    let text = format!("no agent that a model started has the id `{id}`");
    ApiError::new(ErrorCode::AgentRunNotFound, text)
}

impl Handle<op::GetAgentRun> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::GetAgentRun>) -> Result<AgentRun> {
        self.agent_run(ctx, &call.path.run_id).await
    }
}

/// Lists agents, newest first: those that work for one thread, or all.
impl Handle<op::ListAgentRuns> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ListAgentRuns>,
    ) -> Result<AgentRunList> {
        let limit = limit(call.query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let invalid = || ApiError::query("parent must be the id of a thread");
        let parent = call.query.parent.as_deref();
        let parent = parent.map(|id| ids::parse_thread(id).ok_or_else(invalid));
        let parent = parent.transpose()?;
        let mut runs = Vec::new();
        for page in 0..PAGES {
            let ids = self.runtime.child_ids(parent, page * PAGE, PAGE).await?;
            for id in &ids {
                let found = self.look_up(*id).await?;
                let Some(found) = found.filter(|found| self.can_access_thread(ctx, found)) else {
                    continue;
                };
                runs.extend(self.agent_run_of(&found).await?);
                if runs.len() == limit {
                    return Ok(AgentRunList { runs });
                }
            }
            if ids.len() < PAGE {
                break;
            }
        }
        Ok(AgentRunList { runs })
    }
}

impl Service {
    pub(crate) async fn agent_run(&self, ctx: &RequestContext, id: &str) -> Result<AgentRun> {
        let found = self.find_accessible(ctx, id).await?;
        let run = self.agent_run_of(&found).await?;
        run.ok_or_else(|| not_found(id))
    }

    /// Finds a thread that the caller may access.
    pub(crate) async fn find_accessible(
        &self,
        ctx: &RequestContext,
        id: &str,
    ) -> Result<FoundThread> {
        let found = self.find_if_any(id).await?;
        let found = found.filter(|found| self.can_access_thread(ctx, found));
        found.ok_or_else(|| not_found(id))
    }

    /// For an agent, threads of other owners do not exist.
    fn can_access_thread(&self, ctx: &RequestContext, found: &FoundThread) -> bool {
        let agent = ctx.caller.agent();
        agent.is_none() || agent == found.thread.agent.as_deref()
    }

    /// Returns the number of threads above this one.
    async fn depth(&self, found: &FoundThread) -> Result<u32> {
        let mut depth = 0;
        let mut parent = parent_of(found);
        while let Some(id) = parent
            && depth < LEVELS
        {
            depth += 1;
            parent = self.look_up(id).await?.as_ref().and_then(parent_of);
        }
        Ok(depth)
    }

    /// Returns the agent run of a thread; `None` if the thread does not work for another one.
    async fn agent_run_of(&self, found: &FoundThread) -> Result<Option<AgentRun>> {
        let (thread, row) = (&found.thread, &found.row);
        let Some(parent) = &thread.parent else {
            return Ok(None);
        };
        let depth = self.depth(found).await?;
        // Beyond the first level, the parent is an agent run too.
        let parent_run_id = (depth > 1).then(|| parent.thread_id.clone());
        let turn = match &row.latest {
            Some(latest) => self.queries.turn(&row.stream, latest.id).await?,
            None => None,
        };
        let view = turn.as_ref().map(|turn| &turn.view);
        let status = match view.map(|view| view.status) {
            None => AgentRunStatus::Starting,
            Some(TurnStatus::InProgress) if row.state == ThreadState::Waiting => {
                AgentRunStatus::WaitingForUser
            }
            Some(TurnStatus::InProgress) => AgentRunStatus::Running,
            Some(TurnStatus::Completed) => AgentRunStatus::Completed,
            Some(TurnStatus::Failed) => AgentRunStatus::Failed,
            Some(TurnStatus::Interrupted) => AgentRunStatus::Interrupted,
        };
        let message = Some(row.preview.clone()).filter(|message| !message.is_empty());
        let input = row.latest.as_ref().map(|latest| &*latest.input_summary);
        let objective = input.or(thread.title.as_deref()).unwrap_or_default();
        Ok(Some(AgentRun {
            spec: AgentRunSpec {
                worker_id: thread.id.clone(),
                run_id: thread.id.clone(),
                parent_run_id: parent_run_id.clone(),
                session_name: thread.title.clone(),
                objective: objective.chars().take(OBJECTIVE).collect(),
                agent_type: "general".to_owned(),
                model: thread.model.clone(),
                workspace: thread.workspace.clone(),
                context_mode: "fresh".to_owned(),
                fork_context: false,
                tool_profile: "inherited".to_owned(),
                max_steps: 0,
                spawn_depth: depth,
                backend: thread.backend.clone(),
            },
            actor_kind: "subagent".to_owned(),
            parent_run_id,
            owner_session_id: parent.thread_id.clone(),
            parent_turn_id: parent.turn_id.clone(),
            thread_id: thread.id.clone(),
            turn_id: thread.latest_turn_id.clone(),
            status,
            created_at_ms: row.created_at.timestamp_millis(),
            updated_at_ms: row.at.timestamp_millis(),
            started_at_ms: view.and_then(|view| Some(view.outline.started_at?.timestamp_millis())),
            completed_at_ms: view.and_then(|view| Some(view.ended_at?.timestamp_millis())),
            result_summary: message
                .clone()
                .filter(|_| status == AgentRunStatus::Completed),
            latest_message: message,
            error: view.and_then(|view| view.error.clone()),
            steps_taken: view.map_or(0, |view| view.iterations + view.tool_call_count) as u64,
            usage: usage(found),
            follow_up: AgentRunFollowUp {
                tool: format!("POST /v1/threads/{}/turns", thread.id),
                agent_id: thread.id.clone(),
                accepted_statuses: vec![
                    AgentRunStatus::Completed,
                    AgentRunStatus::Failed,
                    AgentRunStatus::Interrupted,
                ],
            },
            takeover: AgentRunTakeover {
                kind: "thread".to_owned(),
                supported: true,
                agent_id: thread.id.clone(),
                instructions: format!(
                    "Its thread is {}: steer, stop or continue it there.",
                    thread.id
                ),
            },
            verification: AgentRunVerification {
                status: "self_report_only".to_owned(),
                summary: "the result was not verified".to_owned(),
            },
            artifacts: Vec::new(),
            events: Vec::new(),
        }))
    }
}

pub(crate) fn parent_of(found: &FoundThread) -> Option<SessionId> {
    let parent = found.thread.parent.as_ref()?;
    ids::parse_thread(&parent.thread_id)
}

fn usage(found: &FoundThread) -> AgentRunUsage {
    let used = found.row.usage.as_ref();
    let input = used.map(|used| u64::from(used.input_tokens));
    let output = used.map(|used| u64::from(used.output_tokens));
    AgentRunUsage {
        status: used.map_or("unknown", |_| "reported").to_owned(),
        input_tokens: input,
        output_tokens: output,
        total_tokens: input.zip(output).map(|(input, output)| input + output),
        note: "usage of the ended turns of its thread".to_owned(),
    }
}
