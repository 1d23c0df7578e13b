//! What the configuration says of tasks, automations and the fleet.

use std::time::Duration;

use anyhow::{Context, ensure};
use jiff::tz::TimeZone;
use windlass_server::WorkSettings;
use windlass_work::schedule::check_zone;
use windlass_work::{fleet, tasks};

use crate::config::Config;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads `[tasks]` and `[fleet]`, and how long what has ended is kept.
pub(crate) fn settings(config: &Config) -> anyhow::Result<WorkSettings> {
    let mut settings = WorkSettings::default();
    for (key, said, most, place) in [
        (
            "tasks.workers",
            config.tasks.workers,
            tasks::MAX_WORKERS,
            &mut settings.tasks.workers,
        ),
        (
            "fleet.workers",
            config.fleet.workers,
            fleet::MAX_WORKERS,
            &mut settings.fleet.workers,
        ),
        (
            "fleet.open_runs",
            config.fleet.open_runs,
            fleet::MAX_OPEN_RUNS,
            &mut settings.fleet.open_runs,
        ),
    ] {
        if let Some(said) = said {
            let is_possible = (1..=most).contains(&said);
            ensure!(
                is_possible,
                "{key} is {said}, but it can be from 1 to {most}"
            );
            *place = said;
        }
    }
    settings.automations.local_zone = match &config.tasks.time_zone {
        Some(zone) => {
            check_zone(zone).context("tasks.time_zone")?;
            zone.clone()
        }
        None => system_zone(),
    };
    settings.keep_ended = config.retention.max_age_days.map(|days| DAY * days);
    Ok(settings)
}

/// Returns the name of the machine's time zone; where it has none that is known, UTC.
pub(crate) fn system_zone() -> String {
    let zone = TimeZone::system();
    let name = zone.iana_name().filter(|name| check_zone(name).is_ok());
    name.unwrap_or("UTC").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_counts_and_what_cannot_be_is_refused() {
        let mut config = Config::default();
        assert_eq!(settings(&config).unwrap().tasks.workers, 2);
        config.tasks.workers = Some(8);
        config.tasks.time_zone = Some("Asia/Tokyo".to_owned());
        config.retention.max_age_days = Some(2);
        let read = settings(&config).unwrap();
        assert_eq!(read.tasks.workers, 8);
        assert_eq!(read.automations.local_zone, "Asia/Tokyo");
        assert_eq!(read.keep_ended, Some(DAY * 2));
        for workers in [0, 9] {
            config.tasks.workers = Some(workers);
            assert!(settings(&config).is_err());
        }
        config.tasks.workers = None;
        assert_eq!((read.fleet.workers, read.fleet.open_runs), (8, 32));
        config.fleet.workers = Some(64);
        config.fleet.open_runs = Some(1);
        let read = settings(&config).unwrap();
        assert_eq!((read.fleet.workers, read.fleet.open_runs), (64, 1));
        for (workers, open_runs, text) in [
            (0, 1, "fleet.workers is 0, but it can be from 1 to 64"),
            (65, 1, "fleet.workers is 65, but it can be from 1 to 64"),
            (1, 0, "fleet.open_runs is 0, but it can be from 1 to 256"),
            (
                1,
                257,
                "fleet.open_runs is 257, but it can be from 1 to 256",
            ),
        ] {
            config.fleet.workers = Some(workers);
            config.fleet.open_runs = Some(open_runs);
            assert_eq!(settings(&config).unwrap_err().to_string(), text);
        }
        (config.fleet.workers, config.fleet.open_runs) = (None, None);
        config.tasks.time_zone = Some("Mars/Olympus".to_owned());
        assert!(settings(&config).is_err());
        assert!(check_zone(&system_zone()).is_ok());
    }
}
