//! The times of a rule.
//!
//! Rules specify local time, and `INTERVAL` counts local hours. A local time that is skipped when clocks go forward is due later by
//! the same amount. A local time that occurs twice when clocks go back is due the first time; only a rule with every hour has both,
//! because they are an hour apart. Coinciding times are due once. Days that a month does not have are skipped.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use jiff::{Span, ToSpan, civil};

use super::rule::{DayMatch, Frequency, ScheduleRule};
use super::{Schedule, zone};

/// Maximum number of past days that are searched.
const DAYS_BACK: usize = 400;
const EVERY_HOUR: u32 = 0xff_ffff;
const HOURS_OF_WEEK: i64 = 168;
/// Maximum number of future days that are searched for days of months: the longest distance to a 29 February.
const DAYS_AHEAD: i64 = 8 * 366;
/// The day from which hours are numbered, and its day of the week, counted from Monday.
const DAY_ZERO: civil::Date = civil::Date::constant(1970, 1, 1);
const WEEKDAY_ZERO: i64 = 3;

impl Schedule {
    /// Returns the rule's first time after `after`; `None` if there is none.
    #[must_use]
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let times = self.times()?;
        // A time that was shifted by a clock change may belong to the previous day.
        let mut day = zone::local(&self.zone, after)?.date().yesterday().ok()?;
        loop {
            day = times.day_from(day)?;
            let next_day = day.tomorrow().ok()?;
            // Includes the next day: a time shifted out of a day may be later than the first times of the next day.
            let days = [day, next_day].into_iter();
            let due = days.flat_map(|day| self.times_on(&times, day));
            if let Some(first) = due.filter(|time| *time > after).min() {
                return Some(first);
            }
            day = next_day;
        }
    }

    /// Returns the rule's last times after `after` and up to `until`, in order; at most `limit`, and none more than 400 days before
    /// `until`.
    #[must_use]
    pub fn latest(
        &self,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        limit: usize,
    ) -> Vec<DateTime<Utc>> {
        let mut found = BTreeSet::new();
        let days = zone::local(&self.zone, until).and_then(|local| {
            let first = zone::local(&self.zone, after)?.date().yesterday().ok()?;
            Some((first, local.date().tomorrow().ok()?))
        });
        if let (Some((first, last)), Some(times)) = (days, self.times()) {
            let mut day = last;
            // One additional day, for times that were shifted out of it.
            let mut left_over = 2;
            for _ in 0..DAYS_BACK {
                let due = self.times_on(&times, day);
                found.extend(due.filter(|time| after < *time && *time <= until));
                left_over -= i32::from(found.len() >= limit);
                let Ok(before) = day.yesterday() else {
                    break;
                };
                if left_over == 0 || day <= first {
                    break;
                }
                day = before;
            }
        }
        let surplus = found.len().saturating_sub(limit);
        found.into_iter().skip(surplus).collect()
    }

    fn times(&self) -> Option<Times<'_>> {
        let start = zone::local(&self.zone, self.start)?;
        Some(Times {
            minutes: match self.rule.minutes {
                0 => 1 << start.minute(),
                minutes => minutes,
            },
            hours: match self.rule.hours {
                0 => 1 << start.hour(),
                hours => hours,
            },
            rule: &self.rule,
            first_hour: hour_number(start.date(), start.hour()),
        })
    }

    /// Returns the times of a day, in any order.
    fn times_on<'a>(
        &'a self,
        times: &'a Times<'_>,
        day: civil::Date,
    ) -> impl Iterator<Item = DateTime<Utc>> + 'a {
        times.of(day).flat_map(move |(hour, minute)| {
            let local = self.zone.to_ambiguous_timestamp(day.at(hour, minute, 0, 0));
            let second = if times.is_every_hour() {
                local.later().ok()
            } else {
                None
            };
            let stamps = local.compatible().ok().into_iter().chain(second);
            stamps.filter_map(zone::time)
        })
    }
}

/// The local times of a rule.
struct Times<'a> {
    rule: &'a ScheduleRule,
    minutes: u64,
    hours: u32,
    /// Number of the hour from which `INTERVAL` counts.
    first_hour: i64,
}

impl Times<'_> {
    fn is_every_hour(&self) -> bool {
        let frequency = self.rule.frequency;
        matches!(
            frequency,
            Frequency::Hourly { interval: 1 } | Frequency::Cron
        ) && self.hours == EVERY_HOUR
    }

    const fn counts_hours(&self) -> bool {
        matches!(self.rule.frequency, Frequency::Hourly { .. })
    }

    /// Returns the interval in hours; 1 for rules that do not count hours.
    const fn step(&self) -> i64 {
        match self.rule.frequency {
            Frequency::Hourly { interval } => interval as i64,
            Frequency::Daily | Frequency::Weekly | Frequency::Monthly | Frequency::Cron => 1,
        }
    }

    /// Returns whether the rule matches a day.
    fn has_day(&self, day: civil::Date) -> bool {
        let rule = self.rule;
        let weekday = rule.days >> day.weekday().to_monday_zero_offset() & 1 == 1;
        let month_day = rule.month_days >> day.day() & 1 == 1;
        let is_day = match rule.day_match {
            DayMatch::Both => weekday && month_day,
            DayMatch::Either => weekday || month_day,
        };
        is_day && rule.months >> day.month() & 1 == 1
    }

    /// Returns whether a rule that counts hours matches an hour.
    const fn has(&self, hour: i64) -> bool {
        let day = (hour.div_euclid(24) + WEEKDAY_ZERO).rem_euclid(7);
        (hour - self.first_hour).rem_euclid(self.step()) == 0
            && self.rule.days >> day & 1 == 1
            && self.hours >> hour.rem_euclid(24) & 1 == 1
    }

    /// Returns the first day from `day` on with a matching hour. Counted hours return to the same hour of the week after at most as many
    /// steps as a week has hours, so an hour that does not match within these never matches.
    fn day_from(&self, day: civil::Date) -> Option<civil::Date> {
        if !self.counts_hours() {
            let mut days = (0..DAYS_AHEAD).map_while(|n| day.checked_add(n.days()).ok());
            return days.find(|day| self.has_day(*day));
        }
        let midnight = hour_number(day, 0);
        let first = midnight + (self.first_hour - midnight).rem_euclid(self.step());
        let mut counted = (0..HOURS_OF_WEEK).map(|n| first + n * self.step());
        let hour = counted.find(|hour| self.has(*hour))?;
        let days = Span::new().try_days(hour.div_euclid(24)).ok()?;
        DAY_ZERO.checked_add(days).ok()
    }

    fn of(&self, day: civil::Date) -> impl Iterator<Item = (i8, i8)> {
        let midnight = hour_number(day, 0);
        let is_day = self.counts_hours() || self.has_day(day);
        let is_hour = move |hour: &i8| {
            if self.counts_hours() {
                self.has(midnight + i64::from(*hour))
            } else {
                is_day && self.hours >> *hour & 1 == 1
            }
        };
        let is_minute = |minute: &i8| self.minutes >> *minute & 1 == 1;
        (0..24).filter(is_hour).flat_map(move |hour| {
            let minutes = (0..60).filter(is_minute);
            minutes.map(move |minute| (hour, minute))
        })
    }
}

/// Numbers the local hours.
fn hour_number(day: civil::Date, hour: i8) -> i64 {
    let days = day.since(DAY_ZERO);
    i64::from(days.map_or(0, |span| span.get_days())) * 24 + i64::from(hour)
}
