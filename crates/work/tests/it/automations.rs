//! Automations: the runs are those that the rules name, whatever happens to clocks and processes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use windlass_work::automations::{AutomationEvent, RunId, Trigger};
use windlass_work::schedule::RuleError;
use windlass_work::{
    Automation, AutomationId, AutomationSettings, AutomationStatus, Automations, MissedRuns, Plan,
    TaskSettings, Tasks, WorkError, WorkSpec, WorkStore,
};

use crate::schedule::{RULES, ZONES};
use crate::support::{Dice, Moved, Threads, done, memory, sqlite, time};

struct World {
    store: WorkStore,
    clock: Arc<Moved>,
    tasks: Tasks,
    automations: Automations,
}

impl World {
    async fn new() -> Self {
        Self::on(memory(), Moved::new()).await
    }

    async fn on(store: WorkStore, clock: Arc<Moved>) -> Self {
        let settings = TaskSettings {
            open_tasks: 1_000_000,
            open_tasks_of_owner: 1_000_000,
            ..TaskSettings::default()
        };
        let tasks = Tasks::open(store.clone(), clock.clone(), settings);
        Self::with(store, clock, tasks.await.unwrap()).await
    }

    async fn with(store: WorkStore, clock: Arc<Moved>, tasks: Tasks) -> Self {
        let settings = AutomationSettings {
            local_zone: "Europe/Berlin".to_owned(),
            automations: 2000,
        };
        let opened = Automations::open(store.clone(), clock.clone(), tasks.clone(), settings);
        Self {
            automations: opened.await.unwrap(),
            store,
            clock,
            tasks,
        }
    }

    /// Begins again with what is kept. Tasks have kills of their own elsewhere.
    async fn restart(self) -> Self {
        Self::with(self.store, self.clock, self.tasks).await
    }

    async fn create(&self, plan: Plan) -> Automation {
        let created = self.automations.create("a", plan, AutomationStatus::Active);
        created.await.unwrap()
    }

    async fn tick_at(&self, at: &str) {
        self.clock.to(time(at));
        self.automations.tick().await.unwrap();
    }

    /// Returns the times that had runs, in order. Each run has its task.
    async fn runs(&self, id: AutomationId) -> Vec<DateTime<Utc>> {
        let (mut times, mut before) = (Vec::new(), None);
        loop {
            let page = self.automations.runs(id, before, 100).await.unwrap();
            let Some(last) = page.last() else {
                break;
            };
            before = Some(last.run.id);
            for run in page {
                assert!(run.task.is_some(), "{run:?}");
                times.push(run.run.scheduled_for);
            }
        }
        times.reverse();
        times
    }
}

fn plan(rrule: &str, missed: MissedRuns) -> Plan {
    Plan {
        name: "nightly".to_owned(),
        spec: WorkSpec::new("look"),
        cwds: vec!["/srv/one".to_owned(), "/srv/two".to_owned()],
        rrule: rrule.to_owned(),
        time_zone: Some("UTC".to_owned()),
        missed,
    }
}

const HOURLY: &str = "FREQ=HOURLY;INTERVAL=1;BYMINUTE=0";

#[tokio::test]
async fn a_time_has_one_run_however_often_somebody_looks() {
    let mut world = World::new().await;
    let id = world.create(plan(HOURLY, MissedRuns::Once)).await.id;
    for at in ["00:59:59", "01:00:00", "01:00:00", "01:00:07", "02:00:30"] {
        world.tick_at(&format!("2026-03-01T{at}Z")).await;
        world = world.restart().await;
    }
    let wanted = [time("2026-03-01T01:00:00Z"), time("2026-03-01T02:00:00Z")];
    assert_eq!(world.runs(id).await, wanted);
    assert_eq!(world.tasks.counts().await.unwrap().queued, 2);
    let shown = world.automations.get(id).await.unwrap();
    assert_eq!(shown.next_run_at, Some(time("2026-03-01T03:00:00Z")));
    assert_eq!(shown.last_run_at, Some(wanted[1]));
}

#[tokio::test]
async fn runs_that_were_missed_are_dealt_with_as_the_automation_says() {
    for (missed, wanted) in [
        (MissedRuns::Skip, &[][..]),
        (MissedRuns::Once, &["05:00"]),
        (
            MissedRuns::All,
            &["01:00", "02:00", "03:00", "04:00", "05:00"],
        ),
    ] {
        let world = World::new().await;
        let id = world.create(plan(HOURLY, missed)).await.id;
        let world = world.restart().await;
        world.tick_at("2026-03-01T05:30:00Z").await;
        let mut wanted: Vec<_> = wanted
            .iter()
            .map(|at| time(&format!("2026-03-01T{at}:00Z")))
            .collect();
        assert_eq!(world.runs(id).await, wanted, "{missed:?}");
        // The next one is on time for all.
        world.tick_at("2026-03-01T06:00:01Z").await;
        wanted.push(time("2026-03-01T06:00:00Z"));
        assert_eq!(world.runs(id).await, wanted, "{missed:?}");
    }
}

#[tokio::test]
async fn a_long_absence_makes_up_for_a_bounded_number_of_runs() {
    let world = World::new().await;
    let every_minute: Vec<_> = (0..60).map(|minute| minute.to_string()).collect();
    let rule = format!("FREQ=HOURLY;INTERVAL=1;BYMINUTE={}", every_minute.join(","));
    let id = world.create(plan(&rule, MissedRuns::All)).await.id;
    world.tick_at("2027-03-01T00:00:00Z").await;
    let runs = world.runs(id).await;
    assert_eq!(runs.len(), 1000);
    assert_eq!(runs.last(), Some(&time("2027-03-01T00:00:00Z")));
}

#[tokio::test]
async fn a_clock_that_is_set_back_repeats_nothing_and_keeps_nothing_from_running() {
    let world = World::new().await;
    let id = world.create(plan(HOURLY, MissedRuns::Once)).await.id;
    world.tick_at("2026-03-01T01:00:00Z").await;
    world.tick_at("2026-03-01T00:30:00Z").await;
    world.tick_at("2026-03-01T01:00:00Z").await;
    // A clock that was a year ahead for a while.
    world.tick_at("2027-03-01T00:00:00Z").await;
    world.tick_at("2026-03-01T01:30:00Z").await;
    world.tick_at("2026-03-01T02:00:00Z").await;
    let world = world.restart().await;
    world.tick_at("2026-03-01T03:00:00Z").await;
    let wanted = [
        "2026-03-01T01",
        "2026-03-01T02",
        "2026-03-01T03",
        "2027-03-01T00",
    ];
    let wanted = wanted.map(|at| time(&format!("{at}:00:00Z")));
    assert_eq!(world.runs(id).await, wanted);
}

#[tokio::test]
async fn a_paused_one_rests_and_can_still_be_run_by_hand() {
    let world = World::new().await;
    let id = world.create(plan(HOURLY, MissedRuns::All)).await.id;
    let paused = world.automations.pause(id).await.unwrap();
    assert_eq!(
        (paused.status, paused.next_run_at),
        (AutomationStatus::Paused, None)
    );
    world.tick_at("2026-03-01T03:30:00Z").await;
    assert!(world.runs(id).await.is_empty());
    let by_hand = world.automations.run_now(id).await.unwrap();
    assert_eq!(by_hand.run.trigger, Trigger::Manual);
    assert_eq!(
        by_hand.task.unwrap().spec.workspace.as_deref(),
        Some("/srv/one")
    );
    let resumed = world.automations.resume(id).await.unwrap();
    assert_eq!(resumed.next_run_at, Some(time("2026-03-01T04:00:00Z")));
    world.tick_at("2026-03-01T04:00:00Z").await;
    let wanted = ["03:30", "04:00"].map(|at| time(&format!("2026-03-01T{at}:00Z")));
    assert_eq!(world.runs(id).await, wanted);
}

#[tokio::test]
async fn a_new_rule_counts_from_now_and_a_new_name_changes_no_time() {
    let world = World::new().await;
    let made = world.create(plan(HOURLY, MissedRuns::Once)).await;
    world.clock.by(600);
    let named = world
        .automations
        .update(made.id, |plan| plan.name = "other".to_owned());
    let named = named.await.unwrap();
    assert_eq!(
        (named.next_run_at, named.start),
        (made.next_run_at, made.start)
    );
    let changed = world.automations.update(made.id, |plan| {
        plan.rrule = "FREQ=HOURLY;INTERVAL=2".to_owned();
    });
    let changed = changed.await.unwrap();
    assert_eq!(changed.next_run_at, Some(time("2026-03-01T02:10:00Z")));
    world.automations.remove(made.id).await.unwrap();
    world.tick_at("2026-03-01T02:10:00Z").await;
    assert_eq!(world.tasks.counts().await.unwrap().queued, 0);
    let gone = world.automations.get(made.id).await;
    assert!(matches!(gone, Err(WorkError::NotFound { .. })));
}

#[tokio::test]
async fn what_cannot_be_a_plan_is_refused() {
    let world = World::new().await;
    let refused = |change: fn(&mut Plan)| {
        let mut plan = plan(HOURLY, MissedRuns::Once);
        change(&mut plan);
        let created = world
            .automations
            .create("a", plan, AutomationStatus::Active);
        async { created.await.unwrap_err() }
    };
    let never = refused(|plan| plan.rrule = "FREQ=HOURLY;INTERVAL=24;BYHOUR=9".to_owned()).await;
    assert_eq!(never, WorkError::Rule(RuleError::NeverFires));
    let secondly = refused(|plan| plan.rrule = "FREQ=SECONDLY".to_owned()).await;
    assert!(matches!(
        secondly,
        WorkError::Rule(RuleError::UnknownFrequency(_))
    ));
    let mars = refused(|plan| plan.time_zone = Some("Mars/Olympus".to_owned())).await;
    assert!(matches!(mars, WorkError::Rule(RuleError::UnknownZone(_))));
    let blank = refused(|plan| plan.name = " ".to_owned()).await;
    assert!(matches!(blank, WorkError::Invalid { field: "name", .. }));
    let many = refused(|plan| plan.cwds = vec!["/".to_owned(); 17]).await;
    assert!(matches!(many, WorkError::Invalid { field: "cwds", .. }));
    assert!(world.automations.list(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_run_that_the_queue_does_not_take_says_so() {
    let world = World::new().await;
    let settings = TaskSettings {
        open_tasks: 0,
        ..TaskSettings::default()
    };
    let full = Tasks::open(world.store.clone(), world.clock.clone(), settings)
        .await
        .unwrap();
    let opened = Automations::open(
        world.store.clone(),
        world.clock.clone(),
        full,
        AutomationSettings::default(),
    );
    let automations = opened.await.unwrap();
    let created = automations.create(
        "a",
        plan(HOURLY, MissedRuns::Once),
        AutomationStatus::Active,
    );
    let id = created.await.unwrap().id;
    let run = automations.run_now(id).await.unwrap();
    assert_eq!(run.task, None);
    assert!(run.run.error.unwrap().contains("open tasks"));
}

/// Everything runs by itself: the bell and the clock wake both loops.
#[tokio::test]
async fn a_run_is_carried_out_when_its_time_comes() {
    let world = World::new().await;
    let threads: Arc<Threads> = Arc::default();
    let (tasks, hands) = (world.tasks.clone(), threads.clone());
    tokio::spawn(async move { tasks.run(hands).await });
    let automations = world.automations.clone();
    tokio::spawn(async move { automations.run().await });
    let id = world.create(plan(HOURLY, MissedRuns::Once)).await.id;
    world.clock.to(time("2026-03-01T01:00:00Z"));
    threads.end("look", done("nothing new")).await;
    world.clock.to(time("2026-03-01T02:00:00Z"));
    threads.begun("look").await;
    assert_eq!(world.runs(id).await.len(), 2);
}

/// The names of all runs that records of the journal say have begun.
async fn begun(store: &WorkStore) -> Vec<RunId> {
    let stream = windlass_store::StreamKey::new("work:automations");
    let page = store
        .journal
        .read(&stream, 0, usize::MAX >> 1)
        .await
        .unwrap();
    let mut runs = Vec::new();
    for event in &page.events {
        let windlass_core::events::EventData::Custom(custom) = &event.data else {
            panic!("a stream of work holds nothing else");
        };
        let read = serde_json::from_value(custom.payload.clone()).unwrap();
        if let AutomationEvent::RunBegan { run_id, .. } = read {
            runs.push(run_id);
        }
    }
    runs
}

/// Goes through a month with both changes of the clocks in it, down now and then, and compares each run with a look at
/// every minute.
async fn month(store: WorkStore, count: usize, from: &str) {
    let from = time(from);
    let until = from + TimeDelta::days(31);
    let clock = Moved::at(from);
    let mut world = World::on(store, clock).await;
    let policies = [MissedRuns::Skip, MissedRuns::Once, MissedRuns::All];
    let mut made = Vec::new();
    for n in 0..count {
        let (rule, zone, missed) = (
            &RULES[n % RULES.len()],
            &ZONES[n / 9 % 3],
            policies[n / 27 % 3],
        );
        let mut plan = plan(rule.text, missed);
        plan.time_zone = Some(zone.name.to_owned());
        made.push((world.create(plan).await.id, rule, zone, missed));
    }
    let mut dice = Dice(count as u64);
    let mut ups = vec![from];
    let mut at = from;
    while at < until {
        // Mostly it looks every minute or so that something is due; sometimes it is down for hours.
        let next = world.automations.tick().await.unwrap().unwrap();
        at = match dice.below(20) {
            0 => at + TimeDelta::minutes(i64::try_from(dice.below(900)).unwrap()),
            _ => next,
        };
        at = at.min(until);
        if dice.below(40) == 0 {
            world = world.restart().await;
        }
        world.clock.to(at);
        ups.push(at);
    }
    world.automations.tick().await.unwrap();
    let mut all = HashMap::new();
    for (id, rule, zone, missed) in made {
        let due = all
            .entry((rule.text, zone.name))
            .or_insert_with(|| rule.all(zone, from, from, until));
        let mut wanted = BTreeSet::new();
        for looked in ups.windows(2) {
            let first = due.partition_point(|at| *at <= looked[0]);
            let due = &due[first..due.partition_point(|at| *at <= looked[1]).max(first)];
            match (missed, due.last()) {
                (MissedRuns::All, _) => wanted.extend(due),
                (MissedRuns::Skip, Some(at)) if looked[1] - *at > TimeDelta::seconds(60) => {}
                (_, last) => wanted.extend(last),
            }
        }
        let wanted: Vec<_> = wanted.into_iter().collect();
        assert_eq!(
            world.runs(id).await,
            wanted,
            "{} in {}, {missed:?}",
            rule.text,
            zone.name
        );
    }
    let begun = begun(&world.store).await;
    let different: BTreeSet<_> = begun.iter().collect();
    assert_eq!(begun.len(), different.len(), "no run began twice");
    assert_eq!(world.tasks.counts().await.unwrap().queued, begun.len());
}

#[tokio::test]
async fn in_a_month_of_spring_the_runs_are_those_that_the_rules_name() {
    let count = match std::env::var_os("WINDLASS_SOAK") {
        Some(_) => 1000,
        None => 81,
    };
    month(memory(), count, "2026-03-05T05:20:00Z").await;
}

#[tokio::test]
async fn in_a_month_of_autumn_the_runs_are_those_that_the_rules_name() {
    let directory = tempfile::tempdir().unwrap();
    month(sqlite(directory.path()).await, 27, "2026-10-10T05:20:00Z").await;
}
