//! This program as the first process in a sandbox: it sets up the proxy of a command and then executes the command.

use std::ffi::OsString;
use std::path::PathBuf;

use windlass_tools::Launcher;

/// The internal subcommand; users never type it.
const SUBCOMMAND: &str = "__proxied";

/// Returns how a sandbox starts this program.
pub(crate) fn launcher(own: PathBuf) -> Launcher {
    Launcher {
        program: own,
        words: vec![SUBCOMMAND.into()],
    }
}

/// Returns the command to execute, if this process was started by a sandbox.
pub(crate) fn command(
    arguments: impl IntoIterator<Item = OsString>,
) -> Option<impl Iterator<Item = OsString>> {
    let mut arguments = arguments.into_iter().skip(1);
    (arguments.next()? == SUBCOMMAND).then_some(arguments)
}
