//! Starts a subagent, or finds the one that the same call started before, and waits for its end.

use std::sync::Arc;

use windlass_core::bounds::{one_line, prefix};
use windlass_core::derived_id::child_of_step;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{
    EventContext, EventData, EventRequest, SessionStartedData, SubagentCompletedData,
    SubagentStartedData,
};
use windlass_core::message::{Controls, InputMessage};
use windlass_core::session::{Session, SessionStatus, SubagentStatus};
use windlass_core::traits::ToolContext;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_request::{ParentTurn, TurnRequest};
use windlass_core::typed_id::{ExecId, SessionId, TurnId};
use windlass_policy::ApprovalAction;
use windlass_turn::OnBusy;

use super::end::{ChildEnd, ChildRecord};
use super::host::ChildDraft;
use super::slots::TurnSlots;
use super::stop::{open_turn_input, stop};
use super::tool::SpawnArguments;
use super::{SPAWN_AGENT, SubagentSettings};
use crate::inner::Inner;
use crate::runtime::{InProcessRuntime, open_session};
use crate::turn_result::TurnOptions;

/// Maximum bytes of a task or an answer in the parent's records, in addition to the call itself.
const SHOWN_BYTES: usize = 500;

/// Why a subagent did not start, or why its outcome is unknown. The model reads it.
pub(super) struct SpawnRefusal(pub(super) String);

type SpawnResult<T> = std::result::Result<T, SpawnRefusal>;

impl From<AgentLoopError> for SpawnRefusal {
    fn from(error: AgentLoopError) -> Self {
        Self(error.to_string())
    }
}

/// A call that starts a subagent.
pub(super) struct SpawnCall<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) settings: &'a SubagentSettings,
    pub(super) context: &'a ToolContext,
    pub(super) turn_id: TurnId,
    pub(super) exec_id: ExecId,
    pub(super) task: SpawnArguments,
}

/// The parent's recorded state.
struct ParentState {
    controls: Controls,
    link: ParentTurn,
    /// Number of subagents that its turn has started.
    begun: usize,
    /// Whether this subagent was started, and whether its end is recorded.
    is_begun: bool,
    is_done: bool,
}

impl SpawnCall<'_> {
    fn child(&self) -> SessionId {
        child_of_step(self.exec_id)
    }

    /// Runs the call. It is idempotent: a repeated call finds the work already done.
    pub(super) async fn run(mut self) -> SpawnResult<(ChildEnd, String)> {
        self.hide_secrets();
        let slots = &self.inner.child_slots;
        let slots = slots.for_turn(self.turn_id, self.settings.at_once);
        let working = slots.working.acquire().await;
        let _working = working.map_err(|_| SpawnRefusal("the runtime stops".to_owned()))?;
        let (parent, tools) = self.begin(&slots).await?;
        let journal = Arc::clone(&self.inner.backends.journal);
        let mut record = ChildRecord::read(&*journal, self.child()).await?;
        if parent.is_done && !record.has_turn() {
            return Err(SpawnRefusal("the agent could not begin".to_owned()));
        }
        if let Err(refusal) = self.start(&parent, tools, &record).await {
            self.note_end(&parent, &ChildEnd::failed(&refusal.0), "")
                .await?;
            return Err(refusal);
        }
        if let Err(error) = record.wait(self.inner, self.child()).await {
            // No caller is left for the result.
            let _ = stop(self.inner, self.child()).await;
            return Err(error.into());
        }
        let end = record.end.unwrap_or(ChildEnd::Completed);
        self.note_end(&parent, &end, &record.answer).await?;
        Ok((end, record.answer))
    }

    /// A session's secrets are masked, because the subagent's own mask does not contain them.
    fn hide_secrets(&mut self) {
        if let Some(mask) = self.inner.secrets.mask(self.context.session_id) {
            mask.text(&mut self.task.prompt);
            mask.optional(&mut self.task.name);
        }
    }

    /// Validates the call and records that the subagent starts, before anything of it is created.
    async fn begin(&self, slots: &TurnSlots) -> SpawnResult<(ParentState, Vec<String>)> {
        let _one_at_a_time = slots.beginning.lock().await;
        let parent = self.parent().await?;
        let tools = self.tools(&parent)?;
        self.check_backend(&parent)?;
        if parent.is_begun {
            return Ok((parent, tools));
        }
        let SubagentSettings {
            max_depth,
            per_turn,
            ..
        } = *self.settings;
        if parent.link.depth > max_depth {
            return Err(SpawnRefusal(format!(
                "agents may be {max_depth} levels deep, and this is the last; do the work yourself"
            )));
        }
        if parent.begun >= per_turn {
            return Err(SpawnRefusal(format!(
                "a turn may start {per_turn} agents, and this one has; do the rest yourself"
            )));
        }
        self.emit(SubagentStartedData {
            child_session_id: self.child(),
            name: self.name(),
            task: Some(preview(&self.task.prompt)),
        })
        .await?;
        Ok((parent, tools))
    }

    async fn parent(&self) -> SpawnResult<ParentState> {
        let session_id = self.context.session_id;
        let thread = self.inner.thread(session_id).await?;
        let is_meant = thread.turn().is_some_and(|turn| turn.id == self.turn_id);
        let input = open_turn_input(&thread).filter(|_| is_meant);
        let input = input.ok_or_else(|| SpawnRefusal("the turn has ended".to_owned()))?;
        let controls = input.controls.clone().unwrap_or_default();
        let above = controls.turn.as_ref().and_then(|turn| turn.parent);
        let root = |of: &ParentTurn| (of.root_session_id, of.root_turn_id);
        let (root_session_id, root_turn_id) =
            above.as_ref().map_or((session_id, self.turn_id), root);
        let of_turn = || {
            let children = thread.children().iter();
            children.filter(|child| child.turn_id == self.turn_id)
        };
        let own = of_turn().find(|child| child.exec_id == self.exec_id);
        Ok(ParentState {
            controls,
            link: ParentTurn {
                session_id,
                turn_id: self.turn_id,
                exec_id: self.exec_id,
                root_session_id,
                root_turn_id,
                depth: above.map_or(0, |above| above.depth).saturating_add(1),
            },
            begun: of_turn().count(),
            is_begun: own.is_some(),
            is_done: own.is_some_and(|child| child.is_done),
        })
    }

    /// Returns the names of the subagent's tools: those of its parent, or a subset.
    fn tools(&self, parent: &ParentState) -> SpawnResult<Vec<String>> {
        let (Some(visible), Some(registry)) = (
            &self.context.visible_tool_names,
            &self.context.tool_registry,
        ) else {
            return Err(SpawnRefusal(
                "the tools of the turn are not known".to_owned(),
            ));
        };
        let is_last = parent.link.depth >= self.settings.max_depth;
        let is_given = |name: &&String| {
            // A name that could be read as a pattern might match more than the tool.
            registry.has(name) && !name.contains(['*', '?']) && !(is_last && *name == SPAWN_AGENT)
        };
        let mut names: Vec<String> = visible.iter().filter(is_given).cloned().collect();
        names.sort_unstable();
        let Some(requested) = &self.task.tools else {
            return Ok(names);
        };
        if let Some(other) = requested
            .iter()
            .find(|requested| !names.contains(requested))
        {
            let other = one_line(other);
            return Err(SpawnRefusal(format!(
                "an agent cannot have the tool `{other}`: it gets tools of yours that run here, which are {}",
                names.join(", ")
            )));
        }
        names.retain(|name| requested.contains(name));
        Ok(names)
    }

    /// An external agent has its own tools, and does not know which are forbidden to its parent.
    fn check_backend(&self, parent: &ParentState) -> SpawnResult<()> {
        let Some(backend) = &self.task.backend else {
            return Ok(());
        };
        if !self.settings.backends.contains(backend) {
            let allowed = self.settings.backends.join(", ");
            let backend = one_line(backend);
            return Err(SpawnRefusal(format!(
                "no agent may run on the backend `{backend}`; allowed are: {allowed}"
            )));
        }
        let request = parent.controls.turn.as_deref();
        let is_narrow = |request: &TurnRequest| {
            let is_free = |it: &TurnEnvironment| it.write && it.shell;
            request.allowed_tools.is_some()
                || !request.disallowed_tools.is_empty()
                || !request.environment.as_ref().is_none_or(is_free)
        };
        let approvals = &self.inner.settings.approvals;
        let mut actions = approvals.rules.iter().map(|rule| rule.action);
        let is_narrow = request.is_some_and(is_narrow)
            || self.context.network_access.is_some()
            || approvals.default == Some(ApprovalAction::Deny)
            || actions.any(|action| action == ApprovalAction::Deny);
        if is_narrow || self.task.tools.is_some() {
            return Err(SpawnRefusal(
                "an agent on a backend has tools of its own, so only a turn that may use everything can start one".to_owned(),
            ));
        }
        Ok(())
    }

    /// Creates the session and starts its turn, as far as that is not done yet.
    async fn start(
        &self,
        parent: &ParentState,
        tools: Vec<String>,
        record: &ChildRecord,
    ) -> SpawnResult<()> {
        let (inner, child) = (self.inner, self.child());
        let exists = inner.backends.session_store.has_session(child).await?;
        if exists && record.has_turn() {
            return Ok(());
        }
        let draft = self.draft(parent, tools).await?;
        if !exists {
            open_session(inner, draft.session.clone()).await?;
        }
        let runtime = InProcessRuntime {
            inner: Arc::clone(inner),
        };
        if let (Some(_), true) = (&draft.record, record.is_empty()) {
            let first = SessionStartedData {
                title: draft.session.title,
                record: draft.record,
            };
            runtime.note_session(child, first).await?;
        }
        if record.has_turn() {
            return Ok(());
        }
        let input = InputMessage {
            controls: Some(draft.controls),
            ..InputMessage::user(self.task.prompt.clone())
        };
        let options = TurnOptions {
            on_busy: OnBusy::Refuse,
            ..TurnOptions::default()
        };
        runtime.submit_with(child, input, options).await?;
        Ok(())
    }

    async fn draft(&self, parent: &ParentState, tools: Vec<String>) -> SpawnResult<ChildDraft> {
        let session_id = self.context.session_id;
        let sessions = &self.inner.backends.session_store;
        let of_parent = sessions.get_session(session_id).await?;
        let of_parent = of_parent.ok_or(AgentLoopError::SessionNotFound(session_id))?;
        let task = &self.task;
        let mut controls = parent.controls.clone();
        let request = controls.turn.take().map(|turn| *turn).unwrap_or_default();
        let turn = TurnRequest {
            model: task.model.clone().or(request.model),
            // Client-side tools need a caller that runs them, and a subagent has none.
            tools: Vec::new(),
            allowed_tools: Some(tools).filter(|_| task.backend.is_none()),
            input_summary: task.name.clone(),
            backend: task.backend.clone(),
            parent: Some(parent.link),
            // It answers its parent's model.
            output_schema: None,
            ..request
        };
        controls.turn = Some(Box::new(turn));
        let mut draft = ChildDraft {
            parent: session_id,
            parent_turn: self.turn_id,
            session: self.session(of_parent),
            controls,
            model: task.model.clone(),
            record: None,
        };
        if let Some(host) = self.inner.subagent_host.get() {
            host.admit(&mut draft).await?;
        }
        Ok(draft)
    }

    /// Returns the subagent's session, derived from its parent's.
    fn session(&self, parent: Session) -> Session {
        let now = self.inner.clock.now();
        Session {
            id: self.child(),
            title: Some(self.name()),
            preview: None,
            output_preview: None,
            tools: Vec::new(),
            status: SessionStatus::Started,
            created_at: now,
            updated_at: now,
            started_at: None,
            finished_at: None,
            usage: None,
            parent_session_id: Some(parent.id),
            subagent_name: Some(self.name()),
            subagent_task: Some(preview(&self.task.prompt)),
            subagent_status: Some(SubagentStatus::Running),
            ..parent
        }
    }

    fn name(&self) -> String {
        let name = self.task.name.as_deref();
        name.unwrap_or(SPAWN_AGENT).to_owned()
    }

    async fn note_end(&self, parent: &ParentState, end: &ChildEnd, answer: &str) -> Result<()> {
        let sessions = &self.inner.backends.session_store;
        sessions
            .set_subagent_status(self.child(), end.status())
            .await?;
        if parent.is_done {
            return Ok(());
        }
        self.emit(SubagentCompletedData {
            child_session_id: self.child(),
            name: self.name(),
            success: *end == ChildEnd::Completed,
            result: Some(preview(answer)).filter(|answer| !answer.is_empty()),
        })
        .await
    }

    async fn emit(&self, data: impl Into<EventData>) -> Result<()> {
        let context = EventContext::of_step(self.turn_id, self.exec_id);
        let request = EventRequest::new(self.context.session_id, context, data.into());
        self.inner.emit(self.exec_id, request).await.map(drop)
    }
}

impl ChildEnd {
    fn failed(error: &str) -> Self {
        Self::Failed {
            code: None,
            error: error.to_owned(),
        }
    }

    fn status(&self) -> SubagentStatus {
        match self {
            Self::Completed => SubagentStatus::Completed,
            Self::Failed { code, .. } if code.as_deref() == Some("max_iterations") => {
                SubagentStatus::MaxIterationsReached
            }
            Self::Failed { .. } => SubagentStatus::Failed,
            Self::Cancelled { .. } => SubagentStatus::Cancelled,
        }
    }
}

/// Returns the beginning of a text.
fn preview(text: &str) -> String {
    prefix(text, SHOWN_BYTES).to_owned()
}
