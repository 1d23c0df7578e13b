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
use crate::input::Failure;

impl Draft<'_> {
    /// Rejects a new message if the session has reached its limits. Queued messages count, because they were already accepted.
    pub(super) fn check_room(&self) -> Result<(), Rejected> {
        let steered = self.turn().map_or(0, |turn| turn.steered.len());
        let waiting = self.thread.queue.len() + steered;
        self.exceeded(waiting)
            .map_or(Ok(()), |quota| Err(Rejected::Quota(quota)))
    }

    /// Rejects an input if the queue is full.
    pub(super) fn check_waiting(&self) -> Result<(), Rejected> {
        let steered = self.turn().map_or(0, |turn| turn.steered.len());
        let waiting = self.thread.queue.len() + steered;
        let limit = self.plan().max_waiting_inputs;
        match limit.filter(|limit| waiting >= *limit) {
            None => Ok(()),
            Some(limit) => Err(Rejected::Quota(QuotaExceeded {
                what: "waiting inputs",
                limit: limit as u64,
                subject: format!("session {}", self.thread.session_id),
            })),
        }
    }

    /// Says why a turn cannot make another model call.
    pub(super) fn quota_failure(&self) -> Option<Failure> {
        let quota = self.exceeded(0)?;
        Some(Failure {
            code: "quota_exceeded".to_owned(),
            message: format!("Quota exceeded: {quota}"),
            user_message: "The session has reached its limit.".to_owned(),
            fields: None,
        })
    }

    fn exceeded(&self, waiting: usize) -> Option<QuotaExceeded> {
        let limits = self.plan().limits;
        let messages = (self.thread.history.len() + waiting) as u64;
        let held = [
            ("messages", limits.max_messages, messages),
            ("events", limits.max_events, self.thread.head),
        ];
        held.into_iter().find_map(|(what, limit, held)| {
            let limit = limit.filter(|limit| held >= *limit)?;
            let subject = format!("session {}", self.thread.session_id);
            Some(QuotaExceeded {
                what,
                limit,
                subject,
            })
        })
    }

    /// Says why the budget lets no further model call begin.
    pub(super) fn budget_failure(&self) -> Option<Failure> {
        let reserve = &self.plan().reserve;
        let mut budgets = self.budgets().into_iter();
        budgets.find_map(|(scope, budget, spent)| {
            let refused = budget.refuses_call(&spent, reserve)?;
            Some(budget_exceeded(scope, &refused))
        })
    }

    /// Returns the budget failure that prevents an external agent from starting.
    pub(super) fn run_failure(&self) -> Option<Failure> {
        let reserve = &self.plan().reserve;
        let mut budgets = self.budgets().into_iter();
        budgets.find_map(|(scope, budget, spent)| {
            let refused = budget.refuses_run(&spent, reserve)?;
            Some(budget_exceeded(scope, &refused))
        })
    }

    /// Says why the budget lets no further tool call begin, as the model reads it.
    pub(super) fn refused_by_budget(&self) -> Option<String> {
        let mut budgets = self.budgets().into_iter();
        budgets.find_map(|(scope, budget, spent)| {
            let Refused { allowed, .. } = budget.refuses_tool_call(&spent)?;
            Some(format!(
                "not run: the {scope}'s budget of {allowed} tool calls is used up. Make no more calls; say what you have \
                 found and what is left to do"
            ))
        })
    }

    /// Says that a turn which is stopped for its time had a budget of that much.
    pub(super) fn time_failure(&self) -> Option<Failure> {
        let mut budgets = self.budgets().into_iter();
        budgets.find_map(|(scope, budget, spent)| {
            let (allowed, used) = (budget.seconds?, spent.millis / 1000);
            let refused = Refused {
                limit: Limit::Seconds,
                allowed,
                used,
                reserve: 0,
            };
            (used >= allowed).then(|| budget_exceeded(scope, &refused))
        })
    }

    /// Returns when a turn that begins now is stopped: by its own time, or by that of a budget.
    pub(super) fn deadline(&self, timeout: Option<Duration>) -> Option<DateTime<Utc>> {
        let timeout = timeout.or(self.plan().turn_timeout);
        let left = |(_, budget, spent): (_, &Budget, Spent)| {
            let span = Duration::from_secs(budget.seconds?);
            Some(span.saturating_sub(Duration::from_millis(spent.millis)))
        };
        let budgets = self.budgets().into_iter().filter_map(left);
        self.after(budgets.chain(timeout).min())
    }

    /// Returns the budgets that apply to the turn, and the usage of each so far.
    fn budgets(&self) -> [(&'static str, &Budget, Spent); 2] {
        let turn = self.turn();
        let mut of_turn = turn.map_or_else(Spent::default, |turn| turn.spent);
        let mut of_thread = self.thread.spent;
        let took = turn.map_or(0, |turn| millis(turn.started_at, self.now()));
        of_turn.millis += took;
        of_thread.millis += took;
        let budgets = &self.plan().budgets;
        [
            ("turn", &budgets.turn, of_turn),
            ("thread", &budgets.thread, of_thread),
        ]
    }
}

fn budget_exceeded(scope: &str, refused: &Refused) -> Failure {
    let limit = format!("{scope}_{}", refused.limit.as_str());
    let fields = [
        ("limit", json!(limit)),
        ("allowed", json!(refused.allowed)),
        ("used", json!(refused.used)),
        ("reserve", json!(refused.reserve)),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    Failure {
        code: "budget_exceeded".to_owned(),
        message: format!(
            "The {scope}'s budget is used up: {limit}: {refused}. Raise {limit} and say \"go on\": the work goes on from here"
        ),
        user_message: format!(
            "The {scope}'s budget is used up ({limit}). Raise it and say \"go on\"."
        ),
        fields: Some(fields.into_iter().collect()),
    }
}
