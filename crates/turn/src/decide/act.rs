//! Tool calls: which start now, which wait, and what follows from a result.

use windlass_core::digest::Digest128;
use windlass_core::events::{
    ActCompletedData, ActStartedData, ApprovalRequiredData, ToolCallRequestedData, ToolCallSummary,
    ToolCompletedData, ToolOrigin, ToolStartedData, ToolStatus, UserInputRequiredData,
};
use windlass_core::message::{ContentPart, ImageContentPart, ToolResultContentPart};
use windlass_core::tools::{ToolPolicy, ToolResult};
use windlass_core::typed_id::ExecId;
use windlass_policy::ApprovalAction;

use super::backend::observed_shape;
use super::reason::millis;
use crate::decision::Rejected;
use crate::draft::Draft;
use crate::input::{RequestedCall, RequiredWait, ToolOutcome};
use crate::plan::ToolSpec;
use crate::state::{Act, Call, CallState};

/// Result of a call that the operator's rules deny, as the model reads it.
pub(super) const REFUSED_BY_RULE: &str = "refused: the operator's approval rules do not allow this call, and no approval was requested. Use another \
    way, or report what you need";

/// Returns the ID of the question that a step asks.
pub(super) fn question_of(exec_id: ExecId) -> String {
    format!("input_{}", exec_id.uuid().as_simple())
}

impl Draft<'_> {
    pub(super) fn begin_act(&mut self, requested: Vec<RequestedCall>) {
        let Some(act) = self.turn().and_then(|turn| turn.act()) else {
            return;
        };
        let calls = act.calls.clone();
        self.record(ActStartedData::new(calls.len()));
        for (call, RequestedCall { refusal, .. }) in calls.iter().zip(requested) {
            if let Some(refusal) = refusal {
                self.open_call(call);
                self.refuse_call(call, refusal);
            }
        }
        self.advance();
    }

    pub(super) fn tool_finished(
        &mut self,
        exec_id: ExecId,
        outcome: ToolOutcome,
    ) -> Result<(), Rejected> {
        let call = self.running_call(exec_id);
        let call = call.ok_or(Rejected::Stale(exec_id))?.clone();
        self.finished = Some(exec_id);
        match outcome.wait {
            Some(RequiredWait::Connection { provider }) => {
                self.request_result(&call, Some(provider))
            }
            Some(RequiredWait::UserInput { prompt }) => {
                let data = UserInputRequiredData {
                    expires_at: self.after(self.plan().wait_timeout),
                    ..UserInputRequiredData::new(question_of(exec_id), prompt)
                };
                self.record_step(exec_id, data);
            }
            None => self.end_call(exec_id, outcome),
        }
        self.advance();
        Ok(())
    }

    /// Starts the calls that may start; continues with the next model call when every call has its result.
    pub(super) fn advance(&mut self) {
        // A denied call frees a slot for others of its class.
        while self.start_ready_calls() {}
        let Some(turn) = self.turn() else { return };
        if let Some(act) = turn.act().filter(|act| act.is_done()) {
            let (tool_call_count, success_count) = (act.calls.len(), successes(act));
            self.record(ActCompletedData::new(tool_call_count, success_count));
            return self.continue_turn();
        }
        self.resume_run();
    }

    /// Makes the next model call, unless the session is full.
    pub(super) fn continue_turn(&mut self) {
        match self.quota_failure() {
            Some(failure) => self.fail_turn(&failure),
            None => self.start_reason(),
        }
    }

    /// Calls of one class run one after the other in their order; all others at once, up to the plan's number. Tells whether
    /// one was refused after it had taken its class.
    fn start_ready_calls(&mut self) -> bool {
        let Some(act) = self.turn().and_then(|turn| turn.act()) else {
            return false;
        };
        let mut has_refused = false;
        let calls = act.calls.clone();
        let mut busy_classes: Vec<&str> = Vec::new();
        // An approved call retains its position in the order. All approvals are evaluated before any call starts: a call that waits for its class can
        // precede calls that run.
        let is_running = |call: &&Call| {
            matches!(
                call.state,
                CallState::Running { .. } | CallState::AwaitingApproval { .. }
            )
        };
        let mut running = calls.iter().filter(is_running).count();
        let is_outside = |call: &&Call| matches!(call.state, CallState::AwaitingResult { .. });
        let mut outside = calls.iter().filter(is_outside).count();
        let max_outside = self.plan().max_pending_calls.unwrap_or(usize::MAX);
        let auto_approves = self.turn().is_some_and(|turn| turn.auto_approves);
        for call in &calls {
            let spec = self.plan().tools.get(&call.call.name);
            let class = spec.and_then(|spec| spec.concurrency_class.as_deref());
            match call.state {
                CallState::Done { .. } => continue,
                CallState::Queued => {}
                CallState::Running { .. }
                | CallState::AwaitingApproval { .. }
                | CallState::AwaitingResult { .. }
                | CallState::AwaitingAnswer { .. } => {
                    busy_classes.extend(class);
                    continue;
                }
            }
            let policy = spec.map(|spec| spec.policy).unwrap_or_default();
            let action = self.plan().approvals.decide(
                &call.call.name,
                &call.call.arguments,
                policy == ToolPolicy::RequiresApproval,
            );
            if action == ApprovalAction::Deny {
                self.open_call(call);
                self.refuse_call(call, REFUSED_BY_RULE);
                continue;
            }
            if let Some(refusal) = self.refused_by_budget() {
                // It never began, so it does not count.
                let result = ToolResult::failure(&call.call.id, refusal);
                self.close_call(call.exec_id, ToolStatus::Cancelled, result);
                continue;
            }
            let class_is_free = class.is_none_or(|class| !busy_classes.contains(&class));
            busy_classes.extend(class);
            if !class_is_free
                || (policy != ToolPolicy::ClientSide
                    && running >= self.plan().max_parallel_calls.max(1))
            {
                continue;
            }
            self.open_call(call);
            match policy {
                ToolPolicy::Auto | ToolPolicy::RequiresApproval => {
                    running += 1;
                    if action == ApprovalAction::Ask && !auto_approves && !self.is_remembered(call)
                    {
                        self.request_approval(call, spec);
                    }
                }
                ToolPolicy::ClientSide if outside >= max_outside => {
                    let text = format!(
                        "{max_outside} calls wait for their results already, which is the limit; make fewer at a time"
                    );
                    self.refuse_call(call, text);
                    has_refused = true;
                }
                ToolPolicy::ClientSide => {
                    outside += 1;
                    self.request_result(call, None);
                }
            }
        }
        has_refused
    }

    /// Ends a call that does not run.
    fn refuse_call(&mut self, call: &Call, why: impl Into<String>) {
        let result = ToolResult::failure(&call.call.id, why);
        let outcome = ToolOutcome {
            refused: true,
            ..ToolOutcome::new(ToolStatus::Error, result)
        };
        self.end_call(call.exec_id, outcome);
    }

    /// Tells whether this exact call was approved for the project. Rules that deny are evaluated before.
    fn is_remembered(&self, call: &Call) -> bool {
        let allowed = self.turn().map_or(&[][..], |turn| &turn.allowed);
        self.plan().remembers(allowed, &call.call)
    }

    fn open_call(&mut self, call: &Call) {
        let spec = self.plan().tools.get(&call.call.name);
        let side_effects = spec.map(|spec| spec.side_effects).unwrap_or_default();
        let data = ToolStartedData {
            display_name: spec.and_then(|spec| spec.display_name.clone()),
            shape: spec.and_then(|spec| spec.shape),
            external: spec.and_then(is_external),
            ..ToolStartedData::new((*call.call).clone(), side_effects)
        };
        self.record_step(call.exec_id, data);
    }

    fn request_approval(&mut self, call: &Call, spec: Option<&ToolSpec>) {
        let digest = Digest128::of_json(&call.call.arguments).to_string();
        let data = ApprovalRequiredData {
            display_name: spec.and_then(|spec| spec.display_name.clone()),
            expires_at: self.after(self.plan().wait_timeout),
            ..ApprovalRequiredData::new((*call.call).clone(), digest)
        };
        self.record_step(call.exec_id, data);
    }

    fn request_result(&mut self, call: &Call, connection_required: Option<String>) {
        let spec = self.plan().tools.get(&call.call.name);
        let summary = ToolCallSummary {
            tool_call_id: call.call.id.clone(),
            name: call.call.name.clone(),
            display_name: spec.and_then(|spec| spec.display_name.clone()),
        };
        let data = ToolCallRequestedData {
            connection_required,
            expires_at: self.after(self.wait_timeout(&call.call.name)),
            ..ToolCallRequestedData::new(vec![(*call.call).clone()], vec![summary])
        };
        self.record_step(call.exec_id, data);
    }

    /// Time limit of a tool call that waits for a client or the user.
    pub(super) fn wait_timeout(&self, tool: &str) -> Option<std::time::Duration> {
        let spec = self.plan().tools.get(tool);
        spec.and_then(|spec| spec.wait_timeout)
            .or(self.plan().wait_timeout)
    }

    /// Records the result of a call.
    pub(super) fn close_call(&mut self, exec_id: ExecId, status: ToolStatus, result: ToolResult) {
        self.end_call(exec_id, ToolOutcome::new(status, result));
    }

    fn end_call(&mut self, exec_id: ExecId, outcome: ToolOutcome) {
        let ToolOutcome { status, result, .. } = outcome;
        let Some(call) = self.call(exec_id) else {
            return;
        };
        let (tool_call_id, tool_name) = (call.call.id.clone(), call.call.name.clone());
        let started_at = call.started_at;
        let elapsed_ms = || started_at.map(|at| millis(at, self.now()));
        let duration_ms = outcome.duration_ms.or_else(elapsed_ms);
        // `null` would be read back as absent.
        let arguments = Some(&call.call.arguments).filter(|it| !it.is_null());
        let arguments = arguments.cloned();
        let is_answer = matches!(call.state, CallState::AwaitingAnswer { .. });
        let private = (is_answer && status == ToolStatus::Success).then_some(true);
        let approval = self.thread.verdict_on(exec_id);
        let is_observed = self.turn().is_some_and(|turn| turn.run().is_some());
        // An external agent's tool of the same name is a different tool.
        let spec = self.plan().tools.get(&tool_name).filter(|_| !is_observed);
        let shape = observed_shape(&tool_name);
        let data = ToolCompletedData {
            error: result.error.clone(),
            result: Some(result_parts(&tool_call_id, result)),
            tool_call_id,
            tool_name,
            success: status == ToolStatus::Success,
            status,
            duration_ms,
            capability_id: spec.and_then(|spec| spec.capability_id.clone()),
            display_name: spec.and_then(|spec| spec.display_name.clone()),
            started_at,
            arguments,
            shape: if is_observed {
                shape
            } else {
                spec.and_then(|spec| spec.shape)
            },
            external: spec.and_then(is_external),
            private,
            approval,
            origin: is_observed.then_some(ToolOrigin::Observed),
            refused: outcome.refused.then_some(true),
        };
        self.record_step(exec_id, data);
    }

    /// Returns a call that runs here; those of a backend run elsewhere.
    pub(super) fn running_call(&self, exec_id: ExecId) -> Option<&Call> {
        let call = self.turn()?.act()?.call(exec_id);
        call.filter(|call| matches!(call.state, CallState::Running { .. }))
    }

    pub(super) fn call(&self, exec_id: ExecId) -> Option<&Call> {
        let mut calls = self.turn()?.calls().iter();
        calls.find(|call| call.exec_id == exec_id)
    }
}

fn is_external(spec: &ToolSpec) -> Option<bool> {
    (spec.policy == ToolPolicy::ClientSide).then_some(true)
}

fn successes(act: &Act) -> usize {
    act.calls
        .iter()
        .filter(|call| matches!(call.state, CallState::Done { success: true, .. }))
        .count()
}

/// Returns the parts of the message that answers a call. The call retains the provider's ID, whichever ID the answer used.
fn result_parts(tool_call_id: &str, result: ToolResult) -> Vec<ContentPart> {
    let part = ToolResultContentPart {
        tool_call_id: tool_call_id.to_owned(),
        result: result.result,
        error: result.error,
    };
    let images = result.images.unwrap_or_default().into_iter().map(|image| {
        ContentPart::Image(match image.address() {
            Some(url) => ImageContentPart {
                url: Some(url.to_owned()),
                ..ImageContentPart::default()
            },
            None => ImageContentPart {
                url: None,
                base64: Some(image.base64),
                media_type: Some(image.media_type),
            },
        })
    });
    std::iter::once(ContentPart::ToolResult(part))
        .chain(images)
        .collect()
}
