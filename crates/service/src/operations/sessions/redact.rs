//! Takes out of a text what looks like a credential.
//!
//! A peek and a title are shown where people look over each other's shoulders, so a word too many is the smaller harm. Nobody may rely
//! on it: what was said stands in the thread as it was said.

/// Stands for what was taken out.
const REDACTED: &str = "[redacted]";

/// What keys of well-known services begin with.
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
/// The shortest word that such a beginning makes a key.
const KEY_CHARS: usize = 12;
/// What the name of a credential ends with, in small letters.
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
/// What stands before a credential that is a word of its own.
const SCHEMES: [&str; 3] = ["bearer", "basic", "authorization"];
/// A word without a blank that is so long and so mixed is no word of a language.
const OPAQUE_CHARS: usize = 32;

/// What stands around a word and is no part of it.
const AROUND: [char; 7] = ['"', '\'', '`', ',', ';', '(', ')'];
/// A longer name also counts at the end of another word: `mytoken`, and not `monkey`.
const SHORT_NAME: usize = 4;

/// Returns the text without what looks like a credential, and whether there was something.
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

/// Returns what is shown in place of a word; `None` where it can stand as it is.
fn replaced(word: &str, is_announced: bool) -> Option<String> {
    let is_scheme = SCHEMES.contains(&name_of(word).as_str());
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

/// Tells whether the next word is a credential: `Bearer …`, `password: …`, `--token …`.
fn announces(word: &str) -> bool {
    let has_end = word.ends_with(':') || word.ends_with('=');
    let is_flag = word.starts_with("--");
    (has_end || is_flag) && is_name(word) || SCHEMES.contains(&name_of(word).as_str())
}

fn name_of(word: &str) -> String {
    let name = word.trim_matches(|c: char| !c.is_alphanumeric());
    name.to_lowercase()
}

fn is_name(word: &str) -> bool {
    let name = name_of(word);
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
    fn what_looks_like_a_credential_is_taken_out_and_the_rest_stays() {
        for (said, shown) in [
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
            assert_eq!(redact(said), (shown.to_owned(), true), "{said}");
        }
        for said in [
            "What does a windlass do?",
            "the token is refused: why?",
            "see https://example.org/a:b and src/main.rs:12",
            "monkey: a monkey",
            "commit 5c5352083a1f0b8e9c7d6e5f4a3b2c1d0e9f8a7b",
            "thr_0190f3c2a1b27c3d8e4f5a6b7c8d9e0f",
            "  two  blanks\n\nand lines ",
        ] {
            assert_eq!(redact(said), (said.to_owned(), false), "{said}");
        }
    }
}
