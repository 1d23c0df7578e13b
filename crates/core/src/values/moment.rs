//! Fast conversion of JSON timestamps, of which each event contains several.
//!
//! The format is that of `chrono`: RFC 3339 in UTC, with 0, 3, 6 or 9 fractional digits.

use std::fmt;

use chrono::{DateTime, Datelike, Timelike, Utc};
use serde::de::{Error, Visitor};
use serde::{Deserializer, Serialize, Serializer};

/// The longest text, with all digits of a second.
const FORM: &[u8; 30] = b"0000-00-00T00:00:00.000000000Z";
/// Length of a timestamp without a fraction, up to its `Z`.
const WHOLE: usize = 19;

/// Writes a time.
pub(crate) fn serialize<S: Serializer>(
    time: &DateTime<Utc>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut text = *FORM;
    match write(time, &mut text) {
        Some(text) => serializer.serialize_str(text),
        None => time.serialize(serializer),
    }
}

/// Reads a timestamp in the format that `serialize` writes, which is fast, or in any other format that `chrono` parses.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<DateTime<Utc>, D::Error> {
    deserializer.deserialize_str(MomentVisitor)
}

struct MomentVisitor;

impl Visitor<'_> for MomentVisitor {
    type Value = DateTime<Utc>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<DateTime<Utc>, E> {
        match DateTime::parse_from_rfc3339(text) {
            Ok(time) => Ok(time.to_utc()),
            Err(_) => text.parse().map_err(E::custom),
        }
    }
}

/// Writes a time; `None` for a year without exactly four digits and for a leap second.
fn write<'a>(time: &DateTime<Utc>, text: &'a mut [u8; FORM.len()]) -> Option<&'a str> {
    let (year, nanos) = (u32::try_from(time.year()).ok()?, time.nanosecond());
    if year > 9999 || nanos > 999_999_999 {
        return None;
    }
    put(&mut text[..4], year);
    put(&mut text[5..7], time.month());
    put(&mut text[8..10], time.day());
    put(&mut text[11..13], time.hour());
    put(&mut text[14..16], time.minute());
    put(&mut text[17..WHOLE], time.second());
    let digits = match nanos {
        0 => 0,
        _ if nanos.is_multiple_of(1_000_000) => 3,
        _ if nanos.is_multiple_of(1000) => 6,
        _ => 9,
    };
    let end = match digits {
        0 => WHOLE,
        _ => {
            put(&mut text[WHOLE + 1..FORM.len() - 1], nanos);
            WHOLE + 1 + digits
        }
    };
    text[end] = b'Z';
    std::str::from_utf8(&text[..=end]).ok()
}

/// Fills a slice with the decimal digits of a number.
fn put(digits: &mut [u8], mut number: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use chrono::{NaiveDate, TimeDelta};
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct At(#[serde(with = "super")] DateTime<Utc>);

    fn day(year: i32) -> DateTime<Utc> {
        let day = NaiveDate::from_ymd_opt(year, 2, 28).unwrap();
        day.and_hms_opt(23, 59, 59).unwrap().and_utc()
    }

    #[test]
    fn time_is_written_like_chrono_and_read_back() {
        let fractions = [0, 1, 1000, 123_000, 1_000_000, 999_000_000, 999_999_999];
        let leap = day(2016).with_nanosecond(1_500_000_000).unwrap();
        let of_year = |year| {
            fractions
                .into_iter()
                .map(move |nanos| day(year) + TimeDelta::nanoseconds(nanos))
        };
        let times = [-1, 0, 7, 1969, 2026, 9999, 10_000];
        let times = times.into_iter().flat_map(of_year).chain([leap]);
        for time in times {
            let text = serde_json::to_string(&At(time)).unwrap();
            assert_eq!(text, serde_json::to_string(&time).unwrap());
            assert_eq!(serde_json::from_str::<At>(&text).unwrap(), At(time));
        }
    }

    #[test]
    fn other_formats_are_read_and_invalid_times_are_refused() {
        let at: At = serde_json::from_str("\"2026-02-28T23:59:59+00:00\"").unwrap();
        assert_eq!(at, At(day(2026)));
        for text in ["\"\"", "\"yesterday\"", "\"2026-02-30T00:00:00Z\"", "12"] {
            assert!(serde_json::from_str::<At>(text).is_err(), "{text}");
        }
    }
}
