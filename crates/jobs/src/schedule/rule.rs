//! Rules as people write them: a small part of RFC 5545's RRULE, or a [cron expression](super::cron).
//!
//! The crate `rrule` reads all of it, also rules that fire every second or never end, and brings its own tables of time zones.
//! What is known here fits five sets of bits, and everything else is refused by name.

use std::fmt;

use super::cron;

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
    /// On which days of the month, a bit each; that of 1 is the second.
    pub(super) month_days: u32,
    /// In which months, a bit each; that of January is the second.
    pub(super) months: u16,
    /// How days of the week and of the month go together.
    pub(super) day_match: DayMatch,
    /// At which hours, a bit each; none where the rule does not say.
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
    /// Days.
    Daily,
    /// Days of the week.
    Weekly,
    /// Days of the month.
    Monthly,
    /// What the fields of a cron expression name.
    Cron,
}

/// Which days match a rule that names days of the week and of the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayMatch {
    /// Those that match both.
    Both,
    /// Those that match one of them.
    Either,
}

const ALL_WEEKDAYS: u8 = 0x7f;
const ALL_MONTH_DAYS: u32 = !1;
const ALL_MONTHS: u16 = 0x1ffe;
const ALL_HOURS: u64 = 0xff_ffff;

/// Why a schedule is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The text is too long.
    #[error("a rule has at most {LONGEST} bytes")]
    TooLong,
    /// A part is no `NAME=VALUE`.
    #[error(
        "`{0}` is no part of a rule; write NAME=VALUE with `;` between, or a cron expression of five fields"
    )]
    NotAPart(String),
    /// A part is not known.
    #[error(
        "`{0}` is not known in a rule; FREQ, INTERVAL, BYDAY, BYMONTHDAY, BYHOUR and BYMINUTE are"
    )]
    UnknownPart(String),
    /// A part is there twice.
    #[error("`{0}` is there twice")]
    Twice(&'static str),
    /// A part is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// Another frequency.
    #[error("FREQ={0} is not known; HOURLY, DAILY, WEEKLY and MONTHLY are")]
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
        "the rule never fires: no time matches its days, its months, its hours and its INTERVAL"
    )]
    NeverFires,
}

#[derive(Default)]
struct Parts<'a> {
    freq: Option<&'a str>,
    interval: Option<&'a str>,
    days: Option<&'a str>,
    month_days: Option<&'a str>,
    hours: Option<&'a str>,
    minutes: Option<&'a str>,
}

impl Rule {
    /// Reads a cron expression, or an RRULE with or without `RRULE:` before it.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        if text.len() > LONGEST {
            return Err(RuleError::TooLong);
        }
        let text = text.trim().to_ascii_uppercase();
        let text = text.strip_prefix("RRULE:").unwrap_or(&text);
        if let Some(rule) = cron::parse(text) {
            return rule;
        }
        let parts = Parts::read(text)?;
        let only_one = |frequency, allowed| match parts.interval {
            None | Some("1") => Ok(frequency),
            Some(value) => Err(bad("INTERVAL", value, allowed)),
        };
        let frequency = match parts.freq.ok_or(RuleError::Missing("FREQ"))? {
            "HOURLY" => Frequency::Hourly {
                interval: interval(parts.interval.ok_or(RuleError::Missing("INTERVAL"))?)?,
            },
            "DAILY" => only_one(Frequency::Daily, "DAILY takes no other than 1")?,
            "WEEKLY" => only_one(Frequency::Weekly, "WEEKLY takes no other than 1")?,
            "MONTHLY" => only_one(Frequency::Monthly, "MONTHLY takes no other than 1")?,
            other => return Err(RuleError::UnknownFrequency(short(other))),
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "hours have 24 bits at most"
        )]
        let rule = Self {
            frequency,
            days: parts.days.map_or(Ok(ALL_WEEKDAYS), day_set)?,
            month_days: parts.month_days.map_or(Ok(ALL_MONTH_DAYS), month_day_set)?,
            months: ALL_MONTHS,
            day_match: DayMatch::Both,
            hours: match (parts.hours, frequency) {
                (Some(list), _) => numbers("BYHOUR", list, 24, "hours are 0 to 23")?,
                (None, Frequency::Hourly { .. }) => ALL_HOURS,
                (None, _) => 0,
            } as u32,
            minutes: parts.minutes.map_or(Ok(0), |list| {
                numbers("BYMINUTE", list, 60, "minutes are 0 to 59")
            })?,
        };
        parts.check(frequency)?;
        Ok(rule)
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
                "BYMONTHDAY" => ("BYMONTHDAY", &mut parts.month_days),
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

    /// Refuses parts that are missing, or that a frequency gives another meaning.
    fn check(&self, frequency: Frequency) -> Result<(), RuleError> {
        let needed: &[_] = match frequency {
            Frequency::Weekly => &[
                ("BYDAY", self.days),
                ("BYHOUR", self.hours),
                ("BYMINUTE", self.minutes),
            ],
            Frequency::Monthly => &[("BYMONTHDAY", self.month_days)],
            Frequency::Hourly { .. } | Frequency::Daily | Frequency::Cron => &[],
        };
        if let Some((part, _)) = needed.iter().find(|(_, value)| value.is_none()) {
            return Err(RuleError::Missing(part));
        }
        let is_monthly = frequency == Frequency::Monthly;
        match (self.days, self.month_days) {
            (Some(days), _) if is_monthly => Err(bad("BYDAY", days, "MONTHLY takes BYMONTHDAY")),
            (_, Some(days)) if !is_monthly => Err(bad("BYMONTHDAY", days, "only MONTHLY takes it")),
            _ => Ok(()),
        }
    }
}

/// Errors show what was written, and not more than a line of it.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

pub(super) fn bad(part: &'static str, value: &str, allowed: &'static str) -> RuleError {
    RuleError::BadValue {
        part,
        value: short(value),
        allowed,
    }
}

/// Reads a number as RFC 5545 writes it: digits alone.
pub(super) fn number(text: &str) -> Option<u32> {
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

fn month_day_set(list: &str) -> Result<u32, RuleError> {
    let allowed = "days of the month are 1 to 31";
    let set = numbers("BYMONTHDAY", list, 32, allowed)?;
    match u32::try_from(set).ok().filter(|set| set & 1 == 0) {
        Some(set) => Ok(set),
        None => Err(bad("BYMONTHDAY", list, allowed)),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frequency {
            Frequency::Hourly { interval } => write!(f, "FREQ=HOURLY;INTERVAL={interval}")?,
            Frequency::Daily => write!(f, "FREQ=DAILY")?,
            Frequency::Weekly => write!(f, "FREQ=WEEKLY")?,
            Frequency::Monthly => write!(f, "FREQ=MONTHLY")?,
            Frequency::Cron => return self.fmt_cron(f),
        }
        if self.days != ALL_WEEKDAYS || self.frequency == Frequency::Weekly {
            let days = DAYS.iter().enumerate();
            let days = days.filter(|(bit, _)| self.days >> bit & 1 == 1);
            let days: Vec<_> = days.map(|(_, day)| *day).collect();
            write!(f, ";BYDAY={}", days.join(","))?;
        }
        if self.frequency == Frequency::Monthly {
            write!(f, ";BYMONTHDAY={}", list(u64::from(self.month_days)))?;
        }
        let is_every_hour = u64::from(self.hours) == ALL_HOURS;
        if self.hours != 0 && (!is_every_hour || self.frequency == Frequency::Weekly) {
            write!(f, ";BYHOUR={}", list(u64::from(self.hours)))?;
        }
        if self.minutes != 0 {
            write!(f, ";BYMINUTE={}", list(self.minutes))?;
        }
        Ok(())
    }
}

impl Rule {
    fn fmt_cron(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = |set: u64, all: u64| {
            if set == all {
                "*".to_owned()
            } else {
                list(set)
            }
        };
        // A day field that begins with `*` has to match too, so that such a field keeps its star. It always has the first day.
        let day = |set: u64, all: u64, star: &str| match self.day_match {
            DayMatch::Either => list(set),
            DayMatch::Both if set == all || set & all & all.wrapping_neg() == 0 => field(set, all),
            DayMatch::Both => format!("{star},{}", list(set)),
        };
        let weekdays = u64::from(self.days);
        let weekdays = (weekdays << 1 | weekdays >> 6) & 0x7f;
        write!(
            f,
            "{} {} {} {} {}",
            field(self.minutes, (1 << 60) - 1),
            field(u64::from(self.hours), ALL_HOURS),
            day(
                u64::from(self.month_days),
                u64::from(ALL_MONTH_DAYS),
                "*/31"
            ),
            field(u64::from(self.months), u64::from(ALL_MONTHS)),
            day(weekdays, u64::from(ALL_WEEKDAYS), "*/7"),
        )
    }
}

/// Writes a set of bits as a list of numbers.
fn list(set: u64) -> String {
    let set = (0..64).filter(|bit| set >> bit & 1 == 1);
    set.map(|bit| bit.to_string()).collect::<Vec<_>>().join(",")
}
