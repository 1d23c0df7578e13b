//! Suggestions for unknown words.

/// Longer words are not compared: they are not typing errors.
const MAX_LENGTH: usize = 64;

/// Rewrites `unknown field `x`, expected one of `a`, `b`` with the nearest of the known words; `None` for other messages.
pub(crate) fn with_suggestion(message: &str) -> Option<String> {
    let kinds = [
        ("unknown field `", "unknown key"),
        ("unknown variant `", "unknown value"),
    ];
    let (rest, said) = kinds
        .into_iter()
        .find_map(|(prefix, said)| Some((message.strip_prefix(prefix)?, said)))?;
    let (word, expected) = rest.rsplit_once("`, expected ")?;
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    if known.is_empty() {
        return None;
    }
    Some(match nearest(word, &known) {
        Some(meant) => format!("{said} `{word}`; did you mean `{meant}`?"),
        None => format!("{said} `{word}`; it can be one of `{}`", known.join("`, `")),
    })
}

/// Returns the known word that is a slip away, or that begins with what was written.
#[must_use]
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > MAX_LENGTH {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let slips = (word.chars().count() / 3).max(1);
    let near = known.iter().map(|known| {
        (
            strsim::osa_distance(&word, &known.replace('-', "_")),
            *known,
        )
    });
    let near = near.filter(|(distance, _)| *distance <= slips).min();
    let longer = || {
        let mut longer = known.iter().filter(|known| known.starts_with(&word));
        longer.next().copied().filter(|_| word.len() >= 3)
    };
    near.map(|(_, known)| known).or_else(longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_a_stranger_is_not() {
        let known = ["model", "models", "max_age_days", "proxy", "claude-code"];
        for (word, meant) in [
            ("modle", Some("model")),
            ("Model", Some("model")),
            ("max-age-days", Some("max_age_days")),
            ("max_age", Some("max_age_days")),
            ("prxy", Some("proxy")),
            ("claude_code", Some("claude-code")),
            ("colour", None),
            ("m", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
        assert_eq!(nearest(&"model".repeat(100), &known), None);
    }
}
