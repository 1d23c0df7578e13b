//! Fleet runs: each task ends once, attempts are counted correctly, and no task is taken from a turn that may still be running.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_jobs::fleet::{
    FleetCommand, FleetEvent, FleetRunStatus, FleetStart, FleetTask, FleetTaskSpec,
    FleetTaskStatus, WorkerCommand, WorkerSpec,
};
use windlass_jobs::{
    Fleet, FleetPlan, FleetRun, FleetRunId, FleetSettings, HoldCause, JobError, JobSpec, JobStore,
    TurnRunner,
};

use crate::support::{
    LimitedThreads, StuckRunner, TestClock, TestRandom, Threads, done, failed, held, interrupted,
    kill, memory, sqlite, stopped_by_budget, time,
};

fn plan(tasks: usize, workers: usize, max_attempts: u32) -> FleetPlan {
    let task = |n: usize| {
        let spec = JobSpec {
            max_attempts,
            ..JobSpec::new(format!("t{n}"))
        };
        FleetTaskSpec::new(format!("t{n}"), spec)
    };
    let worker = |n: usize| WorkerSpec {
        worker_id: format!("w{n}"),
        role: "builder".to_owned(),
        backend: (n == 1).then(|| "claude".to_owned()),
    };
    FleetPlan {
        name: "port".to_owned(),
        tasks: (0..tasks).map(task).collect(),
        workers: (0..workers).map(worker).collect(),
        ..FleetPlan::default()
    }
}

struct TestHost {
    fleet: Fleet,
    threads: Arc<Threads>,
    store: JobStore,
    running: tokio::task::JoinHandle<JobError>,
}

impl TestHost {
    async fn on(store: JobStore, threads: Arc<Threads>, workers: usize) -> Self {
        let host = Self::with(store, threads.clone(), TestClock::jumping(), workers).await;
        Self { threads, ..host }
    }

    /// Starts with another turn runner.
    async fn with(
        store: JobStore,
        runner: Arc<dyn TurnRunner>,
        clock: Arc<TestClock>,
        workers: usize,
    ) -> Self {
        let settings = FleetSettings {
            workers,
            ..FleetSettings::default()
        };
        let fleet = Fleet::open(store.clone(), clock, settings).await.unwrap();
        let of = fleet.clone();
        let running = tokio::spawn(async move { of.run(runner).await });
        Self {
            fleet,
            threads: Arc::default(),
            store,
            running,
        }
    }

    async fn new(workers: usize) -> Self {
        Self::on(memory(), Arc::default(), workers).await
    }

    async fn create(&self, plan: FleetPlan) -> FleetRunId {
        self.fleet.create("a", plan, None).await.unwrap().id
    }

    async fn until(&self, id: FleetRunId, condition: impl Fn(&FleetRun) -> bool) -> FleetRun {
        let mut changed = self.fleet.watch();
        loop {
            let run = self.fleet.get(id).await.unwrap();
            if condition(&run) {
                return run;
            }
            changed.changed().await.unwrap();
        }
    }

    async fn until_done(&self, id: FleetRunId) -> FleetRun {
        self.until(id, |run| run.completed_at.is_some()).await
    }
}

fn statuses(run: &FleetRun) -> Vec<FleetTaskStatus> {
    run.tasks.iter().map(|task| task.status).collect()
}

#[tokio::test]
async fn each_worker_leases_one_task_that_ends_with_its_turn() {
    let host = TestHost::new(8).await;
    let id = host.create(plan(3, 2, 1)).await;
    let second = host.threads.begun("t1").await.work.unwrap();
    assert_eq!(second.spec.policy.backend.as_deref(), Some("claude"));
    let run = host.fleet.get(id).await.unwrap();
    use FleetTaskStatus::{Completed, Failed, Queued, Running};
    assert_eq!(statuses(&run), [Running, Running, Queued]);
    assert_eq!(run.tasks[1].leased_to.as_deref(), Some("w1"));
    host.threads.end("t0", done("ok")).await;
    host.threads.end("t1", failed("no")).await;
    host.threads.end("t2", done("ok")).await;
    let run = host.until_done(id).await;
    assert_eq!(statuses(&run), [Completed, Failed, Completed]);
    assert_eq!(run.status(), FleetRunStatus::Partial);
    assert_eq!(run.tasks[0].summary.as_deref(), Some("ok"));
    assert_eq!(run.tasks[1].error.as_deref(), Some("no"));
    // A list contains the statuses without the results.
    let listed = host.fleet.list(None, None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].id, statuses(&listed[0])), (id, statuses(&run)));
    assert!(listed[0].tasks.iter().all(|task| task.summary.is_none()));
}

#[tokio::test]
async fn working_workers_are_limited() {
    let host = TestHost::new(2).await;
    let first = host.create(plan(4, 4, 1)).await;
    host.threads.begun("t1").await;
    let run = host.fleet.get(first).await.unwrap();
    assert_eq!(run.leases().count(), 2);
}

#[tokio::test]
async fn parked_task_frees_capacity_for_other_runs() {
    let host = TestHost::new(1).await;
    let first = host.create(plan(2, 1, 1)).await;
    host.threads.park("t0", true).await;
    let mut other = plan(1, 1, 1);
    other.tasks[0].spec = JobSpec::new("other");
    let second = host.fleet.create("b", other, None).await.unwrap().id;
    host.threads.end("other", done("")).await;
    host.until_done(second).await;
    let run = host.fleet.get(first).await.unwrap();
    use FleetTaskStatus::{Completed, Queued, Running};
    assert_eq!(
        statuses(&run),
        [Running, Queued],
        "its own worker stays busy"
    );
    host.threads.end("t0", done("")).await;
    host.threads.end("t1", done("")).await;
    assert_eq!(
        statuses(&host.until_done(first).await),
        [Completed, Completed]
    );
}

#[tokio::test]
async fn restart_repeats_the_task_and_does_not_count_as_an_attempt() {
    let host = TestHost::new(1).await;
    let id = host.create(plan(1, 1, 1)).await;
    let first = host.threads.begun("t0").await.work.unwrap();
    host.fleet.restart(id, "w0").await.unwrap();
    let run = host.until(id, |run| run.tasks[0].attempts == 2).await;
    assert_eq!((run.workers[0].restarts, run.tasks[0].restarts), (1, 1));
    let second = host.threads.begun("t0").await.work.unwrap();
    assert_eq!(first.thread_id, second.thread_id);
    assert_ne!(first.turn_id, second.turn_id);
    host.threads.end("t0", done("")).await;
    assert_eq!(
        host.until_done(id).await.status(),
        FleetRunStatus::Completed
    );
}

#[tokio::test]
async fn interrupt_cancels_the_task_and_the_worker_continues() {
    let host = TestHost::new(1).await;
    let id = host.create(plan(2, 1, 3)).await;
    host.threads.begun("t0").await;
    host.fleet.interrupt(id, "w0").await.unwrap();
    host.threads.end("t1", done("")).await;
    let run = host.until_done(id).await;
    use FleetTaskStatus::{Cancelled, Completed};
    assert_eq!(statuses(&run), [Cancelled, Completed]);
    let unknown = host.fleet.interrupt(id, "unknown").await;
    assert!(matches!(unknown, Err(JobError::NotFound { .. })));
    let late = host.fleet.interrupt(id, "w0").await;
    assert!(matches!(late, Err(JobError::Conflict { .. })));
}

#[tokio::test]
async fn stopped_run_starts_no_task_after_a_kill() {
    let host = TestHost::new(1).await;
    let id = host.create(plan(3, 2, 3)).await;
    host.threads.begun("t0").await;
    host.running.abort();
    let stopped = host.fleet.stop(id).await.unwrap();
    assert_eq!(
        stopped.status(),
        FleetRunStatus::Running,
        "a turn is still running"
    );
    kill(host.running).await;
    let host = TestHost::on(host.store, host.threads, 1).await;
    let run = host.until_done(id).await;
    assert_eq!(run.status(), FleetRunStatus::Cancelled);
    assert_eq!(host.threads.all().len(), 1);
    assert_eq!(host.fleet.stop(id).await.unwrap(), run);
}

#[tokio::test]
async fn lease_of_a_stopped_run_lasts_until_its_turn_has_ended() {
    for runner in [StuckRunner::Panics, StuckRunner::Holds] {
        let clock = TestClock::new();
        let fleet = Fleet::open(memory(), clock.clone(), FleetSettings::default());
        let fleet = fleet.await.unwrap();
        let of = fleet.clone();
        tokio::spawn(async move { of.run(Arc::new(runner)).await });
        let id = fleet.create("a", plan(1, 1, 3), None).await.unwrap().id;
        let mut changed = fleet.watch();
        while fleet.get(id).await.unwrap().leases().count() == 0 {
            changed.changed().await.unwrap();
        }
        fleet.stop(id).await.unwrap();
        for _ in 0..2000 {
            clock.by(1);
            tokio::task::yield_now().await;
        }
        let run = fleet.get(id).await.unwrap();
        assert_eq!(statuses(&run), [FleetTaskStatus::Running]);
        assert_eq!(run.tasks[0].attempts, 1);
        let hold = fleet.hold_of(&run, 0).unwrap();
        assert!(hold.tries > 3 && hold.retry_at > Some(hold.at), "{hold:?}");
    }
}

#[tokio::test]
async fn attempt_stopped_by_a_budget_is_repeated_and_does_not_count() {
    let clock = TestClock::new();
    let threads: Arc<Threads> = Arc::default();
    let host = TestHost::with(memory(), threads.clone(), clock.clone(), 4).await;
    let id = host.create(plan(1, 1, 1)).await;
    let renews_at = time("2026-03-02T00:00:00Z");
    threads.end("t0", stopped_by_budget(renews_at)).await;
    let is_queued = |run: &FleetRun| run.tasks[0].status == FleetTaskStatus::Queued;
    let run = host.until(id, is_queued).await;
    let hold = host.fleet.hold_of(&run, 0).unwrap();
    assert_eq!(
        (hold.cause, hold.retry_at),
        (HoldCause::Budget, Some(renews_at))
    );
    clock.to(renews_at);
    threads.end("t0", failed("no")).await;
    let run = host.until_done(id).await;
    assert_eq!(statuses(&run), [FleetTaskStatus::Failed]);
    assert_eq!((run.tasks[0].attempts, run.tasks[0].excused), (2, 1));
}

#[tokio::test]
async fn run_waits_for_its_start_across_a_kill() {
    let host = TestHost::new(2).await;
    let mut wanted = plan(2, 1, 1);
    wanted.begins = FleetStart::WhenStarted;
    let id = host.create(wanted).await;
    // Once a run that starts immediately has a turn, the waiting run had its chance to start.
    host.create(plan(1, 1, 1)).await;
    host.threads.begun("t0").await;
    let run = host.fleet.get(id).await.unwrap();
    assert_eq!(run.status(), FleetRunStatus::Pending);
    assert_eq!(host.threads.all().len(), 1);
    kill(host.running).await;
    let host = TestHost::on(host.store, host.threads, 2).await;
    let started = host.fleet.start(id).await.unwrap();
    assert_eq!(started.status(), FleetRunStatus::Queued);
    assert!(!host.fleet.start(id).await.unwrap().waits_for_start());
    host.until(id, |run| run.leases().count() == 1).await;
    host.fleet.stop(id).await.unwrap();
    host.until_done(id).await;
    let late = host.fleet.start(id).await;
    assert!(matches!(late, Err(JobError::Conflict { .. })), "{late:?}");
}

#[tokio::test]
async fn repeated_request_creates_no_second_run() {
    let host = TestHost::new(1).await;
    let create = |request: &'static str| host.fleet.create("a", plan(1, 1, 1), Some(request));
    let first = create("r1").await.unwrap();
    assert_eq!(create("r1").await.unwrap().id, first.id);
    assert_ne!(create("r2").await.unwrap().id, first.id);
    assert_eq!(host.fleet.list(None, None, 10).await.unwrap().len(), 2);
    assert!(
        host.fleet
            .list(Some("b"), None, 10)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn runs_are_listed_by_owner_even_if_names_share_a_prefix() {
    let host = TestHost::new(1).await;
    let mut made = Vec::new();
    for owner in ["a", "a fleet_f", "b", "a", "a"] {
        let run = host.fleet.create(owner, plan(1, 1, 1), None).await.unwrap();
        // All but the last have ended.
        if made.len() < 4 {
            host.fleet.stop(run.id).await.unwrap();
            host.until_done(run.id).await;
        }
        made.push(run.id);
    }
    let listed = async |owner: Option<&str>, before: Option<FleetRunId>, limit: usize| {
        let runs = host.fleet.list(owner, before, limit).await.unwrap();
        runs.iter().map(|run| run.id).collect::<Vec<_>>()
    };
    let own = [made[4], made[3], made[0]];
    assert_eq!(listed(Some("a"), None, 10).await, own);
    assert_eq!(listed(Some("a"), None, 2).await, own[..2]);
    assert_eq!(listed(Some("a"), Some(made[4]), 1).await, own[1..2]);
    assert_eq!(listed(Some("a"), Some(made[3]), 10).await, own[2..]);
    assert_eq!(listed(Some("a fleet_f"), None, 10).await, [made[1]]);
    assert!(listed(Some("c"), None, 10).await.is_empty());
    let mut all = made.clone();
    all.reverse();
    assert_eq!(listed(None, None, 10).await, all);
    assert_eq!(listed(None, Some(made[3]), 2).await, all[2..4]);
}

#[tokio::test]
async fn ended_runs_are_retained_per_owner() {
    let settings = FleetSettings {
        ended_runs_of_owner: 2,
        ..FleetSettings::default()
    };
    let store = memory();
    let fleet = Fleet::open(store.clone(), TestClock::jumping(), settings);
    let fleet = fleet.await.unwrap();
    let mut ids = Vec::new();
    for owner in ["b", "a", "a", "a", "a"] {
        let run = fleet.create(owner, plan(1, 1, 1), None).await.unwrap();
        fleet.stop(run.id).await.unwrap();
        ids.insert(0, run.id);
    }
    for (owner, retained) in [
        (Some("a"), vec![ids[0], ids[1]]),
        (Some("b"), vec![ids[4]]),
        (None, vec![ids[0], ids[1], ids[4]]),
    ] {
        let listed = fleet.list(owner, None, 10).await.unwrap();
        let listed: Vec<_> = listed.iter().map(|run| run.id).collect();
        assert_eq!(listed, retained, "{owner:?}");
    }
    for kind in ["work.fleet.ended", "work.fleet.owned", "work.fleet.kept"] {
        let rows = store.records.list(kind).await.unwrap();
        assert_eq!(rows.len(), 3, "{kind}");
    }
}

#[tokio::test]
async fn task_is_retried_on_a_worker_with_the_same_backend() {
    let host = TestHost::new(8).await;
    // `w1` works on a backend, `w0` does not.
    let id = host.create(plan(2, 2, 2)).await;
    let second = host.threads.begun("t1").await.work.unwrap();
    host.threads.end("t0", done("ok")).await;
    host.until(id, |run| run.tasks[0].status.is_end()).await;
    host.threads.end_turn(second.turn_id, failed("no"));
    let again = host
        .threads
        .until(|turns| {
            let mut turns = turns.iter().filter_map(|turn| turn.work.clone());
            turns.find(|work| work.attempt == 2)
        })
        .await;
    assert_eq!(again.thread_id, second.thread_id);
    assert_eq!(again.spec.policy.backend.as_deref(), Some("claude"));
    let run = host.fleet.get(id).await.unwrap();
    assert_eq!(run.tasks[1].leased_to.as_deref(), Some("w1"));
}

#[tokio::test]
async fn history_of_a_run_is_paged_and_contains_no_other_run() {
    let host = TestHost::new(8).await;
    let id = host.create(plan(2, 1, 1)).await;
    host.threads.begun("t0").await;
    let other = host.create(plan(1, 1, 1)).await;
    host.until(other, |run| run.leases().count() == 1).await;
    host.fleet.stop(id).await.unwrap();
    let run = host.until_done(id).await;
    let whole = host.fleet.history(&run, 0, 100).await.unwrap();
    let kinds = whole.records.iter().map(|record| {
        let event = serde_json::to_value(&record.event).unwrap();
        event["event"].as_str().unwrap().to_owned()
    });
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(
        kinds.join(" "),
        "created leased stopped told task_ended task_ended completed"
    );
    assert!(!whole.has_more && !whole.is_pruned);
    let mut after = 0;
    let mut paged = Vec::new();
    loop {
        let page = host.fleet.history(&run, after, 3).await.unwrap();
        paged.extend(page.records);
        after = page.read_to;
        if !page.has_more {
            break;
        }
    }
    assert_eq!(paged, whole.records);
}

#[tokio::test]
async fn plans_over_a_limit_are_rejected() {
    let host = TestHost::new(1).await;
    let refused = |change: fn(&mut FleetPlan)| {
        let mut plan = plan(2, 2, 1);
        change(&mut plan);
        let fleet = host.fleet.clone();
        async move {
            match fleet.create("a", plan, None).await {
                Err(JobError::Invalid { field, .. }) => field,
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(refused(|plan| plan.tasks.clear()).await, "tasks");
    assert_eq!(refused(|plan| plan.workers.clear()).await, "workers");
    assert_eq!(
        refused(|plan| plan.tasks[0].task_id = "t1".to_owned()).await,
        "tasks"
    );
    assert_eq!(
        refused(|plan| plan.workers = vec![plan.workers[0].clone(); 65]).await,
        "workers"
    );
    assert_eq!(refused(|plan| plan.name = String::new()).await, "name");
    let heavy = |plan: &mut FleetPlan| {
        for n in 2..8 {
            let mut task = plan.tasks[0].clone();
            task.task_id = format!("t{n}");
            task.spec.prompt = "x".repeat(200 * 1024);
            plan.tasks.push(task);
        }
    };
    assert_eq!(refused(heavy).await, "tasks");
}

#[tokio::test]
async fn failed_attempt_is_retried_after_a_delay() {
    let (clock, threads): (_, Arc<Threads>) = (TestClock::new(), Arc::default());
    let fleet = Fleet::open(memory(), clock.clone(), FleetSettings::default());
    let fleet = fleet.await.unwrap();
    let (of, runner) = (fleet.clone(), threads.clone());
    tokio::spawn(async move { of.run(runner).await });
    let id = fleet.create("a", plan(1, 1, 3), None).await.unwrap().id;
    for (attempt, wait) in [(1, 1), (2, 4)] {
        threads.end("t0", failed("no")).await;
        for seconds in [0, wait - 1] {
            clock.by(seconds);
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        }
        let run = fleet.get(id).await.unwrap();
        assert_eq!(statuses(&run), [FleetTaskStatus::Queued]);
        assert_eq!(threads.all().len(), attempt, "not before its time");
        clock.by(1);
        threads.begun("t0").await;
    }
}

#[test]
fn interrupt_cancels_the_task_even_if_its_turn_fails() {
    let created = FleetEvent::Created {
        owner: "a".to_owned(),
        plan: Box::new(plan(1, 1, 3)),
    };
    let at = time("2026-03-01T00:00:00Z");
    let mut run = FleetRun::begin(FleetRunId::from_seed(1), at, &created).unwrap();
    for command in [
        FleetCommand::Lease { limit: 1 },
        FleetCommand::CommandWorker {
            worker: 0,
            command: WorkerCommand::Interrupt,
        },
        FleetCommand::Finish {
            worker: 0,
            task: 0,
            attempt: 1,
            end: failed("no"),
        },
    ] {
        for event in run.decide(command).unwrap() {
            run.evolve(at, &event);
        }
    }
    assert_eq!(statuses(&run), [FleetTaskStatus::Cancelled]);
}

#[tokio::test]
async fn row_of_a_run_does_not_grow_with_results() {
    let host = TestHost::new(8).await;
    let id = host.create(plan(100, 8, 1)).await;
    for n in 0..99 {
        let end = match n % 2 {
            0 => done(&"x".repeat(1000)),
            _ => failed(&"y".repeat(1000)),
        };
        host.threads.end(&format!("t{n}"), end).await;
    }
    let before = host.until(id, |run| run.tasks[98].status.is_end()).await;
    let records = &host.store.records;
    let row = records.get("work.fleet", &id.to_string()).await.unwrap();
    let size = row.unwrap().body.len();
    assert!(size < 16 * 1024, "{size} bytes");
    kill(host.running).await;
    let host = TestHost::on(host.store, host.threads, 8).await;
    assert_eq!(host.fleet.get(id).await.unwrap(), before);
    host.threads.end("t99", done("ok")).await;
    let run = host.until_done(id).await;
    assert_eq!(run.tasks[..99], before.tasks[..99]);
    let left = host.store.records.list("work.fleet.task").await.unwrap();
    assert!(left.is_empty(), "{}", left.len());
}

#[tokio::test]
async fn one_owner_may_have_half_of_the_open_runs() {
    let settings = FleetSettings {
        open_runs: 3,
        ..FleetSettings::default()
    };
    let fleet = Fleet::open(memory(), TestClock::new(), settings)
        .await
        .unwrap();
    let owners = [
        ("a", None),
        ("a", None),
        ("a", Some(2)),
        ("b", None),
        ("b", Some(3)),
    ];
    for (owner, limit) in owners {
        let full = match fleet.create(owner, plan(1, 1, 1), None).await {
            Err(JobError::TooMany { limit, .. }) => Some(limit),
            created => created.map(|_| None).unwrap(),
        };
        assert_eq!(full, limit, "{owner}");
    }
}

/// Invariants are preserved by any order of commands.
#[test]
fn every_task_ends_once_in_any_order_of_commands() {
    for seed in 0..300 {
        let mut random = TestRandom(seed);
        let created = FleetEvent::Created {
            owner: "a".to_owned(),
            plan: Box::new(plan(6, 3, 2)),
        };
        let at = time("2026-03-01T00:00:00Z");
        let mut run = FleetRun::begin(FleetRunId::from_seed(1), at, &created).unwrap();
        let mut ended = HashSet::new();
        let mut completed = 0;
        for step in 0.. {
            assert!(step < 2000, "seed {seed} does not end: {run:?}");
            run.release_due(time("2026-03-02T00:00:00Z"));
            let leases: Vec<_> = run.leases().collect();
            let busy: HashSet<_> = leases.iter().map(|lease| lease.0).collect();
            assert_eq!(busy.len(), leases.len(), "a worker has one task");
            let worker = usize::try_from(random.below(3)).unwrap();
            let command = match random.below(12) {
                0..4 => FleetCommand::Lease { limit: 2 },
                4 if step < 100 => FleetCommand::CommandWorker {
                    worker,
                    command: WorkerCommand::Restart,
                },
                5 => FleetCommand::CommandWorker {
                    worker,
                    command: WorkerCommand::Interrupt,
                },
                6 if random.below(20) == 0 => FleetCommand::Stop,
                _ => {
                    let (worker, task, attempt) =
                        match leases.get(usize::try_from(random.below(4)).unwrap()) {
                            Some(lease) => *lease,
                            None => (worker, 0, 99),
                        };
                    let end = match random.below(4) {
                        0 => done(""),
                        1 => failed("no"),
                        2 => interrupted("stopped"),
                        _ => held("not now"),
                    };
                    FleetCommand::Finish {
                        worker,
                        task,
                        attempt,
                        end,
                    }
                }
            };
            for event in run.decide(command).unwrap_or_default() {
                match &event {
                    FleetEvent::TaskEnded { task, .. } => {
                        assert!(ended.insert(*task), "seed {seed}")
                    }
                    FleetEvent::Leased { task, attempt, .. } => {
                        assert!(!ended.contains(task));
                        assert_eq!(run.tasks[*task].attempts + 1, *attempt);
                        assert!(run.stopped_at.is_none());
                    }
                    FleetEvent::Completed => completed += 1,
                    _ => {}
                }
                run.evolve(at, &event);
            }
            let counted = run.tasks.iter().map(|task| task.attempts - task.restarts);
            assert!(counted.max().unwrap() <= 2, "seed {seed}: {run:?}");
            if run.completed_at.is_some() {
                break;
            }
        }
        assert_eq!((ended.len(), completed), (6, 1), "seed {seed}");
        assert_eq!(run.leases().count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_continues_after_kills_without_repeating_attempts() {
    let directory = tempfile::tempdir().unwrap();
    let threads: Arc<Threads> = Arc::default();
    let mut id = None;
    let mut random = TestRandom(5);
    let mut kills = 0;
    loop {
        let host = TestHost::on(sqlite(directory.path()).await, threads.clone(), 4).await;
        let run = match id {
            Some(id) => id,
            None => host.create(plan(40, 5, 2)).await,
        };
        id = Some(run);
        for _ in 0..random.below(8) {
            let open = threads.until(|turns| {
                let open = turns
                    .iter()
                    .find(|turn| turn.end.is_none() && turn.work.is_some());
                open.map(|turn| turn.work.clone().unwrap().turn_id)
            });
            let end = match random.below(3) {
                0 => failed("bad luck"),
                _ => done("ok"),
            };
            tokio::select! {
                turn = open => threads.end_turn_once(turn, end),
                _ = host.until_done(run) => {}
            }
        }
        kill(host.running).await;
        kills += 1;
        if host.fleet.get(run).await.unwrap().completed_at.is_some() {
            break;
        }
    }
    assert!(kills > 5, "{kills} kills are too few for a valid test");
    let host = TestHost::on(sqlite(directory.path()).await, threads.clone(), 4).await;
    let run = host.fleet.get(id.unwrap()).await.unwrap();
    let attempts: u32 = run.tasks.iter().map(|task| task.attempts).sum();
    let turns = threads.all();
    assert_eq!(turns.len(), usize::try_from(attempts).unwrap());
    assert!(turns.iter().all(|turn| turn.starts == 1));
    assert!(run.tasks.iter().all(|task| task.status.is_end()));
}

#[tokio::test]
async fn task_without_a_free_thread_waits_and_the_try_does_not_count() {
    let (limited, clock) = (Arc::new(LimitedThreads::default()), TestClock::new());
    let host = TestHost::with(memory(), limited.clone(), clock.clone(), 4).await;
    let id = host.create(plan(3, 2, 1)).await;
    for tries in 1..4 {
        let tries_of = |task: &FleetTask| task.hold.as_ref().map_or(0, |hold| hold.tries);
        let held = |task: &FleetTask| tries_of(task) == tries && task.leased_to.is_none();
        let run = host.until(id, |run| run.tasks[..2].iter().all(held)).await;
        assert_eq!(run.status(), FleetRunStatus::Queued);
        for task in &run.tasks[..2] {
            assert_eq!((task.attempts, task.first_worker), (0, None));
            let why = task.error.as_deref();
            assert_eq!(why, Some("the limit of 3 threads is reached"));
        }
        // The third does not try while the others wait.
        assert_eq!(run.tasks[2].hold, None);
        clock.by(4);
    }
    limited.has_free_thread.store(true, Ordering::SeqCst);
    for prompt in ["t0", "t1", "t2"] {
        limited.threads.end(prompt, done("ok")).await;
    }
    let run = host.until_done(id).await;
    assert_eq!(run.status(), FleetRunStatus::Completed);
    assert!(run.tasks.iter().all(|task| task.attempts == 1));
    let run = host.create(plan(1, 1, 1)).await;
    limited.threads.end("t0", done("ok")).await;
    host.until_done(run).await;
}

#[tokio::test]
async fn run_without_a_free_thread_can_be_stopped() {
    let limited = Arc::new(LimitedThreads::default());
    let host = TestHost::with(memory(), limited.clone(), TestClock::new(), 4).await;
    let id = host.create(plan(3, 2, 1)).await;
    host.until(id, |run| run.tasks.iter().any(|task| task.hold.is_some()))
        .await;
    host.fleet.stop(id).await.unwrap();
    let run = host.until_done(id).await;
    assert_eq!(run.status(), FleetRunStatus::Cancelled);
}
