//! Properties of models, by the prefix of their name.

/// The beginning of a model's name, its context window in tokens and whether it accepts images. The window is the smallest of the family: a
/// conversation that is compacted too early continues, and one that is too long is refused. The first match applies.
const FAMILIES: &[(&str, Option<u64>, Option<bool>)] = &[
    ("claude-2", Some(200_000), Some(false)),
    ("claude-instant", Some(200_000), Some(false)),
    ("claude-", Some(200_000), Some(true)),
    ("gpt-5-chat", Some(128_000), Some(true)),
    // 400,000 including the answer; this is the maximum input.
    ("gpt-5", Some(272_000), Some(true)),
    ("gpt-4.1", Some(1_000_000), Some(true)),
    ("gpt-4o", Some(128_000), Some(true)),
    ("gpt-4-turbo", Some(128_000), Some(true)),
    ("gpt-4-vision", Some(8_192), Some(true)),
    ("chatgpt-4o", Some(128_000), None),
    ("gpt-4", Some(8_192), Some(false)),
    ("gpt-3.5", Some(16_385), Some(false)),
    ("o1-mini", Some(128_000), Some(false)),
    ("o1-preview", Some(128_000), Some(false)),
    ("o3-mini", Some(200_000), Some(false)),
    ("o1", Some(200_000), Some(true)),
    ("o3", Some(200_000), Some(true)),
    ("o4-mini", Some(200_000), Some(true)),
    ("gemini-", Some(1_000_000), Some(true)),
    ("deepseek-", None, Some(false)),
];

/// Returns the context window of a model in tokens; `None` if its name is unknown. The name may include its vendor, as in
/// `anthropic/claude-haiku-4-5`.
#[must_use]
pub fn window_of(model: &str) -> Option<u64> {
    family_of(model)?.1
}

/// Returns whether a model accepts images; `None` if its name is unknown.
#[must_use]
pub(crate) fn accepts_images(model: &str) -> Option<bool> {
    family_of(model)?.2
}

fn family_of(model: &str) -> Option<&'static (&'static str, Option<u64>, Option<bool>)> {
    let name = model.rsplit('/').next().unwrap_or(model);
    FAMILIES.iter().find(|family| name.starts_with(family.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_determines_the_context_window_and_unknown_names_have_none() {
        assert_eq!(window_of("claude-haiku-4-5"), Some(200_000));
        assert_eq!(window_of("anthropic/claude-opus-5"), Some(200_000));
        assert_eq!(window_of("gpt-5-mini"), Some(272_000));
        assert_eq!(window_of("gpt-5-chat-latest"), Some(128_000));
        assert_eq!(window_of("gpt-4"), Some(8_192));
        assert_eq!(window_of("gpt-4o-mini"), Some(128_000));
        assert_eq!(window_of("llama3"), None);
    }

    #[test]
    fn family_determines_image_support_and_unknown_names_have_none() {
        assert_eq!(accepts_images("claude-haiku-4-5"), Some(true));
        assert_eq!(accepts_images("openai/gpt-4o-mini"), Some(true));
        assert_eq!(accepts_images("gpt-4-0613"), Some(false));
        assert_eq!(accepts_images("o3-mini"), Some(false));
        assert_eq!(accepts_images("deepseek-chat"), Some(false));
        assert_eq!(accepts_images("llama3"), None);
    }

    #[test]
    fn no_family_is_shadowed_by_a_shorter_prefix() {
        for (n, (family, ..)) in FAMILIES.iter().enumerate() {
            let hidden = FAMILIES[..n]
                .iter()
                .any(|(before, ..)| family.starts_with(before));
            assert!(!hidden, "{family} is never found");
        }
    }
}
