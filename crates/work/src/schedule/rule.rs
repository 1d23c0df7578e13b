//! Rules as people write them: a small part of RFC 5545's RRULE.
//!
//! The crate `rrule` reads all of it, also rules that fire every second or never end, and brings its own tables of time zones.
//! What is known here fits three sets of bits, and everything else is refused by name.

use std::fmt;

/// The longest text of a rule.
const LONGEST: usize = 1024;
/// The longest interval, in hours: 31 days.
const LONGEST_INTERVAL: u32 = 744;
const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];

/// When something is due, as clocks on the wall show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// What is counted.
    pub frequency: Frequency,
    /// On which days of the week, a bit each from Monday on.
    pub(super) days: u8,
    /// At which hours, a bit each.
    pub(super) hours: u32,
    /// At which minutes, a bit each; none where the rule does not say.
    pub(super) minutes: u64,
}

/// What a rule counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frequency {
    /// Hours: every so many.
    Hourly {
        /// How many, from 1.
        interval: u32,
    },
    /// Days of the week.
    Weekly,
}

/// Why a schedule is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The text is too long.
    #[error("a rule has at most {LONGEST} bytes")]
    TooLong,
    /// A part is no `NAME=VALUE`.
    #[error("`{0}` is no part of a rule; write NAME=VALUE with `;` between")]
    NotAPart(String),
    /// A part is not known.
    #[error("`{0}` is not known in a rule; FREQ, INTERVAL, BYDAY, BYHOUR and BYMINUTE are")]
    UnknownPart(String),
    /// A part is there twice.
    #[error("`{0}` is there twice")]
    Twice(&'static str),
    /// A part is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// Another frequency.
    #[error("FREQ={0} is not known; HOURLY and WEEKLY are")]
    UnknownFrequency(String),
    /// A value is not one of those that a part can have.
    #[error("{part}={value} is not possible; {allowed}")]
    BadValue {
        /// The part.
        part: &'static str,
        /// The value.
        value: String,
        /// What would be possible.
        allowed: &'static str,
    },
    /// No time zone has that name.
    #[error("there is no time zone `{0}`; write a name such as Europe/Berlin or UTC")]
    UnknownZone(String),
    /// Nothing is ever due.
    #[error(
        "the rule names no time: no hour that INTERVAL counts to is one of its BYDAY and BYHOUR"
    )]
    NeverFires,
}

#[derive(Default)]
struct Parts<'a> {
    freq: Option<&'a str>,
    interval: Option<&'a str>,
    days: Option<&'a str>,
    hours: Option<&'a str>,
    minutes: Option<&'a str>,
}

impl Rule {
    /// Reads a rule, with or without `RRULE:` before it.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        if text.len() > LONGEST {
            return Err(RuleError::TooLong);
        }
        let text = text.trim().to_ascii_uppercase();
        let text = text.strip_prefix("RRULE:").unwrap_or(&text);
        let parts = Parts::read(text)?;
        let frequency = match parts.freq.ok_or(RuleError::Missing("FREQ"))? {
            "HOURLY" => Frequency::Hourly {
                interval: interval(parts.interval.ok_or(RuleError::Missing("INTERVAL"))?)?,
            },
            "WEEKLY" => match parts.interval {
                None | Some("1") => Frequency::Weekly,
                Some(value) => return Err(bad("INTERVAL", value, "WEEKLY takes no other than 1")),
            },
            other => return Err(RuleError::UnknownFrequency(short(other))),
        };
        let is_weekly = frequency == Frequency::Weekly;
        let needed = |part: &'static str, given: Option<u64>, all: u64| match given {
            None if is_weekly => Err(RuleError::Missing(part)),
            given => Ok(given.unwrap_or(all)),
        };
        let days = parts.days.map(day_set).transpose()?;
        let hours = parts
            .hours
            .map(|list| numbers("BYHOUR", list, 24, "hours are 0 to 23"));
        let minutes = parts
            .minutes
            .map(|list| numbers("BYMINUTE", list, 60, "minutes are 0 to 59"));
        let days = needed("BYDAY", days.map(u64::from), 0x7f)?;
        let hours = needed("BYHOUR", hours.transpose()?, 0xff_ffff)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "7 and 24 bits are set at most"
        )]
        Ok(Self {
            frequency,
            days: days as u8,
            hours: hours as u32,
            minutes: needed("BYMINUTE", minutes.transpose()?, 0)?,
        })
    }
}

impl<'a> Parts<'a> {
    fn read(text: &'a str) -> Result<Self, RuleError> {
        let mut parts = Self::default();
        for part in text.split(';') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| RuleError::NotAPart(short(part)))?;
            let (name, place) = match name.trim() {
                "FREQ" => ("FREQ", &mut parts.freq),
                "INTERVAL" => ("INTERVAL", &mut parts.interval),
                "BYDAY" => ("BYDAY", &mut parts.days),
                "BYHOUR" => ("BYHOUR", &mut parts.hours),
                "BYMINUTE" => ("BYMINUTE", &mut parts.minutes),
                other => return Err(RuleError::UnknownPart(short(other))),
            };
            if place.replace(value.trim()).is_some() {
                return Err(RuleError::Twice(name));
            }
        }
        Ok(parts)
    }
}

/// Errors show what was written, and not more than a line of it.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

fn bad(part: &'static str, value: &str, allowed: &'static str) -> RuleError {
    RuleError::BadValue {
        part,
        value: short(value),
        allowed,
    }
}

/// Reads a number as RFC 5545 writes it: digits alone.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn interval(text: &str) -> Result<u32, RuleError> {
    let hours = number(text).filter(|hours| (1..=LONGEST_INTERVAL).contains(hours));
    hours.ok_or_else(|| bad("INTERVAL", text, "it is a number of hours from 1 to 744"))
}

fn numbers(
    part: &'static str,
    list: &str,
    end: u32,
    allowed: &'static str,
) -> Result<u64, RuleError> {
    list.split(',').try_fold(0, |set, item| {
        let number = number(item.trim()).filter(|number| *number < end);
        Ok(set | 1 << number.ok_or_else(|| bad(part, item, allowed))?)
    })
}

fn day_set(list: &str) -> Result<u8, RuleError> {
    list.split(',').try_fold(0, |set, item| {
        let day = DAYS.iter().position(|day| *day == item.trim());
        let day = day.ok_or_else(|| bad("BYDAY", item, "days are MO, TU, WE, TH, FR, SA, SU"))?;
        Ok(set | 1 << day)
    })
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frequency {
            Frequency::Hourly { interval } => write!(f, "FREQ=HOURLY;INTERVAL={interval}")?,
            Frequency::Weekly => write!(f, "FREQ=WEEKLY")?,
        }
        let list = |set: u64| {
            let set = (0..64).filter(|bit| set >> bit & 1 == 1);
            set.map(|bit| bit.to_string()).collect::<Vec<_>>().join(",")
        };
        if self.days != 0x7f || self.frequency == Frequency::Weekly {
            let days = DAYS.iter().enumerate();
            let days = days.filter(|(bit, _)| self.days >> bit & 1 == 1);
            let days: Vec<_> = days.map(|(_, day)| *day).collect();
            write!(f, ";BYDAY={}", days.join(","))?;
        }
        if self.hours != 0xff_ffff || self.frequency == Frequency::Weekly {
            write!(f, ";BYHOUR={}", list(u64::from(self.hours)))?;
        }
        if self.minutes != 0 {
            write!(f, ";BYMINUTE={}", list(self.minutes))?;
        }
        Ok(())
    }
}
