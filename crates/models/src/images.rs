//! Which models accept images, for the families of models that are known.

/// The beginning of a model's name, and whether the models of that family accept images. The first match applies.
const FAMILIES: &[(&str, bool)] = &[
    ("claude-2", false),
    ("claude-instant", false),
    ("claude-", true),
    ("gpt-5", true),
    ("gpt-4.1", true),
    ("gpt-4o", true),
    ("gpt-4-turbo", true),
    ("gpt-4-vision", true),
    ("gpt-4", false),
    ("gpt-3.5", false),
    ("o1-mini", false),
    ("o1-preview", false),
    ("o3-mini", false),
    ("o1", true),
    ("o3", true),
    ("o4-mini", true),
    ("gemini-", true),
    ("deepseek-", false),
];

/// Returns whether a model accepts images; `None` if its name is not known. The name may have its maker in front, as in
/// `anthropic/claude-haiku-4-5`.
#[must_use]
pub(crate) fn accepts_images(model: &str) -> Option<bool> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let mut families = FAMILIES.iter();
    let found = families.find(|(family, _)| name.starts_with(family))?;
    Some(found.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_decides_and_an_unknown_name_does_not() {
        assert_eq!(accepts_images("claude-haiku-4-5"), Some(true));
        assert_eq!(accepts_images("openai/gpt-4o-mini"), Some(true));
        assert_eq!(accepts_images("gpt-4-0613"), Some(false));
        assert_eq!(accepts_images("o3-mini"), Some(false));
        assert_eq!(accepts_images("deepseek-chat"), Some(false));
        assert_eq!(accepts_images("llama3"), None);
    }

    #[test]
    fn no_family_is_hidden_by_a_shorter_name_before_it() {
        for (n, (family, _)) in FAMILIES.iter().enumerate() {
            let hidden = FAMILIES[..n]
                .iter()
                .any(|(before, _)| family.starts_with(before));
            assert!(!hidden, "{family} is never found");
        }
    }
}
