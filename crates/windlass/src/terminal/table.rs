//! Lists with columns. They fit the width of a terminal; in a pipe nothing is shortened, because a program reads them.

use std::io::{self, IsTerminal, Write};

use windlass_core::bounds::one_line;

use super::{Style, columns, width_of};

/// The width of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listing {
    style: Style,
    /// `None` if the output is not a terminal.
    width: Option<usize>,
}

impl Listing {
    pub(crate) fn for_stdout() -> Self {
        Self {
            style: Style::for_stdout(),
            width: io::stdout().is_terminal().then(columns),
        }
    }

    /// Returns the width of the terminal; `None` if the output is not one.
    pub(crate) fn width(self) -> Option<usize> {
        self.width
    }

    /// Writes a header and rows without terminal control characters. A column has a name and a width; the last one takes the rest of the line.
    pub(crate) fn write<R: AsRef<[String]>>(
        self,
        out: &mut impl Write,
        columns: impl AsRef<[(&'static str, usize)]>,
        rows: impl IntoIterator<Item = R>,
    ) -> io::Result<()> {
        let columns = columns.as_ref();
        let names = columns.iter().map(|(name, _)| (*name).to_owned());
        self.write_row(out, columns, &names.collect::<Vec<_>>())?;
        for row in rows {
            self.write_row(out, columns, row.as_ref())?;
        }
        Ok(())
    }

    fn write_row(
        self,
        out: &mut impl Write,
        columns: &[(&str, usize)],
        cells: &[String],
    ) -> io::Result<()> {
        let mut line = String::new();
        for (index, (cell, (_, width))) in cells.iter().zip(columns).enumerate() {
            let cell = one_line(cell);
            if index + 1 == columns.len() {
                line.push_str(&cell);
            } else {
                let cell = self.cut(&cell, Some(*width));
                let blanks = width.saturating_sub(width_of(&cell)) + 2;
                line.push_str(&cell);
                line.push_str(&" ".repeat(blanks));
            }
        }
        writeln!(out, "{}", self.cut(line.trim_end(), self.width))
    }

    fn cut(self, text: &str, width: Option<usize>) -> String {
        match (self.width, width) {
            (Some(_), Some(width)) => self.style.cut(text, width),
            _ => text.to_owned(),
        }
    }

    /// Shortens a text at its beginning, because its end matters most, as in a path.
    pub(crate) fn end_of(self, text: &str, width: usize) -> String {
        if self.width.is_none() || width_of(text) <= width {
            return text.to_owned();
        }
        let dots = self.style.dots();
        let width = width.saturating_sub(width_of(dots));
        let mut starts = text.char_indices().map(|(start, _)| &text[start..]);
        let end = starts.find(|end| width_of(end) <= width);
        format!("{dots}{}", end.unwrap_or_default())
    }
}

#[cfg(test)]
impl Listing {
    pub(crate) const FOR_PIPE: Self = Self {
        style: Style::PLAIN,
        width: None,
    };

    pub(crate) const fn with_width(width: usize) -> Self {
        Self {
            style: Style::PLAIN,
            width: Some(width),
        }
    }
}
