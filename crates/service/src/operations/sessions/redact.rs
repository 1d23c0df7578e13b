//! Redacts text that looks like a credential.
//!
//! Previews and titles are displayed where other people may see them, so false positives are preferred. This is no protection: the thread still
//! contains the original text.

/// Replaces redacted text.
const REDACTED: &str = "[redacted]";

/// Prefixes of the keys of well-known services.
const PREFIXES: [&str; 16] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "npm_",
];
/// Minimum length of a word with such a prefix to count as a key.
const KEY_CHARS: usize = 12;
/// Suffixes of the names of credentials, in lower case.
const NAMES: [&str; 11] = [
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "key",
    "apikey",
    "credential",
    "credentials",
    "auth",
    "authorization",
];
/// Words that precede a credential.
const SCHEMES: [&str; 3] = ["bearer", "basic", "authorization"];
/// A word with at least this length and mixed characters is not a natural word.
const OPAQUE_CHARS: usize = 32;

/// Punctuation around a word that is not part of it.
const AROUND: [char; 7] = ['"', '\'', '`', ',', ';', '(', ')'];
/// Names longer than this also match at the end of another word: `mytoken`, but not `monkey`.
const SHORT_NAME: usize = 4;

/// Returns the redacted text, and whether anything was redacted.
pub(super) fn redact(text: &str) -> (String, bool) {
    let mut shown = String::with_capacity(text.len());
    let mut is_announced = false;
    let mut is_redacted = false;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let blank = &piece[word.len()..];
        let bare = word.trim_start_matches(AROUND);
        let before = &word[..word.len() - bare.len()];
        let bare = bare.trim_end_matches(AROUND);
        let after = &word[before.len() + bare.len()..];
        match replaced(bare, is_announced) {
            Some(instead) => {
                is_redacted = true;
                for part in [before, &instead, after, blank] {
                    shown.push_str(part);
                }
            }
            None => shown.push_str(piece),
        }
        if !bare.is_empty() {
            is_announced = announces(bare);
        }
    }
    (shown, is_redacted)
}

/// Returns the replacement of a word; `None` if the word is unchanged.
fn replaced(word: &str, is_announced: bool) -> Option<String> {
    let is_scheme = SCHEMES.contains(&bare_name(word).as_str());
    if is_announced && !word.is_empty() && !is_scheme {
        return Some(REDACTED.to_owned());
    }
    if let Some((before, host)) = word.split_once('@')
        && let Some((scheme, login)) = before.split_once("://")
        && login.contains(':')
    {
        return Some(format!("{scheme}://{REDACTED}@{host}"));
    }
    if let Some(at) = word.find(['=', ':'])
        && is_name(&word[..at])
        && word.len() > at + 1
    {
        return Some(format!("{}{REDACTED}", &word[..=at]));
    }
    (is_key(word) || is_opaque(word)).then(|| REDACTED.to_owned())
}

/// Returns whether the next word is a credential: `Bearer …`, `password: …`, `--token …`.
fn announces(word: &str) -> bool {
    let has_end = word.ends_with(':') || word.ends_with('=');
    let is_flag = word.starts_with("--");
    (has_end || is_flag) && is_name(word) || SCHEMES.contains(&bare_name(word).as_str())
}

fn bare_name(word: &str) -> String {
    let name = word.trim_matches(|c: char| !c.is_alphanumeric());
    name.to_lowercase()
}

fn is_name(word: &str) -> bool {
    let name = bare_name(word);
    let last = name.rsplit(|c: char| !c.is_alphanumeric()).next();
    let is_known =
        |last: &str, name: &str| last == name || (name.len() > SHORT_NAME && last.ends_with(name));
    last.is_some_and(|last| NAMES.iter().any(|name| is_known(last, name)))
}

fn is_key(word: &str) -> bool {
    word.len() >= KEY_CHARS && PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

fn is_opaque(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_' | '=');
    let has = |kind: fn(&char) -> bool| word.chars().any(|c| kind(&c));
    word.len() >= OPAQUE_CHARS
        && word.chars().all(is_part)
        && has(char::is_ascii_digit)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn likely_credentials_are_redacted() {
        for (text, redacted) in [
            ("use token=hunter2 now", "use token=[redacted] now"),
            ("API_KEY: abc and go", "API_KEY: [redacted] and go"),
            ("\"password\":\"x y\"", "\"password\":[redacted] y\""),
            (
                "curl -H 'Authorization: Bearer abc.def' x",
                "curl -H 'Authorization: Bearer [redacted]' x",
            ),
            ("run it --token abc", "run it --token [redacted]"),
            ("my key is sk-ant-api03-abcdef", "my key is [redacted]"),
            (
                "git clone https://me:pw@host/x.git",
                "git clone https://[redacted]@host/x.git",
            ),
            (
                "it is Zm9vYmFyMTIzNDU2Nzg5MEFCQ0RFRkdISUpL",
                "it is [redacted]",
            ),
        ] {
            assert_eq!(redact(text), (redacted.to_owned(), true), "{text}");
        }
        for text in [
            "What does a windlass do?",
            "the token is refused: why?",
            "see https://example.org/a:b and src/main.rs:12",
            "monkey: a monkey",
            "commit 5c5352083a1f0b8e9c7d6e5f4a3b2c1d0e9f8a7b",
            "thr_0190f3c2a1b27c3d8e4f5a6b7c8d9e0f",
            "  two  blanks\n\nand lines ",
        ] {
            assert_eq!(redact(text), (text.to_owned(), false), "{text}");
        }
    }
}
