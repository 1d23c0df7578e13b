//! The codes of the short form: their meanings, and the lookup of the phrase that a text begins with.

use std::ops::Range;
use std::sync::LazyLock;

use super::phrases::PHRASES;

/// 32 hex digits follow, as 16 bytes.
pub(super) const ID: u8 = 0x00;
/// A time with nanoseconds follows, as 12 bytes.
pub(super) const TIME: u8 = 0x01;
/// A repeated ID or time; a byte with its index among them follows.
pub(super) const AGAIN: u8 = 0x02;
/// A phrase whose number, less [`SHORT`], is the byte that follows.
pub(super) const PHRASE: u8 = 0x03;
/// A part of an earlier record follows: its number, where the part begins in that record's text, and its length.
pub(super) const REFERENCE: u8 = 0xff;
/// How many phrases have a code of one byte.
pub(super) const SHORT: usize = 40;
/// The codes of one byte, in the order of the phrases.
pub(super) const SHORT_CODES: [u8; SHORT] = [
    0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13,
    0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0xc0, 0xc1, 0xf5, 0xf6,
    0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe,
];

/// The number of bytes by which phrases are looked up; no phrase is shorter.
const HEAD: usize = 8;
/// The number of hash buckets, far more than phrases.
const BUCKETS: usize = 1024;

/// The phrases, indexed for packing and unpacking.
pub(super) struct Codes {
    /// Whether a byte is a code. A text that contains it has no short form.
    pub(super) is_code: [bool; 256],
    /// Whether a byte is plain: no code, not the start of a phrase and not a character that precedes a value.
    pub(super) is_plain: [bool; 256],
    /// The phrase of each byte that is a phrase code.
    pub(super) short: [Option<&'static [u8]>; 256],
    /// In alphabetical order.
    sorted: Vec<Sorted>,
    /// The candidate phrases, by a hash of the first bytes.
    buckets: Vec<Vec<Range<usize>>>,
}

struct Sorted {
    phrase: &'static [u8],
    number: u8,
    /// The longest other phrase that this one begins with.
    prefix: Option<usize>,
}

pub(super) static CODES: LazyLock<Codes> = LazyLock::new(Codes::new);

impl Codes {
    fn new() -> Self {
        let mut short = [None; 256];
        for (code, phrase) in SHORT_CODES.into_iter().zip(PHRASES) {
            short[usize::from(code)] = Some(phrase.as_bytes());
        }
        let mut is_code = short.map(|phrase| phrase.is_some());
        is_code[..=usize::from(PHRASE)].fill(true);
        is_code[usize::from(REFERENCE)] = true;
        let mut is_plain = is_code.map(|is_code| !is_code);
        for byte in b"\"{}[],:_" {
            is_plain[usize::from(*byte)] = false;
        }
        let mut sorted: Vec<Sorted> = (0..=u8::MAX)
            .zip(PHRASES)
            .map(|(number, phrase)| Sorted {
                phrase: phrase.as_bytes(),
                number,
                prefix: None,
            })
            .collect();
        sorted.sort_unstable_by_key(|entry| entry.phrase);
        let mut buckets = vec![Vec::new(); BUCKETS];
        let mut start = 0;
        for same in sorted.chunk_by(|a, b| a.phrase[..HEAD] == b.phrase[..HEAD]) {
            let range = start..start + same.len();
            start = range.end;
            buckets[bucket(same[0].phrase)].push(range);
        }
        for n in 1..sorted.len() {
            let phrase = sorted[n].phrase;
            sorted[n].prefix = sorted[..n]
                .iter()
                .rposition(|before| phrase.starts_with(before.phrase));
        }
        Self {
            is_code,
            is_plain,
            short,
            sorted,
            buckets,
        }
    }

    /// Returns the number and the length of the longest phrase that a text begins with.
    ///
    /// It is the last phrase in alphabetical order that does not follow the text, or a prefix of that phrase.
    pub(super) fn longest(&self, text: &[u8]) -> Option<(u8, usize)> {
        let is_mark = |byte: &u8| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']' | b',' | b':');
        let head = text.first_chunk::<HEAD>()?;
        if !head[..2].iter().all(is_mark) {
            return None;
        }
        let ranges = &self.buckets[bucket(head)];
        let range = ranges
            .iter()
            .find(|range| self.sorted[range.start].phrase.starts_with(head))?;
        let same = &self.sorted[range.clone()];
        let upto = same.partition_point(|entry| entry.phrase <= text);
        let mut at = (range.start + upto).checked_sub(1);
        while let Some(entry) = at.map(|at| &self.sorted[at]) {
            if text.starts_with(entry.phrase) {
                return Some((entry.number, entry.phrase.len()));
            }
            at = entry.prefix;
        }
        None
    }
}

/// Returns the hash bucket of the first bytes of a text.
fn bucket(text: &[u8]) -> usize {
    let head = text.first_chunk::<HEAD>().copied().unwrap_or_default();
    let mixed = u64::from_le_bytes(head).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - BUCKETS.ilog2())) as usize
}
