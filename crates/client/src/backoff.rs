//! Delays between attempts to reconnect.

use std::time::Duration;

/// Doubles a pause with each failed attempt, up to a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
        }
    }
}

impl Backoff {
    /// Returns the pause before an attempt; the first has the number 0.
    pub(crate) fn pause(self, attempt: u32) -> Duration {
        let factor = 1u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_up_to_the_limit() {
        let backoff = Backoff::default();
        let pauses = [0, 1, 5, 6, 31, 32, u32::MAX].map(|attempt| backoff.pause(attempt));
        assert_eq!(
            pauses.map(|pause| pause.as_millis()),
            [100, 200, 3200, 5000, 5000, 5000, 5000]
        );
    }
}
