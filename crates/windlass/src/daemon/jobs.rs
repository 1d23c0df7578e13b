//! Converts the configuration of tasks, automations and the fleet.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use chrono::Utc;
use jiff::tz::TimeZone;
use windlass_core::turn_policy::TurnPolicyOptions;
use windlass_jobs::automations::DeclaredAutomation;
use windlass_jobs::schedule::check_zone;
use windlass_jobs::{AutomationStatus, JobSpec, MissedRuns, Plan, fleet, tasks};
use windlass_protocol::Mode;
use windlass_server::JobSettings;

use crate::config::{self, AutomationEntry, Config};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads `[tasks]`, `[fleet]` and the retention of ended jobs.
pub(crate) fn settings(config: &Config) -> anyhow::Result<JobSettings> {
    let mut settings = JobSettings::default();
    for (key, count, max, setting) in [
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
        if let Some(count) = count {
            let is_in_range = (1..=max).contains(&count);
            ensure!(
                is_in_range,
                "{key} is {count}, but it can be from 1 to {max}"
            );
            *setting = count;
        }
    }
    settings.automations.local_zone = match &config.tasks.time_zone {
        Some(zone) => {
            check_zone(zone).context("tasks.time_zone")?;
            zone.clone()
        }
        None => system_zone(),
    };
    settings.declared = declared(config, &settings.automations.local_zone)?;
    settings.keep_ended = config.retention.max_age_days.map(|days| DAY * days);
    Ok(settings)
}

/// Reads `[automations]`.
fn declared(config: &Config, zone: &str) -> anyhow::Result<Vec<DeclaredAutomation>> {
    let entries = config.automations.iter();
    let declared = entries.map(|(name, entry)| {
        let plan = plan(name, entry).with_context(|| format!("automations.{name}"))?;
        let now = Utc::now();
        let schedule = plan.check(zone, now);
        let fires = schedule.and_then(|schedule| Ok(schedule.check(now)?));
        fires.with_context(|| format!("automations.{name}"))?;
        let status = if entry.paused {
            AutomationStatus::Paused
        } else {
            AutomationStatus::Active
        };
        Ok(DeclaredAutomation { plan, status })
    });
    declared.collect()
}

fn plan(name: &str, entry: &AutomationEntry) -> anyhow::Result<Plan> {
    let rrule = match (&entry.cron, &entry.schedule) {
        (Some(cron), None) => cron,
        (None, Some(rule)) => rule,
        _ => bail!("set either cron or schedule"),
    };
    if let Some(mode) = &entry.mode {
        let mode = serde_json::from_value::<Mode>(mode.as_str().into());
        mode.context("mode is not known")?;
    }
    let workspace = entry.workspace.as_ref().map(|path| {
        let text = path.to_str().map(str::to_owned);
        text.context("workspace is not UTF-8")
    });
    Ok(Plan {
        name: name.to_owned(),
        spec: JobSpec {
            policy: TurnPolicyOptions {
                model: entry.model.clone(),
                mode: entry.mode.clone(),
                backend: entry.backend.clone(),
                allow_shell: entry.allow_shell,
                auto_approve: entry.auto_approve,
                ..TurnPolicyOptions::default()
            },
            max_attempts: entry.max_attempts.unwrap_or(1),
            ..JobSpec::new(&entry.prompt)
        },
        cwds: workspace.transpose()?.into_iter().collect(),
        rrule: rrule.clone(),
        time_zone: entry.time_zone.clone(),
        missed: match entry.missed {
            Some(config::MissedRunsPolicy::Skip) => MissedRuns::Skip,
            Some(config::MissedRunsPolicy::Once) | None => MissedRuns::Once,
            Some(config::MissedRunsPolicy::All) => MissedRuns::All,
        },
    })
}

/// Returns the IANA name of the machine's time zone, or UTC if it has no known one.
pub(crate) fn system_zone() -> String {
    let zone = TimeZone::system();
    let name = zone.iana_name().filter(|name| check_zone(name).is_ok());
    name.unwrap_or("UTC").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_converted_and_invalid_ones_rejected() {
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
        for (entry, refused) in [
            ("cron = '0 9 * * 1-5'\nprompt = 'p'", None),
            ("schedule = 'FREQ=DAILY'\nprompt = 'p'\npaused = true", None),
            ("prompt = 'p'", Some("set either cron or schedule")),
            ("cron = '* * * *'\nprompt = 'p'", Some("cron expression")),
            ("cron = '0 0 31 2 *'\nprompt = 'p'", Some("never fires")),
            ("cron = '@daily'", Some("must not be blank")),
            ("cron = '@daily'\nprompt = 'p'\nmode = 'x'", Some("mode")),
            (
                "cron = '@daily'\nprompt = 'p'\ntime_zone = 'x'",
                Some("`x`"),
            ),
        ] {
            let text = format!("[automations.report]\n{entry}\n");
            let config = Config::parse(&text, std::path::Path::new("")).unwrap();
            match (settings(&config), refused) {
                (Ok(settings), None) => assert_eq!(settings.declared[0].plan.name, "report"),
                (Err(error), Some(part)) => {
                    let error = format!("{error:#}");
                    assert!(error.contains("automations.report: "), "{error}");
                    assert!(error.contains(part), "{error}");
                }
                (settings, _) => panic!("{entry}: {settings:?}"),
            }
        }
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
