//! The times of rules, compared with a check of every minute that uses hard-coded offsets of two zones.

use chrono::{DateTime, Datelike, TimeDelta, Timelike, Utc};
use windlass_jobs::schedule::{RuleError, Schedule, ScheduleRule};

use crate::support::time;

/// A zone: its winter offset in hours, and the start and end of summer time in 2026.
pub(crate) struct Zone {
    pub(crate) name: &'static str,
    winter: i64,
    summer: [i64; 2],
}

pub(crate) const ZONES: [Zone; 3] = [
    Zone {
        name: "Europe/Berlin",
        winter: 1,
        // From 2026-03-29T01:00:00Z to 2026-10-25T01:00:00Z.
        summer: [1774746000, 1792890000],
    },
    Zone {
        name: "America/New_York",
        winter: -5,
        // From 2026-03-08T07:00:00Z to 2026-11-01T06:00:00Z.
        summer: [1772953200, 1793512800],
    },
    Zone {
        name: "UTC",
        winter: 0,
        summer: [0, 0],
    },
];

impl Zone {
    /// Returns the local time.
    fn local(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        let [begin, end] = self.summer;
        let summer = i64::from(begin <= at.timestamp() && at.timestamp() < end);
        at + TimeDelta::hours(self.winter + summer)
    }
}

/// The expected parse of a rule, written by hand.
pub(crate) struct ReferenceRule {
    pub(crate) text: &'static str,
    /// 1 for every hour.
    interval: i64,
    is_weekly: bool,
    days: &'static [u32],
    hours: &'static [u32],
    minutes: &'static [u32],
}

const ALL: &[u32] = &[];

pub(crate) const RULES: [ReferenceRule; 9] = [
    reference_rule(
        "FREQ=WEEKLY;BYDAY=SU;BYHOUR=2;BYMINUTE=30",
        1,
        true,
        &[6],
        &[2],
        &[30],
    ),
    reference_rule(
        "FREQ=WEEKLY;BYDAY=SU,MO;BYHOUR=1,2,3;BYMINUTE=0,30",
        1,
        true,
        &[6, 0],
        &[1, 2, 3],
        &[0, 30],
    ),
    reference_rule(
        "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0",
        1,
        true,
        &[0, 1, 2, 3, 4],
        &[9],
        &[0],
    ),
    reference_rule(
        "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=23,0;BYMINUTE=59",
        1,
        true,
        &[5, 6],
        &[23, 0],
        &[59],
    ),
    reference_rule(
        "FREQ=HOURLY;INTERVAL=1;BYMINUTE=15",
        1,
        false,
        ALL,
        ALL,
        &[15],
    ),
    reference_rule(
        "FREQ=HOURLY;INTERVAL=1;BYDAY=SU;BYHOUR=1,2,3;BYMINUTE=0",
        1,
        false,
        &[6],
        &[1, 2, 3],
        &[0],
    ),
    reference_rule(
        "FREQ=HOURLY;INTERVAL=6;BYMINUTE=0",
        6,
        false,
        ALL,
        ALL,
        &[0],
    ),
    reference_rule(
        "FREQ=HOURLY;INTERVAL=5;BYMINUTE=10,50",
        5,
        false,
        ALL,
        ALL,
        &[10, 50],
    ),
    reference_rule(
        "FREQ=HOURLY;INTERVAL=24;BYMINUTE=30",
        24,
        false,
        ALL,
        ALL,
        &[30],
    ),
];

const fn reference_rule(
    text: &'static str,
    interval: i64,
    is_weekly: bool,
    days: &'static [u32],
    hours: &'static [u32],
    minutes: &'static [u32],
) -> ReferenceRule {
    ReferenceRule {
        text,
        interval,
        is_weekly,
        days,
        hours,
        minutes,
    }
}

impl ReferenceRule {
    /// Returns whether the rule matches a local time.
    fn names(&self, zone: &Zone, start: DateTime<Utc>, wall: DateTime<Utc>) -> bool {
        let has = |set: &[u32], value| set.is_empty() || set.contains(&value);
        let hour = |at: DateTime<Utc>| at.timestamp().div_euclid(3600);
        let passed = hour(wall) - hour(zone.local(start));
        has(self.days, wall.weekday().num_days_from_monday())
            && has(self.hours, wall.hour())
            && has(self.minutes, wall.minute())
            && (self.is_weekly || passed.rem_euclid(self.interval) == 0)
    }

    /// Returns whether a minute is due.
    fn is_due(&self, zone: &Zone, start: DateTime<Utc>, at: DateTime<Utc>) -> bool {
        let hour = TimeDelta::hours(1);
        let is_every_hour = !self.is_weekly && self.interval == 1 && self.hours.is_empty();
        let wall = zone.local(at);
        let is_second = zone.local(at - hour) == wall;
        if self.names(zone, start, wall) && (is_every_hour || !is_second) {
            return true;
        }
        // In the hour after clocks went forward, the times of the skipped hour are due too.
        let is_behind_gap = zone.local(at - hour) == wall - hour * 2;
        is_behind_gap && self.names(zone, start, wall - hour)
    }

    /// Checks every minute after `after` and up to `until`.
    pub(crate) fn all(
        &self,
        zone: &Zone,
        start: DateTime<Utc>,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Vec<DateTime<Utc>> {
        let first = after.timestamp().div_euclid(60) + 1;
        let last = until.timestamp().div_euclid(60);
        let minutes =
            (first..=last).map(|minute| DateTime::from_timestamp(minute * 60, 0).unwrap());
        minutes.filter(|at| self.is_due(zone, start, *at)).collect()
    }
}

fn schedule(text: &str, zone: &str, start: DateTime<Utc>) -> Schedule {
    Schedule::new(ScheduleRule::parse(text).unwrap(), zone, start).unwrap()
}

#[test]
fn times_match_a_check_of_every_minute() {
    for (from, until) in [
        ("2026-03-01T03:20:00Z", "2026-04-05T00:00:00Z"),
        ("2026-10-18T17:00:00Z", "2026-11-22T00:00:00Z"),
    ] {
        let (from, until) = (time(from), time(until));
        for zone in &ZONES {
            for rule in &RULES {
                let wanted = rule.all(zone, from, from, until);
                assert!(wanted.len() > 3, "{} finds {wanted:?}", rule.text);
                let schedule = schedule(rule.text, zone.name, from);
                let next = |at: &DateTime<Utc>| schedule.next(*at);
                let found = std::iter::successors(next(&from), next);
                let found: Vec<_> = found.take_while(|at| *at <= until).collect();
                assert_eq!(found, wanted, "{} in {}", rule.text, zone.name);
                let latest = schedule.latest(from, until, usize::MAX);
                assert_eq!(latest, wanted, "{} in {}", rule.text, zone.name);
                let some = schedule.latest(from, until, 3);
                assert_eq!(some, wanted[wanted.len() - 3..]);
            }
        }
    }
}

#[test]
fn minute_of_the_start_is_the_default() {
    let start = time("2026-05-05T10:23:45Z");
    let schedule = schedule("FREQ=HOURLY;INTERVAL=4", "Asia/Kolkata", start);
    // 10:23 there is 15:53 in India.
    let next = schedule.next(start);
    assert_eq!(next, Some(time("2026-05-05T14:23:00Z")));
}

#[test]
fn unknown_parts_are_rejected_by_name() {
    let refused = |text: &str| ScheduleRule::parse(text).unwrap_err();
    let long = "FREQ=HOURLY;".repeat(100);
    for (text, error) in [
        ("", RuleError::NotAPart(String::new())),
        ("every day", RuleError::NotAPart("EVERY DAY".to_owned())),
        (
            "FREQ=SECONDLY",
            RuleError::UnknownFrequency("SECONDLY".to_owned()),
        ),
        (
            "FREQ=MINUTELY;INTERVAL=1",
            RuleError::UnknownFrequency("MINUTELY".to_owned()),
        ),
        ("FREQ=HOURLY", RuleError::Missing("INTERVAL")),
        ("INTERVAL=1", RuleError::Missing("FREQ")),
        (
            "FREQ=WEEKLY;BYDAY=MO;BYHOUR=1",
            RuleError::Missing("BYMINUTE"),
        ),
        (
            "FREQ=WEEKLY;BYHOUR=1;BYMINUTE=1",
            RuleError::Missing("BYDAY"),
        ),
        (
            "FREQ=HOURLY;INTERVAL=1;BYSECOND=0,1",
            RuleError::UnknownPart("BYSECOND".to_owned()),
        ),
        (
            "FREQ=HOURLY;INTERVAL=1;COUNT=3",
            RuleError::UnknownPart("COUNT".to_owned()),
        ),
        (
            "FREQ=HOURLY;INTERVAL=1;INTERVAL=2",
            RuleError::Twice("INTERVAL"),
        ),
        (&long, RuleError::TooLong),
    ] {
        assert_eq!(refused(text), error, "{text}");
    }
    for text in [
        "FREQ=HOURLY;INTERVAL=0",
        "FREQ=HOURLY;INTERVAL=745",
        "FREQ=HOURLY;INTERVAL=-1",
        "FREQ=HOURLY;INTERVAL=+1",
        "FREQ=HOURLY;INTERVAL=99999999999999999999",
        "FREQ=HOURLY;INTERVAL=1;BYHOUR=24",
        "FREQ=HOURLY;INTERVAL=1;BYMINUTE=60",
        "FREQ=HOURLY;INTERVAL=1;BYMINUTE=",
        "FREQ=HOURLY;INTERVAL=1;BYDAY=1MO",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=1;BYMINUTE=1",
    ] {
        assert!(
            matches!(refused(text), RuleError::BadValue { .. }),
            "{text}"
        );
    }
}

#[test]
fn invalid_time_zones_are_rejected() {
    let rule = ScheduleRule::parse("FREQ=HOURLY;INTERVAL=1").unwrap();
    let long = "A".repeat(10_000);
    for zone in [
        "",
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/localtime",
        "Europe/Berlin\0",
        "🕐",
        &long,
    ] {
        let refused = Schedule::new(rule, zone, time("2026-01-01T00:00:00Z"));
        assert!(matches!(refused, Err(RuleError::UnknownZone(_))), "{zone}");
    }
}

#[test]
fn rule_that_never_fires_is_rejected() {
    let now = time("2026-01-01T10:00:00Z");
    // Every 24 hours from ten o'clock on, and only at nine.
    let never = schedule("FREQ=HOURLY;INTERVAL=24;BYHOUR=9", "UTC", now);
    assert_eq!(never.check(now), Err(RuleError::NeverFires));
    let at_ten = schedule("FREQ=HOURLY;INTERVAL=24;BYHOUR=10", "UTC", now);
    assert_eq!(at_ten.check(now), Ok(time("2026-01-02T10:00:00Z")));
}

/// Checks every hour of a full cycle of `INTERVAL` and the week.
#[test]
fn rarely_firing_rule_is_found() {
    let start = time("2026-03-01T10:20:00Z");
    let mut is_rare = false;
    for (interval, days, byday, hours) in [
        (743, ALL, "MO,TU,WE,TH,FR,SA,SU", &[9][..]),
        (71, &[0], "MO", &[9]),
        (743, &[0], "MO", &[9]),
        (743, &[6, 2], "SU,WE", &[23, 0]),
        (168, &[6], "SU", &[10]),
        (744, &[5], "SA", &[10]),
    ] {
        let list: Vec<_> = hours.iter().map(|hour: &u32| hour.to_string()).collect();
        let text = format!(
            "FREQ=HOURLY;INTERVAL={interval};BYDAY={byday};BYHOUR={}",
            list.join(",")
        );
        let schedule = schedule(&text, "UTC", start);
        let counted = (1..=168).map(|n| start + TimeDelta::hours(n * interval));
        let named = counted.filter(|at| {
            let day = at.weekday().num_days_from_monday();
            (days.is_empty() || days.contains(&day)) && hours.contains(&at.hour())
        });
        let wanted: Vec<_> = named.collect();
        let next = |at: &DateTime<Utc>| schedule.next(*at);
        let found: Vec<_> = std::iter::successors(next(&start), next)
            .take(wanted.len())
            .collect();
        assert!(!wanted.is_empty(), "{text}");
        assert_eq!(found, wanted, "{text}");
        let gaps = wanted.windows(2).map(|two| two[1] - two[0]);
        is_rare |= gaps.max() > Some(TimeDelta::days(400));
    }
    assert!(is_rare);
}

#[test]
fn printed_rule_parses_to_the_same_rule() {
    for text in [
        "FREQ=HOURLY;INTERVAL=3",
        "FREQ=HOURLY;INTERVAL=1;BYDAY=MO,SU;BYHOUR=0,23;BYMINUTE=0,59",
        "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=9;BYMINUTE=0",
    ] {
        assert_eq!(ScheduleRule::parse(text).unwrap().to_string(), text);
    }
    let odd =
        ScheduleRule::parse(" rrule:freq=weekly;byminute=5;byhour=1;byday=su,mo,su ").unwrap();
    assert_eq!(
        odd.to_string(),
        "FREQ=WEEKLY;BYDAY=MO,SU;BYHOUR=1;BYMINUTE=5"
    );
}

#[test]
fn times_at_the_ends_of_the_calendar_are_handled() {
    for at in [
        "-9999-01-02T00:00:00Z",
        "9999-12-30T22:00:00Z",
        "+12000-01-01T00:00:00Z",
    ] {
        let at = time(at);
        let schedule = schedule("FREQ=HOURLY;INTERVAL=744;BYMINUTE=1", "Pacific/Apia", at);
        assert_eq!(schedule.next(at + TimeDelta::days(3)), None);
        assert!(schedule.latest(at - TimeDelta::days(900), at, 3).len() <= 3);
    }
}

/// The next times of a rule in Berlin from 2026-02-27 08:30 local time on, which is a Friday.
fn next_in_berlin(text: &str, count: usize) -> Vec<String> {
    let start = time("2026-02-27T07:30:00Z");
    let schedule = schedule(text, "Europe/Berlin", start);
    let next = |at: &DateTime<Utc>| schedule.next(*at);
    let times = std::iter::successors(next(&start), next).take(count);
    times.map(|at| at.format("%FT%R").to_string()).collect()
}

#[test]
fn daily_and_monthly_rules_match_their_days() {
    for (text, times) in [
        // The defaults are the hour and minute of the start.
        ("FREQ=DAILY", ["2026-02-28T07:30", "2026-03-01T07:30"]),
        (
            "FREQ=DAILY;BYHOUR=9;BYMINUTE=0",
            ["2026-02-27T08:00", "2026-02-28T08:00"],
        ),
        (
            "FREQ=DAILY;INTERVAL=1;BYDAY=SA,SU;BYHOUR=9;BYMINUTE=0",
            ["2026-02-28T08:00", "2026-03-01T08:00"],
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=0;BYMINUTE=5",
            ["2026-03-30T22:05", "2026-05-30T22:05"],
        ),
    ] {
        assert_eq!(next_in_berlin(text, 2), times, "{text}");
        assert_eq!(
            ScheduleRule::parse(text).unwrap().to_string(),
            text.replace(";INTERVAL=1", "")
        );
    }
    for text in [
        "FREQ=DAILY;INTERVAL=2",
        "FREQ=DAILY;BYMONTHDAY=1",
        "FREQ=MONTHLY;BYMONTHDAY=0",
        "FREQ=MONTHLY;BYMONTHDAY=-1",
        "FREQ=MONTHLY;BYMONTHDAY=1;BYDAY=MO",
    ] {
        let refused = ScheduleRule::parse(text).unwrap_err();
        assert!(matches!(refused, RuleError::BadValue { .. }), "{text}");
    }
    let refused = ScheduleRule::parse("FREQ=MONTHLY").unwrap_err();
    assert_eq!(refused, RuleError::Missing("BYMONTHDAY"));
}

#[test]
fn cron_expressions_match_the_times_of_vixie_cron() {
    for (text, times) in [
        ("0 9 * * 1-5", ["2026-02-27T08:00", "2026-03-02T08:00"]),
        ("0 9 * * mon-fri", ["2026-02-27T08:00", "2026-03-02T08:00"]),
        ("*/20 * * * *", ["2026-02-27T07:40", "2026-02-27T08:00"]),
        ("5,50 8 * * *", ["2026-02-27T07:50", "2026-02-28T07:05"]),
        ("0 0-10/5 * * *", ["2026-02-27T09:00", "2026-02-27T23:00"]),
        // Sunday is 0 and 7.
        ("0 12 * * 0", ["2026-03-01T11:00", "2026-03-08T11:00"]),
        ("0 12 * * 7", ["2026-03-01T11:00", "2026-03-08T11:00"]),
        ("0 12 * * 5-7", ["2026-02-27T11:00", "2026-02-28T11:00"]),
        // Two day fields without a star: either of them.
        ("0 12 1 * 5", ["2026-02-27T11:00", "2026-03-01T11:00"]),
        // With a star: both of them. The Fridays with an odd number.
        ("0 12 */2 * 5", ["2026-02-27T11:00", "2026-03-13T11:00"]),
        ("0 0 29 2 *", ["2028-02-28T23:00", "2032-02-28T23:00"]),
        ("0 0 1 JAN *", ["2026-12-31T23:00", "2027-12-31T23:00"]),
        ("@daily", ["2026-02-27T23:00", "2026-02-28T23:00"]),
        ("@weekly", ["2026-02-28T23:00", "2026-03-07T23:00"]),
        ("@monthly", ["2026-02-28T23:00", "2026-03-31T22:00"]),
        ("@hourly", ["2026-02-27T08:00", "2026-02-27T09:00"]),
    ] {
        assert_eq!(next_in_berlin(text, 2), times, "{text}");
        // The printed rule parses to the same rule.
        let rule = ScheduleRule::parse(text).unwrap();
        assert_eq!(
            ScheduleRule::parse(&rule.to_string()).unwrap(),
            rule,
            "{text}"
        );
    }
}

#[test]
fn cron_expressions_follow_local_time() {
    let times = |text: &str, start: &str, count| {
        let start = time(start);
        let schedule = schedule(text, "Europe/Berlin", start);
        let next = |at: &DateTime<Utc>| schedule.next(*at);
        let times = std::iter::successors(next(&start), next).take(count);
        times
            .map(|at| at.format("%dT%R").to_string())
            .collect::<Vec<_>>()
    };
    // 02:30 is skipped on 29 March and occurs twice on 25 October.
    let spring = times("30 2 * * *", "2026-03-28T00:00:00Z", 3);
    assert_eq!(spring, ["28T01:30", "29T01:30", "30T00:30"]);
    let autumn = times("30 2 * * *", "2026-10-24T12:00:00Z", 2);
    assert_eq!(autumn, ["25T00:30", "26T01:30"]);
    let every_hour = times("30 * * * *", "2026-10-25T00:00:00Z", 3);
    assert_eq!(every_hour, ["25T00:30", "25T01:30", "25T02:30"]);
}

#[test]
fn invalid_cron_expressions_are_rejected_by_field() {
    for (text, part) in [
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * 32 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of week"),
        ("* * * * L", "day of week"),
        ("*/0 * * * *", "minute"),
        ("5/10 * * * *", "minute"),
        ("9-5 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("-1 * * * *", "minute"),
        ("1- * * * *", "minute"),
        ("+1 * * * *", "minute"),
        ("99999999999999999999 * * * *", "minute"),
        ("@reboot", "cron"),
    ] {
        match ScheduleRule::parse(text).unwrap_err() {
            RuleError::BadValue { part: found, .. } => assert_eq!(found, part, "{text}"),
            other => panic!("{text}: {other}"),
        }
    }
    for text in ["* * * *", "* * * * * *"] {
        let refused = ScheduleRule::parse(text).unwrap_err();
        assert!(refused.to_string().contains("cron"), "{refused}");
    }
    let now = time("2026-01-01T00:00:00Z");
    let never = schedule("0 0 31 2,4 *", "UTC", now);
    assert_eq!(never.check(now), Err(RuleError::NeverFires));
}
