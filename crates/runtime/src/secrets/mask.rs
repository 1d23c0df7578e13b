//! Finds secrets in what is about to be recorded, and puts their names in their places.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::Value;
use windlass_core::traits::SECRET_MASK;
use windlass_turn::Tail;
use zeroize::Zeroizing;

/// A value that must not be shown, and what is shown in its place.
pub(crate) struct Secret {
    mask: String,
    value: Zeroizing<String>,
    /// The value as it looks inside of JSON, where that is different.
    in_json: Option<Zeroizing<String>>,
}

impl Secret {
    pub(crate) fn new(name: &str, value: &str) -> Self {
        Self {
            mask: mask_of(name),
            value: Zeroizing::new(value.to_owned()),
            in_json: in_json(value),
        }
    }

    pub(super) fn is(&self, value: &str) -> bool {
        *self.value == value
    }

    pub(super) fn has_name(&self, name: &str) -> bool {
        self.mask == mask_of(name)
    }

    fn forms(&self) -> impl Iterator<Item = &str> {
        let forms = [Some(&self.value), self.in_json.as_ref()];
        forms.into_iter().flatten().map(|form| form.as_str())
    }
}

/// Writes a value as JSON would, without the quotes, where that is different.
fn in_json(value: &str) -> Option<Zeroizing<String>> {
    let is_escaped = |c: char| matches!(c, '"' | '\\') || c.is_ascii_control();
    if !value.contains(is_escaped) {
        return None;
    }
    let quoted = Zeroizing::new(serde_json::to_string(value).ok()?);
    let text = quoted.get(1..quoted.len() - 1)?;
    Some(Zeroizing::new(text.to_owned()))
}

/// What is shown in place of a secret.
pub(crate) fn mask_of(name: &str) -> String {
    format!("{SECRET_MASK}{name}]")
}

/// Some secrets, to be kept out of texts and values.
pub(crate) struct Mask {
    secrets: Vec<Arc<Secret>>,
}

impl Mask {
    /// Makes a mask; there is none of nothing.
    pub(crate) fn of(secrets: Vec<Arc<Secret>>) -> Option<Self> {
        (!secrets.is_empty()).then_some(Self { secrets })
    }

    /// Returns a mask that knows more.
    pub(crate) fn with(known: Option<&Self>, more: Vec<Arc<Secret>>) -> Option<Self> {
        let known = known
            .into_iter()
            .flat_map(|mask| mask.secrets.iter().cloned());
        Self::of(known.chain(more).collect())
    }

    /// Finds the first secret in a text, the longest of those that begin there.
    fn find(&self, text: &str) -> Option<(usize, usize, &Secret)> {
        let found = self.secrets.iter().flat_map(|secret| {
            let place = move |form: &str| Some((text.find(form)?, form.len(), &**secret));
            secret.forms().filter_map(place).collect::<Vec<_>>()
        });
        found.min_by_key(|(at, len, _)| (*at, Reverse(*len)))
    }

    /// Masks a text; tells whether there was anything to mask.
    pub(crate) fn text(&self, text: &mut String) -> bool {
        let (mut masked, mut rest) = (String::new(), text.as_str());
        while let Some((at, len, secret)) = self.find(rest) {
            masked.push_str(&rest[..at]);
            masked.push_str(&secret.mask);
            rest = &rest[at + len..];
        }
        if masked.is_empty() {
            return false;
        }
        masked.push_str(rest);
        *text = masked;
        true
    }

    pub(crate) fn optional(&self, text: &mut Option<String>) -> bool {
        text.as_mut().is_some_and(|text| self.text(text))
    }

    /// Masks every text in a value, names included; tells whether there was anything to mask.
    pub(crate) fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => self.text(text),
            Value::Array(values) => values
                .iter_mut()
                .fold(false, |hit, value| self.value(value) | hit),
            Value::Object(entries) => {
                let hit = entries
                    .iter_mut()
                    .fold(false, |hit, (_, value)| self.value(value) | hit);
                if !entries.keys().any(|name| self.find(name).is_some()) {
                    return hit;
                }
                *entries = std::mem::take(entries)
                    .into_iter()
                    .map(|(mut name, value)| {
                        self.text(&mut name);
                        (name, value)
                    })
                    .collect();
                true
            }
        }
    }

    /// Returns streamed text as it may be shown once nothing follows it.
    pub(crate) fn whole_tail(&self, tail: &Tail) -> Tail {
        let mut tail = tail.clone();
        self.text(&mut tail.text);
        self.text(&mut tail.thinking);
        tail
    }

    /// Splits streamed text into what may be shown now, masked, and an end that may be the beginning of a secret.
    pub(crate) fn split_tail(&self, tail: &Tail) -> (Tail, Tail) {
        let (text, text_end) = tail.text.split_at(self.settled(&tail.text));
        let (thinking, thinking_end) = tail.thinking.split_at(self.settled(&tail.thinking));
        let shown = Tail {
            text: text.to_owned(),
            thinking: thinking.to_owned(),
        };
        let held = Tail {
            text: text_end.to_owned(),
            thinking: thinking_end.to_owned(),
        };
        (self.whole_tail(&shown), held)
    }

    /// Returns how much of a text cannot become part of a secret, whatever follows.
    fn settled(&self, text: &str) -> usize {
        let forms = || self.secrets.iter().flat_map(|secret| secret.forms());
        let begun = |form: &str| {
            let starts = text.char_indices().map(|(at, _)| at);
            let near = text.len().saturating_sub(form.len() - 1);
            let mut starts = starts.skip_while(|at| *at < near);
            starts.find(|at| form.starts_with(&text[*at..]))
        };
        let mut settled = forms().filter_map(begun).min().unwrap_or(text.len());
        // A whole secret is not cut in two for the sake of another that may begin inside of it.
        let mut at = 0;
        while let Some((found, len, _)) = self.find(&text[at..]) {
            let (start, end) = (at + found, at + found + len);
            if start >= settled {
                break;
            }
            if end > settled {
                settled = start;
            }
            at = end;
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mask(secrets: &[(&str, &str)]) -> Mask {
        let secrets = secrets
            .iter()
            .map(|(name, value)| Arc::new(Secret::new(name, value)));
        Mask::of(secrets.collect()).unwrap()
    }

    fn tail(text: &str) -> Tail {
        Tail {
            text: text.to_owned(),
            thinking: String::new(),
        }
    }

    #[test]
    fn r71_a_secret_is_masked_wherever_it_stands() {
        let mask = mask(&[("a", "hunter2"), ("b", "hunter22"), ("c", "secret")]);
        for (said, shown) in [
            ("nothing", "nothing"),
            ("hunter2", "[secret:a]"),
            ("hunter22", "[secret:b]"),
            ("xhunter2hunter2y", "x[secret:a][secret:a]y"),
            ("hunter2 is secret", "[secret:a] is [secret:c]"),
            ("", ""),
        ] {
            let mut text = said.to_owned();
            assert_eq!(
                (mask.text(&mut text), text.as_str()),
                (said != shown, shown)
            );
        }
    }

    #[test]
    fn r71_names_lists_and_json_in_texts_are_masked() {
        let mask = mask(&[("pem", "BEGIN\n\"key\"\nEND")]);
        let mut value = json!({
            "list": [1, "BEGIN\n\"key\"\nEND", null],
            "BEGIN\n\"key\"\nEND": true,
            "text": "{\"key\":\"BEGIN\\n\\\"key\\\"\\nEND\"}"
        });
        assert!(mask.value(&mut value));
        let expected = json!({
            "list": [1, "[secret:pem]", null],
            "[secret:pem]": true,
            "text": "{\"key\":\"[secret:pem]\"}"
        });
        assert_eq!(value, expected);
        assert!(!mask.value(&mut value));
    }

    #[test]
    fn r71_a_secret_that_comes_in_pieces_is_masked() {
        let secrets = [("a", "abcd"), ("b", "cdef"), ("é", "ééx")];
        let mask = mask(&secrets);
        for said in [
            "xabcdef",
            "ababcdcdef",
            "aéééxé",
            "abcabcd",
            "cdabcdefab",
            "éé",
        ] {
            let mut whole = said.to_owned();
            mask.text(&mut whole);
            // Cut in every way into single characters and pairs.
            for pattern in 0..1_u32 << said.chars().count() {
                let (mut held, mut shown) = (String::new(), String::new());
                for (n, character) in said.chars().enumerate() {
                    held.push(character);
                    if pattern >> n & 1 == 1 {
                        let (now, rest) = mask.split_tail(&tail(&held));
                        shown.push_str(&now.text);
                        held = rest.text;
                    }
                }
                shown.push_str(&mask.whole_tail(&tail(&held)).text);
                assert_eq!(shown, whole, "{said} cut by {pattern:b}");
            }
        }
    }

    #[test]
    fn text_that_begins_no_secret_is_not_held_back() {
        let mask = mask(&[("a", "hunter2")]);
        let (shown, held) = mask.split_tail(&tail("the hunt is over"));
        assert_eq!(
            (shown.text.as_str(), held.is_empty()),
            ("the hunt is over", true)
        );
        let (shown, held) = mask.split_tail(&tail("the hunt"));
        assert_eq!((shown.text.as_str(), held.text.as_str()), ("the ", "hunt"));
    }
}
