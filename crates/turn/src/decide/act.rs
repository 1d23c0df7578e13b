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

use super::reason::millis;
use crate::decision::Rejected;
use crate::draft::Draft;
use crate::input::{RequestedCall, ToolOutcome, Wait};
use crate::plan::ToolSpec;
use crate::state::{Act, Call, CallState};

/// Result of a call that the operator's rules deny, as the model reads it.
pub(super) const REFUSED_BY_RULE: &str = "refused: the operator's approval rules do not allow this call; nobody was asked. Do it in another way, \
    or say what you would need";

/// How a call ends.
struct CallEnd {
    status: ToolStatus,
    result: ToolResult,
    duration_ms: Option<u64>,
    /// Whether it did not run.
    refused: bool,
}

/// Names the question that a step asks.
pub(super) fn question_of(exec_id: ExecId) -> String {
    format!("input_{}", exec_id.uuid().as_simple())
}

impl Draft<'_> {
    pub(super) fn begin_act(&mut self, requested: Vec<RequestedCall>) {
        let Some(turn) = self.turn() else { return };
        let Some(act) = turn.act() else { return };
        let tool_call_count = act.calls.len();
        let calls = act.calls.clone();
        self.record(ActStartedData { tool_call_count });
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
            Some(Wait::Connection { provider }) => self.request_result(&call, Some(provider)),
            Some(Wait::UserInput { prompt }) => {
                let request_id = question_of(exec_id);
                let expires_at = self.after(self.plan().wait_timeout);
                self.record_step(
                    exec_id,
                    UserInputRequiredData {
                        request_id,
                        prompt,
                        expires_at,
                    },
                );
            }
            None => {
                let end = CallEnd {
                    status: outcome.status,
                    result: outcome.result,
                    duration_ms: outcome.duration_ms,
                    refused: outcome.refused,
                };
                self.end_call(exec_id, end);
            }
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
            self.record(ActCompletedData {
                tool_call_count,
                success_count,
            });
            return self.go_on();
        }
        self.resume_run();
    }

    /// Makes the next model call, unless the session is full.
    pub(super) fn go_on(&mut self) {
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
        let has_place = |call: &&Call| {
            matches!(
                call.state,
                CallState::Running { .. } | CallState::AwaitingApproval { .. }
            )
        };
        let mut running = calls.iter().filter(has_place).count();
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
                // It never began, so it is not counted either.
                let result = ToolResult::failure(&call.call.id, refusal);
                self.close_call(call.exec_id, ToolStatus::Cancelled, result, None);
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
        let end = CallEnd {
            status: ToolStatus::Error,
            result: ToolResult::failure(&call.call.id, why),
            duration_ms: None,
            refused: true,
        };
        self.end_call(call.exec_id, end);
    }

    /// Tells whether this exact call was approved for the project. Rules that deny are evaluated before.
    fn is_remembered(&self, call: &Call) -> bool {
        let allowed = self.turn().map_or(&[][..], |turn| &turn.allowed);
        self.plan().remembers(allowed, &call.call)
    }

    fn open_call(&mut self, call: &Call) {
        let spec = self.plan().tools.get(&call.call.name);
        let data = ToolStartedData {
            tool_call: (*call.call).clone(),
            side_effects: spec.map(|spec| spec.side_effects).unwrap_or_default(),
            display_name: spec.and_then(|spec| spec.display_name.clone()),
            narration: None,
            shape: spec.and_then(|spec| spec.shape),
            external: spec.and_then(is_external),
            origin: None,
        };
        self.record_step(call.exec_id, data);
    }

    fn request_approval(&mut self, call: &Call, spec: Option<&ToolSpec>) {
        let data = ApprovalRequiredData {
            tool_call: (*call.call).clone(),
            digest: Digest128::of_json(&call.call.arguments).to_string(),
            display_name: spec.and_then(|spec| spec.display_name.clone()),
            expires_at: self.after(self.plan().wait_timeout),
            request_id: None,
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
            tool_calls: vec![(*call.call).clone()],
            tool_summaries: vec![summary],
            headline: None,
            connection_required,
            expires_at: self.after(self.wait_timeout(&call.call.name)),
        };
        self.record_step(call.exec_id, data);
    }

    /// Time limit of a tool call that waits for a client or the user.
    pub(super) fn wait_timeout(&self, tool: &str) -> Option<std::time::Duration> {
        let spec = self.plan().tools.get(tool);
        spec.and_then(|spec| spec.wait_timeout)
            .or(self.plan().wait_timeout)
    }

    /// Gives a call its result.
    pub(super) fn close_call(
        &mut self,
        exec_id: ExecId,
        status: ToolStatus,
        result: ToolResult,
        duration_ms: Option<u64>,
    ) {
        let end = CallEnd {
            status,
            result,
            duration_ms,
            refused: false,
        };
        self.end_call(exec_id, end);
    }

    fn end_call(&mut self, exec_id: ExecId, end: CallEnd) {
        let CallEnd {
            status,
            result,
            duration_ms,
            refused,
        } = end;
        let Some(call) = self.call(exec_id) else {
            return;
        };
        let (tool_call_id, tool_name) = (call.call.id.clone(), call.call.name.clone());
        let started_at = call.started_at;
        let duration_ms = duration_ms.or_else(|| started_at.map(|at| millis(at, self.now())));
        // An argument that is null would be read back as none.
        let arguments = Some(&call.call.arguments)
            .filter(|it| !it.is_null())
            .cloned();
        let asked = matches!(call.state, CallState::AwaitingAnswer { .. });
        let private = (asked && status == ToolStatus::Success).then_some(true);
        let approval = self.thread.verdict_on(exec_id);
        let is_observed = self.turn().is_some_and(|turn| turn.run().is_some());
        // A tool of the same name is another one.
        let spec = self.plan().tools.get(&tool_name).filter(|_| !is_observed);
        let (capability_id, display_name) = match spec {
            Some(spec) => (spec.capability_id.clone(), spec.display_name.clone()),
            None => (None, None),
        };
        let error = result.error.clone();
        let data = ToolCompletedData {
            result: Some(result_parts(&tool_call_id, result)),
            tool_call_id,
            tool_name,
            success: status == ToolStatus::Success,
            status,
            error,
            duration_ms,
            capability_id,
            display_name,
            started_at,
            arguments,
            shape: spec.and_then(|spec| spec.shape),
            external: spec.and_then(is_external),
            private,
            approval,
            origin: is_observed.then_some(ToolOrigin::Observed),
            refused: refused.then_some(true),
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

/// The parts of the message that answers a call. The call retains the provider's ID, whatever name the answer used.
fn result_parts(tool_call_id: &str, result: ToolResult) -> Vec<ContentPart> {
    let ToolResult {
        result,
        images,
        error,
        ..
    } = result;
    let part = ToolResultContentPart {
        tool_call_id: tool_call_id.to_owned(),
        result,
        error,
    };
    let images = images.unwrap_or_default().into_iter().map(|image| {
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
