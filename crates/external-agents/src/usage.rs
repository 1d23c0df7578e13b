//! Usage of a turn, from agents that count per turn or per session.

use windlass_core::backend::{BackendUsage, SessionTotals};

/// Computes the usage of a turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    totals: SessionTotals,
    at_start: SessionTotals,
    turn: Option<BackendUsage>,
}

impl Meter {
    /// Continues from the session's previous totals.
    pub(crate) fn new(totals: SessionTotals) -> Self {
        Self {
            totals,
            at_start: totals,
            turn: None,
        }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.at_start = self.totals;
        self.turn = None;
    }

    /// Adds tokens of this turn. The cost is unchanged.
    pub(crate) fn turn_tokens(&mut self, tokens: BackendUsage) {
        let cost_usd = self.turn.and_then(|turn| turn.cost_usd);
        self.turn = Some(BackendUsage { cost_usd, ..tokens });
    }

    /// Sets the session's total tokens. A lower total starts a new count, unless it is zero.
    pub(crate) fn session_tokens(&mut self, total: BackendUsage) {
        let before = self.at_start.tokens.unwrap_or_default();
        let is_nothing = fields(&total).iter().all(|count| *count == 0);
        if is_nothing && self.totals.tokens.is_some() {
            return;
        }
        self.totals.tokens = Some(total);
        let pairs = fields(&total).into_iter().zip(fields(&before));
        let is_new_count = pairs.into_iter().any(|(now, then)| now < then);
        if is_new_count {
            self.at_start.tokens = None;
        }
        let before = if is_new_count {
            BackendUsage::default()
        } else {
            before
        };
        self.turn_tokens(total.since(&before));
    }

    /// Sets the session's total tokens as they were before this turn.
    pub(crate) fn tokens_before(&mut self, total: BackendUsage) {
        self.totals.tokens = Some(total);
        self.at_start.tokens = Some(total);
    }

    /// Sets the session's total cost. A lower total after a failed turn is ignored, since failed turns may report zeros; after a successful turn it
    /// starts a new count.
    pub(crate) fn session_cost(&mut self, total: f64, turn_is_good: bool) {
        if !total.is_finite() || total < 0.0 {
            return;
        }
        let before = self.at_start.cost_usd.unwrap_or(0.0);
        let cost = match (total < before, turn_is_good) {
            (true, false) => return,
            (true, true) => total,
            (false, _) => total - before,
        };
        self.totals.cost_usd = Some(total);
        self.turn.get_or_insert_default().cost_usd = Some(cost);
    }

    /// Returns the turn's usage so far.
    pub(crate) fn turn(&self) -> Option<BackendUsage> {
        self.turn
    }

    /// Returns the session's totals.
    pub(crate) fn totals(&self) -> SessionTotals {
        self.totals
    }
}

fn fields(usage: &BackendUsage) -> [u64; 5] {
    [
        usage.input_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input_tokens: u64, output_tokens: u64) -> BackendUsage {
        BackendUsage {
            input_tokens,
            output_tokens,
            ..BackendUsage::default()
        }
    }

    #[test]
    fn session_cost_is_charged_as_a_difference() {
        let mut meter = Meter::new(SessionTotals::default());
        let mut booked = Vec::new();
        for (total, is_good) in [
            (2.0, true),
            (5.0, true),
            (0.0, false),
            (6.0, true),
            (1.0, true),
        ] {
            meter.begin_turn();
            meter.session_cost(total, is_good);
            booked.push(meter.turn().and_then(|turn| turn.cost_usd));
        }
        assert_eq!(booked, [Some(2.0), Some(3.0), None, Some(1.0), Some(1.0)]);
        let mut resumed = Meter::new(meter.totals());
        resumed.begin_turn();
        resumed.session_cost(1.5, true);
        assert_eq!(resumed.turn().and_then(|turn| turn.cost_usd), Some(0.5));
        resumed.session_cost(f64::NAN, true);
        assert_eq!(resumed.totals().cost_usd, Some(1.5));
    }

    #[test]
    fn session_tokens_are_charged_as_a_difference() {
        let mut meter = Meter::new(SessionTotals::default());
        let mut booked = Vec::new();
        for totals in [
            vec![(10, 1), (14, 2)],
            vec![(20, 4)],
            vec![(0, 0)],
            vec![(3, 1), (5, 2)],
        ] {
            meter.begin_turn();
            for (input, output) in totals {
                meter.session_tokens(tokens(input, output));
            }
            booked.push(
                meter
                    .turn()
                    .map(|turn| (turn.input_tokens, turn.output_tokens)),
            );
        }
        assert_eq!(booked, [Some((14, 2)), Some((6, 2)), None, Some((5, 2))]);
    }
}
