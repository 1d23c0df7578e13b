//! Patterns with `*` and `**`, matched without backtracking.

/// Returns whether the text matches the pattern: `*` matches any characters except `/`, `**` matches any characters.
pub(crate) fn matches_pattern(pattern: &str, text: &str) -> bool {
    // `**/a` also matches `a`.
    let rest = pattern.strip_prefix("**/");
    if rest.is_some_and(|rest| matches_pattern(rest, text)) {
        return true;
    }
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    // Positions in the pattern that are reachable after the text consumed so far.
    let mut reached = vec![false; pattern.len() + 1];
    reached[0] = true;
    spread(pattern, &mut reached);
    for letter in text {
        let mut next = vec![false; pattern.len() + 1];
        for (position, is_reached) in reached.iter().enumerate().take(pattern.len()) {
            if !is_reached {
                continue;
            }
            match pattern[position] {
                b'*' if is_double(pattern, position) || *letter != b'/' => next[position] = true,
                b'*' => {}
                literal if literal == *letter => next[position + 1] = true,
                _ => {}
            }
        }
        spread(pattern, &mut next);
        reached = next;
    }
    reached[pattern.len()]
}

/// Marks the positions after stars as reachable, because a star can match the empty string.
fn spread(pattern: &[u8], reached: &mut [bool]) {
    for (position, letter) in pattern.iter().enumerate() {
        if reached[position] && *letter == b'*' {
            reached[position + 1] = true;
        }
    }
}

fn is_double(pattern: &[u8], position: usize) -> bool {
    let is_star = |at: Option<usize>| at.and_then(|at| pattern.get(at)) == Some(&b'*');
    is_star(position.checked_add(1)) || is_star(position.checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_characters() {
        for (pattern, text) in [
            ("", ""),
            ("a", "a"),
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("**", "a/b"),
            ("a/**", "a/b/c"),
            ("**/b", "a/b"),
            ("**/b", "b"),
            ("a*/b", "aa/b"),
        ] {
            assert!(matches_pattern(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("a", "ab"),
            ("*", "a/b"),
            ("a*c", "ab"),
            ("a/*", "a/b/c"),
            ("?", "a"),
            ("**/b", "ab"),
        ] {
            assert!(!matches_pattern(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_quadratic_time() {
        let pattern = "*a".repeat(200);
        assert!(!matches_pattern(&pattern, &"b".repeat(5_000)));
    }
}
