//! Coloured output on terminals, plain text for files and pipes.

use std::io::IsTerminal;

/// Bold text for a heading.
pub(crate) fn bold(text: &str) -> String {
    paint(text, "1")
}

/// Green text for successes.
pub(crate) fn green(text: &str) -> String {
    paint(text, "32")
}

/// Red text for failures.
pub(crate) fn red(text: &str) -> String {
    paint(text, "31")
}

/// Colours text for stderr. The summary on stdout is read by programs and never coloured.
fn paint(text: &str, code: &str) -> String {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && std::io::stderr().is_terminal() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}
