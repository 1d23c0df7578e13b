//! The ways in which a secret may stand in a text: as it is, and as programs write it.

use base64::Engine;
use base64::alphabet;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;
use zeroize::Zeroizing;

/// A form that is shorter than this could stand in a text by chance.
const MIN_WRITTEN: usize = 8;
/// How long a line of base64 is, as programs print it.
const LINE: usize = 76;

const ALPHABETS: [GeneralPurpose; 2] = [
    GeneralPurpose::new(&alphabet::STANDARD, NO_PAD),
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD),
];

/// Returns a value as it is, as JSON holds it, in base64, in hexadecimal digits and as a part of an address.
pub(super) fn forms(value: &str) -> Vec<Zeroizing<String>> {
    let mut written = base64(value.as_bytes());
    written.extend(hexadecimal(value.as_bytes()));
    written.extend(in_address(value));
    written.retain(|form| form.len() >= MIN_WRITTEN);
    let mut forms = vec![Zeroizing::new(value.to_owned())];
    forms.extend(in_json(value));
    forms.extend(written);
    forms.sort_unstable_by(|one, other| one.as_str().cmp(other));
    forms.dedup_by(|one, other| one.as_str() == other.as_str());
    forms
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

/// The value stands somewhere in what was encoded, so that it may begin with any of three bits of a digit. Digits that depend on
/// what stands around it are left out.
fn base64(value: &[u8]) -> Vec<Zeroizing<String>> {
    let mut forms = Vec::new();
    for engine in &ALPHABETS {
        for (before, mixed) in [(0, 0), (1, 2), (2, 3)] {
            let mut bytes = Zeroizing::new(vec![0; before]);
            bytes.extend_from_slice(value);
            let digits = Zeroizing::new(engine.encode(bytes.as_slice()));
            let end = digits.len() - usize::from(bytes.len() % 3 != 0);
            let form = digits.get(mixed..end).unwrap_or_default();
            if before == 0 && form.len() > LINE {
                forms.push(Zeroizing::new(in_lines(form)));
            }
            forms.push(Zeroizing::new(form.to_owned()));
        }
    }
    forms
}

fn in_lines(digits: &str) -> String {
    let mut lines = String::with_capacity(digits.len() + digits.len() / LINE);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % LINE == 0 {
            lines.push('\n');
        }
        lines.push(digit);
    }
    lines
}

fn hexadecimal(value: &[u8]) -> Vec<Zeroizing<String>> {
    let mut small = Zeroizing::new(String::with_capacity(value.len() * 2));
    for byte in value {
        push_digits(&mut small, *byte, b"0123456789abcdef");
    }
    let large = Zeroizing::new(small.to_ascii_uppercase());
    vec![small, large]
}

/// Writes a value as a part of an address, with large and with small digits.
fn in_address(value: &str) -> Vec<Zeroizing<String>> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let encoded = |digits| {
        let mut text = Zeroizing::new(String::with_capacity(value.len() * 3));
        for byte in value.bytes() {
            if is_plain(&byte) {
                text.push(char::from(byte));
            } else {
                text.push('%');
                push_digits(&mut text, byte, digits);
            }
        }
        text
    };
    vec![encoded(b"0123456789ABCDEF"), encoded(b"0123456789abcdef")]
}

fn push_digits(text: &mut String, byte: u8, digits: &[u8; 16]) {
    text.push(char::from(digits[usize::from(byte >> 4)]));
    text.push(char::from(digits[usize::from(byte & 15)]));
}
