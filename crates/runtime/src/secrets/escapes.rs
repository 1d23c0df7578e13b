//! Escaped forms of the special characters of a text in various languages.

use std::fmt::Write as _;

use zeroize::Zeroizing;

/// Maximum number of characters per escaped byte. The buffer is allocated for it, so that it never grows and leaves a copy behind.
const MOST_FOR_BYTE: usize = 6;

/// Returns a value in the escaped forms of JSON, shells and HTML, without the quotes around it.
pub(super) fn escaped(value: &str) -> Vec<Zeroizing<String>> {
    let mut forms = Vec::new();
    forms.extend([
        written(value, |text, letter| json(text, letter, |_| false, false)),
        written(value, |text, letter| json(text, letter, is_foreign, false)),
        written(value, |text, letter| json(text, letter, is_foreign, true)),
        written(value, |text, letter| match letter {
            '/' => text.push_str("\\/"),
            letter => json(text, letter, is_foreign, false),
        }),
        written(value, |text, letter| {
            let is_escaped = |letter| "<>&\u{2028}\u{2029}".contains(letter);
            json(text, letter, is_escaped, false);
        }),
    ]);
    // Between single quotes, between double ones, by backslashes, and between `$'` and `'`.
    for quote in ["'\\''", "'\"'\"'"] {
        forms.push(written(value, |text, letter| match letter {
            '\'' => text.push_str(quote),
            letter => text.push(letter),
        }));
    }
    for special in ["$`\"\\", " \t!\"$&'()*,;<>?[\\]^`{|}"] {
        forms.push(written(value, |text, letter| {
            if special.contains(letter) {
                text.push('\\');
            }
            text.push(letter);
        }));
    }
    for is_octal in [false, true] {
        forms.push(written(value, |text, letter| ansi(text, letter, is_octal)));
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
        forms.push(written(value, |text, letter| match letter {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str(double),
            '\'' => text.push_str(single),
            letter => text.push(letter),
        }));
    }
    forms
}

fn written(value: &str, write: impl Fn(&mut String, char)) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(value.len() * MOST_FOR_BYTE));
    for letter in value.chars() {
        write(&mut text, letter);
    }
    text
}

fn is_foreign(letter: char) -> bool {
    !letter.is_ascii() || letter == '\u{7f}'
}

/// Writes a character as JSON does, and some as `\u` escapes with lower-case or upper-case digits.
fn json(text: &mut String, letter: char, is_number: impl Fn(char) -> bool, is_large: bool) {
    let short = match letter {
        '"' | '\\' => Some(letter),
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
    } else if letter < ' ' || is_number(letter) {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = if is_large {
                write!(text, "\\u{unit:04X}")
            } else {
                write!(text, "\\u{unit:04x}")
            };
        }
    } else {
        text.push(letter);
    }
}

/// Writes a character as shells do between `$'` and `'`; non-ASCII characters are written as bytes if the shell does not know them.
fn ansi(text: &mut String, letter: char, is_octal: bool) {
    let short = match letter {
        '\'' | '\\' => Some(letter),
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
    } else if letter.is_ascii_control() || (is_octal && !letter.is_ascii()) {
        for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\{byte:03o}");
        }
    } else {
        text.push(letter);
    }
}
