//! The style of a run of characters: colour, weight, underline.

/// Style of a run of characters; the default is plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TextStyle {
    /// Bits of [`CODES`].
    bits: u16,
}

/// The parameter of the escape sequence for each bit. The colours are those of the terminal's palette, so that they suit light and dark backgrounds.
const CODES: [&str; 10] = ["1", "2", "3", "4", "9", "32", "34", "35", "36", "31"];

impl TextStyle {
    pub(super) const BOLD: Self = Self { bits: 1 };
    pub(super) const DIM: Self = Self { bits: 1 << 1 };
    pub(super) const ITALIC: Self = Self { bits: 1 << 2 };
    pub(super) const UNDERLINED: Self = Self { bits: 1 << 3 };
    pub(super) const STRUCK: Self = Self { bits: 1 << 4 };
    pub(super) const STRING: Self = Self { bits: 1 << 5 };
    pub(super) const NUMBER: Self = Self { bits: 1 << 6 };
    pub(super) const KEYWORD: Self = Self { bits: 1 << 7 };
    pub(super) const CODE: Self = Self { bits: 1 << 8 };
    pub(super) const ADDED: Self = Self::STRING;
    pub(super) const REMOVED: Self = Self { bits: 1 << 9 };

    /// Adds another style.
    pub(super) const fn with(self, other: Self) -> Self {
        Self {
            bits: self.bits | other.bits,
        }
    }

    /// Appends the escape sequence that changes from any style to this one.
    pub(super) fn write(self, out: &mut String) {
        out.push_str("\x1b[0");
        for (bit, code) in CODES.iter().enumerate() {
            if self.bits & (1 << bit) != 0 {
                out.push(';');
                out.push_str(code);
            }
        }
        out.push('m');
    }
}
