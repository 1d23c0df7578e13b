//! Text inside of HTML.

use std::fmt::Write;

/// Writes text as HTML text or as the value of a quoted attribute. Control and bidirectional characters become visible, so that a text cannot
/// change how the text around it reads.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(c),
            _ if is_invisible(c) => {
                // Writing to a string does not fail.
                let _ = write!(html, "⟨U+{:04X}⟩", u32::from(c));
            }
            _ => html.push(c),
        }
    }
    html
}

fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_markup() {
        assert_eq!(
            escape("<img src=x onerror='a' b=\"&\">"),
            "&lt;img src=x onerror=&#39;a&#39; b=&quot;&amp;&quot;&gt;"
        );
    }

    #[test]
    fn invisible_characters_are_shown() {
        assert_eq!(
            escape("a\u{202e}b\u{1b}[0m\u{200b}"),
            "a⟨U+202E⟩b⟨U+001B⟩[0m⟨U+200B⟩"
        );
        assert_eq!(escape("ä\n\tß 😀"), "ä\n\tß 😀");
    }
}
