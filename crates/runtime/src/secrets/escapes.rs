//! Escaped forms of the special characters of a text in various languages.

use std::fmt::Write as _;

use zeroize::Zeroizing;

/// Maximum number of characters per escaped byte. The buffer is allocated for it, so that it never grows and leaves a copy behind.
const MOST_FOR_BYTE: usize = 6;

/// Returns a value in the escaped forms of JSON, shells and HTML, without the quotes around it.
pub(super) fn escaped(value: &str) -> Vec<Zeroizing<String>> {
    let mut forms = Vec::new();
    forms.extend([
        encoded(value, |text, character| {
            json(text, character, |_| false, false)
        }),
        encoded(value, |text, character| {
            json(text, character, is_not_ascii, false)
        }),
        encoded(value, |text, character| {
            json(text, character, is_not_ascii, true)
        }),
        encoded(value, |text, character| match character {
            '/' => text.push_str("\\/"),
            character => json(text, character, is_not_ascii, false),
        }),
        encoded(value, |text, character| {
            let is_escaped = |character| "<>&\u{2028}\u{2029}".contains(character);
            json(text, character, is_escaped, false);
        }),
    ]);
    // Between single quotes, between double ones, by backslashes, and between `$'` and `'`.
    for quote in ["'\\''", "'\"'\"'"] {
        forms.push(encoded(value, |text, character| match character {
            '\'' => text.push_str(quote),
            character => text.push(character),
        }));
    }
    for special in ["$`\"\\", " \t!\"$&'()*,;<>?[\\]^`{|}"] {
        forms.push(encoded(value, |text, character| {
            if special.contains(character) {
                text.push('\\');
            }
            text.push(character);
        }));
    }
    for is_octal in [false, true] {
        forms.push(encoded(value, |text, character| {
            ansi(text, character, is_octal)
        }));
    }
    for (double, single) in [
        ("\"", "'"),
        ("&quot;", "'"),
        ("&quot;", "&#39;"),
        ("&quot;", "&#039;"),
        ("&quot;", "&#x27;"),
        ("&quot;", "&apos;"),
        ("&#34;", "&#39;"),
    ] {
        forms.push(encoded(value, |text, character| match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str(double),
            '\'' => text.push_str(single),
            character => text.push(character),
        }));
    }
    forms
}

fn encoded(value: &str, write: impl Fn(&mut String, char)) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(value.len() * MOST_FOR_BYTE));
    for character in value.chars() {
        write(&mut text, character);
    }
    text
}

fn is_not_ascii(character: char) -> bool {
    !character.is_ascii() || character == '\u{7f}'
}

/// Writes a character as JSON does, and some as `\u` escapes with lower-case or upper-case digits.
fn json(text: &mut String, character: char, is_number: impl Fn(char) -> bool, is_large: bool) {
    let short = match character {
        '"' | '\\' => Some(character),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        _ => None,
    };
    if let Some(short) = short {
        text.push('\\');
        text.push(short);
    } else if character < ' ' || is_number(character) {
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = if is_large {
                write!(text, "\\u{unit:04X}")
            } else {
                write!(text, "\\u{unit:04x}")
            };
        }
    } else {
        text.push(character);
    }
}

/// Writes a character as shells do between `$'` and `'`; non-ASCII characters are encoded as bytes if the shell does not know them.
fn ansi(text: &mut String, character: char, is_octal: bool) {
    let short = match character {
        '\'' | '\\' => Some(character),
        '\u{7}' => Some('a'),
        '\u{8}' => Some('b'),
        '\u{1b}' => Some('E'),
        '\u{c}' => Some('f'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\u{b}' => Some('v'),
        _ => None,
    };
    if let Some(short) = short {
        text.push('\\');
        text.push(short);
    } else if character.is_ascii_control() || (is_octal && !character.is_ascii()) {
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\{byte:03o}");
        }
    } else {
        text.push(character);
    }
}
