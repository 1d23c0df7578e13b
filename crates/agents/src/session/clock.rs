//! How long an agent may still be silent, and its turn still take.

use std::time::Duration;

use tokio::time::Instant;

/// The longest silence that an agent can announce. Windows of use last a week.
const MAX_SILENCE: Duration = Duration::from_secs(8 * 24 * 3600);

/// What is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Silence,
    Turn,
}

/// Whether it matters now that an agent says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    Counts,
    IsExcused,
}

/// The clock of a turn. While a person is waited for, it stands.
#[derive(Debug)]
pub(super) struct Clock {
    max_silence: Option<Duration>,
    max_turn: Option<Duration>,
    heard: Instant,
    /// Until when silence was announced.
    announced: Option<Instant>,
    turn_ends: Option<Instant>,
    stands_since: Option<Instant>,
}

impl Clock {
    pub(super) fn new(
        max_silence: Option<Duration>,
        max_turn: Option<Duration>,
        now: Instant,
    ) -> Self {
        Self {
            max_silence: max_silence.filter(|silence| !silence.is_zero()),
            max_turn: max_turn.filter(|turn| !turn.is_zero()),
            heard: now,
            announced: None,
            turn_ends: None,
            stands_since: None,
        }
    }

    pub(super) fn begin_turn(&mut self, now: Instant) {
        self.heard = now;
        self.announced = None;
        self.stands_since = None;
        self.turn_ends = self.max_turn.and_then(|turn| now.checked_add(turn));
    }

    pub(super) fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// The agent will be silent for so long. It is taken back only by [`go_on`](Self::go_on).
    pub(super) fn announce(&mut self, now: Instant, silence: Duration) {
        let until = now.checked_add(silence.min(MAX_SILENCE));
        self.announced = self.announced.max(until);
    }

    /// The agent works again, so that it is not silent for long any more.
    pub(super) fn go_on(&mut self) {
        self.announced = None;
    }

    /// Lets the clock stand or go.
    pub(super) fn stand(&mut self, now: Instant, stands: bool) {
        match (self.stands_since, stands) {
            (None, true) => self.stands_since = Some(now),
            (Some(since), false) => {
                let stood = now.saturating_duration_since(since);
                self.turn_ends = self.turn_ends.and_then(|ends| ends.checked_add(stood));
                self.heard = now;
                self.stands_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Returns when something is over, and what. Silence is excused while the agent waits for us.
    pub(super) fn deadline(&self, silence: Silence) -> Option<(Instant, Over)> {
        if self.stands_since.is_some() {
            return None;
        }
        let from = self.heard.max(self.announced.unwrap_or(self.heard));
        let max_silence = self.max_silence.filter(|_| silence == Silence::Counts);
        let silence = max_silence.and_then(|silence| from.checked_add(silence));
        let silence = silence.map(|at| (at, Over::Silence));
        let turn = self.turn_ends.map(|at| (at, Over::Turn));
        silence.into_iter().chain(turn).min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock(start: Instant) -> Clock {
        let mut clock = Clock::new(Some(10 * SECOND), Some(100 * SECOND), start);
        clock.begin_turn(start);
        clock
    }

    fn check(clock: &Clock, start: Instant, seconds: u32, over: Over) {
        let deadline = clock.deadline(Silence::Counts);
        assert_eq!(deadline, Some((start + seconds * SECOND, over)));
    }

    #[test]
    fn silence_counts_from_what_was_heard_and_from_the_end_of_what_was_announced() {
        let start = Instant::now();
        let mut clock = clock(start);
        check(&clock, start, 10, Over::Silence);
        clock.hear(start + 5 * SECOND);
        check(&clock, start, 15, Over::Silence);
        clock.announce(start + 5 * SECOND, 20 * SECOND);
        clock.hear(start + 6 * SECOND);
        check(&clock, start, 35, Over::Silence);
        clock.announce(start + 6 * SECOND, Duration::MAX);
        check(&clock, start, 100, Over::Turn);
        clock.go_on();
        check(&clock, start, 16, Over::Silence);
    }

    #[test]
    fn while_a_person_is_waited_for_the_clock_stands() {
        let start = Instant::now();
        let mut clock = clock(start);
        clock.stand(start + 5 * SECOND, true);
        assert_eq!(clock.deadline(Silence::Counts), None);
        clock.stand(start + 1005 * SECOND, false);
        check(&clock, start, 1015, Over::Silence);
        clock.announce(start, 5000 * SECOND);
        check(&clock, start, 1100, Over::Turn);
    }

    #[test]
    fn an_excused_silence_does_not_stop_the_clock_of_the_turn() {
        let start = Instant::now();
        let clock = clock(start);
        let deadline = clock.deadline(Silence::IsExcused);
        assert_eq!(deadline, Some((start + 100 * SECOND, Over::Turn)));
    }

    #[test]
    fn nothing_is_over_without_limits() {
        let start = Instant::now();
        let mut clock = Clock::new(Some(Duration::ZERO), None, start);
        clock.begin_turn(start);
        assert_eq!(clock.deadline(Silence::Counts), None);
    }
}
