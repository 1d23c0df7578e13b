//! A token on the command line is visible in the process list, which every command may read. The process therefore restarts itself without it.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::access::TOKEN_VARIABLE;

const FLAGS: [&[u8]; 2] = [b"--token", b"--auth-token"];

/// Replaces the process by the same program with the token in its environment, which sandboxed commands cannot read. Returns only on failure.
pub(super) fn begin_again_without(token: &str) -> io::Result<Infallible> {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let failed = Command::new(std::env::current_exe()?)
        .arg0(name)
        .args(without_token(words))
        .env(TOKEN_VARIABLE, token)
        .exec();
    Err(failed)
}

fn without_token(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let is_flag = |word: &OsStr| FLAGS.contains(&word.as_bytes());
    let has_value = |word: &OsStr| {
        let name = word.as_bytes().split(|byte| *byte == b'=').next();
        !is_flag(word) && name.is_some_and(|name| FLAGS.contains(&name))
    };
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if is_flag(&word) {
            words.next();
        } else if !has_value(&word) {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_in_every_spelling_and_nothing_else_does() {
        for (given, kept) in [
            (
                vec!["serve", "--token", "t", "--port", "1"],
                vec!["serve", "--port", "1"],
            ),
            (vec!["serve", "--auth-token=t=u"], vec!["serve"]),
            (
                vec!["serve", "--port=1", "--token=t"],
                vec!["serve", "--port=1"],
            ),
            (
                vec!["serve", "--token-file", "f"],
                vec!["serve", "--token-file", "f"],
            ),
        ] {
            let words = given.into_iter().map(OsString::from);
            assert_eq!(without_token(words), kept);
        }
    }
}
