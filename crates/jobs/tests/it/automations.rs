//! Automations: runs match the rules despite clock changes and kills.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use windlass_jobs::automations::{AutomationEvent, DeclaredAutomation, RunId, Trigger, task_of};
use windlass_jobs::schedule::RuleError;
use windlass_jobs::{
    Automation, AutomationId, AutomationRun, AutomationSettings, AutomationStatus, Automations,
    JobError, JobSpec, JobStore, MissedRuns, NewTask, Plan, TaskSettings, Tasks,
};

use crate::schedule::{RULES, ZONES};
use crate::support::{TestClock, TestRandom, Threads, done, kill, memory, sqlite, task, time};

struct TestHost {
    store: JobStore,
    clock: Arc<TestClock>,
    tasks: Tasks,
    automations: Automations,
}

impl TestHost {
    async fn new() -> Self {
        Self::on(memory(), TestClock::new()).await
    }

    async fn on(store: JobStore, clock: Arc<TestClock>) -> Self {
        let settings = TaskSettings {
            open_tasks: 1_000_000,
            open_tasks_of_owner: 1_000_000,
            bytes_of_owner: u64::MAX,
            ..TaskSettings::default()
        };
        let tasks = Tasks::open(store.clone(), clock.clone(), settings);
        Self::with(store, clock, tasks.await.unwrap()).await
    }

    async fn with(store: JobStore, clock: Arc<TestClock>, tasks: Tasks) -> Self {
        let settings = AutomationSettings {
            local_zone: "Europe/Berlin".to_owned(),
            automations: 2000,
            // A month of a thousand has more runs than one owner usually keeps.
            runs_of_owner: 1_000_000,
            bytes_of_owner: 2_000_000,
        };
        let opened = Automations::open(store.clone(), clock.clone(), tasks.clone(), settings);
        Self {
            automations: opened.await.unwrap(),
            store,
            clock,
            tasks,
        }
    }

    /// Restarts with the stored automations.
    async fn restart(self) -> Self {
        Self::with(self.store, self.clock, self.tasks).await
    }

    /// Kills the daemon after `steps` steps of a tick and restarts with the stored state. If the tick was faster, returns the next
    /// time.
    async fn tick_or_die(self, steps: u64) -> (Self, Option<DateTime<Utc>>) {
        let killed = async {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
        };
        let next = tokio::select! {
            biased;
            next = self.automations.tick() => next.unwrap(),
            () = killed => None,
        };
        match next {
            Some(_) => (self, next),
            None => (Self::on(self.store, self.clock).await, None),
        }
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
        spec: JobSpec::new("look"),
        cwds: vec!["/srv/one".to_owned(), "/srv/two".to_owned()],
        rrule: rrule.to_owned(),
        time_zone: Some("UTC".to_owned()),
        missed,
    }
}

const HOURLY: &str = "FREQ=HOURLY;INTERVAL=1;BYMINUTE=0";

#[tokio::test]
async fn each_time_has_one_run_despite_repeated_ticks() {
    let mut host = TestHost::new().await;
    let id = host.create(plan(HOURLY, MissedRuns::Once)).await.id;
    for at in ["00:59:59", "01:00:00", "01:00:00", "01:00:07", "02:00:30"] {
        host.tick_at(&format!("2026-03-01T{at}Z")).await;
        host = host.restart().await;
    }
    let wanted = [time("2026-03-01T01:00:00Z"), time("2026-03-01T02:00:00Z")];
    assert_eq!(host.runs(id).await, wanted);
    assert_eq!(host.tasks.counts().await.unwrap().queued, 2);
    let shown = host.automations.get(id).await.unwrap();
    assert_eq!(shown.next_run_at, Some(time("2026-03-01T03:00:00Z")));
    assert_eq!(shown.last_run_at, Some(wanted[1]));
}

#[tokio::test]
async fn missed_runs_follow_the_policy() {
    for (missed, wanted) in [
        (MissedRuns::Skip, &[][..]),
        (MissedRuns::Once, &["05:00"]),
        (
            MissedRuns::All,
            &["01:00", "02:00", "03:00", "04:00", "05:00"],
        ),
    ] {
        let host = TestHost::new().await;
        let id = host.create(plan(HOURLY, missed)).await.id;
        let host = host.restart().await;
        host.tick_at("2026-03-01T05:30:00Z").await;
        let mut wanted: Vec<_> = wanted
            .iter()
            .map(|at| time(&format!("2026-03-01T{at}:00Z")))
            .collect();
        assert_eq!(host.runs(id).await, wanted, "{missed:?}");
        // The next one is on time for all.
        host.tick_at("2026-03-01T06:00:01Z").await;
        wanted.push(time("2026-03-01T06:00:00Z"));
        assert_eq!(host.runs(id).await, wanted, "{missed:?}");
    }
}

#[tokio::test]
async fn missed_runs_are_limited_after_a_long_absence() {
    let host = TestHost::new().await;
    let every_minute: Vec<_> = (0..60).map(|minute| minute.to_string()).collect();
    let rule = format!("FREQ=HOURLY;INTERVAL=1;BYMINUTE={}", every_minute.join(","));
    let id = host.create(plan(&rule, MissedRuns::All)).await.id;
    host.tick_at("2027-03-01T00:00:00Z").await;
    let runs = host.runs(id).await;
    assert_eq!(runs.len(), 1000);
    assert_eq!(runs.last(), Some(&time("2027-03-01T00:00:00Z")));
}

#[tokio::test]
async fn clock_set_back_neither_repeats_nor_blocks_runs() {
    let host = TestHost::new().await;
    let id = host.create(plan(HOURLY, MissedRuns::Once)).await.id;
    host.tick_at("2026-03-01T01:00:00Z").await;
    host.tick_at("2026-03-01T00:30:00Z").await;
    host.tick_at("2026-03-01T01:00:00Z").await;
    // A clock that was a year ahead for a while.
    host.tick_at("2027-03-01T00:00:00Z").await;
    host.tick_at("2026-03-01T01:30:00Z").await;
    host.tick_at("2026-03-01T02:00:00Z").await;
    let host = host.restart().await;
    host.tick_at("2026-03-01T03:00:00Z").await;
    let wanted = [
        "2026-03-01T01",
        "2026-03-01T02",
        "2026-03-01T03",
        "2027-03-01T00",
    ];
    let wanted = wanted.map(|at| time(&format!("{at}:00:00Z")));
    assert_eq!(host.runs(id).await, wanted);
}

#[tokio::test]
async fn paused_automation_runs_only_manually() {
    let host = TestHost::new().await;
    let id = host.create(plan(HOURLY, MissedRuns::All)).await.id;
    let paused = host.automations.pause(id).await.unwrap();
    assert_eq!(
        (paused.status, paused.next_run_at),
        (AutomationStatus::Paused, None)
    );
    host.tick_at("2026-03-01T03:30:00Z").await;
    assert!(host.runs(id).await.is_empty());
    let by_hand = host.automations.run_now(id, None).await.unwrap();
    assert_eq!(by_hand.run.trigger, Trigger::Manual);
    assert_eq!(
        by_hand.task.unwrap().spec.workspace.as_deref(),
        Some("/srv/one")
    );
    let resumed = host.automations.resume(id).await.unwrap();
    assert_eq!(resumed.next_run_at, Some(time("2026-03-01T04:00:00Z")));
    host.tick_at("2026-03-01T04:00:00Z").await;
    let wanted = ["03:30", "04:00"].map(|at| time(&format!("2026-03-01T{at}:00Z")));
    assert_eq!(host.runs(id).await, wanted);
}

#[tokio::test]
async fn repeated_request_returns_its_run_after_a_kill() {
    let mut host = TestHost::new().await;
    let id = host.create(plan(HOURLY, MissedRuns::Once)).await.id;
    let other = host.create(plan(HOURLY, MissedRuns::Once)).await.id;
    let run_now = async |host: &TestHost, id, request| {
        let run = host.automations.run_now(id, Some(request)).await.unwrap();
        (run.run.id, run.task.map(|task| task.id))
    };
    let first = run_now(&host, id, "one").await;
    host.clock.by(1);
    host = host.restart().await;
    assert_eq!(run_now(&host, id, "one").await, first);
    assert_eq!(host.runs(id).await.len(), 1);
    assert_ne!(run_now(&host, id, "two").await.0, first.0);
    assert_ne!(run_now(&host, other, "one").await.0, first.0);
    host.clock.by(60);
    let age = std::time::Duration::from_secs(30);
    host.automations.forget_requests(age).await.unwrap();
    assert_ne!(run_now(&host, id, "two").await.0, first.0);
    assert_eq!(host.runs(id).await.len(), 3);
}

#[tokio::test]
async fn manual_run_is_created_once_despite_kills() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let id = {
        let store = sqlite(directory.path()).await;
        let host = TestHost::on(store, clock.clone()).await;
        host.create(plan(HOURLY, MissedRuns::Once)).await.id
    };
    for steps in 0..24 {
        let request = format!("request {steps}");
        let host = TestHost::on(sqlite(directory.path()).await, clock.clone()).await;
        let automations = host.automations.clone();
        let key = request.clone();
        let running = tokio::spawn(async move { automations.run_now(id, Some(&key)).await });
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        kill(running).await;
        drop(host);
        clock.by(1);
        let host = TestHost::on(sqlite(directory.path()).await, clock.clone()).await;
        let run = host.automations.run_now(id, Some(&request)).await.unwrap();
        host.automations.tick().await.unwrap();
        host.tasks.get(run.run.task_id()).await.unwrap();
        assert_eq!(host.runs(id).await.len(), steps + 1);
    }
}

#[tokio::test]
async fn runs_are_retained_per_owner() {
    let (store, clock) = (memory(), TestClock::new());
    let tasks = Tasks::open(store.clone(), clock.clone(), TaskSettings::default());
    let settings = AutomationSettings {
        runs_of_owner: 3,
        ..AutomationSettings::default()
    };
    let opened = Automations::open(store, clock.clone(), tasks.await.unwrap(), settings);
    let automations = opened.await.unwrap();
    let mut ids = Vec::new();
    for owner in ["a", "b"] {
        let plan = plan(HOURLY, MissedRuns::Once);
        let made = automations.create(owner, plan, AutomationStatus::Paused);
        ids.push(made.await.unwrap().id);
    }
    let mut runs = [Vec::new(), Vec::new()];
    for which in [1, 0, 0, 0, 0, 0] {
        let run = automations.run_now(ids[which], None).await.unwrap();
        runs[which].insert(0, run.run.id);
        clock.by(1);
    }
    for (which, retained) in [(0, 3), (1, 1)] {
        let listed = automations.runs(ids[which], None, 100).await.unwrap();
        let listed: Vec<_> = listed.iter().map(|run| run.run.id).collect();
        assert_eq!(listed, runs[which][..retained]);
    }
}

#[tokio::test]
async fn new_rule_restarts_the_count_and_new_name_does_not() {
    let host = TestHost::new().await;
    let made = host.create(plan(HOURLY, MissedRuns::Once)).await;
    host.clock.by(600);
    let named = host
        .automations
        .update(made.id, |plan| plan.name = "other".to_owned());
    let named = named.await.unwrap();
    assert_eq!(
        (named.next_run_at, named.start),
        (made.next_run_at, made.start)
    );
    let changed = host.automations.update(made.id, |plan| {
        plan.rrule = "FREQ=HOURLY;INTERVAL=2".to_owned();
    });
    let changed = changed.await.unwrap();
    assert_eq!(changed.next_run_at, Some(time("2026-03-01T02:10:00Z")));
    host.automations.remove(made.id).await.unwrap();
    host.tick_at("2026-03-01T02:10:00Z").await;
    assert_eq!(host.tasks.counts().await.unwrap().queued, 0);
    let gone = host.automations.get(made.id).await;
    assert!(matches!(gone, Err(JobError::NotFound { .. })));
}

#[tokio::test]
async fn rarely_due_automation_gets_its_next_time() {
    let host = TestHost::on(memory(), TestClock::at(time("2026-03-01T10:20:00Z"))).await;
    let rule = "FREQ=HOURLY;INTERVAL=743;BYHOUR=9";
    let made = host.create(plan(rule, MissedRuns::Once)).await;
    assert_eq!(made.next_run_at, Some(time("2026-04-01T09:20:00Z")));
    host.tick_at("2026-04-01T09:20:00Z").await;
    let after = host.automations.get(made.id).await.unwrap();
    assert_eq!(after.next_run_at, Some(time("2028-04-13T09:20:00Z")));
}

#[tokio::test]
async fn missing_next_time_is_computed_at_startup() {
    let host = TestHost::new().await;
    let id = host.create(plan(HOURLY, MissedRuns::Once)).await.id;
    let records = &host.store.records;
    let row = records.get("work.automation", &id.to_string()).await;
    let row = row.unwrap().unwrap();
    let mut body: serde_json::Value = serde_json::from_slice(&row.body).unwrap();
    body.as_object_mut().unwrap().remove("next_run_at").unwrap();
    let row = windlass_store::HostRecord {
        name: row.name,
        body: body.to_string().into(),
    };
    let at = time("2026-03-01T00:00:00Z");
    records.put("work.automation", row, at).await.unwrap();
    let host = host.restart().await;
    host.tick_at("2026-03-01T00:10:00Z").await;
    let shown = host.automations.get(id).await.unwrap();
    assert_eq!(shown.next_run_at, Some(time("2026-03-01T01:00:00Z")));
}

#[tokio::test]
async fn one_owner_may_have_half_of_the_automations() {
    let host = TestHost::new().await;
    let settings = AutomationSettings {
        automations: 3,
        ..AutomationSettings::default()
    };
    let (store, clock) = (host.store.clone(), host.clock.clone());
    let opened = Automations::open(store, clock, host.tasks.clone(), settings.clone());
    let automations = opened.await.unwrap();
    let create = |automations: &Automations, owner: &'static str| {
        let automations = automations.clone();
        async move {
            let plan = plan(HOURLY, MissedRuns::Once);
            let created = automations.create(owner, plan, AutomationStatus::Active);
            match created.await {
                Err(JobError::TooMany { limit, .. }) => Err(limit),
                created => Ok(created.unwrap().id),
            }
        }
    };
    let first = create(&automations, "a").await.unwrap();
    create(&automations, "a").await.unwrap();
    assert_eq!(create(&automations, "a").await, Err(2));
    automations.remove(first).await.unwrap();
    create(&automations, "a").await.unwrap();
    let (store, clock) = (host.store.clone(), host.clock.clone());
    let opened = Automations::open(store, clock, host.tasks.clone(), settings);
    let again = opened.await.unwrap();
    assert_eq!(create(&again, "a").await, Err(2));
    create(&again, "b").await.unwrap();
    assert_eq!(create(&again, "b").await, Err(3));
}

const EVERY_TEN_MINUTES: &str = "FREQ=HOURLY;INTERVAL=1;BYMINUTE=0,10,20,30,40,50";

#[tokio::test]
async fn missed_runs_are_queued_in_few_commits() {
    let host = TestHost::new().await;
    for _ in 0..3 {
        host.create(plan(HOURLY, MissedRuns::All)).await;
    }
    let before = *host.tasks.watch().borrow();
    host.tick_at("2026-03-03T00:00:00Z").await;
    assert_eq!(host.tasks.counts().await.unwrap().queued, 3 * 48);
    assert_eq!(*host.tasks.watch().borrow() - before, 1);
}

#[tokio::test]
async fn long_prompts_are_queued_in_several_commits() {
    let host = TestHost::new().await;
    let mut long = plan(HOURLY, MissedRuns::All);
    long.spec.prompt = "x".repeat(256 * 1024);
    let id = host.create(long).await.id;
    host.tick_at("2026-03-01T10:00:00Z").await;
    let first = host.automations.runs(id, None, 100).await.unwrap();
    assert_eq!(first.len(), 10);
    assert!(first.iter().all(|run| run.task.is_some()));
}

#[tokio::test]
async fn runs_over_the_task_limit_are_rejected() {
    let (store, clock) = (memory(), TestClock::new());
    let settings = TaskSettings {
        open_tasks_of_owner: 10,
        ..TaskSettings::default()
    };
    let tasks = Tasks::open(store.clone(), clock.clone(), settings).await;
    let host = TestHost::with(store, clock, tasks.unwrap()).await;
    let id = host.create(plan(HOURLY, MissedRuns::All)).await.id;
    host.tick_at("2026-03-02T00:00:00Z").await;
    let runs = host.automations.runs(id, None, 100).await.unwrap();
    let refused = runs.iter().filter(|run| run.run.error.is_some());
    assert_eq!((runs.len(), refused.count()), (24, 14));
    assert_eq!(host.tasks.counts().await.unwrap().queued, 10);
}

#[tokio::test]
async fn clients_are_served_while_missed_runs_are_queued() {
    let directory = tempfile::tempdir().unwrap();
    let host = TestHost::on(sqlite(directory.path()).await, TestClock::new()).await;
    for _ in 0..3 {
        host.create(plan(EVERY_TEN_MINUTES, MissedRuns::All)).await;
    }
    host.clock.to(time("2026-03-31T00:00:00Z"));
    let create = async {
        host.create(plan(HOURLY, MissedRuns::Skip)).await;
        host.tasks.counts().await.unwrap().queued
    };
    let (ticked, queued) = tokio::join!(host.automations.tick(), create);
    ticked.unwrap();
    assert!(queued < 3000, "{queued}");
    assert_eq!(host.tasks.counts().await.unwrap().queued, 3000);
}

/// Makes a row unreadable.
async fn spoil(store: &JobStore, kind: &'static str, name: &str) {
    let row = windlass_store::HostRecord {
        name: name.to_owned(),
        body: b"\0nonsense".to_vec().into(),
    };
    let at = time("2026-03-01T00:00:00Z");
    store.records.put(kind, row, at).await.unwrap();
}

#[tokio::test]
async fn unreadable_automation_does_not_affect_others() {
    let host = TestHost::new().await;
    let mut made = Vec::new();
    for _ in 0..4 {
        made.push(host.create(plan(HOURLY, MissedRuns::Once)).await);
    }
    // One that is due, and one with a run that is not queued yet.
    spoil(&host.store, "work.automation", &made[0].id.to_string()).await;
    spoil(&host.store, "work.automation", &made[1].id.to_string()).await;
    let run = AutomationRun {
        id: made[1].run_id_at(time("2026-03-01T00:30:00Z")),
        automation_id: made[1].id,
        scheduled_for: time("2026-03-01T00:30:00Z"),
        trigger: Trigger::Schedule,
        created_at: time("2026-03-01T00:30:00Z"),
        error: None,
    };
    let mut body = serde_json::to_value(&run).unwrap();
    body["version"] = 1.into();
    let pending = windlass_store::HostRecord {
        name: run.id.to_string(),
        body: body.to_string().into(),
    };
    let records = host.store.records.clone();
    let put = records.put("work.automation.pending", pending, run.created_at);
    put.await.unwrap();
    for is_restarted in [false, true] {
        let host = if is_restarted {
            TestHost::with(host.store.clone(), host.clock.clone(), host.tasks.clone()).await
        } else {
            TestHost {
                store: host.store.clone(),
                clock: host.clock.clone(),
                tasks: host.tasks.clone(),
                automations: host.automations.clone(),
            }
        };
        let hour = 1 + u32::from(is_restarted);
        host.tick_at(&format!("2026-03-01T0{hour}:00:00Z")).await;
        for automation in &made[2..] {
            let runs = host.runs(automation.id).await.len();
            assert_eq!(runs, usize::try_from(hour).unwrap());
        }
        let listed = host.automations.list(None, 2).await.unwrap();
        assert_eq!(listed.len(), 2);
        let rest = host.automations.list(Some(listed[1].id), 2).await;
        assert!(rest.unwrap().is_empty());
    }
    let pending = records.list("work.automation.pending").await.unwrap();
    assert_eq!(pending.len(), 1, "it waits for a version that can read it");
    spoil(
        &host.store,
        "work.automation.run",
        &format!(
            "{}/{}",
            made[2].id,
            made[2].run_id_at(time("2026-03-01T01:00:00Z"))
        ),
    )
    .await;
    assert_eq!(host.runs(made[2].id).await.len(), 1);
}

#[tokio::test]
async fn invalid_plans_are_rejected() {
    let host = TestHost::new().await;
    let refused = |change: fn(&mut Plan)| {
        let mut plan = plan(HOURLY, MissedRuns::Once);
        change(&mut plan);
        let created = host.automations.create("a", plan, AutomationStatus::Active);
        async { created.await.unwrap_err() }
    };
    let never = refused(|plan| plan.rrule = "FREQ=HOURLY;INTERVAL=24;BYHOUR=9".to_owned()).await;
    assert_eq!(never, JobError::Rule(RuleError::NeverFires));
    let secondly = refused(|plan| plan.rrule = "FREQ=SECONDLY".to_owned()).await;
    assert!(matches!(
        secondly,
        JobError::Rule(RuleError::UnknownFrequency(_))
    ));
    let mars = refused(|plan| plan.time_zone = Some("Mars/Olympus".to_owned())).await;
    assert!(matches!(mars, JobError::Rule(RuleError::UnknownZone(_))));
    let blank = refused(|plan| plan.name = " ".to_owned()).await;
    assert!(matches!(blank, JobError::Invalid { field: "name", .. }));
    let many = refused(|plan| plan.cwds = vec!["/".to_owned(); 17]).await;
    assert!(matches!(many, JobError::Invalid { field: "cwds", .. }));
    assert!(host.automations.list(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn rejected_run_has_an_error() {
    let host = TestHost::new().await;
    let settings = TaskSettings {
        open_tasks: 0,
        ..TaskSettings::default()
    };
    let full = Tasks::open(host.store.clone(), host.clock.clone(), settings)
        .await
        .unwrap();
    let opened = Automations::open(
        host.store.clone(),
        host.clock.clone(),
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
    let run = automations.run_now(id, None).await.unwrap();
    assert_eq!(run.task, None);
    assert!(run.run.error.unwrap().contains("open tasks"));
}

#[tokio::test]
async fn client_cannot_reserve_the_task_id_of_a_run() {
    let host = TestHost::new().await;
    let automation = host.create(plan(HOURLY, MissedRuns::Once)).await;
    let at = time("2026-03-01T01:00:00Z");
    let squatter = NewTask {
        id: Some(task_of(automation.run_id_at(at))),
        ..task("mine")
    };
    let refused = host.tasks.submit("b", squatter).await;
    assert!(
        matches!(refused, Err(JobError::Invalid { field: "id", .. })),
        "{refused:?}"
    );
    host.tick_at("2026-03-01T01:00:00Z").await;
    let runs = host.automations.runs(automation.id, None, 10).await;
    let task = runs.unwrap().remove(0).task.unwrap();
    assert_eq!((&*task.owner, &*task.spec.prompt), ("a", "look"));
}

/// Both loops run concurrently, woken by notifications and the clock.
#[tokio::test]
async fn run_starts_at_its_scheduled_time() {
    let host = TestHost::new().await;
    let threads: Arc<Threads> = Arc::default();
    let (tasks, runner) = (host.tasks.clone(), threads.clone());
    tokio::spawn(async move { tasks.run(runner).await });
    let automations = host.automations.clone();
    tokio::spawn(async move { automations.run().await });
    let id = host.create(plan(HOURLY, MissedRuns::Once)).await.id;
    host.clock.to(time("2026-03-01T01:00:00Z"));
    threads.end("look", done("nothing new")).await;
    host.clock.to(time("2026-03-01T02:00:00Z"));
    threads.begun("look").await;
    assert_eq!(host.runs(id).await.len(), 2);
}

/// The IDs of all runs created according to the journal.
async fn created_runs(store: &JobStore) -> Vec<RunId> {
    let stream = windlass_store::StreamKey::new("work:automations");
    let page = store
        .journal
        .read(&stream, 0, usize::MAX >> 1)
        .await
        .unwrap();
    let mut runs = Vec::new();
    for event in &page.events {
        let windlass_core::events::EventData::Custom(custom) = &event.data else {
            panic!("unexpected record in a job stream");
        };
        let read = serde_json::from_value(custom.payload.clone()).unwrap();
        if let AutomationEvent::RunBegan { run_id, .. } = read {
            runs.push(run_id);
        }
    }
    runs
}

/// Whether the daemon is killed during ticks.
#[derive(PartialEq, Eq)]
enum KillMode {
    Some,
    None,
}

/// Simulates a month with clock changes and downtime, and compares the runs with a check of every minute.
async fn month(store: JobStore, count: usize, from: &str, kills: KillMode) {
    let from = time(from);
    let until = from + TimeDelta::days(31);
    let clock = TestClock::at(from);
    let mut host = TestHost::on(store, clock).await;
    let policies = [MissedRuns::Skip, MissedRuns::Once, MissedRuns::All];
    let mut made = Vec::new();
    for n in 0..count {
        let (rule, zone, missed) = (
            &RULES[n % RULES.len()],
            &ZONES[n / 9 % 3],
            policies[(n + n / 9 + n / 27) % 3],
        );
        let mut plan = plan(rule.text, missed);
        plan.time_zone = Some(zone.name.to_owned());
        made.push((host.create(plan).await.id, rule, zone, missed));
    }
    let mut random = TestRandom(count as u64);
    let mut ups = vec![from];
    let mut at = from;
    let mut killed = 0;
    while at < until {
        if kills == KillMode::Some && random.below(12) == 0 {
            // Also during the recovery of the previous process's work.
            for _ in 0..=random.below(3) {
                let next;
                (host, next) = host.tick_or_die(1 << random.below(13)).await;
                killed += u32::from(next.is_none());
            }
        }
        // Usually it ticks when a time is due; sometimes it is down for hours.
        let next = host.automations.tick().await.unwrap().unwrap();
        at = match random.below(20) {
            0 => at + TimeDelta::minutes(i64::try_from(random.below(900)).unwrap()),
            _ => next,
        };
        at = at.min(until);
        if random.below(40) == 0 {
            host = host.restart().await;
        }
        host.clock.to(at);
        ups.push(at);
    }
    host.automations.tick().await.unwrap();
    let mut all = HashMap::new();
    for (id, rule, zone, missed) in made {
        let due = all
            .entry((rule.text, zone.name))
            .or_insert_with(|| rule.all(zone, from, from, until));
        let mut wanted = BTreeSet::new();
        for tick in ups.windows(2) {
            let first = due.partition_point(|at| *at <= tick[0]);
            let due = &due[first..due.partition_point(|at| *at <= tick[1]).max(first)];
            match (missed, due.last()) {
                (MissedRuns::All, _) => wanted.extend(due),
                (MissedRuns::Skip, Some(at)) if tick[1] - *at > TimeDelta::seconds(60) => {}
                (_, last) => wanted.extend(last),
            }
        }
        let wanted: Vec<_> = wanted.into_iter().collect();
        assert_eq!(
            host.runs(id).await,
            wanted,
            "{} in {}, {missed:?}",
            rule.text,
            zone.name
        );
    }
    let begun = created_runs(&host.store).await;
    let different: BTreeSet<_> = begun.iter().collect();
    assert_eq!(begun.len(), different.len(), "no run began twice");
    let is_enough = kills == KillMode::None || killed > 10;
    assert!(is_enough, "{killed} kills are too few for a valid test");
    assert_eq!(host.tasks.counts().await.unwrap().queued, begun.len());
}

#[tokio::test]
async fn runs_of_a_spring_month_match_the_rules() {
    let count = match std::env::var_os("WINDLASS_SOAK") {
        Some(_) => 1000,
        None => 81,
    };
    month(memory(), count, "2026-03-05T05:20:00Z", KillMode::None).await;
}

#[tokio::test]
async fn runs_of_an_autumn_month_with_kills_match_the_rules() {
    let directory = tempfile::tempdir().unwrap();
    let store = sqlite(directory.path()).await;
    let count = match std::env::var_os("WINDLASS_SOAK") {
        Some(_) => 27,
        None => 9,
    };
    month(store, count, "2026-10-10T05:20:00Z", KillMode::Some).await;
}

#[tokio::test]
async fn automations_of_an_owner_are_limited_by_bytes() {
    let host = TestHost::new().await;
    let mut big = plan(HOURLY, MissedRuns::Skip);
    big.spec.prompt = "p".repeat(256 * 1024);
    let create = |owner: &'static str, plan: Plan| {
        let automations = host.automations.clone();
        async move {
            let status = AutomationStatus::Active;
            automations.create(owner, plan, status).await
        }
    };
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(create("a", big.clone()).await.unwrap());
    }
    let refused = JobError::TooManyBytes {
        object: "automations of this owner",
        limit: 2_000_000,
    };
    assert_eq!(create("a", big.clone()).await.unwrap_err(), refused);
    create("b", big.clone()).await.unwrap();
    let small = create("a", plan(HOURLY, MissedRuns::Skip)).await.unwrap();
    let prompt = big.spec.prompt.clone();
    let grown = host
        .automations
        .update(small.id, |plan| plan.spec.prompt = prompt);
    assert_eq!(grown.await.unwrap_err(), refused);
    host.automations.remove(made[0].id).await.unwrap();
    create("a", big).await.unwrap();
}

#[tokio::test]
async fn declared_automations_follow_the_configuration() {
    let host = TestHost::new().await;
    let own = host.create(plan(HOURLY, MissedRuns::Skip)).await;
    let declared = |name: &str, rule: &str, status| {
        let mut plan = plan(rule, MissedRuns::Skip);
        plan.name = name.to_owned();
        DeclaredAutomation { plan, status }
    };
    let active = AutomationStatus::Active;
    let (one, two) = (
        declared("one", HOURLY, active),
        declared("two", HOURLY, active),
    );
    let (first, second) = (one.id(), two.id());
    host.automations
        .declare(vec![one.clone(), two])
        .await
        .unwrap();
    let made = host.automations.get(first).await.unwrap();
    assert!(made.is_declared() && !own.is_declared());
    assert!(made.next_run_at.is_some());

    // Unchanged automations stay, others are updated, missing ones are removed.
    host.clock.by(7200);
    host.automations.declare(vec![one.clone()]).await.unwrap();
    assert_eq!(host.automations.get(first).await.unwrap(), made);
    let gone = host.automations.get(second).await;
    assert!(matches!(gone, Err(JobError::NotFound { .. })));
    let changed = declared("one", "0 9 * * *", AutomationStatus::Paused);
    host.automations.declare(vec![changed]).await.unwrap();
    let changed = host.automations.get(first).await.unwrap();
    assert_eq!(changed.plan.rrule, "0 9 * * *");
    assert_eq!(changed.status, AutomationStatus::Paused);
    host.automations.declare(vec![one]).await.unwrap();
    let resumed = host.automations.get(first).await.unwrap();
    assert_eq!(resumed.status, active);
    assert!(resumed.next_run_at.is_some());

    host.automations.declare(Vec::new()).await.unwrap();
    let listed = host.automations.list(None, 100).await.unwrap();
    assert_eq!(listed, [own]);
}
