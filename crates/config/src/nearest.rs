//! What somebody may have meant by a word that is not known.

/// Longer words are not compared: nobody mistypes one.
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
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > MAX_LENGTH {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let slips = (word.chars().count() / 3).max(1);
    let near = known
        .iter()
        .map(|known| (distance(&word, &known.replace('-', "_")), *known));
    let near = near.filter(|(distance, _)| *distance <= slips).min();
    let longer = || {
        let mut longer = known.iter().filter(|known| known.starts_with(&word));
        longer.next().copied().filter(|_| word.len() >= 3)
    };
    near.map(|(_, known)| known).or_else(longer)
}

/// Counts the letters to put in, take out, change, or swap with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=to.len()).collect();
    for i in 1..=from.len() {
        for j in 1..=to.len() {
            let changed = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let one_sided = rows[i - 1][j].min(rows[i][j - 1]) + 1;
            let mut least = changed.min(one_sided);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[from.len()][to.len()]
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
