//! Converts the bytes of a page to text for a model.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};
use url::Url;
use windlass_core::bounds::{is_active, prefix};
use windlass_core::traits::SecretPlaces;

use super::error::WebError;
use super::html;
use super::settings::WebSettings;
use crate::secrets;
use crate::tool::with_remarks;

/// The characters of 0x80 to 0x9f in Windows-1252, which browsers also use for Latin-1.
const WINDOWS: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

/// A server's answer, as far as it was read.
pub(super) struct FetchedPage {
    pub(super) url: Url,
    pub(super) status: u16,
    kind: ContentKind,
    /// The content type in the server's header.
    content_type: String,
    charset: Option<String>,
    is_gzip: bool,
    pub(super) body: Vec<u8>,
    pub(super) is_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentKind {
    Html,
    Text,
    /// The server sent no content type.
    Unknown,
}

impl FetchedPage {
    /// Checks the headers and refuses unsupported content before the body is read.
    pub(super) fn new(
        url: Url,
        status: u16,
        headers: &BTreeMap<String, String>,
    ) -> Result<Self, WebError> {
        let header = headers.get("content-type").map_or("", String::as_str);
        let mut parts = header.split(';').map(str::trim);
        let content_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let value = value.trim().trim_matches('"').to_ascii_lowercase();
            name.trim().eq_ignore_ascii_case("charset").then_some(value)
        });
        let kind = kind_of(&content_type).ok_or_else(|| WebError::ContentType {
            url: url.to_string(),
            kind: clean(&content_type),
            status,
        })?;
        let encoding = headers.get("content-encoding").map(|header| header.trim());
        let encoding = encoding.unwrap_or("").to_ascii_lowercase();
        let is_gzip = match encoding.as_str() {
            "" | "identity" => false,
            "gzip" | "x-gzip" => true,
            _ => {
                return Err(WebError::Encoding {
                    url: url.to_string(),
                    encoding: clean(&encoding),
                });
            }
        };
        Ok(Self {
            url,
            status,
            kind,
            content_type,
            charset,
            is_gzip,
            body: Vec::new(),
            is_cut: false,
        })
    }

    /// Decompresses the body, up to the maximum size of a body.
    fn decompress(&mut self, max_bytes: usize) -> Result<(), WebError> {
        if !self.is_gzip || self.body.is_empty() {
            return Ok(());
        }
        let mut decompressed = Vec::new();
        let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        let mut compressed =
            MultiGzDecoder::new(self.body.as_slice()).take(limit.saturating_add(1));
        // A truncated body has no end, which is not an error.
        if compressed.read_to_end(&mut decompressed).is_err() && !self.is_cut {
            return Err(WebError::Packed(self.url.to_string()));
        }
        self.is_cut |= decompressed.len() > max_bytes;
        decompressed.truncate(max_bytes);
        self.body = decompressed;
        Ok(())
    }

    fn decode(&self, remarks: &mut Vec<String>) -> Cow<'_, str> {
        let body = self
            .body
            .strip_prefix(b"\xef\xbb\xbf")
            .unwrap_or(&self.body);
        match self.charset.as_deref() {
            Some("utf-8" | "utf8") => String::from_utf8_lossy(body),
            Some("iso-8859-1" | "latin1" | "windows-1252" | "us-ascii") => latin(body).into(),
            Some(other) => {
                remarks.push(format!(
                    "characters may be wrong: `{}` is not supported, so the page was read as UTF-8",
                    clean(other)
                ));
                String::from_utf8_lossy(body)
            }
            None => match std::str::from_utf8(body) {
                Ok(text) => text.into(),
                // Truncated inside a character.
                Err(error) if self.is_cut && error.error_len().is_none() => {
                    String::from_utf8_lossy(body)
                }
                Err(_) => latin(body).into(),
            },
        }
    }
}

fn kind_of(content_type: &str) -> Option<ContentKind> {
    match content_type {
        "" => Some(ContentKind::Unknown),
        "text/html" | "application/xhtml+xml" => Some(ContentKind::Html),
        "application/json"
        | "application/xml"
        | "application/javascript"
        | "application/x-ndjson"
        | "application/toml"
        | "application/yaml"
        | "application/x-yaml" => Some(ContentKind::Text),
        text if text.starts_with("text/") => Some(ContentKind::Text),
        text if text.ends_with("+json") || text.ends_with("+xml") => Some(ContentKind::Text),
        _ => None,
    }
}

fn latin(bytes: &[u8]) -> String {
    let c = |byte: &u8| match byte {
        0x80..=0x9f => WINDOWS.chars().nth(usize::from(byte - 0x80)),
        byte => Some(char::from(*byte)),
    };
    bytes.iter().filter_map(c).collect()
}

/// Builds the result for a page.
pub(super) fn shown(
    mut fetched: FetchedPage,
    max_bytes: usize,
    settings: &WebSettings,
    places: Option<&dyn SecretPlaces>,
) -> Result<Value, WebError> {
    fetched.decompress(settings.max_body_bytes)?;
    if fetched.body.contains(&0) {
        return Err(WebError::NotText(fetched.url.to_string()));
    }
    let mut remarks = Vec::new();
    let text = fetched.decode(&mut remarks);
    let is_html = match fetched.kind {
        ContentKind::Html => true,
        ContentKind::Text => false,
        ContentKind::Unknown => text.trim_start().starts_with('<'),
    };
    if fetched.is_cut {
        let read = fetched.body.len();
        remarks.push(format!("only the first {read} bytes of the page were read"));
    }
    let (title, text) = if is_html {
        let page = html::to_text(&text, &fetched.url);
        if page.is_cut {
            remarks.push("the end of the page is omitted".to_owned());
        }
        (page.title, clean(&page.text))
    } else {
        (None, clean(&text))
    };
    let text = without_secrets(text, fetched.is_cut, places);
    let shown = prefix(&text, max_bytes);
    let (all, end) = (text.len(), shown.len());
    if end < all {
        remarks.push(format!("the first {end} of {all} bytes of text are shown"));
    }
    let mut result = json!({
        "url": fetched.url.as_str(),
        "status": fetched.status,
        "content_type": clean(&fetched.content_type),
        "text": shown,
    });
    if let Some(title) = title {
        result["title"] = clean(&title).into();
    }
    Ok(with_remarks(result, remarks))
}

/// Masks secrets that the server echoes, before the text is truncated: half of a secret would not be recognized.
fn without_secrets(mut text: String, is_cut: bool, places: Option<&dyn SecretPlaces>) -> String {
    if let (Some(places), true) = (places, is_cut) {
        text.truncate(places.settled(&text));
    }
    match secrets::masked(places, text.as_bytes()) {
        Cow::Borrowed(_) => text,
        Cow::Owned(masked) => String::from_utf8_lossy(&masked).into_owned(),
    }
}

/// Removes characters that move a cursor, change the writing direction or are invisible.
fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let visible = |c: char| match c {
        '\n' | '\t' | '\u{FE00}'..='\u{FE0F}' => Some(c),
        '\r' | '\u{2028}' | '\u{2029}' => Some('\n'),
        c if is_active(c) => None,
        c => Some(c),
    };
    text.chars().filter_map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(headers: &[(&str, &str)], body: &[u8]) -> Result<Value, WebError> {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let url = Url::parse("https://a.example/").unwrap();
        let mut fetched = FetchedPage::new(url, 200, &headers)?;
        fetched.body = body.to_vec();
        shown(fetched, 100, &WebSettings::default(), None)
    }

    #[test]
    fn text_is_decoded_by_declared_or_detected_charset() {
        for (kind, body, text) in [
            ("text/plain; charset=utf-8", "ä€".as_bytes(), "ä€"),
            ("text/plain", "\u{feff}ä".as_bytes(), "ä"),
            ("text/plain; charset=\"ISO-8859-1\"", b"\xe4\x80", "ä€"),
            ("text/plain", b"\xe4 no UTF-8", "ä no UTF-8"),
            ("text/html;charset=latin1", b"<p>\xe4", "ä"),
            ("application/problem+json", b"{}", "{}"),
            ("", b"plain", "plain"),
            ("", b" <p>a<p>b", "a\n\nb"),
        ] {
            let page = page(&[("content-type", kind)], body).unwrap();
            assert_eq!(page["text"], text, "{kind}");
        }
        let odd = page(&[("content-type", "text/plain; charset=koi8-r")], b"a").unwrap();
        assert!(odd["remark"].as_str().unwrap().contains("koi8-r"), "{odd}");
    }

    #[test]
    fn binary_content_is_refused() {
        for kind in [
            "image/png",
            "application/pdf",
            "application/octet-stream",
            "nonsense",
        ] {
            let refused = page(&[("content-type", kind)], b"x").unwrap_err();
            assert!(refused.to_string().contains(kind), "{refused}");
        }
        let lie = page(&[("content-type", "text/html")], b"\x7fELF\0\0").unwrap_err();
        assert!(matches!(lie, WebError::NotText(_)), "{lie}");
        let compressed = [("content-type", "text/plain"), ("content-encoding", "br")];
        assert!(matches!(
            page(&compressed, b"x"),
            Err(WebError::Encoding { .. })
        ));
        let compressed = [("content-type", "text/plain"), ("content-encoding", "gzip")];
        assert!(matches!(page(&compressed, b"x"), Err(WebError::Packed(_))));
    }

    #[test]
    fn invisible_characters_are_removed_and_truncation_is_reported() {
        let body = "a\u{1b}[2Jb\u{202e}c\u{200b}\r\nd\u{0007}".as_bytes();
        let cleaned = page(&[("content-type", "text/plain")], body).unwrap();
        assert_eq!(cleaned["text"], "a[2Jbc\nd");
        let long = page(&[("content-type", "text/plain")], "ä".repeat(99).as_bytes()).unwrap();
        assert_eq!(long["text"], "ä".repeat(50));
        assert_eq!(
            long["remark"],
            "the first 100 of 198 bytes of text are shown"
        );
    }
}
