//! Secrets in the data that tools read and store. A complete result is masked, but half of a secret would not be recognized. Data is therefore cut
//! only between secrets, or masked before it is cut.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};

use windlass_core::traits::SecretPlaces;

/// Returns the length of the prefix that cannot become part of a secret, whatever follows. It excludes an incomplete character at the end.
pub(crate) fn settled(places: &dyn SecretPlaces, bytes: &[u8]) -> usize {
    places.settled(&same_length_text(&bytes[..complete_characters(bytes)]))
}

/// Returns the offset from which bytes cannot be the rest of a secret, whatever came before.
pub(crate) fn partial_prefix(places: &dyn SecretPlaces, bytes: &[u8]) -> usize {
    // Continuation bytes at the start are the rest of a character that was cut.
    let is_rest = |byte: &&u8| **byte & 0xc0 == 0x80;
    let cut = bytes.iter().take(3).take_while(is_rest).count();
    cut + places.begun(&same_length_text(&bytes[cut..]))
}

/// Returns the last offset up to `offset` that is not inside a secret.
pub(crate) fn outside_before(places: &dyn SecretPlaces, bytes: &[u8], offset: usize) -> usize {
    places.outside_before(&same_length_text(bytes), offset)
}

/// Converts bytes to a text of the same length; invalid bytes become a character that no secret contains.
pub(crate) fn same_length_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\0'));
    }
    text
}

/// Replaces secrets with masks. The number of lines stays the same.
pub(crate) fn masked<'a>(places: Option<&dyn SecretPlaces>, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let Some(places) = places else {
        return Cow::Borrowed(bytes);
    };
    let text = same_length_text(bytes);
    let masks = places.masks(&text);
    if masks.is_empty() {
        return Cow::Borrowed(bytes);
    }
    let (mut masked, mut done) = (Vec::with_capacity(bytes.len()), 0);
    for (range, mask) in masks {
        masked.extend_from_slice(&bytes[done..range.start]);
        masked.extend_from_slice(mask.as_bytes());
        let secret = &bytes[range.clone()];
        masked.extend(secret.iter().filter(|byte| **byte == b'\n'));
        done = range.end;
    }
    masked.extend_from_slice(&bytes[done..]);
    Cow::Owned(masked)
}

/// A reader that replaces secrets with masks.
pub(crate) struct MaskingReader<'a, R> {
    source: R,
    places: Option<&'a dyn SecretPlaces>,
    /// Bytes that may be the beginning of a secret.
    held: Vec<u8>,
    ready: Vec<u8>,
    at: usize,
    is_over: bool,
}

impl<'a, R: BufRead> MaskingReader<'a, R> {
    pub(crate) fn new(source: R, places: Option<&'a dyn SecretPlaces>) -> Self {
        Self {
            source,
            places,
            held: Vec::new(),
            ready: Vec::new(),
            at: 0,
            is_over: false,
        }
    }
}

impl<R: BufRead> BufRead for MaskingReader<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let Some(places) = self.places else {
            return self.source.fill_buf();
        };
        while self.at == self.ready.len() && !self.is_over {
            let piece = self.source.fill_buf()?;
            let read = piece.len();
            self.held.extend_from_slice(piece);
            self.source.consume(read);
            self.is_over = read == 0;
            let settled = if self.is_over {
                self.held.len()
            } else {
                settled(places, &self.held)
            };
            self.ready = masked(Some(places), &self.held[..settled]).into_owned();
            self.held.drain(..settled);
            self.at = 0;
        }
        Ok(&self.ready[self.at..])
    }

    fn consume(&mut self, count: usize) {
        match self.places {
            None => self.source.consume(count),
            Some(_) => self.at = (self.at + count).min(self.ready.len()),
        }
    }
}

impl<R: BufRead> Read for MaskingReader<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(to)?;
        self.consume(read);
        Ok(read)
    }
}

/// Returns the length without an incomplete character at the end.
fn complete_characters(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let needed = match bytes[at] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if needed > back { at } else { bytes.len() };
    }
    bytes.len()
}
