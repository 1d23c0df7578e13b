//! A short form of an event's JSON. Unpacking restores the same text to the byte.
//!
//! An event consists mostly of names and IDs, which make its JSON about three times as long as necessary. A [phrase](phrases) takes one byte or two,
//! an ID 16 bytes instead of 32 digits, a time 12, and an ID or a time that occurred earlier in the record two. A text or an object that an [earlier
//! record](super::window) contains is a reference to it. All codes are bytes that JSON text cannot contain: control characters, which JSON escapes,
//! and bytes that never occur in UTF-8. Digests cover the text with all references resolved, so they do not depend on the stored form.

mod codes;
mod phrases;

use std::ops::Range;

use codes::{AGAIN, CODES, ID, PHRASE, REFERENCE, SHORT, SHORT_CODES, TIME};
use phrases::PHRASES;

/// The format of a time; a 0 matches any digit.
const TIME_FORM: &[u8; 30] = b"0000-00-00T00:00:00.000000000Z";
const ID_DIGITS: usize = 32;
const ID_BYTES: usize = 16;
const TIME_BYTES: usize = 12;

/// The maximum length in bytes of a text with its references resolved. A longer one is damage.
const MAX_TEXT: usize = 64 * 1024 * 1024;

/// A part of a text that a part of an earlier record's text is equal to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The byte range of the part.
    pub(crate) part: Range<usize>,
    /// The number of the earlier record.
    pub(crate) seq: u64,
    /// Where the equal part begins in the text of that record.
    pub(crate) start: usize,
}

/// Returns the short form of a text, of which some parts are references, in order; `None` where there is none, or it is not shorter.
pub(crate) fn pack(text: &[u8], references: &[Reference]) -> Option<Vec<u8>> {
    let codes = &*CODES;
    let mut packed = Vec::with_capacity(text.len() / 2);
    let mut values: Vec<&[u8]> = Vec::new();
    let mut references = references.iter().peekable();
    let whole = text;
    let mut at = 0;
    while let Some(&byte) = whole.get(at) {
        if let Some(reference) = references.next_if(|reference| reference.part.start == at) {
            packed.push(REFERENCE);
            put_number(&mut packed, reference.seq);
            put_number(&mut packed, reference.start as u64);
            put_number(&mut packed, reference.part.len() as u64);
            at = reference.part.end;
            continue;
        }
        // No phrase and no value crosses into a reference.
        let text = references
            .peek()
            .map_or(whole, |next| &whole[..next.part.start]);
        if let Some((number, length)) = codes.longest(&text[at..]) {
            put_phrase(&mut packed, number);
            at += length;
        } else if let Some(value) = value(text, at) {
            let mut seen = (0..=u8::MAX).zip(&values);
            match seen.find(|(_, seen)| **seen == value) {
                Some((index, _)) => packed.extend([AGAIN, index]),
                None => {
                    put_value(&mut packed, value);
                    values.push(value);
                }
            }
            at += value.len();
        } else if codes.is_code[usize::from(byte)] {
            return None;
        } else {
            // No value begins after a plain byte, so all following plain bytes are copied with it.
            let is_plain = |byte: &u8| codes.is_plain[usize::from(*byte)];
            let rest = &text[at..];
            let plain = rest.iter().position(|byte| !is_plain(byte));
            let length = plain.unwrap_or(rest.len()).max(1);
            packed.extend_from_slice(&rest[..length]);
            at += length;
        }
    }
    (packed.len() < text.len()).then_some(packed)
}

/// Unpacks a short form into a buffer, replacing its contents; `None` if it is invalid. Returns the references, whose parts are blank in the text:
/// the caller fills them.
pub(crate) fn unpack(packed: &[u8], text: &mut Vec<u8>) -> Option<Vec<Reference>> {
    let codes = &*CODES;
    text.clear();
    // A text is about three times as long. Reserving too much costs more than growing once.
    text.reserve(packed.len() * 3 + 64);
    let mut values: Vec<Range<usize>> = Vec::with_capacity(8);
    let mut references = Vec::new();
    let mut rest = packed;
    while let Some((&code, after)) = rest.split_first() {
        match code {
            ID | TIME => {
                let length = if code == ID { ID_BYTES } else { TIME_BYTES };
                let bytes;
                (bytes, rest) = after.split_at_checked(length)?;
                let start = text.len();
                take_value(text, bytes);
                values.push(start..text.len());
            }
            AGAIN => {
                let index;
                (index, rest) = after.split_first()?;
                text.extend_from_within(values.get(usize::from(*index))?.clone());
            }
            PHRASE => {
                let number;
                (number, rest) = after.split_first()?;
                text.extend_from_slice(PHRASES.get(SHORT + usize::from(*number))?.as_bytes());
            }
            REFERENCE => {
                let (seq, start, length);
                (seq, rest) = take_number(after)?;
                (start, rest) = take_number(rest)?;
                (length, rest) = take_number(rest)?;
                let from = text.len();
                let to = from.checked_add(usize::try_from(length).ok()?)?;
                if to > MAX_TEXT {
                    return None;
                }
                text.resize(to, b' ');
                references.push(Reference {
                    part: from..to,
                    seq,
                    start: usize::try_from(start).ok()?,
                });
            }
            _ => match codes.short[usize::from(code)] {
                Some(phrase) => {
                    text.extend_from_slice(phrase);
                    rest = after;
                }
                None => {
                    let is_code = |byte: &u8| codes.is_code[usize::from(*byte)];
                    let length = rest.iter().position(is_code).unwrap_or(rest.len());
                    let plain;
                    (plain, rest) = rest.split_at(length);
                    text.extend_from_slice(plain);
                }
            },
        }
    }
    Some(references)
}

/// Writes a number, seven bits in a byte, the lowest first; all bytes but the last have the highest bit.
fn put_number(packed: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        packed.push(number as u8 | 0x80);
        number >>= 7;
    }
    packed.push(number as u8);
}

/// Reads a number; `None` where it is cut or too great.
fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}

/// Returns the ID or the time that begins at an offset.
fn value(text: &[u8], at: usize) -> Option<&[u8]> {
    let is_start = matches!(text.get(at.checked_sub(1)?)?, b'"' | b'_');
    let rest = text.get(at..).filter(|_| is_start)?;
    let id = rest.get(..ID_DIGITS);
    let time = rest.get(..TIME_FORM.len());
    let is_lower_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    id.filter(|id| id.iter().all(is_lower_hex))
        .or_else(|| time.filter(|time| is_time(time)))
}

fn is_time(text: &[u8]) -> bool {
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    text.iter().zip(TIME_FORM).all(fits)
}

fn put_value(packed: &mut Vec<u8>, value: &[u8]) {
    if value.len() == ID_DIGITS {
        packed.push(ID);
        return put_digits(packed, value);
    }
    let mut digits = [b'0'; TIME_BYTES * 2];
    let digits_of_time = value.iter().zip(TIME_FORM);
    let in_time = digits_of_time.filter(|(_, form)| **form == b'0');
    for (digit, (byte, _)) in digits.iter_mut().zip(in_time) {
        *digit = *byte;
    }
    packed.push(TIME);
    put_digits(packed, &digits);
}

/// Writes two hex digits as a byte.
fn put_digits(packed: &mut Vec<u8>, digits: &[u8]) {
    let pairs = digits.as_chunks::<2>().0.iter();
    packed.extend(pairs.map(|[high, low]| digit(*high) << 4 | digit(*low)));
}

/// Returns the value of a hex digit.
const fn digit(byte: u8) -> u8 {
    match byte {
        b'a'..=b'f' => byte - b'a' + 10,
        _ => byte.wrapping_sub(b'0'),
    }
}

/// Writes the digits of a value; its length determines its kind.
fn take_value(text: &mut Vec<u8>, bytes: &[u8]) {
    let mut digits = [0; ID_DIGITS];
    for (two, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *two = HEX[usize::from(*byte)];
    }
    if bytes.len() == ID_BYTES {
        text.extend_from_slice(&digits);
        return;
    }
    let mut time = *TIME_FORM;
    let slots = time.iter_mut().filter(|slot| **slot == b'0');
    slots.zip(digits).for_each(|(slot, digit)| *slot = digit);
    text.extend_from_slice(&time);
}

/// The digits of each byte.
const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut hex = [[0; 2]; 256];
    let mut byte = 0;
    while byte < hex.len() {
        hex[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    hex
};

fn put_phrase(packed: &mut Vec<u8>, number: u8) {
    match SHORT_CODES.get(usize::from(number)) {
        Some(code) => packed.push(*code),
        None => packed.extend([PHRASE, number - SHORT as u8]),
    }
}

#[cfg(test)]
mod tests;
