//! How many tokens a request and its answer may have together, for the families of models that are known.

/// The beginning of a model's name, and what every model has that is called so: the smallest window of the family, because a
/// conversation that is made shorter too early still goes on, and one that is sent too long does not. The first that fits counts.
const WINDOWS: &[(&str, u64)] = &[
    ("claude-", 200_000),
    ("gpt-5-chat", 128_000),
    // 400,000 with the answer, of which at most this may be sent.
    ("gpt-5", 272_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("chatgpt-4o", 128_000),
    ("gpt-4", 8_192),
    ("gpt-3.5", 16_385),
    ("o1-mini", 128_000),
    ("o1-preview", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("gemini-", 1_000_000),
];

/// Returns the window of a model, where its name tells. A name may have its maker before it, as in `anthropic/claude-haiku-4-5`.
#[must_use]
pub fn window_of(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let mut known = WINDOWS.iter();
    let found = known.find(|(family, _)| name.starts_with(family))?;
    Some(found.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_tells_the_window_and_an_unknown_name_nothing() {
        assert_eq!(window_of("claude-haiku-4-5"), Some(200_000));
        assert_eq!(window_of("anthropic/claude-opus-5"), Some(200_000));
        assert_eq!(window_of("gpt-5-mini"), Some(272_000));
        assert_eq!(window_of("gpt-5-chat-latest"), Some(128_000));
        assert_eq!(window_of("gpt-4"), Some(8_192));
        assert_eq!(window_of("gpt-4o-mini"), Some(128_000));
        assert_eq!(window_of("llama3"), None);
    }

    #[test]
    fn no_family_hides_behind_a_shorter_name_before_it() {
        for (n, (family, _)) in WINDOWS.iter().enumerate() {
            let hidden = WINDOWS[..n]
                .iter()
                .any(|(before, _)| family.starts_with(before));
            assert!(!hidden, "{family} is never found");
        }
    }
}
