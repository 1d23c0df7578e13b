//! What a person sees of a turn on a terminal, and is asked there.

mod ask;
mod proposal;
mod screen;

use std::io::{self, IsTerminal};

use unicode_width::UnicodeWidthChar;

pub(crate) use ask::{Answer, Asked, Questions};
pub(crate) use screen::{FRAME, Screen, about};

/// How wide a terminal is that does not say.
const USUAL_WIDTH: usize = 80;

/// What the terminal of stderr can show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Whether somebody watches, so that lines may be drawn again.
    pub(crate) is_live: bool,
    pub(crate) has_colour: bool,
    /// Whether it can be trusted with more than ASCII.
    pub(crate) has_unicode: bool,
}

impl Style {
    pub(crate) fn of_stderr() -> Self {
        Self::of(&io::stderr())
    }

    pub(crate) fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    fn of(stream: &impl IsTerminal) -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is_dumb = set("TERM").is_none_or(|term| term == "dumb");
        let is_live = stream.is_terminal() && !is_dumb;
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Self {
            is_live,
            has_colour: is_live && set("NO_COLOR").is_none(),
            has_unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// Paints a text.
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        match self.has_colour {
            true => format!("\x1b[{}m{text}\x1b[0m", colour.code()),
            false => text.to_owned(),
        }
    }

    /// Cuts a text to a width.
    pub(crate) fn cut(self, text: &str, width: usize) -> String {
        let dots = if self.has_unicode { "…" } else { "..." };
        if width_of(text) <= width {
            return text.to_owned();
        }
        let room = width.saturating_sub(width_of(dots));
        let mut taken = 0;
        let fits = |c: &char| {
            taken += c.width().unwrap_or_default();
            taken <= room
        };
        let kept: String = text.chars().take_while(fits).collect();
        kept + dots
    }
}

/// How something is painted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Colour {
    Dim,
    Bold,
    Good,
    Bad,
    Asked,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Asked => "33",
        }
    }
}

/// Returns how many columns a text takes.
pub(crate) fn width_of(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

/// Returns how many columns the terminal of stderr has.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    columns
        .filter(|columns| *columns >= 20)
        .unwrap_or(USUAL_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_what_fits() {
        let plain = Style {
            is_live: false,
            has_colour: false,
            has_unicode: false,
        };
        let rich = Style {
            has_unicode: true,
            ..plain
        };
        assert_eq!(plain.cut("abcdef", 6), "abcdef");
        assert_eq!(plain.cut("abcdefg", 6), "abc...");
        assert_eq!(rich.cut("abcdefg", 6), "abcde…");
        // Each of these takes two columns.
        assert_eq!(rich.cut("漢字漢字", 6), "漢字…");
        assert_eq!(plain.paint(Colour::Good, "x"), "x");
    }
}
