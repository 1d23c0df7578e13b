//! Quantities for display.

use std::time::Duration;

use windlass_protocol::Turn;

/// Formats the usage of a turn: tokens, cost and time.
pub(crate) fn spent(turn: &Turn) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(usage) = &turn.usage
        && usage.input_tokens + usage.output_tokens > 0
    {
        parts.push(format!(
            "{} tokens in, {} out",
            usage.input_tokens, usage.output_tokens
        ));
        parts.extend(usage.cost_usd.map(money));
    }
    parts.extend(
        turn.duration_ms
            .map(|took| time(Duration::from_millis(took))),
    );
    parts
}

/// Formats a cost in dollars.
pub(crate) fn money(cost: f64) -> String {
    match cost {
        0.01.. => format!("${cost:.2}"),
        0.0001.. => format!("${cost:.4}"),
        _ => "less than $0.0001".to_owned(),
    }
}

/// Formats a duration for display.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=9 => format!("{:.1}s", time.as_secs_f64()),
        10..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a number of tokens: thousands as `12k`.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..=9_999 => count.to_string(),
        10_000..=999_999 => format!("{}k", (count + 500) / 1_000),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// Formats a count with its noun, whose plural ends with `s`.
pub(crate) fn count(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_for_display() {
        let shown = [400, 12_000, 61_000, 3_720_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(shown, ["0.4s", "12s", "1m 01s", "1h 02m"]);
    }

    #[test]
    fn large_numbers_of_tokens_are_rounded() {
        let shown = [0, 9_999, 12_345, 200_000, 1_048_576].map(tokens);
        assert_eq!(shown, ["0", "9999", "12k", "200k", "1.0M"]);
    }
}
