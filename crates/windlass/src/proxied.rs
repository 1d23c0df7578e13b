//! This program as the first one in a sandbox, which gives a command its proxy and becomes it.

use std::ffi::OsString;
use std::path::PathBuf;

use windlass_tools::Launcher;

/// The word that no person writes.
const WORD: &str = "__proxied";

/// Returns how a sandbox calls this program.
pub(crate) fn launcher(own: PathBuf) -> Launcher {
    Launcher {
        program: own,
        words: vec![WORD.into()],
    }
}

/// Returns the command to become, if that is what this process is for.
pub(crate) fn command(
    words: impl IntoIterator<Item = OsString>,
) -> Option<impl Iterator<Item = OsString>> {
    let mut words = words.into_iter().skip(1);
    (words.next()? == WORD).then_some(words)
}
