//! Cron expressions of five fields, with the rules of Vixie cron.
//!
//! Minute, hour, day of month, month, day of week. A field is a list of numbers, ranges and `*`, the latter two with an optional
//! `/step`. Months and days of the week also have three-letter names; Sunday is 0 or 7. If neither of the two day fields begins
//! with `*`, a day must match one of them; otherwise it must match both.

use super::rule::{DayMatch, Frequency, RuleError, ScheduleRule, bad, number};

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const SHORTCUTS: [(&str, &str); 7] = [
    ("@YEARLY", "0 0 1 1 *"),
    ("@ANNUALLY", "0 0 1 1 *"),
    ("@MONTHLY", "0 0 1 * *"),
    ("@WEEKLY", "0 0 * * 0"),
    ("@DAILY", "0 0 * * *"),
    ("@MIDNIGHT", "0 0 * * *"),
    ("@HOURLY", "0 * * * *"),
];

/// A field: its name in errors, its range, and the names of its numbers.
struct Field {
    name: &'static str,
    first: u32,
    last: u32,
    names: &'static [&'static str],
    allowed: &'static str,
}

const MINUTE: Field = Field::new("minute", 0, 59, &[], "minutes are 0 to 59");
const HOUR: Field = Field::new("hour", 0, 23, &[], "hours are 0 to 23");
const MONTH_DAY: Field = Field::new("day of month", 1, 31, &[], "days of the month are 1 to 31");
const MONTH: Field = Field::new("month", 1, 12, &MONTHS, "months are 1 to 12 or JAN to DEC");
const WEEKDAY: Field = Field::new(
    "day of week",
    0,
    7,
    &WEEKDAYS,
    "days of the week are 0 to 7 or SUN to SAT; 0 and 7 are Sunday",
);

/// Parses an expression in upper case; `None` if the text does not have five fields.
pub(super) fn parse(text: &str) -> Option<Result<ScheduleRule, RuleError>> {
    let shortcut = SHORTCUTS.iter().find(|(name, _)| *name == text);
    let text = match shortcut {
        Some((_, fields)) => fields,
        None if text.starts_with('@') => {
            let allowed = "use @hourly, @daily, @weekly, @monthly or @yearly";
            return Some(Err(bad("cron", text, allowed)));
        }
        None => text,
    };
    let fields: Vec<_> = text.split_whitespace().collect();
    <[&str; 5]>::try_from(fields).ok().map(read)
}

fn read([minute, hour, month_day, month, weekday]: [&str; 5]) -> Result<ScheduleRule, RuleError> {
    let is_either = !month_day.starts_with('*') && !weekday.starts_with('*');
    let weekdays = WEEKDAY.read(weekday)?;
    // From Sunday as 0 and 7 to bits from Monday on.
    let weekdays = (weekdays >> 1 | weekdays << 6) & 0x7f;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each field bounds its bits"
    )]
    Ok(ScheduleRule {
        frequency: Frequency::Cron,
        days: weekdays as u8,
        month_days: MONTH_DAY.read(month_day)? as u32,
        months: MONTH.read(month)? as u16,
        day_match: if is_either {
            DayMatch::Either
        } else {
            DayMatch::Both
        },
        hours: HOUR.read(hour)? as u32,
        minutes: MINUTE.read(minute)?,
    })
}

impl Field {
    const fn new(
        name: &'static str,
        first: u32,
        last: u32,
        names: &'static [&'static str],
        allowed: &'static str,
    ) -> Self {
        Self {
            name,
            first,
            last,
            names,
            allowed,
        }
    }

    /// Parses a list into a bit set.
    fn read(&self, list: &str) -> Result<u64, RuleError> {
        list.split(',').try_fold(0, |set, item| {
            let bits = self.item(item);
            Ok(set | bits.ok_or_else(|| bad(self.name, item, self.allowed))?)
        })
    }

    fn item(&self, item: &str) -> Option<u64> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(number(step).filter(|step| *step > 0)?)),
            None => (item, None),
        };
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (self.first, self.last.min(self.first + self.span())),
            (_, Some((first, last))) => (self.number(first)?, self.number(last)?),
            // As in Vixie cron, a step needs a range.
            (single, None) if step.is_none() => (self.number(single)?, self.number(single)?),
            _ => return None,
        };
        let step = usize::try_from(step.unwrap_or(1)).ok()?;
        let numbers = (first..=last).step_by(step);
        (first <= last).then(|| numbers.fold(0, |set, number| set | 1 << number))
    }

    /// Difference between the last and the first number of `*`, which excludes 7 because it is Sunday again.
    fn span(&self) -> u32 {
        match self.names.len() {
            0 => self.last - self.first,
            names => u32::try_from(names).unwrap_or(u32::MAX) - 1,
        }
    }

    fn number(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| *name == text);
        let named = named.and_then(|at| u32::try_from(at).ok());
        let number = named.map(|at| at + self.first).or_else(|| number(text));
        number.filter(|number| (self.first..=self.last).contains(number))
    }
}
