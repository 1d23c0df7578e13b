//! Limits of a session and of its turns.
//!
//! Budgets are checked before a step starts, against the recorded usage and the possible usage of the step, never during a step. A turn without
//! budget for a further model call fails with the code `budget_exceeded`; finished work is preserved, so that the next turn continues from there once
//! the limit is raised. A tool call beyond the budget is refused, and the model reads the reason and can still answer.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;
use windlass_core::budget::{Budget, Limit, Refused, Spent};
use windlass_core::error::QuotaExceeded;

use super::reason::millis;
use crate::decision::Rejected;
use crate::draft::Draft;
use crate::input::FailureDetails;

impl Draft<'_> {
    /// Rejects a new message if the session has reached its limits. Queued messages count, because they were already accepted.
    pub(super) fn check_quota(&self) -> Result<(), Rejected> {
        let exceeded = self.exceeded(self.waiting_inputs());
        exceeded.map_or(Ok(()), |quota| Err(Rejected::Quota(quota)))
    }

    /// Rejects an input if the queue is full.
    pub(super) fn check_queue_limit(&self) -> Result<(), Rejected> {
        let limit = self.plan().max_waiting_inputs;
        match limit.filter(|limit| self.waiting_inputs() >= *limit) {
            None => Ok(()),
            Some(limit) => Err(Rejected::Quota(self.quota("waiting inputs", limit as u64))),
        }
    }

    fn waiting_inputs(&self) -> usize {
        let steered = self.turn().map_or(0, |turn| turn.steered.len());
        self.thread.queue.len() + steered
    }

    fn quota(&self, what: &'static str, limit: u64) -> QuotaExceeded {
        let subject = format!("session {}", self.thread.session_id);
        QuotaExceeded {
            what,
            limit,
            subject,
        }
    }

    /// Returns the quota failure that prevents another model call.
    pub(super) fn quota_failure(&self) -> Option<FailureDetails> {
        let message = format!("Quota exceeded: {}", self.exceeded(0)?);
        let user_message = "The session has reached its limit.";
        Some(FailureDetails::new("quota_exceeded", message, user_message))
    }

    fn exceeded(&self, waiting: usize) -> Option<QuotaExceeded> {
        let limits = self.plan().limits;
        let messages = (self.thread.history.len() + waiting) as u64;
        let sizes = [
            ("messages", limits.max_messages, messages),
            ("events", limits.max_events, self.thread.head),
        ];
        sizes.into_iter().find_map(|(what, limit, size)| {
            let limit = limit.filter(|limit| size >= *limit)?;
            Some(self.quota(what, limit))
        })
    }

    /// Returns the budget failure that prevents another model call.
    pub(super) fn budget_failure(&self) -> Option<FailureDetails> {
        let reserve = &self.plan().reserve;
        self.find_failure(|budget, spent| budget.refuses_call(spent, reserve))
    }

    /// Returns the budget failure that prevents an external agent from starting.
    pub(super) fn run_failure(&self) -> Option<FailureDetails> {
        let reserve = &self.plan().reserve;
        self.find_failure(|budget, spent| budget.refuses_run(spent, reserve))
    }

    fn find_failure(
        &self,
        refuse: impl Fn(&Budget, &Spent) -> Option<Refused>,
    ) -> Option<FailureDetails> {
        let mut budgets = self.budgets().into_iter();
        budgets.find_map(|(scope, budget, spent)| {
            Some(budget_exceeded(scope, &refuse(budget, &spent)?))
        })
    }

    /// Returns the reason that prevents another tool call, for the model.
    pub(super) fn refused_by_budget(&self) -> Option<String> {
        let mut budgets = self.budgets().into_iter();
        budgets.find_map(|(scope, budget, spent)| {
            let Refused { allowed, .. } = budget.refuses_tool_call(&spent)?;
            Some(format!(
                "not run: the {scope}'s budget of {allowed} tool calls is used up. Make no more calls; report your \
                 findings and the remaining work"
            ))
        })
    }

    /// Returns the budget failure of a turn that used up the time of a budget.
    pub(super) fn time_failure(&self) -> Option<FailureDetails> {
        self.find_failure(|budget, spent| {
            Refused::check(Limit::Seconds, budget.seconds?, spent.millis / 1000, 0)
        })
    }

    /// Returns the deadline of a turn that begins now: by its own timeout or a budget's time limit, whichever is earlier.
    pub(super) fn deadline(&self, timeout: Option<Duration>) -> Option<DateTime<Utc>> {
        let timeout = timeout.or(self.plan().turn_timeout);
        let remaining = |(_, budget, spent): (_, &Budget, Spent)| {
            let span = Duration::from_secs(budget.seconds?);
            Some(span.saturating_sub(Duration::from_millis(spent.millis)))
        };
        let budgets = self.budgets().into_iter().filter_map(remaining);
        self.after(budgets.chain(timeout).min())
    }

    /// Returns the budgets that apply to the turn, and the usage of each so far.
    fn budgets(&self) -> [(&'static str, &Budget, Spent); 2] {
        let turn = self.turn();
        let mut turn_spent = turn.map_or_else(Spent::default, |turn| turn.spent);
        let mut thread_spent = self.thread.spent;
        let elapsed = turn.map_or(0, |turn| millis(turn.started_at, self.now()));
        turn_spent.millis += elapsed;
        thread_spent.millis += elapsed;
        let budgets = &self.plan().budgets;
        [
            ("turn", &budgets.turn, turn_spent),
            ("thread", &budgets.thread, thread_spent),
        ]
    }
}

fn budget_exceeded(scope: &str, refused: &Refused) -> FailureDetails {
    let limit = format!("{scope}_{}", refused.limit.as_str());
    let fields = [
        ("limit", json!(limit)),
        ("allowed", json!(refused.allowed)),
        ("used", json!(refused.used)),
        ("reserve", json!(refused.reserve)),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    FailureDetails {
        code: "budget_exceeded".to_owned(),
        message: format!(
            "The {scope}'s budget is used up: {limit}: {refused}. Raise {limit} and send \"continue\": the work resumes from here"
        ),
        user_message: format!(
            "The {scope}'s budget is used up ({limit}). Raise it and send \"continue\"."
        ),
        fields: Some(fields.into_iter().collect()),
    }
}
