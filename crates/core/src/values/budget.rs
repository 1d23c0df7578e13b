//! Budgets: the limits of work, its usage so far, and whether one more model call fits.
//!
//! Money is counted in millionths of a US dollar, so that sums are exact. [`Spent`] is a plain sum of the recorded usage. Two of them can be added,
//! and one can be shared with child work under the same budget.

use std::fmt;

use chrono::{DateTime, Days, NaiveTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_macros::omit_none;

use crate::backend::BackendErrorKind;
use crate::events::{
    BackendCompletedData, BackendRunEnd, EventData, LlmGenerationMetadata, TokenUsage,
};

const MICROS: f64 = 1_000_000.0;

/// Converts US dollars to millionths, rounded up, so that a hard limit never undercounts.
#[must_use]
pub fn micro_usd(usd: f64) -> u64 {
    // Price lists have no fractions of a millionth; a smaller remainder is floating-point noise. The cast saturates.
    (usd * MICROS - 1e-3).ceil().max(0.0) as u64
}

/// The limits of work; `None` is unlimited.
#[omit_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Model calls, including those that were cut off and repeated.
    pub model_calls: Option<u64>,
    pub tool_calls: Option<u64>,
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// Money, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
    /// Seconds from the beginning of a turn to its end, waits included.
    pub seconds: Option<u64>,
}

impl Budget {
    /// Returns the stricter of the two limits for each quantity.
    #[must_use]
    pub fn narrowed_by(&self, other: &Self) -> Self {
        fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            a.into_iter().chain(b).min()
        }
        Self {
            model_calls: least(self.model_calls, other.model_calls),
            tool_calls: least(self.tool_calls, other.tool_calls),
            tokens: least(self.tokens, other.tokens),
            micro_usd: least(self.micro_usd, other.micro_usd),
            seconds: least(self.seconds, other.seconds),
        }
    }

    /// Returns the limit that prevents another model call.
    #[must_use]
    pub fn refuses_call(&self, spent: &Spent, reserve: &Reserve) -> Option<Refused> {
        self.refuses(spent, reserve, spent.reserve(reserve))
    }

    /// Returns the limit that prevents an external agent from starting. The usage of its run is unknown in advance, so any remainder is enough. A
    /// past call with unknown usage counts as its reserve.
    #[must_use]
    pub fn refuses_run(&self, spent: &Spent, reserve: &Reserve) -> Option<Refused> {
        self.refuses(spent, reserve, Reserve::default())
    }

    fn refuses(&self, spent: &Spent, least: &Reserve, next: Reserve) -> Option<Refused> {
        let spent_usd = spent.micro_usd(least);
        let spent_tokens = spent.tokens(least);
        [
            (Limit::Usd, self.micro_usd, spent_usd, next.micro_usd),
            (Limit::Tokens, self.tokens, spent_tokens, next.tokens),
            (Limit::ModelCalls, self.model_calls, spent.model_calls, 0),
            (Limit::Seconds, self.seconds, spent.millis / 1000, 0),
        ]
        .into_iter()
        .find_map(|(limit, allowed, used, reserve)| Refused::check(limit, allowed?, used, reserve))
    }

    /// Returns the limit that prevents another tool call.
    #[must_use]
    pub fn refuses_tool_call(&self, spent: &Spent) -> Option<Refused> {
        Refused::check(Limit::ToolCalls, self.tool_calls?, spent.tool_calls, 0)
    }
}

/// The budget of a turn, and the budget of all turns of its thread together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    pub turn: Budget,
    /// All turns of the thread.
    pub thread: Budget,
}

impl Budgets {
    /// Returns the stricter of the two limits for each quantity.
    #[must_use]
    pub fn narrowed_by(&self, other: &Self) -> Self {
        Self {
            turn: self.turn.narrowed_by(&other.turn),
            thread: self.thread.narrowed_by(&other.thread),
        }
    }
}

/// The reservation for one model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserve {
    /// Tokens, read and written.
    pub tokens: u64,
    /// Money, in millionths of a US dollar.
    pub micro_usd: u64,
}

/// The charge for a step that has ended. The same rule applies to turns, threads, trees of agents and days.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Charge<'a> {
    /// The reported usage.
    Usage(&'a TokenUsage),
    /// The reservation: the step was cut off, or its provider reports no usage.
    Reservation,
    /// Nothing: the step failed before it used anything.
    Nothing,
}

impl<'a> Charge<'a> {
    /// Returns the charge of an event; `None` for one that ends neither a model call nor a run.
    #[must_use]
    pub fn of_event(data: &'a EventData) -> Option<Self> {
        match data {
            EventData::LlmGeneration(data) => Some(Self::of_call(&data.metadata)),
            EventData::BackendCompleted(data) => Some(Self::of_run(data)),
            _ => None,
        }
    }

    /// Returns the charge of a model call.
    #[must_use]
    pub fn of_call(call: &'a LlmGenerationMetadata) -> Self {
        // A completed call contains its provider, so one without a provider was cut off.
        let was_cut_off = !call.success && call.provider.is_none();
        match &call.usage {
            Some(usage) => Self::Usage(usage),
            None if call.success || was_cut_off || call.time_to_first_token_ms.is_some() => {
                Self::Reservation
            }
            None => Self::Nothing,
        }
    }

    /// Returns the charge of an external agent's run.
    #[must_use]
    pub fn of_run(run: &'a BackendCompletedData) -> Self {
        match (&run.usage, run.end) {
            (Some(usage), _) => Self::Usage(usage),
            (None, BackendRunEnd::Failed) if !may_have_used_tokens(run) => Self::Nothing,
            (None, _) => Self::Reservation,
        }
    }
}

/// Returns whether a failed run may have made model calls: it had a session, and its provider did not reject it.
fn may_have_used_tokens(run: &BackendCompletedData) -> bool {
    use BackendErrorKind as Kind;
    let is_refused = matches!(
        run.error_kind,
        Some(
            Kind::SpawnFailed
                | Kind::BadInvocation
                | Kind::Auth
                | Kind::RateLimit
                | Kind::ResumeRefused
                | Kind::Busy
        )
    );
    run.session_id.is_some() && !is_refused
}

impl Reserve {
    /// Returns the sum of two amounts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }

    /// Returns the remainder of an amount.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            micro_usd: self.micro_usd.saturating_sub(other.micro_usd),
        }
    }
}

/// The recorded usage of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Model calls that ended, successfully or not.
    pub model_calls: u64,
    /// Tool calls that began.
    pub tool_calls: u64,
    /// Total duration of turns, in milliseconds.
    pub millis: u64,
    tokens: u64,
    micro_usd: u64,
    /// Numbers of calls with unknown tokens and of calls with an unknown price.
    uncounted: UncountedCalls,
    unpriced: UncountedCalls,
    /// The usage of the newest counted call: the next one reads at least as much.
    newest: Reserve,
}

/// Calls with unknown usage. Each counts as the amount reserved for it when it was made, independent of later calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct UncountedCalls {
    calls: u64,
    /// The sum, over these calls, of the newest known usage at the time of each call.
    newest: u64,
}

impl UncountedCalls {
    fn add(&mut self, newest: u64) {
        self.calls += 1;
        self.newest = self.newest.saturating_add(newest);
    }

    fn amount(&self, least: u64) -> u64 {
        self.newest.max(self.calls.saturating_mul(least))
    }
}

impl Spent {
    /// Adds the charge of a recorded event; only ends of model calls and of external agents' runs have one.
    pub fn settle(&mut self, data: &EventData) {
        match data {
            EventData::LlmGeneration(data) => self.add_call(&data.metadata),
            EventData::BackendCompleted(data) => self.add_run(Charge::of_run(data)),
            _ => {}
        }
    }

    /// Adds a model call that ended.
    pub fn add_call(&mut self, call: &LlmGenerationMetadata) {
        self.model_calls += 1;
        match Charge::of_call(call) {
            Charge::Usage(usage) => self.add_usage(usage),
            Charge::Reservation => self.add_reservation(),
            Charge::Nothing => {}
        }
    }

    /// Adds the usage of a call.
    pub fn add_usage(&mut self, usage: &TokenUsage) {
        self.newest = self.sum(usage);
    }

    /// Adds a run of an external agent. It does not predict the next model call, and the number of its own calls is unknown.
    pub fn add_run(&mut self, charge: Charge<'_>) {
        match charge {
            Charge::Usage(usage) => {
                self.sum(usage);
            }
            Charge::Reservation => self.add_reservation(),
            Charge::Nothing => {}
        }
    }

    fn add_reservation(&mut self) {
        self.uncounted.add(self.newest.tokens);
        self.unpriced.add(self.newest.micro_usd);
    }

    fn sum(&mut self, usage: &TokenUsage) -> Reserve {
        let used = Reserve {
            tokens: usage.total_tokens(),
            micro_usd: cost(usage).unwrap_or_default(),
        };
        if cost(usage).is_none() && used.tokens > 0 {
            self.unpriced.add(self.newest.micro_usd);
        }
        self.tokens = self.tokens.saturating_add(used.tokens);
        self.micro_usd = self.micro_usd.saturating_add(used.micro_usd);
        used
    }

    /// Returns the reservation for the next call: the usage of the newest one, at least the given amount.
    #[must_use]
    pub fn reserve(&self, least: &Reserve) -> Reserve {
        Reserve {
            tokens: self.newest.tokens.max(least.tokens),
            micro_usd: self.newest.micro_usd.max(least.micro_usd),
        }
    }

    /// Returns the tokens used. A call with unknown usage counts as at least its reserve.
    #[must_use]
    pub fn tokens(&self, least: &Reserve) -> u64 {
        let uncounted = self.uncounted.amount(least.tokens);
        self.tokens.saturating_add(uncounted)
    }

    /// Returns the cost, in millionths of a US dollar. A call without a price counts as at least its reserve.
    #[must_use]
    pub fn micro_usd(&self, least: &Reserve) -> u64 {
        let unpriced = self.unpriced.amount(least.micro_usd);
        self.micro_usd.saturating_add(unpriced)
    }
}

/// Returns the cost of a usage, in millionths of a US dollar: the provider's charge, or else the price list's.
#[must_use]
pub fn cost(usage: &TokenUsage) -> Option<u64> {
    usage
        .actual_cost_usd
        .or(usage.estimated_cost_usd)
        .map(micro_usd)
}

/// The limited quantities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// US dollars, in millionths.
    Usd,
    Tokens,
    ModelCalls,
    ToolCalls,
    Seconds,
}

impl Limit {
    /// Returns its name, as in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Usd => "usd",
            Self::Tokens => "tokens",
            Self::ModelCalls => "model_calls",
            Self::ToolCalls => "tool_calls",
            Self::Seconds => "seconds",
        }
    }

    /// Formats an amount for people.
    fn amount(self, amount: u64) -> String {
        match self {
            Self::Usd => format!("{}", amount as f64 / MICROS),
            _ => amount.to_string(),
        }
    }
}

/// A limit that prevents another step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    pub limit: Limit,
    pub allowed: u64,
    pub used: u64,
    /// The reservation of another call.
    pub reserve: u64,
}

impl Refused {
    /// Returns a refusal if a call that may use `reserve` exceeds the limit. A limit below the reserve allows one call if nothing is used yet.
    #[must_use]
    pub fn check(limit: Limit, allowed: u64, used: u64, reserve: u64) -> Option<Self> {
        let fits = used < allowed && used.saturating_add(reserve.min(allowed)) <= allowed;
        (!fits).then_some(Self {
            limit,
            allowed,
            used,
            reserve,
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |of| self.limit.amount(of);
        let (allowed, used) = (amount(self.allowed), amount(self.used));
        write!(f, "{allowed} allowed, {used} used")?;
        match self.reserve {
            0 => Ok(()),
            reserve => write!(f, ", and the next call may use {}", amount(reserve)),
        }
    }
}

/// Limits on the spending of all sessions per UTC day; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DayLimits {
    /// Money, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
    pub tokens: Option<u64>,
    /// Money of each owner other than the operator, in millionths of a US dollar.
    pub owner_micro_usd: Option<u64>,
}

impl DayLimits {
    /// Returns the limit that rejects a step which may use `next`. `all` and `own` are the day's and the step owner's spent and reserved amounts;
    /// `own` is `None` for the operator.
    #[must_use]
    pub fn refuse(
        &self,
        all: Reserve,
        own: Option<Reserve>,
        next: Reserve,
        at: DateTime<Utc>,
    ) -> Option<DayBudgetRefusal> {
        let of_owner = own.and(self.owner_micro_usd);
        let own = own.unwrap_or_default().micro_usd;
        let (usd, tokens) = (next.micro_usd, next.tokens);
        [
            ("day_usd", Limit::Usd, self.micro_usd, all.micro_usd, usd),
            ("day_tokens", Limit::Tokens, self.tokens, all.tokens, tokens),
            ("token_day_usd", Limit::Usd, of_owner, own, usd),
        ]
        .into_iter()
        .find_map(|(name, limit, allowed, used, next)| {
            let refused = Refused::check(limit, allowed?, used, next)?;
            Some(DayBudgetRefusal::new(name, refused, at))
        })
    }
}

/// A daily budget that prevents another model call or run of an external agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name}: {refused}, including running steps. Continue tomorrow (UTC), or ask the operator to raise {name}"
)]
pub struct DayBudgetRefusal {
    /// The limit's name in the configuration: `day_usd`, `day_tokens` or `token_day_usd`.
    pub name: &'static str,
    pub refused: Refused,
    /// When the budget is full again: the next midnight in UTC.
    pub renews_at: DateTime<Utc>,
}

impl DayBudgetRefusal {
    /// Creates a refusal at a time.
    #[must_use]
    pub fn new(name: &'static str, refused: Refused, at: DateTime<Utc>) -> Self {
        let tomorrow = at.date_naive().checked_add_days(Days::new(1));
        let renews_at = tomorrow.map_or(at, |day| day.and_time(NaiveTime::MIN).and_utc());
        Self {
            name,
            refused,
            renews_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(tokens: u32, usd: Option<f64>) -> TokenUsage {
        TokenUsage {
            input_tokens: tokens,
            estimated_cost_usd: usd,
            ..TokenUsage::default()
        }
    }

    #[test]
    fn sums_of_money_are_exact() {
        let mut spent = Spent::default();
        for _ in 0..1000 {
            spent.add_usage(&used(1, Some(0.1)));
        }
        assert_eq!(spent.micro_usd(&Reserve::default()), 100_000_000);
        assert_eq!(micro_usd(0.000_000_2), 1);
        assert_eq!(micro_usd(-1.0), 0);
        assert_eq!(micro_usd(f64::NAN), 0);
    }

    #[test]
    fn provider_charge_takes_precedence_over_the_price_list() {
        let usage = TokenUsage {
            actual_cost_usd: Some(0.5),
            ..used(1, Some(0.1))
        };
        assert_eq!(cost(&usage), Some(500_000));
    }

    #[test]
    fn unpriced_call_counts_as_its_reserve() {
        let mut spent = Spent::default();
        spent.add_usage(&used(10, None));
        let reserve = Reserve {
            tokens: 0,
            micro_usd: 7,
        };
        assert_eq!(spent.micro_usd(&reserve), 7);
        assert_eq!(spent.tokens(&reserve), 10);
    }

    #[test]
    fn charge_of_a_call_does_not_change_with_later_calls() {
        let least = Reserve {
            tokens: 5,
            micro_usd: 7,
        };
        let budget = Budget {
            tokens: Some(0),
            ..Budget::default()
        };
        let used_by = |spent: &Spent| {
            let refused = budget.refuses_call(spent, &least);
            refused.map(|refused| (refused.used, spent.micro_usd(&least)))
        };
        let cut_off = LlmGenerationMetadata::default();
        let mut spent = Spent::default();
        spent.add_call(&cut_off);
        assert_eq!(used_by(&spent), Some((5, 7)));
        spent.add_usage(&used(1000, Some(0.001)));
        assert_eq!(used_by(&spent), Some((1005, 1007)));
        // The next call reserves the usage of that call.
        let mut later = spent;
        later.add_call(&cut_off);
        let (tokens, micro_usd) = used_by(&later).unwrap();
        assert!(tokens >= 2000 && micro_usd >= 2000, "{tokens} {micro_usd}");
        later.add_usage(&used(1, Some(0.0)));
        assert_eq!(used_by(&later), Some((tokens + 1, micro_usd)));
    }

    #[test]
    fn run_is_added_and_reserves_nothing_for_the_next() {
        let budget = Budget {
            tokens: Some(100),
            ..Budget::default()
        };
        let least = Reserve {
            tokens: 30,
            micro_usd: 0,
        };
        let mut spent = Spent::default();
        spent.add_run(Charge::Usage(&used(60, Some(0.0))));
        assert_eq!(spent.reserve(&least), least);
        assert_eq!(budget.refuses_call(&spent, &least), None);
        spent.add_run(Charge::Usage(&used(39, Some(0.0))));
        assert!(budget.refuses_call(&spent, &least).is_some());
        assert_eq!(budget.refuses_run(&spent, &least), None);
        spent.add_run(Charge::Usage(&used(1, Some(0.0))));
        assert!(budget.refuses_run(&spent, &least).is_some());
    }

    #[test]
    fn interrupted_call_is_charged_and_a_failed_call_is_not() {
        let reserve = Reserve {
            tokens: 5,
            micro_usd: 7,
        };
        for (success, provider, counted) in [
            (false, None, 5),
            (true, Some("p"), 5),
            (false, Some("p"), 0),
        ] {
            let mut spent = Spent::default();
            spent.add_call(&LlmGenerationMetadata {
                success,
                provider: provider.map(str::to_owned),
                ..LlmGenerationMetadata::default()
            });
            assert_eq!((spent.model_calls, spent.tokens(&reserve)), (1, counted));
        }
    }

    #[test]
    fn call_is_allowed_while_its_reserve_fits() {
        let budget = Budget {
            tokens: Some(100),
            ..Budget::default()
        };
        let reserve = Reserve {
            tokens: 30,
            micro_usd: 0,
        };
        for (spent_tokens, fits) in [(0, true), (30, true), (70, false), (100, false)] {
            let mut spent = Spent::default();
            if spent_tokens > 0 {
                spent.add_usage(&used(spent_tokens, Some(0.0)));
            }
            let refused = budget.refuses_call(&spent, &reserve);
            assert_eq!(refused.is_none(), fits, "{spent_tokens}: {refused:?}");
        }
        // The newest call is small, so the given reserve applies.
        let mut spent = Spent::default();
        spent.add_usage(&used(69, Some(0.0)));
        spent.add_usage(&used(1, Some(0.0)));
        assert_eq!(budget.refuses_call(&spent, &reserve), None);
        spent.add_usage(&used(1, Some(0.0)));
        let refused = budget.refuses_call(&spent, &reserve).unwrap();
        assert_eq!(
            refused.to_string(),
            "100 allowed, 71 used, and the next call may use 30"
        );
    }

    #[test]
    fn limit_below_the_reserve_allows_one_call_and_zero_allows_none() {
        let reserve = Reserve {
            tokens: 0,
            micro_usd: 50,
        };
        let allowing = |micro_usd| Budget {
            micro_usd: Some(micro_usd),
            ..Budget::default()
        };
        let mut spent = Spent::default();
        assert_eq!(allowing(10).refuses_call(&spent, &reserve), None);
        assert!(allowing(0).refuses_call(&spent, &reserve).is_some());
        spent.add_usage(&used(1, Some(0.000_001)));
        assert!(allowing(10).refuses_call(&spent, &reserve).is_some());
    }

    #[test]
    fn budgets_only_become_narrower() {
        let wide = Budget {
            tokens: Some(10),
            tool_calls: Some(3),
            ..Budget::default()
        };
        let narrow = Budget {
            tokens: Some(20),
            seconds: Some(5),
            ..Budget::default()
        };
        let both = Budget {
            tokens: Some(10),
            tool_calls: Some(3),
            seconds: Some(5),
            ..Budget::default()
        };
        assert_eq!(wide.narrowed_by(&narrow), both);
        assert_eq!(narrow.narrowed_by(&wide), both);
    }
}
