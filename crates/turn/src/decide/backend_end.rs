//! The end of an external agent's run, and the next action.

use chrono::{DateTime, Duration, Utc};
use windlass_core::backend::{
    Attempts, BackendEnd, BackendError, BackendErrorKind, BackendOutcome, Next, SessionTotals,
};
use windlass_core::events::{
    BackendCompletedData, BackendNoticeData, BackendNoticeKind, BackendRunEnd, BackendWaitingData,
    ToolStatus,
};
use windlass_core::tools::{ToolCall, ToolResult};
use windlass_core::typed_id::ExecId;

use super::reason::{UnfinishedText, millis, no_output};
use crate::decision::Rejected;
use crate::draft::Draft;
use crate::input::FailureDetails;
use crate::state::{Call, CallState, Phase};

/// Length of the first wait for a provider's limit if its end is unknown; each further wait doubles it.
const FIRST_WAIT: Duration = Duration::seconds(30);
/// Upper bound of our own backoff.
const OWN_WAIT: Duration = Duration::minutes(30);
/// Upper bound of a wait, whatever the agent reports: usage windows last a week.
const LONGEST_WAIT: Duration = Duration::days(8);
/// Maximum number of consecutive waits, about a day with our own backoff; then the turn fails.
const MAX_WAITS: u32 = 50;
const NO_RESULT: &str = "the agent ended without a result of this call";

/// How a run ended, for its record.
pub(super) struct RunEnd<'a> {
    pub(super) end: BackendRunEnd,
    pub(super) outcome: Option<&'a BackendOutcome>,
}

impl RunEnd<'_> {
    pub(super) const LOST: Self = Self {
        end: BackendRunEnd::Lost,
        outcome: None,
    };
    pub(super) const INTERRUPTED: Self = Self {
        end: BackendRunEnd::Interrupted,
        outcome: None,
    };
}

impl Draft<'_> {
    pub(super) fn backend_ended(
        &mut self,
        exec_id: ExecId,
        outcome: &BackendOutcome,
    ) -> Result<(), Rejected> {
        let run = self.running_backend(exec_id)?;
        let mut attempts = run.attempts;
        let next = attempts.next(&run.session, outcome);
        self.finished = Some(exec_id);
        self.flush_text();
        self.close_calls_of_run();
        let failure = outcome.result.as_ref().err().map(failure_of);
        let leftover = match (&failure, &next) {
            (Some(failure), Next::Done) => UnfinishedText::Fail(failure),
            (Some(_), _) => UnfinishedText::Keep,
            (None, _) => UnfinishedText::Whole,
        };
        self.close_part(leftover, None);
        let end = match outcome.result {
            Ok(BackendEnd::Completed) => BackendRunEnd::Completed,
            Ok(BackendEnd::Refused) => BackendRunEnd::Refused,
            Ok(BackendEnd::LengthLimit) => BackendRunEnd::LengthLimit,
            Ok(BackendEnd::Interrupted) => BackendRunEnd::Interrupted,
            Err(_) => BackendRunEnd::Failed,
        };
        let outcome = Some(outcome);
        self.record_run_end(&RunEnd { end, outcome });
        match (next, failure) {
            (Next::Done, Some(failure)) => self.fail_turn(&failure),
            (Next::Done, None) => self.after_run(end, attempts),
            (Next::StartFresh, _) => self.start_fresh(attempts),
            (Next::Again, _) => self.repeat_run(attempts),
            (Next::WaitForLimit { until }, failure) => {
                match failure.filter(|_| self.has_waited_enough()) {
                    Some(failure) => self.fail_turn(&failure),
                    None => self.wait_for_limit(until, attempts),
                }
            }
        }
        Ok(())
    }

    /// Input that arrived during the run is sent in the same turn.
    fn after_run(&mut self, end: BackendRunEnd, attempts: Attempts) {
        let Some(turn) = self.turn() else { return };
        let at_limit = turn.iterations >= self.plan().max_iterations;
        let has_more_to_read = !turn.steered.is_empty();
        let is_empty = turn.last_message_id.is_none() && turn.tool_calls == 0;
        let last = turn.last_run.clone();
        match (end, last) {
            // No client interrupted it.
            (BackendRunEnd::Interrupted, _) => {
                self.cancel_turn(Some("the agent was interrupted".to_owned()));
            }
            (_, Some(last)) if has_more_to_read && !at_limit => match self.quota_failure() {
                Some(failure) => self.fail_turn(&failure),
                None => self.send_steered(&last, attempts),
            },
            _ if is_empty && self.plan().needs_output => self.fail_turn(&no_output()),
            _ => self.complete_turn(),
        }
    }

    fn has_waited_enough(&self) -> bool {
        self.turn()
            .is_some_and(|turn| turn.limit_waits >= MAX_WAITS)
    }

    /// The provider's reset time is trusted once. If it proves wrong, our own backoff also applies.
    fn wait_for_limit(&mut self, reset_at: Option<DateTime<Utc>>, attempts: Attempts) {
        let waits = self.turn().map_or(0, |turn| turn.limit_waits);
        let own = FIRST_WAIT
            .checked_mul(1 << waits.min(16))
            .map_or(OWN_WAIT, |wait| wait.min(OWN_WAIT));
        let now = self.now();
        let after = |span| now.checked_add_signed(span).unwrap_or(now);
        let until = match reset_at.filter(|at| *at > now) {
            Some(at) if waits == 0 => at,
            Some(at) => at.max(after(own)),
            None => after(own),
        };
        let until = until.min(after(LONGEST_WAIT));
        let waits = waits.saturating_add(1);
        self.record(BackendWaitingData::new(until, attempts, waits));
    }

    /// The limit may have been reset: the external agent is started again.
    pub(super) fn end_limit_wait(&mut self) {
        if let Some(Phase::Limited(wait)) = self.turn().map(|turn| &turn.phase) {
            let attempts = wait.attempts;
            match self.quota_failure() {
                Some(failure) => self.fail_turn(&failure),
                None => self.repeat_run(attempts),
            }
        }
    }

    /// Continues a run whose process is gone, when none of its approvals is pending.
    pub(super) fn resume_run(&mut self) {
        let Some(run) = self.turn().and_then(|turn| turn.run()) else {
            return;
        };
        let is_pending = |call: &Call| matches!(call.state, CallState::AwaitingApproval { .. });
        if !run.is_lost || run.calls.iter().any(is_pending) {
            return;
        }
        let (attempts, is_established) = (run.attempts, run.is_established);
        self.end_run(UnfinishedText::Keep, &RunEnd::LOST);
        if let Some(failure) = self.quota_failure() {
            return self.fail_turn(&failure);
        }
        if !is_established {
            self.record(BackendNoticeData {
                kind: BackendNoticeKind::PromptRepeated,
                message: "The process stopped before there was evidence that the agent received its prompt; the prompt is sent again"
                    .to_owned(),
            });
        }
        self.repeat_run(attempts);
    }

    /// Ends a run that is stopped, or whose process is gone.
    pub(super) fn end_run(&mut self, leftover: UnfinishedText<'_>, end: &RunEnd<'_>) {
        self.close_calls_of_run();
        self.close_part(leftover, None);
        self.record_run_end(end);
    }

    /// Records results for the calls that a run leaves open.
    fn close_calls_of_run(&mut self) {
        let calls = self.turn().map(|turn| turn.calls().to_vec());
        for call in calls.unwrap_or_default() {
            if call.state.is_done() {
                continue;
            }
            if matches!(call.state, CallState::AwaitingApproval { .. }) {
                self.record_withdrawal(&call);
            }
            let result = ToolResult::failure(&call.call.id, NO_RESULT);
            self.close_call(call.exec_id, ToolStatus::Unknown, result);
        }
    }

    fn record_run_end(&mut self, RunEnd { end, outcome }: &RunEnd<'_>) {
        let Some(run) = self.turn().and_then(|turn| turn.run()) else {
            return;
        };
        let (exec_id, backend) = (run.exec_id, run.backend.to_string());
        let reported = outcome.and_then(|outcome| outcome.session_id.clone());
        let session_id = run
            .is_established
            .then(|| reported.or_else(|| run.session_id.clone()))
            .flatten();
        let before = self.thread.session.as_ref();
        let before = before.filter(|known| Some(&known.session_id) == session_id.as_ref());
        let totals = match outcome {
            Some(outcome) => outcome.totals,
            // The process reported no usage: the earlier count remains.
            None => before.map(|known| known.totals).unwrap_or_default(),
        };
        let error = outcome.and_then(|outcome| outcome.result.as_ref().err());
        let usage = outcome.and_then(|outcome| outcome.usage);
        let usage = usage.map(|usage| usage.to_token_usage()).or(run.usage);
        let data = BackendCompletedData {
            backend,
            end: *end,
            session_id,
            totals: (totals != SessionTotals::default()).then_some(totals),
            usage,
            error: error.map(|error| error.to_string()),
            error_kind: error.map(|error| error.kind),
            duration_ms: Some(millis(run.started_at, self.now())),
        };
        self.record_step(exec_id, data);
    }

    /// Completes the agent's current message, together with the call that follows.
    pub(super) fn close_part(&mut self, leftover: UnfinishedText<'_>, call: Option<&ToolCall>) {
        let Some(run) = self.turn().and_then(|turn| turn.run()) else {
            return;
        };
        let part = run.part.exec_id;
        let (text, thinking) = (run.part.text.joined(), run.part.thinking.joined());
        if run.part.thinking_started.is_some() {
            self.close_thinking(part, Some(&thinking), leftover.completeness());
        }
        let Some(run) = self.turn().and_then(|turn| turn.run()) else {
            return;
        };
        let part = run.part.exec_id;
        match call {
            None => self.record_leftover(part, text, leftover),
            Some(call) => {
                let message = self.agent_message(part, text, std::iter::once(call));
                self.record_answer(part, message, None, leftover.completeness());
            }
        }
    }
}

fn failure_of(error: &BackendError) -> FailureDetails {
    // The agent's message usually contains the remedy: log in, wait, install it.
    let user_message = format!("The agent could not complete the turn: {error}");
    FailureDetails::new(code(error.kind), error.to_string(), user_message)
}

fn code(kind: BackendErrorKind) -> &'static str {
    match kind {
        BackendErrorKind::SpawnFailed => "backend_spawn_failed",
        BackendErrorKind::BadInvocation => "backend_bad_invocation",
        BackendErrorKind::Auth => "backend_auth",
        BackendErrorKind::RateLimit => "backend_rate_limit",
        BackendErrorKind::Server => "backend_server",
        BackendErrorKind::Network => "backend_network",
        BackendErrorKind::ResumeRefused => "backend_resume_refused",
        BackendErrorKind::TurnLimit => "backend_turn_limit",
        BackendErrorKind::Budget => "backend_budget",
        BackendErrorKind::BudgetRefused => "budget_exceeded",
        BackendErrorKind::Inactive => "backend_inactive",
        BackendErrorKind::TimeOver => "backend_time_over",
        BackendErrorKind::OutputLimit => "backend_output_limit",
        BackendErrorKind::Cancelled => "backend_cancelled",
        BackendErrorKind::Killed(_) => "backend_killed",
        BackendErrorKind::Protocol => "backend_protocol",
        BackendErrorKind::Failed => "backend_failed",
        BackendErrorKind::Busy => "backend_busy",
        BackendErrorKind::Closed => "backend_closed",
        BackendErrorKind::UnknownRequest => "backend_unknown_request",
    }
}
