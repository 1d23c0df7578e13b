//! Lines of a list. They fit the width of a terminal; in a pipe they are not shortened, because a program reads them.

use std::io::{self, IsTerminal};

use super::{Style, columns};

/// The maximum width of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listing {
    style: Style,
    /// `None` if the output is not a terminal.
    width: Option<usize>,
}

impl Listing {
    pub(crate) fn of_stdout() -> Self {
        Self {
            style: Style::of_stdout(),
            width: io::stdout().is_terminal().then(columns),
        }
    }

    /// Returns the text for a column of `room` characters.
    pub(crate) fn column(self, text: &str, room: usize) -> String {
        match self.width {
            Some(_) => self.style.cut(text, room),
            None => text.to_owned(),
        }
    }

    /// Shortens a text at its beginning, because its end matters most, as in a path. `room` is in characters.
    pub(crate) fn end_of(self, text: &str, room: usize) -> String {
        let count = text.chars().count();
        if self.width.is_none() || count <= room {
            return text.to_owned();
        }
        let dots = self.style.dots();
        let left_out = count - room + dots.chars().count();
        let end: String = text.chars().skip(left_out).collect();
        format!("{dots}{end}")
    }

    /// Returns a complete line.
    pub(crate) fn line(self, line: &str) -> String {
        match self.width {
            Some(width) => self.style.cut(line.trim_end(), width),
            None => line.trim_end().to_owned(),
        }
    }
}

#[cfg(test)]
impl Listing {
    pub(crate) const IN_PIPE: Self = Self {
        style: Style::PLAIN,
        width: None,
    };

    pub(crate) const fn of_width(width: usize) -> Self {
        Self {
            style: Style::PLAIN,
            width: Some(width),
        }
    }
}
