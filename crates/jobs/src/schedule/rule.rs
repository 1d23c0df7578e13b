//! Schedule rules: a subset of RFC 5545's RRULE, or a [cron expression](super::cron).
//!
//! The crate `rrule` implements the full RFC, including rules that fire every second, and brings its own time zone tables. The
//! subset here fits five bit sets; any other part is rejected with its name.

use std::fmt;

use super::cron;

/// Maximum length of a rule in bytes.
const MAX_BYTES: usize = 1024;
/// Maximum interval in hours: 31 days.
const MAX_INTERVAL: u32 = 744;
const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];

/// A schedule rule in local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleRule {
    /// The unit of repetition.
    pub(super) frequency: Frequency,
    /// Days of the week, one bit each from Monday.
    pub(super) days: u8,
    /// Days of the month, one bit each; bit 1 is the first day.
    pub(super) month_days: u32,
    /// Months, one bit each; bit 1 is January.
    pub(super) months: u16,
    /// How days of the week and of the month are combined.
    pub(super) day_match: DayMatch,
    /// Hours, one bit each; empty if the rule does not specify them.
    pub(super) hours: u32,
    /// Minutes, one bit each; empty if the rule does not specify them.
    pub(super) minutes: u64,
}

/// The unit of repetition of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frequency {
    /// Every `interval` hours.
    Hourly {
        /// Number of hours, from 1 to 744.
        interval: u32,
    },
    /// Every day that matches.
    Daily,
    /// On days of the week.
    Weekly,
    /// On days of the month.
    Monthly,
    /// As specified by the fields of a cron expression.
    Cron,
}

/// Which days match a rule with days of the week and of the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayMatch {
    /// Days that match both.
    Both,
    /// Days that match at least one.
    Either,
}

const ALL_WEEKDAYS: u8 = 0x7f;
const ALL_MONTH_DAYS: u32 = !1;
const ALL_MONTHS: u16 = 0x1ffe;
const ALL_HOURS: u64 = 0xff_ffff;

/// Why a schedule is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The text is too long.
    #[error("a rule has at most {MAX_BYTES} bytes")]
    TooLong,
    /// A part does not have the form `NAME=VALUE`.
    #[error(
        "`{0}` is no part of a rule; write NAME=VALUE with `;` between, or a cron expression of five fields"
    )]
    NotAPart(String),
    /// The name of a part is unknown.
    #[error(
        "`{0}` is not known in a rule; FREQ, INTERVAL, BYDAY, BYMONTHDAY, BYHOUR and BYMINUTE are"
    )]
    UnknownPart(String),
    /// A part occurs twice.
    #[error("`{0}` occurs twice")]
    Twice(&'static str),
    /// A part is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// The frequency is not supported.
    #[error("FREQ={0} is not known; HOURLY, DAILY, WEEKLY and MONTHLY are")]
    UnknownFrequency(String),
    /// The value of a part is invalid.
    #[error("{part}={value} is not possible; {allowed}")]
    BadValue {
        /// Name of the part.
        part: &'static str,
        /// The value as given.
        value: String,
        /// The valid values.
        allowed: &'static str,
    },
    /// The time zone does not exist.
    #[error("there is no time zone `{0}`; write a name such as Europe/Berlin or UTC")]
    UnknownZone(String),
    /// The rule matches no time.
    #[error(
        "the rule never fires: no time matches its days, its months, its hours and its INTERVAL"
    )]
    NeverFires,
}

#[derive(Default)]
struct RuleParts<'a> {
    freq: Option<&'a str>,
    interval: Option<&'a str>,
    days: Option<&'a str>,
    month_days: Option<&'a str>,
    hours: Option<&'a str>,
    minutes: Option<&'a str>,
}

impl ScheduleRule {
    /// Parses a cron expression, or an RRULE with or without the prefix `RRULE:`.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        if text.len() > MAX_BYTES {
            return Err(RuleError::TooLong);
        }
        let text = text.trim().to_ascii_uppercase();
        let text = text.strip_prefix("RRULE:").unwrap_or(&text);
        if let Some(rule) = cron::parse(text) {
            return rule;
        }
        let parts = RuleParts::read(text)?;
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

impl<'a> RuleParts<'a> {
    fn read(text: &'a str) -> Result<Self, RuleError> {
        let mut parts = Self::default();
        for part in text.split(';') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| RuleError::NotAPart(short(part)))?;
            let (name, part_value) = match name.trim() {
                "FREQ" => ("FREQ", &mut parts.freq),
                "INTERVAL" => ("INTERVAL", &mut parts.interval),
                "BYDAY" => ("BYDAY", &mut parts.days),
                "BYMONTHDAY" => ("BYMONTHDAY", &mut parts.month_days),
                "BYHOUR" => ("BYHOUR", &mut parts.hours),
                "BYMINUTE" => ("BYMINUTE", &mut parts.minutes),
                other => return Err(RuleError::UnknownPart(short(other))),
            };
            if part_value.replace(value.trim()).is_some() {
                return Err(RuleError::Twice(name));
            }
        }
        Ok(parts)
    }

    /// Rejects missing parts, and parts that have another meaning with the frequency.
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

/// Truncates a text for an error message.
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

/// Parses a number in the form of RFC 5545: only digits.
pub(super) fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn interval(text: &str) -> Result<u32, RuleError> {
    let hours = number(text).filter(|hours| (1..=MAX_INTERVAL).contains(hours));
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

impl fmt::Display for ScheduleRule {
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

impl ScheduleRule {
    fn fmt_cron(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = |set: u64, all: u64| {
            if set == all {
                "*".to_owned()
            } else {
                list(set)
            }
        };
        // A day field that begins with `*` must match too, so it is printed with a star. It always contains the first day.
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

/// Formats a bit set as a list of numbers.
fn list(set: u64) -> String {
    let set = (0..64).filter(|bit| set >> bit & 1 == 1);
    set.map(|bit| bit.to_string()).collect::<Vec<_>>().join(",")
}
