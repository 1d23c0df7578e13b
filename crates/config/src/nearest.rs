//! Suggestions for misspelt names.

/// Longer words are not compared: they are not typos.
const MAX_LENGTH: usize = 64;

/// Rewrites `unknown field `x`, expected one of `a`, `b`` with the nearest of the known words; `None` for other messages.
pub(crate) fn with_suggestion(message: &str) -> Option<String> {
    let kinds = [
        ("unknown field `", "unknown key"),
        ("unknown variant `", "unknown value"),
    ];
    let (rest, kind) = kinds
        .into_iter()
        .find_map(|(prefix, kind)| Some((message.strip_prefix(prefix)?, kind)))?;
    let (word, expected) = rest.rsplit_once("`, expected ")?;
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    if known.is_empty() {
        return None;
    }
    Some(match nearest(word, &known) {
        Some(meant) => format!("{kind} `{word}`; did you mean `{meant}`?"),
        None => format!("{kind} `{word}`; it can be one of `{}`", known.join("`, `")),
    })
}

/// Returns the closest known word if `word` may be a typo of it, else the first known word that starts with `word`.
#[must_use]
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > MAX_LENGTH {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let max_distance = (word.chars().count() / 3).max(1);
    let distance = |known: &str| strsim::osa_distance(&word, &known.replace('-', "_"));
    let distances = known.iter().map(|known| (distance(known), *known));
    let near = distances.filter(|(distance, _)| *distance <= max_distance);
    let longer = known.iter().find(|known| known.starts_with(&word));
    near.min()
        .map(|(_, known)| known)
        .or(longer.copied().filter(|_| word.len() >= 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typo_is_corrected_and_other_words_are_not() {
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
