//! Lines of a list: on a terminal they fit its width; in a pipe nothing is cut, because a program reads it.

use std::io::{self, IsTerminal};

use super::{Style, columns};

/// How wide the lines of a list may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listing {
    style: Style,
    /// `None` where nobody watches.
    width: Option<usize>,
}

impl Listing {
    pub(crate) fn of_stdout() -> Self {
        Self {
            style: Style::of_stdout(),
            width: io::stdout().is_terminal().then(columns),
        }
    }

    /// Returns what stands in a column that has room for so many letters.
    pub(crate) fn column(self, text: &str, room: usize) -> String {
        match self.width {
            Some(_) => self.style.cut(text, room),
            None => text.to_owned(),
        }
    }

    /// Returns a text of which the end matters most, as of a path, in a column of so many characters.
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

    /// Returns a whole line.
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
