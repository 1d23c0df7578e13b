//! Restarts the process without the token on its command line, because every command can read the process list.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::access::TOKEN_VARIABLE;

const FLAGS: [&[u8]; 2] = [b"--token", b"--auth-token"];

/// Replaces the process by the same program with the token in its environment, which sandboxed commands cannot read. Returns only on failure.
pub(super) fn restart_without(token: &str) -> io::Result<Infallible> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let failed = Command::new(std::env::current_exe()?)
        .arg0(name)
        .args(without_token(arguments))
        .env(TOKEN_VARIABLE, token)
        .exec();
    Err(failed)
}

fn without_token(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let is_flag = |argument: &OsStr| FLAGS.contains(&argument.as_bytes());
    let has_value = |argument: &OsStr| {
        let name = argument.as_bytes().split(|byte| *byte == b'=').next();
        !is_flag(argument) && name.is_some_and(|name| FLAGS.contains(&name))
    };
    let mut remaining = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if is_flag(&argument) {
            arguments.next();
        } else if !has_value(&argument) {
            remaining.push(argument);
        }
    }
    remaining
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_removed_in_every_spelling() {
        for (given, remaining) in [
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
            let arguments = given.into_iter().map(OsString::from);
            assert_eq!(without_token(arguments), remaining);
        }
    }
}
