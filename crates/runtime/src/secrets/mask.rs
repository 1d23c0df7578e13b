//! Finds secrets in data that is about to be recorded, and replaces them with their names.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::{Arc, Weak};

use serde_json::Value;
use windlass_core::bounds::{prefix, suffix};
use windlass_core::traits::{SECRET_MASK, SecretPlaces};
use windlass_turn::UnflushedText;
use zeroize::Zeroizing;

use super::forms::forms;

/// A secret value and its mask.
pub(crate) struct Secret {
    mask: String,
    value: Zeroizing<String>,
    /// The forms in which it may occur in a text.
    forms: Vec<Zeroizing<String>>,
}

impl Secret {
    pub(crate) fn new(name: &str, value: &str) -> Self {
        Self {
            mask: mask_of(name),
            value: Zeroizing::new(value.to_owned()),
            forms: forms(value),
        }
    }

    pub(super) fn is(&self, value: &str) -> bool {
        *self.value == value
    }

    pub(super) fn has_name(&self, name: &str) -> bool {
        self.mask == mask_of(name)
    }

    fn forms(&self) -> impl Iterator<Item = &str> {
        self.forms.iter().map(|form| form.as_str())
    }
}

/// Returns the text that replaces a secret.
pub(crate) fn mask_of(name: &str) -> String {
    format!("{SECRET_MASK}{name}]")
}

/// A set of secrets to mask in texts and values.
pub(crate) struct Mask {
    secrets: Vec<Arc<Secret>>,
}

impl Mask {
    /// Creates a mask; `None` if there are no secrets.
    pub(crate) fn new(secrets: Vec<Arc<Secret>>) -> Option<Self> {
        (!secrets.is_empty()).then_some(Self { secrets })
    }

    /// Returns weak references to the secrets, which do not extend their lifetime.
    pub(crate) fn weak_secrets(&self) -> Vec<Weak<Secret>> {
        self.secrets.iter().map(Arc::downgrade).collect()
    }

    /// Returns a mask with additional secrets.
    pub(crate) fn with(known: Option<&Self>, more: Vec<Arc<Secret>>) -> Option<Self> {
        let known = known
            .into_iter()
            .flat_map(|mask| mask.secrets.iter().cloned());
        Self::new(known.chain(more).collect())
    }

    /// Finds the secrets in a text from its beginning, the longest of those that begin at the same position.
    fn find_all<'a, 't>(&'a self, text: &'t str) -> SecretMatches<'a, 't> {
        let positions = self.secrets.iter().flat_map(|secret| {
            // A mask matches as itself, so that masked text is unchanged, whatever the secret's name contains.
            let forms = secret.forms().chain([secret.mask.as_str()]);
            forms.filter_map(move |form| {
                let at = text.find(form)?;
                Some(FormPosition { at, form, secret })
            })
        });
        SecretMatches {
            text,
            positions: positions.collect(),
        }
    }

    fn occurs_in(&self, text: &str) -> bool {
        self.forms().any(|form| text.contains(form))
    }

    /// Masks a text; returns whether it contained a secret.
    pub(crate) fn replace(&self, text: &mut String) -> bool {
        let (mut masked, mut done, mut is_changed) = (String::new(), 0, false);
        for (at, len, secret) in self.find_all(text) {
            masked.push_str(&text[done..at]);
            masked.push_str(&secret.mask);
            done = at + len;
            is_changed |= text[at..done] != secret.mask;
        }
        if !is_changed {
            return false;
        }
        masked.push_str(&text[done..]);
        *text = masked;
        true
    }

    pub(crate) fn text(&self, text: &mut String) {
        self.replace(text);
    }

    pub(crate) fn optional(&self, text: &mut Option<String>) {
        text.iter_mut().for_each(|text| self.text(text));
    }

    pub(crate) fn value(&self, value: &mut Value) {
        self.replace_in_value(value);
    }

    pub(crate) fn optional_value(&self, value: &mut Option<Value>) {
        value.iter_mut().for_each(|value| self.value(value));
    }

    /// Returns whether a value contains a secret.
    pub(super) fn occurs_in_value(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => self.occurs_in(text),
            Value::Array(values) => values.iter().any(|value| self.occurs_in_value(value)),
            Value::Object(entries) => entries
                .iter()
                .any(|(name, value)| self.occurs_in(name) || self.occurs_in_value(value)),
        }
    }

    /// Masks every string in a value, including names; returns whether it contained a secret.
    pub(crate) fn replace_in_value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => self.replace(text),
            Value::Array(values) => values
                .iter_mut()
                .fold(false, |hit, value| self.replace_in_value(value) | hit),
            Value::Object(entries) => {
                let hit = entries
                    .iter_mut()
                    .fold(false, |hit, (_, value)| self.replace_in_value(value) | hit);
                if !entries.keys().any(|name| self.occurs_in(name)) {
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

    /// Splits streamed text into a masked part that may be shown now, and an end that may be the start of a secret.
    pub(crate) fn split_tail(&self, tail: &UnflushedText) -> (UnflushedText, UnflushedText) {
        let (text, text_end) = tail.text.split_at(self.settled(&tail.text));
        let (thinking, thinking_end) = tail.thinking.split_at(self.settled(&tail.thinking));
        let unflushed = |text: &str, thinking: &str| UnflushedText {
            text: text.to_owned(),
            thinking: thinking.to_owned(),
        };
        let mut shown = unflushed(text, thinking);
        self.text(&mut shown.text);
        self.text(&mut shown.thinking);
        (shown, unflushed(text_end, thinking_end))
    }

    fn forms(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().flat_map(|secret| secret.forms())
    }

    /// Returns the length of the text's part that cannot become part of a secret, whatever follows.
    fn settled(&self, text: &str) -> usize {
        let begun = |form: &str| {
            // Only a text that is shorter than the form can be a prefix of it.
            let mut near = text.len().saturating_sub(form.len() - 1)..text.len();
            near.find(|at| text.is_char_boundary(*at) && form.starts_with(&text[*at..]))
        };
        let mut settled = self.forms().filter_map(begun).min().unwrap_or(text.len());
        // A complete secret is not split because another one may begin inside of it.
        for (start, len, _) in self.find_all(text) {
            if start >= settled {
                break;
            }
            if start + len > settled {
                settled = start;
            }
        }
        settled
    }
}

impl SecretPlaces for Mask {
    fn longest(&self) -> usize {
        self.forms().map(str::len).max().unwrap_or(0)
    }

    fn around(&self, text: &str, position: usize) -> Option<Range<usize>> {
        let ranges = self.forms().filter_map(|form| {
            // A match across the position begins before it and ends after it.
            let least = (position + 1).saturating_sub(form.len());
            let from = text.len() - suffix(text, text.len().saturating_sub(least)).len();
            let to = prefix(text, position + form.len() - 1).len();
            let near = text.get(from..to)?;
            let (first, last) = (near.find(form)?, near.rfind(form)?);
            Some(from + first..from + last + form.len())
        });
        ranges.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end))
    }

    fn settled(&self, text: &str) -> usize {
        Self::settled(self, text)
    }

    fn masks<'a>(&'a self, text: &str) -> Vec<(Range<usize>, &'a str)> {
        self.find_all(text)
            .map(|(at, len, secret)| (at..at + len, secret.mask.as_str()))
            .collect()
    }

    fn begun(&self, text: &str) -> usize {
        let rest = |form: &str| {
            let mut ends = (1..form.len().min(text.len() + 1)).rev();
            ends.find(|end| text.is_char_boundary(*end) && form.ends_with(&text[..*end]))
        };
        let begun = self.forms().filter_map(rest).max().unwrap_or(0);
        self.outside_from(text, begun)
    }
}

/// Iterates over the secrets in a text. Each form is searched once from the beginning to the end, however often it occurs.
struct SecretMatches<'a, 't> {
    text: &'t str,
    /// The next position of each form.
    positions: Vec<FormPosition<'a>>,
}

struct FormPosition<'a> {
    at: usize,
    form: &'a str,
    secret: &'a Secret,
}

impl<'a> Iterator for SecretMatches<'a, '_> {
    type Item = (usize, usize, &'a Secret);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self
            .positions
            .iter()
            .min_by_key(|position| (position.at, Reverse(position.form.len())))?;
        let (at, len, secret) = (first.at, first.form.len(), first.secret);
        let end = at + len;
        self.positions.retain_mut(|position| {
            if position.at >= end {
                return true;
            }
            let next = self.text[end..].find(position.form);
            position.at = end + next.unwrap_or_default();
            next.is_some()
        });
        Some((at, len, secret))
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
        Mask::new(secrets.collect()).unwrap()
    }

    fn tail(text: &str) -> UnflushedText {
        UnflushedText {
            text: text.to_owned(),
            thinking: String::new(),
        }
    }

    #[test]
    fn masked_text_is_not_masked_again() {
        let mask = mask(&[("password", "password"), ("b", "secret")]);
        let mut text = "my password is a secret".to_owned();
        assert!(mask.replace(&mut text));
        assert_eq!(text, "my [secret:password] is a [secret:b]");
        assert!(!mask.replace(&mut text));
        assert_eq!(text, "my [secret:password] is a [secret:b]");
    }

    #[test]
    fn r71_secret_is_masked_in_any_position() {
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
                (mask.replace(&mut text), text.as_str()),
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
        assert!(mask.replace_in_value(&mut value));
        let expected = json!({
            "list": [1, "[secret:pem]", null],
            "[secret:pem]": true,
            "text": "{\"key\":\"[secret:pem]\"}"
        });
        assert_eq!(value, expected);
        assert!(!mask.replace_in_value(&mut value));
    }

    #[test]
    fn r71_secret_split_across_pieces_is_masked() {
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
            mask.replace(&mut whole);
            // Split in every way into single characters and pairs.
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
                mask.text(&mut held);
                shown.push_str(&held);
                assert_eq!(shown, whole, "{said} cut by {pattern:b}");
            }
        }
    }

    #[test]
    fn a21_encoded_secret_is_masked() {
        use base64::Engine;
        use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
        let long = "k/".repeat(120);
        for value in ["sk-live 4711/äöü?=&x+", "0123456789abcdef", long.as_str()] {
            let mask = mask(&[("key", value)]);
            for (before, after) in [("", ""), ("a", "z"), ("ab", "yz"), ("Bearer ", "\n")] {
                let around = format!("{before}{value}{after}");
                let percent = |digits: fn(u8) -> String| -> String {
                    let encoded = around
                        .bytes()
                        .map(|byte| match byte.is_ascii_alphanumeric() {
                            true => char::from(byte).to_string(),
                            false if b"-._~".contains(&byte) => char::from(byte).to_string(),
                            false => digits(byte),
                        });
                    encoded.collect()
                };
                for written in [
                    around.clone(),
                    serde_json::to_string(&around).unwrap(),
                    STANDARD.encode(&around),
                    URL_SAFE.encode(&around),
                    URL_SAFE_NO_PAD.encode(&around),
                    around.bytes().map(|byte| format!("{byte:02x}")).collect(),
                    around.bytes().map(|byte| format!("{byte:02X}")).collect(),
                    percent(|byte| format!("%{byte:02X}")),
                    percent(|byte| format!("%{byte:02x}")),
                ] {
                    let mut shown = format!("it says {written}.");
                    assert!(mask.replace(&mut shown), "{written} of {value}");
                    assert!(shown.contains("[secret:key]"), "{shown}");
                    // At most the digits that it shares with its neighbours remain.
                    assert!(
                        shown.len() < before.len() * 3 + after.len() * 3 + 40,
                        "{shown}"
                    );
                }
            }
        }
        // As programs print it: in lines.
        let mut lines = STANDARD.encode(&long);
        for at in (1..lines.len() / 76 + 1).rev() {
            lines.insert(at * 76, '\n');
        }
        assert!(mask(&[("key", &long)]).replace(&mut lines));
    }

    #[test]
    fn escaped_secret_is_masked() {
        let value = "a'b\"c\\d $e/f<g>&ä€😀~(1)";
        let hexadecimal: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        let lines: Vec<_> = hexadecimal.as_bytes().chunks(60).collect();
        let lines = String::from_utf8(lines.join(&b'\n')).unwrap();
        let address = "%C3%A4%E2%82%AC%F0%9F%98%80~";
        let written = [
            // xxd -p
            lines.clone(),
            lines.to_uppercase(),
            // quote, quote_plus, encodeURIComponent
            format!("a%27b%22c%5Cd%20%24e/f%3Cg%3E%26{address}%281%29"),
            format!("a%27b%22c%5Cd+%24e%2Ff%3Cg%3E%26{address}%281%29"),
            format!("a'b%22c%5Cd%20%24e%2Ff%3Cg%3E%26{address}(1)"),
            // JSON for ASCII alone, with an escaped slash, and for HTML
            "a'b\\\"c\\\\d $e/f<g>&\\u00e4\\u20ac\\ud83d\\ude00~(1)".to_owned(),
            "a'b\\\"c\\\\d $e/f<g>&\\u00E4\\u20AC\\uD83D\\uDE00~(1)".to_owned(),
            "a'b\\\"c\\\\d $e\\/f<g>&\\u00e4\\u20ac\\ud83d\\ude00~(1)".to_owned(),
            "a'b\\\"c\\\\d $e/f\\u003cg\\u003e\\u0026ä€😀~(1)".to_owned(),
            // set and bash -x, shlex.quote, declare -p, printf %q
            "a'\\''b\"c\\d $e/f<g>&ä€😀~(1)".to_owned(),
            "a'\"'\"'b\"c\\d $e/f<g>&ä€😀~(1)".to_owned(),
            "a'b\\\"c\\\\d \\$e/f<g>&ä€😀~(1)".to_owned(),
            "a\\'b\\\"c\\\\d\\ \\$e/f\\<g\\>\\&ä€😀~\\(1\\)".to_owned(),
            "a\\'b\"c\\\\d $e/f<g>&\\303\\244\\342\\202\\254\\360\\237\\230\\200~(1)".to_owned(),
            // HTML
            "a'b\"c\\d $e/f&lt;g&gt;&amp;ä€😀~(1)".to_owned(),
            "a&#x27;b&quot;c\\d $e/f&lt;g&gt;&amp;ä€😀~(1)".to_owned(),
            "a&#39;b&quot;c\\d $e/f&lt;g&gt;&amp;ä€😀~(1)".to_owned(),
            "a&#39;b&#34;c\\d $e/f&lt;g&gt;&amp;ä€😀~(1)".to_owned(),
        ];
        let key = mask(&[("key", value)]);
        for written in written {
            let mut shown = format!("x={written};");
            key.replace(&mut shown);
            assert_eq!(shown, "x=[secret:key];", "{written}");
        }
        let several = mask(&[("pem", "BEGIN\nit's\tä\u{1}END")]);
        for written in [
            "BEGIN\\nit\\'s\\tä\\001END",
            "BEGIN\\nit\\'s\\t\\303\\244\\001END",
            "BEGIN\\nit's\\t\\u00e4\\u0001END",
        ] {
            let mut shown = written.to_owned();
            several.replace(&mut shown);
            assert_eq!(shown, "[secret:pem]", "{written}");
        }
        // A value with equal forms is searched once.
        let plain = Secret::new("key", "sk-live-0123456789");
        assert!(plain.forms().count() < 12, "{}", plain.forms().count());
    }

    #[test]
    fn short_encoded_forms_are_not_masked() {
        let mask = mask(&[("pin", "0000")]);
        for innocent in ["MDAwMA", "30303030x", "AAAA"] {
            let mut text = innocent.to_owned();
            assert_eq!(
                mask.replace(&mut text),
                innocent == "30303030x",
                "{innocent}"
            );
        }
    }

    #[test]
    fn repeated_secret_is_masked_in_linear_time() {
        let mask = mask(&[("a", "hunter2"), ("b", "secret")]);
        let mut text = "hunter2 ".repeat(200_000);
        assert!(mask.replace(&mut text));
        assert_eq!(text, "[secret:a] ".repeat(200_000));
    }

    #[test]
    fn text_is_not_cut_inside_a_secret() {
        let mask = mask(&[("a", "abcd1234"), ("b", "34efghij"), ("c", "ééxééxéé")]);
        let text = "x abcd1234efghij y abcd1234 ééxééxéé";
        let covered = |position| mask.around(text, position);
        assert_eq!(covered(2), None);
        assert_eq!(covered(3), Some(2..10));
        // Two overlapping secrets are covered as one.
        assert_eq!(covered(9), Some(2..16));
        assert_eq!(mask.outside_from(text, 3), 16);
        assert_eq!(mask.outside_before(text, 15), 2);
        assert_eq!(covered(16), None);
        for position in 0..=text.len() {
            let (before, from) = (
                mask.outside_before(text, position),
                mask.outside_from(text, position),
            );
            assert!(before <= position && position <= from);
            for at in [before, from] {
                assert_eq!(covered(at), None, "{position}");
            }
        }
        // The last one begins with a possible continuation of another, and is not split for it.
        for (cut, from) in [
            ("1234 x", 4),
            ("4", 1),
            (" 1234", 0),
            ("", 0),
            ("34efghij", 8),
        ] {
            assert_eq!(mask.begun(cut), from, "{cut}");
        }
        assert!(mask.longest() >= 16);
    }

    #[test]
    fn text_without_a_secret_prefix_is_not_held_back() {
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
