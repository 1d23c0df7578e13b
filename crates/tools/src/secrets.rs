//! Secrets in what tools read and keep. A result is masked as a whole, but half of a secret has no mask: what is cut is cut beside secrets, or masked before.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};

use windlass_core::traits::SecretPlaces;

/// Returns how many bytes cannot become part of a secret, whatever follows. A character that is not whole yet may.
pub(crate) fn settled(places: &dyn SecretPlaces, bytes: &[u8]) -> usize {
    places.settled(&plain(&bytes[..whole_characters(bytes)]))
}

/// Returns from where on bytes cannot be the rest of a secret, whatever came before.
pub(crate) fn begun(places: &dyn SecretPlaces, bytes: &[u8]) -> usize {
    // A character that was cut is the rest of whatever it belonged to.
    let is_rest = |byte: &&u8| **byte & 0xc0 == 0x80;
    let cut = bytes.iter().take(3).take_while(is_rest).count();
    cut + places.begun(&plain(&bytes[cut..]))
}

/// Returns the last place up to this one that is inside of no secret.
pub(crate) fn outside_before(places: &dyn SecretPlaces, bytes: &[u8], place: usize) -> usize {
    places.outside_before(&plain(bytes), place)
}

/// Writes bytes as a text of the same length; what is no text becomes letters that no secret has.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\0'));
    }
    text
}

/// Puts masks in the places of secrets. There are as many lines as before.
pub(crate) fn masked<'a>(places: Option<&dyn SecretPlaces>, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let Some(places) = places else {
        return Cow::Borrowed(bytes);
    };
    let text = plain(bytes);
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

/// Reads with masks in the places of secrets.
pub(crate) struct Masked<'a, R> {
    source: R,
    places: Option<&'a dyn SecretPlaces>,
    /// What was read and may be the beginning of a secret.
    held: Vec<u8>,
    ready: Vec<u8>,
    at: usize,
    is_over: bool,
}

impl<'a, R: BufRead> Masked<'a, R> {
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

impl<R: BufRead> BufRead for Masked<'_, R> {
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
            let settled = match self.is_over {
                true => self.held.len(),
                false => settled(places, &self.held),
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

impl<R: BufRead> Read for Masked<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(to)?;
        self.consume(read);
        Ok(read)
    }
}

/// Returns how many bytes there are without a character at the end that is not whole yet.
fn whole_characters(bytes: &[u8]) -> usize {
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
