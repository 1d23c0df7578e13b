//! Marks within a line: emphasis, code, links.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::super::text_style::TextStyle;

/// Precedes the parsed text, so that nothing in it begins a block. It is punctuation, so a mark after it opens as at the beginning of a line.
const PREFIX: char = '.';

/// Parses the marks of a text without line breaks. Only marks are left out; the address of a link follows its text.
///
/// References to characters are decoded, so the texts may contain characters that the source does not.
pub(super) fn spans(text: &str) -> Vec<(String, TextStyle)> {
    let source = format!("{PREFIX}{text}");
    let mut spans = Spans::default();
    for event in Parser::new_ext(&source, Options::ENABLE_STRIKETHROUGH) {
        spans.add(event);
    }
    let mut spans = spans.spans;
    if let Some((first, _)) = spans
        .first_mut()
        .filter(|(first, _)| first.starts_with(PREFIX))
    {
        first.remove(0);
    }
    // The parser leaves out blanks at the end of a paragraph; here they are between two parts of a line.
    let end = text.trim_end_matches([' ', '\t']).len();
    spans.push((text[end..].to_owned(), TextStyle::default()));
    spans
}

#[derive(Default)]
struct Spans {
    spans: Vec<(String, TextStyle)>,
    /// Styles of the open marks.
    open: Vec<TextStyle>,
    /// The address of the open link, and its text so far.
    link: Option<(String, String)>,
}

impl Spans {
    fn add(&mut self, event: Event) {
        match event {
            Event::Start(Tag::Strong) => self.open.push(TextStyle::BOLD),
            Event::Start(Tag::Emphasis) => self.open.push(TextStyle::ITALIC),
            Event::Start(Tag::Strikethrough) => self.open.push(TextStyle::STRUCK),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                self.link = Some((dest_url.into_string(), String::new()));
                self.open.push(TextStyle::UNDERLINED);
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                self.open.pop();
                self.end_link();
            }
            Event::End(TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough) => {
                self.open.pop();
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.push(text.into_string(), TextStyle::default());
            }
            Event::Code(text) => self.push(text.into_string(), TextStyle::CODE),
            Event::SoftBreak | Event::HardBreak => self.push(" ".to_owned(), TextStyle::default()),
            _ => {}
        }
    }

    fn push(&mut self, text: String, style: TextStyle) {
        if let Some((_, label)) = &mut self.link {
            label.push_str(&text);
        }
        let style = self
            .open
            .iter()
            .fold(style, |style, open| style.with(*open));
        self.spans.push((text, style));
    }

    /// Shows the address of a link, so that its text cannot pretend another one.
    fn end_link(&mut self) {
        let Some((address, label)) = self.link.take() else {
            return;
        };
        if address != label && address.strip_prefix("mailto:") != Some(&*label) {
            self.spans.push((format!(" ({address})"), TextStyle::DIM));
        }
    }
}

/// Returns whether no mark is open at the end of a text, so that it can be parsed without the text that follows.
pub(super) fn is_complete(text: &str) -> bool {
    // Most texts have no mark.
    if !text.contains(['\\', '`', '*', '_', '~', '[', ']', '<', '&']) {
        return true;
    }
    let characters: Vec<char> = text.chars().collect();
    let (mut open, mut brackets) = (Vec::<(char, usize)>::new(), 0_usize);
    let mut at = 0;
    while let Some(&mark) = characters.get(at) {
        let rest = &characters[at..];
        // Only a run of these marks has a meaning, and counting other runs would take quadratic time.
        let length = match mark {
            '`' | '*' | '_' | '~' => rest.iter().take_while(|other| **other == mark).count(),
            _ => 1,
        };
        let before = at.checked_sub(1).and_then(|at| characters.get(at));
        let after = rest.get(length);
        match mark {
            '\\' if after.is_none() => return false,
            '\\' => at += 2,
            '`' => match end_of_code(&rest[length..], length) {
                Some(end) => at += length + end,
                None => return false,
            },
            '*' | '_' | '~' => {
                let is_blank = |other: Option<&char>| other.is_none_or(|it| it.is_whitespace());
                let is_in_word = before.is_some_and(|it| it.is_alphanumeric());
                if !is_blank(before) && open.last() == Some(&(mark, length)) {
                    open.pop();
                } else if !(is_blank(after) || mark == '_' && is_in_word) {
                    open.push((mark, length));
                } else if after.is_none() && is_blank(before) {
                    // More of the mark may follow.
                    return false;
                }
                at += length;
            }
            '[' => {
                brackets += 1;
                at += 1;
            }
            ']' => {
                brackets = brackets.saturating_sub(1);
                let after = rest.get(1);
                if after.is_none() || after == Some(&'(') && !rest.contains(&')') {
                    return false;
                }
                at += 1;
            }
            // An address or tag.
            '<' if after.is_none_or(|it| !it.is_whitespace()) && !rest.contains(&'>') => {
                return false;
            }
            // A reference to a character.
            '&' if rest.len() < 10 && rest.iter().all(|it| !it.is_whitespace() && *it != ';') => {
                return false;
            }
            _ => at += 1,
        }
    }
    open.is_empty() && brackets == 0
}

/// Returns the length of a code span's text with the `length` backticks at its end.
fn end_of_code(rest: &[char], length: usize) -> Option<usize> {
    let mut at = 0;
    while at < rest.len() {
        let run = rest[at..].iter().take_while(|it| **it == '`').count();
        if run == length {
            return Some(at + run);
        }
        at += run.max(1);
    }
    None
}
