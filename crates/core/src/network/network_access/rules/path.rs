//! Paths of URLs and prefixes, and how clearly servers agree on them.

const SEPARATORS: [char; 2] = ['/', '\\'];

/// Limit on nested escapes. Legitimate URLs do not encode this often.
const MAX_LAYERS: usize = 4;

/// How far servers can disagree about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clarity {
    /// Every server finds the same segments.
    Plain,
    /// Some servers decode more than others, and may find more separators.
    Encoded,
    /// Servers may climb to different parents: dot segments in disguise, or over empty segments.
    Evasive,
}

/// A path split into segments, without empty ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    /// Letters decoded, other escapes in upper case; compared with allowed prefixes.
    segments: Vec<String>,
    /// Fully decoded, down to the last layer; compared with blocked prefixes.
    decoded: Vec<Vec<u8>>,
    clarity: Clarity,
}

impl Path {
    /// Parses a path as written and as resolved by the URL parser; only the former contains dot segments.
    pub(super) fn new(written: &str, resolved: &str) -> Self {
        let (decoded, layers) = decode_fully(resolved.as_bytes());
        let pieces = || decoded.split(|byte| is_separator(*byte));
        let clarity = if layers > MAX_LAYERS || pieces().any(is_dots) || climbs_in_disguise(written)
        {
            Clarity::Evasive
        } else if layers > 1 || pieces().count() != resolved.split('/').count() {
            Clarity::Encoded
        } else {
            Clarity::Plain
        };
        Self {
            segments: resolved
                .split('/')
                .filter(|segment| !segment.is_empty())
                .map(normalise)
                .collect(),
            decoded: pieces()
                .filter(|piece| !piece.is_empty())
                .map(<[u8]>::to_vec)
                .collect(),
            clarity,
        }
    }

    pub(super) fn is_plain(&self) -> bool {
        self.clarity == Clarity::Plain
    }

    pub(super) fn segments(&self) -> &[String] {
        &self.segments
    }

    /// Returns whether every interpretation of `path` is below this prefix. The empty prefix contains all paths.
    pub(super) fn allows(&self, path: &Self) -> bool {
        self.segments.is_empty() || (path.is_plain() && self.is_prefix_of(path))
    }

    /// Returns whether any interpretation of `path` may be below this prefix.
    pub(super) fn blocks(&self, path: &Self) -> bool {
        path.clarity == Clarity::Evasive || path.decoded.starts_with(&self.decoded)
    }

    pub(super) fn is_prefix_of(&self, longer: &Self) -> bool {
        longer.segments.starts_with(&self.segments)
    }
}

/// Finds `%2e%2e`, which not every server resolves, and `a//..` or `a%2Fb/..`, from which servers reach different parents.
fn climbs_in_disguise(written: &str) -> bool {
    let segments: Vec<&str> = written.split(SEPARATORS).skip(1).collect();
    let decoded: Vec<Vec<u8>> = segments
        .iter()
        .map(|segment| decode_fully(segment.as_bytes()).0)
        .collect();
    let climbs = segments.contains(&"..");
    let has_gap = decoded.iter().rev().skip(1).any(Vec::is_empty);
    let hides_separator = decoded.iter().flatten().any(|byte| is_separator(*byte));
    let hides_dots = segments
        .iter()
        .zip(&decoded)
        .any(|(segment, decoded)| segment.contains('%') && is_dots(decoded));
    hides_dots || (climbs && (has_gap || hides_separator))
}

/// Returns whether a segment is a dot segment, even with the parameters (`..;x`) that some servers strip.
fn is_dots(segment: &[u8]) -> bool {
    let name = segment.split(|byte| *byte == b';').next();
    matches!(name, Some(b"." | b".."))
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

/// Decodes until nothing changes, and counts the layers of escapes.
fn decode_fully(text: &[u8]) -> (Vec<u8>, usize) {
    let mut decoded = text.to_vec();
    for layers in 0..=MAX_LAYERS {
        let next = decode(&decoded);
        if next == decoded {
            return (decoded, layers);
        }
        decoded = next;
    }
    (decoded, MAX_LAYERS + 1)
}

fn decode(mut text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        let escaped = escape(text);
        decoded.push(escaped.unwrap_or(first));
        text = if escaped.is_some() { &rest[2..] } else { rest };
    }
    decoded
}

/// Returns the canonical spelling of a segment. A percent sign that begins no escape is escaped.
fn normalise(segment: &str) -> String {
    let mut text = segment.as_bytes();
    let mut normal = String::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        let escaped = escape(text);
        match escaped {
            Some(byte) if is_unreserved(byte) => normal.push(char::from(byte)),
            Some(byte) => normal.push_str(&format!("%{byte:02X}")),
            None if first == b'%' => normal.push_str("%25"),
            None => normal.push(char::from(first)),
        }
        text = if escaped.is_some() { &rest[2..] } else { rest };
    }
    normal
}

/// Decodes the escape at the start of `text`.
fn escape(text: &[u8]) -> Option<u8> {
    let &[b'%', high, low, ..] = text else {
        return None;
    };
    let digit = |byte| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}
