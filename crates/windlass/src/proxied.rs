//! This program as the first process in a sandbox: it sets up the proxy of a command and then executes the command.

use std::ffi::OsString;
use std::path::PathBuf;

use windlass_tools::Launcher;

/// The internal subcommand; users never type it.
const WORD: &str = "__proxied";

/// Returns how a sandbox starts this program.
pub(crate) fn launcher(own: PathBuf) -> Launcher {
    Launcher {
        program: own,
        words: vec![WORD.into()],
    }
}

/// Returns the command to execute, if this process was started by a sandbox.
pub(crate) fn command(
    words: impl IntoIterator<Item = OsString>,
) -> Option<impl Iterator<Item = OsString>> {
    let mut words = words.into_iter().skip(1);
    (words.next()? == WORD).then_some(words)
}
