//! The forms in which a secret may occur in a text: verbatim, and as programs encode it.

use base64::Engine;
use base64::alphabet;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;
use zeroize::Zeroizing;

use super::escapes::escaped;

/// Minimum length of an encoded form; a shorter one could occur by chance.
const MIN_WRITTEN: usize = 8;
/// Line lengths with which programs print Base64.
const BASE64_LINES: [usize; 2] = [76, 64];
const HEXADECIMAL_LINE: usize = 60;

const ALPHABETS: [GeneralPurpose; 2] = [
    GeneralPurpose::new(&alphabet::STANDARD, NO_PAD),
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD),
];

/// Returns a value verbatim, escaped for JSON, shells and HTML, in Base64, in hexadecimal, and URL-encoded.
pub(super) fn forms(value: &str) -> Vec<Zeroizing<String>> {
    let mut encoded_forms = base64(value.as_bytes());
    encoded_forms.extend(hexadecimal(value.as_bytes()));
    encoded_forms.extend(url_encoded(value));
    encoded_forms.retain(|form| form.len() >= MIN_WRITTEN);
    let mut forms = vec![Zeroizing::new(value.to_owned())];
    forms.extend(escaped(value));
    forms.extend(encoded_forms);
    forms.sort_unstable_by(|one, other| one.as_str().cmp(other));
    forms.dedup_by(|one, other| one.as_str() == other.as_str());
    forms
}

/// Returns the Base64 forms of the value at each of the three alignments in an encoded text. Digits that also depend on adjacent bytes are left out.
fn base64(value: &[u8]) -> Vec<Zeroizing<String>> {
    let mut forms = Vec::new();
    for engine in &ALPHABETS {
        for (before, mixed) in [(0, 0), (1, 2), (2, 3)] {
            let mut bytes = Zeroizing::new(vec![0; before]);
            bytes.extend_from_slice(value);
            let digits = Zeroizing::new(engine.encode(bytes.as_slice()));
            let end = digits.len() - usize::from(bytes.len() % 3 != 0);
            let form = digits.get(mixed..end).unwrap_or_default();
            let lines = BASE64_LINES
                .iter()
                .filter(|line| before == 0 && form.len() > **line);
            forms.extend(lines.map(|line| in_lines(form, *line)));
            forms.push(Zeroizing::new(form.to_owned()));
        }
    }
    forms
}

fn in_lines(digits: &str, line: usize) -> Zeroizing<String> {
    let capacity = digits.len() + digits.len() / line;
    let mut lines = Zeroizing::new(String::with_capacity(capacity));
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % line == 0 {
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
    let whole = [small, large];
    let lines = whole.iter().filter(|form| form.len() > HEXADECIMAL_LINE);
    let lines: Vec<_> = lines.map(|form| in_lines(form, HEXADECIMAL_LINE)).collect();
    whole.into_iter().chain(lines).collect()
}

/// The characters besides letters and digits that are not URL-encoded, and whether `+` is a space: both depend on the part of the URL and on the
/// encoder.
const URL_SAFE_CHARACTERS: [(&[u8], bool); 6] = [
    (b"-._~", false),
    (b"-._~/", false),
    (b"-._~", true),
    (b"-._*", true),
    (b"-._~!*'()", false),
    (b"-._~!*'();/?:@&=+$,#", false),
];

/// URL-encodes a value, with upper-case and with lower-case digits.
fn url_encoded(value: &str) -> Vec<Zeroizing<String>> {
    let encoded = |plain: &[u8], has_plus: bool, digits| {
        let mut text = Zeroizing::new(String::with_capacity(value.len() * 3));
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
                text.push(char::from(byte));
            } else if byte == b' ' && has_plus {
                text.push('+');
            } else {
                text.push('%');
                push_digits(&mut text, byte, digits);
            }
        }
        text
    };
    let forms = URL_SAFE_CHARACTERS.iter().flat_map(|(plain, has_plus)| {
        let digits = [b"0123456789ABCDEF", b"0123456789abcdef"];
        digits.map(|digits| encoded(plain, *has_plus, digits))
    });
    forms.collect()
}

fn push_digits(text: &mut String, byte: u8, digits: &[u8; 16]) {
    text.push(char::from(digits[usize::from(byte >> 4)]));
    text.push(char::from(digits[usize::from(byte & 15)]));
}
