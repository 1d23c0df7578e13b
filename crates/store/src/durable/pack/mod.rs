//! A short form of an event's JSON, which gives the same text back to the byte.
//!
//! An event is mostly names and ids: a record would be three times as long as what it says. So a [phrase](phrases) is
//! one byte or two, an id is 16 bytes instead of 32 digits, a time is 12, and an id or a time that the record
//! had before is two. All codes are bytes that JSON text cannot hold: control characters, which it escapes, and those
//! that UTF-8 never uses. Digests are of the text, so that they say nothing about how it is stored.

mod codes;
mod phrases;

use std::ops::Range;

use codes::{AGAIN, CODES, ID, PHRASE, SHORT, SHORT_CODES, TIME};
use phrases::PHRASES;

/// How a time is written; a 0 stands for any digit.
const TIME_FORM: &[u8; 30] = b"0000-00-00T00:00:00.000000000Z";
const ID_DIGITS: usize = 32;
const ID_BYTES: usize = 16;
const TIME_BYTES: usize = 12;

/// Returns the short form of a text; `None` where there is none, or it is not shorter.
pub(crate) fn pack(text: &[u8]) -> Option<Vec<u8>> {
    let codes = &*CODES;
    let mut packed = Vec::with_capacity(text.len() / 2);
    let mut values: Vec<&[u8]> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if let Some((number, length)) = codes.longest(&text[at..]) {
            put_phrase(&mut packed, number);
            at += length;
        } else if let Some(value) = value(text, at) {
            let mut known = (0..=u8::MAX).zip(&values);
            match known.find(|(_, known)| **known == value) {
                Some((place, _)) => packed.extend([AGAIN, place]),
                None => {
                    put_value(&mut packed, value);
                    values.push(value);
                }
            }
            at += value.len();
        } else if codes.is_code[usize::from(byte)] {
            return None;
        } else {
            // Behind a plain byte no value begins, so all that follow go along.
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

/// Writes the text of a short form to a buffer, in place of what it holds; `None` where it is none.
pub(crate) fn unpack(packed: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let codes = &*CODES;
    text.clear();
    // A text is about three times as long; what is asked for in vain costs more than growing once.
    text.reserve(packed.len() * 3 + 64);
    let mut values: Vec<Range<usize>> = Vec::with_capacity(8);
    let mut rest = packed;
    while let Some((&code, behind)) = rest.split_first() {
        match code {
            ID | TIME => {
                let length = if code == ID { ID_BYTES } else { TIME_BYTES };
                let bytes;
                (bytes, rest) = behind.split_at_checked(length)?;
                let start = text.len();
                take_value(text, bytes);
                values.push(start..text.len());
            }
            AGAIN => {
                let place;
                (place, rest) = behind.split_first()?;
                text.extend_from_within(values.get(usize::from(*place))?.clone());
            }
            PHRASE => {
                let number;
                (number, rest) = behind.split_first()?;
                text.extend_from_slice(PHRASES.get(SHORT + usize::from(*number))?.as_bytes());
            }
            _ => match codes.short[usize::from(code)] {
                Some(phrase) => {
                    text.extend_from_slice(phrase);
                    rest = behind;
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
    Some(())
}

/// Returns the id or the time that begins at a place.
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
    let places = value.iter().zip(TIME_FORM);
    let of_time = places.filter(|(_, form)| **form == b'0');
    for (digit, (byte, _)) in digits.iter_mut().zip(of_time) {
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

/// Writes the digits of a value; which kind it is, its length tells.
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
    let places = time.iter_mut().filter(|place| **place == b'0');
    places.zip(digits).for_each(|(place, digit)| *place = digit);
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
