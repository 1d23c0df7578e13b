//! Converts HTML to text. Tags are processed as a stream without a tree, so that nesting depth has no cost.

use html5gum::{DefaultEmitter, Token, Tokenizer};
use url::Url;
use windlass_core::bounds::prefix;

/// Maximum size of the text: links are written out, so it can be larger than the page.
const MAX_TEXT: usize = 1024 * 1024;
const MAX_TITLE: usize = 300;
/// Longer addresses are omitted, because they are useless to a reader.
const MAX_LINK: usize = 500;

/// A page as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HtmlText {
    pub(super) title: Option<String>,
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// Extracts the text of a page. Web links are written as `[text](address)`, headings and lists are marked.
pub(super) fn to_text(html: &str, base: &Url) -> HtmlText {
    let mut emitter = DefaultEmitter::default();
    // Scripts and similar elements contain text that is not HTML.
    emitter.naively_switch_states(true);
    let mut writer = TextWriter::default();
    let mut is_cut = false;
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => {
                let attribute = |name: &[u8]| {
                    let value = tag.attributes.get(name)?;
                    Some(String::from_utf8_lossy(value).into_owned())
                };
                writer.start(&tag.name, attribute, base);
                if tag.self_closing && writer.skipped.is_some() {
                    writer.end(&tag.name);
                }
            }
            Token::EndTag(tag) => writer.end(&tag.name),
            Token::String(text) => writer.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        if writer.out.len() > MAX_TEXT {
            is_cut = true;
            break;
        }
    }
    let title: Vec<_> = writer.title.split_whitespace().collect();
    let title: String = title.join(" ").chars().take(MAX_TITLE).collect();
    HtmlText {
        title: Some(title).filter(|title| !title.is_empty()),
        text: writer.out.trim().to_owned(),
        is_cut,
    }
}

/// Returns whether the content of an element is never shown.
fn is_skipped(name: &[u8]) -> bool {
    matches!(
        name,
        b"script"
            | b"style"
            | b"template"
            | b"svg"
            | b"iframe"
            | b"object"
            | b"noembed"
            | b"noframes"
    )
}

/// Returns the number of line breaks around an element.
fn lines_around(name: &[u8]) -> usize {
    match name {
        b"p" | b"pre" | b"blockquote" | b"table" | b"ul" | b"ol" | b"dl" | b"h1" | b"h2"
        | b"h3" | b"h4" | b"h5" | b"h6" | b"section" | b"article" | b"main" | b"figure" => 2,
        b"div" | b"li" | b"tr" | b"dt" | b"dd" | b"header" | b"footer" | b"nav" | b"aside"
        | b"form" | b"option" | b"hr" | b"body" | b"caption" | b"figcaption" | b"address" => 1,
        _ => 0,
    }
}

#[derive(Default)]
struct TextWriter {
    out: String,
    title: String,
    in_title: bool,
    /// The element that is skipped, and how often it is nested inside itself.
    skipped: Option<(Vec<u8>, usize)>,
    /// Number of open `pre` elements.
    verbatim: usize,
    /// Target of the open link, and the offset of its text.
    link: Option<(String, usize)>,
    lines: usize,
    has_space: bool,
}

impl TextWriter {
    fn start(&mut self, name: &[u8], attribute: impl Fn(&[u8]) -> Option<String>, base: &Url) {
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth += usize::from(skipped == name);
            return;
        }
        if is_skipped(name) {
            self.skipped = Some((name.to_vec(), 1));
            return;
        }
        self.break_lines(lines_around(name));
        match name {
            b"title" => self.in_title = self.title.is_empty(),
            b"br" => self.break_lines(1),
            b"pre" => self.verbatim += 1,
            b"li" => self.mark("- "),
            b"td" | b"th" => self.mark("| "),
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                let level = usize::from(name[1] - b'0');
                self.mark(&format!("{} ", "#".repeat(level)));
            }
            b"img" => {
                if let Some(alt) = attribute(b"alt").filter(|alt| !alt.trim().is_empty()) {
                    self.text(&format!("[image: {}]", alt.trim()));
                }
            }
            b"a" => {
                self.end_link();
                let target = attribute(b"href").and_then(|to| base.join(to.trim()).ok());
                let target = target
                    .filter(|to| matches!(to.scheme(), "http" | "https"))
                    .map(String::from)
                    .filter(|to| to.len() <= MAX_LINK);
                if let Some(target) = target {
                    self.flush();
                    self.link = Some((target, self.out.len()));
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth -= usize::from(skipped == name);
            if *depth == 0 {
                self.skipped = None;
            }
            return;
        }
        match name {
            b"title" => self.in_title = false,
            b"pre" => self.verbatim = self.verbatim.saturating_sub(1),
            b"a" => self.end_link(),
            _ => {}
        }
        self.break_lines(lines_around(name));
    }

    fn text(&mut self, text: &str) {
        if self.skipped.is_some() {
            return;
        }
        if self.in_title {
            // Only the beginning of the title is retained.
            let left = (4 * MAX_TITLE).saturating_sub(self.title.len());
            self.title.push_str(prefix(text, left));
            return;
        }
        if self.verbatim > 0 {
            self.flush();
            self.out.push_str(text);
            return;
        }
        for (index, word) in text.split(is_whitespace).enumerate() {
            self.has_space |= index > 0;
            if !word.is_empty() {
                self.flush();
                self.out.push_str(word);
            }
        }
    }

    fn mark(&mut self, mark: &str) {
        self.flush();
        self.out.push_str(mark);
    }

    fn break_lines(&mut self, lines: usize) {
        self.lines = self.lines.max(lines);
    }

    /// Writes the whitespace that precedes the next character.
    fn flush(&mut self) {
        let is_new = self.out.is_empty() || self.out.ends_with(['\n', ' ']);
        match self.lines {
            _ if self.out.is_empty() => {}
            0 if self.has_space && !is_new => self.out.push(' '),
            0 => {}
            lines => {
                self.out.truncate(self.out.trim_end_matches(' ').len());
                // The whitespace may precede the text of the open link.
                if let Some((_, start)) = &mut self.link {
                    *start = (*start).min(self.out.len());
                }
                self.out.push_str(&"\n".repeat(lines));
            }
        }
        (self.lines, self.has_space) = (0, false);
    }

    fn end_link(&mut self) {
        if let Some((target, start)) = self.link.take()
            && self.out.len() > start
        {
            self.out.insert(start, '[');
            self.out.push_str(&format!("]({target})"));
        }
    }
}

fn is_whitespace(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &str) -> HtmlText {
        to_text(html, &Url::parse("https://a.example/b/c").unwrap())
    }

    #[test]
    fn visible_text_is_extracted() {
        let page = page(
            "<!doctype html><html><head><title> A\n &amp; B </title><style>p { x: y }</style></head><body>\
             <script>if (a < b) { alert('<p>no</p>') }</script><h1>Head</h1><p>One  <b>two</b>\nthree.</p>\
             <ul><li>x<li><a href='d?e'>link <i>here</i></a> after</ul><pre>a\n  b</pre><!-- no -->\
             <a href='javascript:no()'>plain</a><br>end<img alt='a picture' src=x><svg><text>no</text></svg>\
             <table><tr><td>1<td>2</table>",
        );
        assert_eq!(page.title.as_deref(), Some("A & B"));
        assert_eq!(
            page.text,
            "# Head\n\nOne two three.\n\n- x\n- [link here](https://a.example/b/d?e) after\n\na\n  b\n\nplain\nend[image: a picture]\n\n| 1| 2"
        );
    }

    #[test]
    fn malformed_html_is_converted_within_limits() {
        for (html, text) in [
            ("", ""),
            ("<", "<"),
            ("<<<>>>", "<<<>>>"),
            ("</p></pre></a></title></script>x", "x"),
            ("<a href='x'><a href='y'>z", "z"),
            ("<p", ""),
            ("<script>never closed <p>x", ""),
            ("<svg/>shown", "shown"),
            ("<svg><svg></svg>no</svg>yes", "yes"),
            (
                "&#x1b;&#0;&bogus;&#99999999;x",
                "\u{1b}\u{fffd}&bogus;\u{fffd}x",
            ),
            ("<p\u{0}a=b>x", "x"),
            (
                "<pre>x   <a href=y></pre>éé</a>",
                "x[\n\néé](https://a.example/b/y)",
            ),
            ("<pre>x   <a href=y></pre></a>é", "x\n\né"),
        ] {
            assert_eq!(page(html).text, text, "{html:?}");
        }
        let deep = "<div><b><i><svg>".repeat(200_000);
        assert_eq!(page(&deep).text, "");
        let deep = format!("{}x{}", "<div>".repeat(500_000), "</div>".repeat(500_000));
        assert_eq!(page(&deep).text, "x");
        let links = "<a href=x>y</a>".repeat(300_000);
        let grown = page(&links);
        assert!(grown.is_cut && grown.text.len() < MAX_TEXT + 2 * MAX_LINK);
        let title = format!("<title>{}</title>", "ä".repeat(100_000));
        assert_eq!(page(&title).title.unwrap().chars().count(), MAX_TITLE);
        let attributes: String = (0..100_000).map(|n| format!(" a{n}=b")).collect();
        assert_eq!(page(&format!("<p{attributes}>x")).text, "x");
    }
}
