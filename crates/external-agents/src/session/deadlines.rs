//! The deadlines of a turn: maximum silence and maximum duration.

use std::time::Duration;

use tokio::time::Instant;

/// The longest silence that an agent can announce. Usage windows last a week.
const MAX_SILENCE: Duration = Duration::from_secs(8 * 24 * 3600);

/// The deadline that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expired {
    Silence,
    Turn,
}

/// Whether the agent's silence matters now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    Counts,
    Excused,
}

/// The deadlines of a turn. They are suspended while the agent waits for a person.
#[derive(Debug)]
pub(super) struct Deadlines {
    max_silence: Option<Duration>,
    max_turn: Option<Duration>,
    last_activity: Instant,
    /// Until when the agent announced silence.
    announced: Option<Instant>,
    turn_ends: Option<Instant>,
    suspended_since: Option<Instant>,
}

impl Deadlines {
    pub(super) fn new(
        max_silence: Option<Duration>,
        max_turn: Option<Duration>,
        now: Instant,
    ) -> Self {
        Self {
            max_silence: max_silence.filter(|silence| !silence.is_zero()),
            max_turn: max_turn.filter(|turn| !turn.is_zero()),
            last_activity: now,
            announced: None,
            turn_ends: None,
            suspended_since: None,
        }
    }

    pub(super) fn begin_turn(&mut self, now: Instant) {
        self.last_activity = now;
        self.announced = None;
        self.suspended_since = None;
        self.turn_ends = self.max_turn.and_then(|turn| now.checked_add(turn));
    }

    pub(super) fn record_activity(&mut self, now: Instant) {
        self.last_activity = now;
    }

    /// The agent will be silent for this long. Only [`end_announcement`](Self::end_announcement) revokes it.
    pub(super) fn announce(&mut self, now: Instant, silence: Duration) {
        let until = now.checked_add(silence.min(MAX_SILENCE));
        self.announced = self.announced.max(until);
    }

    /// The agent works again: an announced silence is over.
    pub(super) fn end_announcement(&mut self) {
        self.announced = None;
    }

    /// Suspends or resumes the deadlines.
    pub(super) fn suspend(&mut self, now: Instant, is_suspended: bool) {
        match (self.suspended_since, is_suspended) {
            (None, true) => self.suspended_since = Some(now),
            (Some(since), false) => {
                let suspended = now.saturating_duration_since(since);
                self.turn_ends = self.turn_ends.and_then(|ends| ends.checked_add(suspended));
                self.last_activity = now;
                self.suspended_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Returns the next deadline and its kind. Silence is excused while the agent waits for Windlass.
    pub(super) fn deadline(&self, silence: Silence) -> Option<(Instant, Expired)> {
        if self.suspended_since.is_some() {
            return None;
        }
        let from = self
            .last_activity
            .max(self.announced.unwrap_or(self.last_activity));
        let max_silence = self.max_silence.filter(|_| silence == Silence::Counts);
        let silence = max_silence.and_then(|silence| from.checked_add(silence));
        let silence = silence.map(|at| (at, Expired::Silence));
        let turn = self.turn_ends.map(|at| (at, Expired::Turn));
        silence.into_iter().chain(turn).min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn deadlines(start: Instant) -> Deadlines {
        let mut deadlines = Deadlines::new(Some(10 * SECOND), Some(100 * SECOND), start);
        deadlines.begin_turn(start);
        deadlines
    }

    fn check(deadlines: &Deadlines, start: Instant, seconds: u32, expired: Expired) {
        let deadline = deadlines.deadline(Silence::Counts);
        assert_eq!(deadline, Some((start + seconds * SECOND, expired)));
    }

    #[test]
    fn inactivity_counts_from_the_last_output_or_the_announced_end() {
        let start = Instant::now();
        let mut deadlines = deadlines(start);
        check(&deadlines, start, 10, Expired::Silence);
        deadlines.record_activity(start + 5 * SECOND);
        check(&deadlines, start, 15, Expired::Silence);
        deadlines.announce(start + 5 * SECOND, 20 * SECOND);
        deadlines.record_activity(start + 6 * SECOND);
        check(&deadlines, start, 35, Expired::Silence);
        deadlines.announce(start + 6 * SECOND, Duration::MAX);
        check(&deadlines, start, 100, Expired::Turn);
        deadlines.end_announcement();
        check(&deadlines, start, 16, Expired::Silence);
    }

    #[test]
    fn deadlines_are_suspended_while_a_user_decides() {
        let start = Instant::now();
        let mut deadlines = deadlines(start);
        deadlines.suspend(start + 5 * SECOND, true);
        assert_eq!(deadlines.deadline(Silence::Counts), None);
        deadlines.suspend(start + 1005 * SECOND, false);
        check(&deadlines, start, 1015, Expired::Silence);
        deadlines.announce(start, 5000 * SECOND);
        check(&deadlines, start, 1100, Expired::Turn);
    }

    #[test]
    fn announced_wait_does_not_suspend_the_turn_deadline() {
        let start = Instant::now();
        let deadlines = deadlines(start);
        let deadline = deadlines.deadline(Silence::Excused);
        assert_eq!(deadline, Some((start + 100 * SECOND, Expired::Turn)));
    }

    #[test]
    fn nothing_expires_without_limits() {
        let start = Instant::now();
        let mut deadlines = Deadlines::new(Some(Duration::ZERO), None, start);
        deadlines.begin_turn(start);
        assert_eq!(deadlines.deadline(Silence::Counts), None);
    }
}
