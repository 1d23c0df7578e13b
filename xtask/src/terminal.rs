//! Colour for people, plain text for files and pipes.

use std::io::IsTerminal;

/// Bold text for a heading.
pub(crate) fn bold(text: &str) -> String {
    paint(text, "1")
}

/// Green text for what went well.
pub(crate) fn green(text: &str) -> String {
    paint(text, "32")
}

/// Red text for what did not.
pub(crate) fn red(text: &str) -> String {
    paint(text, "31")
}

/// Paints what goes to stderr; the summary on stdout is read by programs and never painted.
fn paint(text: &str, code: &str) -> String {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && std::io::stderr().is_terminal() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}
