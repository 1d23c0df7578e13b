//! The line of a tool call.

use super::{Colour, Style, width_of};

/// A call in one line: its tool, its main argument, and its result or status.
pub(super) struct CallLine<'a> {
    pub(super) name: &'a str,
    pub(super) argument: &'a str,
    pub(super) end: &'a str,
    /// The number by which its result can be opened.
    pub(super) number: Option<usize>,
}

impl CallLine<'_> {
    /// Formats the line for `width` columns. The texts must not contain control characters.
    pub(super) fn format(&self, style: Style, width: usize) -> String {
        let cut = |text: &str, width| style.cut(&style.unmarked(text, &mut None), width);
        let mut end = cut(self.end, width / 2);
        if let Some(number) = self.number {
            end = format!("{end}  #{number}");
        }
        let name = cut(self.name, width / 3);
        let used = width_of(&name) + width_of(&end) + 4;
        let argument = cut(self.argument, width.saturating_sub(used));
        let end = style.paint(Colour::Dim, &end);
        let parts = [name, argument, end].into_iter();
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        parts.join("  ")
    }
}

/// Returns the mark of a call's outcome.
pub(super) fn outcome_mark(is_success: bool, style: Style) -> String {
    let (mark, colour) = match (is_success, style.has_unicode) {
        (true, true) => ("✓", Colour::Good),
        (true, false) => ("+", Colour::Good),
        (false, true) => ("✗", Colour::Bad),
        (false, false) => ("x", Colour::Bad),
    };
    style.paint(colour, mark)
}

/// Returns the mark of the model's reasoning.
pub(super) fn thought_mark(style: Style) -> &'static str {
    if style.has_unicode { "∴" } else { "*" }
}
