//! Runs of the fleet: each task ends once, attempts are counted as the rule says, and nothing is taken from a turn that may still be at work.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use windlass_work::fleet::{
    FleetCommand, FleetEvent, FleetRunStatus, FleetTaskSpec, FleetTaskStatus, Told, WorkerSpec,
};
use windlass_work::{
    Fleet, FleetPlan, FleetRun, FleetRunId, FleetSettings, TurnEnd, WorkError, WorkSpec, WorkStore,
};

use crate::support::{Dice, Moved, Threads, done, failed, kill, memory, sqlite, time};

fn plan(tasks: usize, workers: usize, max_attempts: u32) -> FleetPlan {
    let task = |n: usize| FleetTaskSpec {
        task_id: format!("t{n}"),
        spec: WorkSpec {
            max_attempts,
            ..WorkSpec::new(format!("t{n}"))
        },
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
        labels: BTreeMap::new(),
    }
}

fn interrupted() -> TurnEnd {
    TurnEnd::Interrupted {
        reason: "stopped".to_owned(),
    }
}

struct World {
    fleet: Fleet,
    threads: Arc<Threads>,
    store: WorkStore,
    running: tokio::task::JoinHandle<WorkError>,
}

impl World {
    async fn on(store: WorkStore, threads: Arc<Threads>, workers: usize) -> Self {
        let settings = FleetSettings {
            workers,
            ..FleetSettings::default()
        };
        let fleet = Fleet::open(store.clone(), Moved::new(), settings)
            .await
            .unwrap();
        let (of, hands) = (fleet.clone(), threads.clone());
        let running = tokio::spawn(async move { of.run(hands).await });
        Self {
            fleet,
            threads,
            store,
            running,
        }
    }

    async fn new(workers: usize) -> Self {
        Self::on(memory(), Arc::default(), workers).await
    }

    async fn create(&self, plan: FleetPlan) -> FleetRunId {
        self.fleet.create("a", plan).await.unwrap().id
    }

    async fn until(&self, id: FleetRunId, is_so: impl Fn(&FleetRun) -> bool) -> FleetRun {
        let mut changed = self.fleet.watch();
        loop {
            let run = self.fleet.get(id).await.unwrap();
            if is_so(&run) {
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
async fn tasks_are_leased_to_workers_one_each_and_end_as_their_turns_do() {
    let world = World::new(8).await;
    let id = world.create(plan(3, 2, 1)).await;
    let second = world.threads.begun("t1").await.work.unwrap();
    assert_eq!(second.spec.backend.as_deref(), Some("claude"));
    let run = world.fleet.get(id).await.unwrap();
    use FleetTaskStatus::{Completed, Failed, Queued, Running};
    assert_eq!(statuses(&run), [Running, Running, Queued]);
    assert_eq!(run.tasks[1].leased_to.as_deref(), Some("w1"));
    world.threads.end("t0", done("ok")).await;
    world.threads.end("t1", failed("no")).await;
    world.threads.end("t2", done("ok")).await;
    let run = world.until_done(id).await;
    assert_eq!(statuses(&run), [Completed, Failed, Completed]);
    assert_eq!(run.status(), FleetRunStatus::Partial);
    assert_eq!(world.fleet.list(None, 10).await.unwrap(), [run]);
}

#[tokio::test]
async fn no_more_workers_work_than_the_operator_allows() {
    let world = World::new(2).await;
    let first = world.create(plan(4, 4, 1)).await;
    world.threads.begun("t1").await;
    let run = world.fleet.get(first).await.unwrap();
    assert_eq!(run.leases().count(), 2);
}

#[tokio::test]
async fn a_restart_begins_the_task_anew_and_does_not_count_against_the_rule() {
    let world = World::new(1).await;
    let id = world.create(plan(1, 1, 1)).await;
    let first = world.threads.begun("t0").await.work.unwrap();
    world.fleet.restart(id, "w0").await.unwrap();
    let run = world.until(id, |run| run.tasks[0].attempts == 2).await;
    assert_eq!((run.workers[0].restarts, run.tasks[0].restarts), (1, 1));
    let second = world.threads.begun("t0").await.work.unwrap();
    assert_eq!(first.thread_id, second.thread_id);
    assert_ne!(first.turn_id, second.turn_id);
    world.threads.end("t0", done("")).await;
    assert_eq!(
        world.until_done(id).await.status(),
        FleetRunStatus::Completed
    );
}

#[tokio::test]
async fn an_interrupt_cancels_the_task_and_the_worker_goes_on() {
    let world = World::new(1).await;
    let id = world.create(plan(2, 1, 3)).await;
    world.threads.begun("t0").await;
    world.fleet.interrupt(id, "w0").await.unwrap();
    world.threads.end("t1", done("")).await;
    let run = world.until_done(id).await;
    use FleetTaskStatus::{Cancelled, Completed};
    assert_eq!(statuses(&run), [Cancelled, Completed]);
    let unknown = world.fleet.interrupt(id, "nobody").await;
    assert!(matches!(unknown, Err(WorkError::NotFound { .. })));
    let late = world.fleet.interrupt(id, "w0").await;
    assert!(matches!(late, Err(WorkError::Conflict { .. })));
}

#[tokio::test]
async fn a_stopped_run_starts_nothing_more_also_after_a_kill() {
    let world = World::new(1).await;
    let id = world.create(plan(3, 2, 3)).await;
    world.threads.begun("t0").await;
    world.running.abort();
    let stopped = world.fleet.stop(id).await.unwrap();
    assert_eq!(
        stopped.status(),
        FleetRunStatus::Running,
        "a turn is still at work"
    );
    kill(world.running).await;
    let world = World::on(world.store, world.threads, 1).await;
    let run = world.until_done(id).await;
    assert_eq!(run.status(), FleetRunStatus::Cancelled);
    assert_eq!(world.threads.all().len(), 1);
    assert_eq!(world.fleet.stop(id).await.unwrap(), run);
}

#[tokio::test]
async fn what_is_over_a_bound_is_refused() {
    let world = World::new(1).await;
    let refused = |change: fn(&mut FleetPlan)| {
        let mut plan = plan(2, 2, 1);
        change(&mut plan);
        let fleet = world.fleet.clone();
        async move {
            match fleet.create("a", plan).await {
                Err(WorkError::Invalid { field, .. }) => field,
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

/// Any order of commands keeps what must hold.
#[test]
fn every_task_ends_once_in_any_order_of_commands() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
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
            let leases: Vec<_> = run.leases().collect();
            let busy: HashSet<_> = leases.iter().map(|lease| lease.0).collect();
            assert_eq!(busy.len(), leases.len(), "a worker has one task");
            let worker = usize::try_from(dice.below(3)).unwrap();
            let command = match dice.below(12) {
                0..4 => FleetCommand::Lease { limit: 2 },
                4 if step < 100 => FleetCommand::Tell {
                    worker,
                    what: Told::Restart,
                },
                5 => FleetCommand::Tell {
                    worker,
                    what: Told::Interrupt,
                },
                6 if dice.below(20) == 0 => FleetCommand::Stop,
                _ => {
                    let (worker, task, attempt) =
                        match leases.get(usize::try_from(dice.below(4)).unwrap()) {
                            Some(lease) => *lease,
                            None => (worker, 0, 99),
                        };
                    let end = match dice.below(4) {
                        0 => done(""),
                        1 => failed("no"),
                        2 => interrupted(),
                        _ => TurnEnd::NotNow {
                            reason: String::new(),
                        },
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
async fn a_run_goes_on_over_kills_and_begins_no_attempt_twice() {
    let directory = tempfile::tempdir().unwrap();
    let threads: Arc<Threads> = Arc::default();
    let mut id = None;
    let mut dice = Dice(5);
    let mut kills = 0;
    loop {
        let world = World::on(sqlite(directory.path()).await, threads.clone(), 4).await;
        let run = match id {
            Some(id) => id,
            None => world.create(plan(40, 5, 2)).await,
        };
        id = Some(run);
        for _ in 0..dice.below(8) {
            let open = threads.until(|turns| {
                let open = turns
                    .iter()
                    .find(|turn| turn.end.is_none() && turn.work.is_some());
                open.map(|turn| turn.work.clone().unwrap().turn_id)
            });
            let end = match dice.below(3) {
                0 => failed("bad luck"),
                _ => done("ok"),
            };
            tokio::select! {
                turn = open => threads.end_turn_once(turn, end),
                _ = world.until_done(run) => {}
            }
        }
        kill(world.running).await;
        kills += 1;
        if world.fleet.get(run).await.unwrap().completed_at.is_some() {
            break;
        }
    }
    assert!(kills > 5, "{kills} kills are too few to say anything");
    let world = World::on(sqlite(directory.path()).await, threads.clone(), 4).await;
    let run = world.fleet.get(id.unwrap()).await.unwrap();
    let attempts: u32 = run.tasks.iter().map(|task| task.attempts).sum();
    let turns = threads.all();
    assert_eq!(turns.len(), usize::try_from(attempts).unwrap());
    assert!(turns.iter().all(|turn| turn.begun == 1));
    assert!(run.tasks.iter().all(|task| task.status.is_end()));
}
