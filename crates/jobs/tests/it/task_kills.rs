//! Tasks over kills: each ends once, none is lost, none starts twice, and owners are served fairly.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use windlass_core::events::EventData;
use windlass_jobs::{
    Assignment, JobStore, TaskId, TaskSettings, Tasks, TurnEnd, TurnRunner, WorkerSlot,
};
use windlass_store::StreamKey;

use crate::support::{
    TestClock, TestRandom, Threads, done, failed, fold_tasks, kill, sqlite, task,
};

const OWNERS: [&str; 3] = ["ada", "bob", "cyd"];

/// Numbers of tasks and kills; with `WINDLASS_SOAK`, the documented ones.
fn size() -> (usize, u64) {
    match std::env::var_os("WINDLASS_SOAK") {
        Some(_) => (10_200, 200),
        None => (900, 30),
    }
}

/// Threads whose turns end automatically after a few steps.
struct AutoEnding(Arc<Threads>);

#[async_trait]
impl TurnRunner for AutoEnding {
    async fn run_attempt(
        &self,
        work: Assignment,
        stop: CancellationToken,
        slot: WorkerSlot,
    ) -> TurnEnd {
        let id = work.turn_id;
        let mut random =
            TestRandom(u64::try_from(id.uuid().as_u128() >> 64).unwrap() ^ u64::from(work.attempt));
        let steps = random.below(20);
        let end = match random.below(10) {
            0 => failed("bad luck"),
            _ => done("ok"),
        };
        let running = self.0.run_attempt(work, stop, slot);
        let work = async {
            for step in 0..steps {
                // Some turns are parked in between.
                if step % 5 < 2 {
                    self.0.park_turn(id, step % 5 == 0);
                }
                tokio::task::yield_now().await;
            }
            self.0.end_turn_once(id, end);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            end = running => end,
            () = work => unreachable!("this future never ends"),
        }
    }
}

async fn ended(store: &JobStore) -> usize {
    let stream = StreamKey::new("work:tasks");
    let mut after = 0;
    let mut count = 0;
    loop {
        let page = store.journal.read(&stream, after, 4096).await.unwrap();
        let Some(last) = page.events.last() else {
            return count;
        };
        after = last.seq();
        count += page
            .events
            .iter()
            .filter(|e| name(e) == "task.ended")
            .count();
    }
}

fn name(event: &windlass_core::events::Event) -> &str {
    match &event.data {
        EventData::Custom(custom) => &custom.name,
        _ => panic!("unexpected record in a job stream"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_ends_once_despite_kills_and_owners_are_served_fairly() {
    let (count, kills) = size();
    let directory = tempfile::tempdir().unwrap();
    let threads: Arc<Threads> = Arc::default();
    let settings = TaskSettings {
        workers: 8,
        ..TaskSettings::default()
    };
    let clock = TestClock::new();
    let mut random = TestRandom(1);
    let mut submitted = 0;
    let mut killed = 0;
    loop {
        let store = sqlite(directory.path()).await;
        let tasks = Tasks::open(store.clone(), clock.clone(), settings)
            .await
            .unwrap();
        // The retries of the last process are due.
        clock.by(3600);
        while submitted < count {
            for owner in OWNERS {
                let batch = 100.min(count - submitted);
                let news = (0..batch).map(|n| {
                    let mut new = task(&format!("{owner} {submitted} {n}"));
                    new.spec.max_attempts = 2;
                    new
                });
                submitted += tasks.submit_all(owner, news.collect()).await.unwrap().len();
            }
        }
        let running = tokio::spawn({
            let (tasks, runner) = (tasks.clone(), Arc::new(AutoEnding(Arc::clone(&threads))));
            async move { tasks.run(runner).await }
        });
        let mut changed = tasks.watch();
        // Some kills come immediately and some later, each at an arbitrary await.
        let mut open = usize::MAX;
        for _ in 0..random.below(3 * count as u64 / (2 * kills)) {
            let counts = tasks.counts().await.unwrap();
            open = counts.queued + counts.running;
            if open == 0 {
                break;
            }
            clock.by(60);
            changed.changed().await.unwrap();
        }
        kill(running).await;
        if open == 0 {
            break;
        }
        killed += 1;
    }
    assert!(
        killed >= kills,
        "{killed} kills are too few for a valid test"
    );
    let store = sqlite(directory.path()).await;
    check(&store, &threads, count).await;
}

async fn check(store: &JobStore, threads: &Threads, count: usize) {
    assert_eq!(
        ended(store).await,
        count,
        "each task has one end, and none has two"
    );
    let stream = StreamKey::new("work:tasks");
    let page = store
        .journal
        .read(&stream, 0, usize::MAX >> 1)
        .await
        .unwrap();
    let tasks = fold_tasks(&page.events);
    assert_eq!(tasks.len(), count);
    let mut attempts = 0;
    for task in tasks.values() {
        assert!(task.end().is_some(), "{task:?}");
        attempts += task.attempts.len();
    }
    let turns = threads.all();
    assert_eq!(turns.len(), attempts, "each attempt is a turn");
    assert!(turns.iter().all(|turn| turn.starts == 1));

    let mut finished: HashMap<&str, f64> = OWNERS.map(|owner| (owner, 0.0)).into();
    let mut all = 0;
    for event in page
        .events
        .iter()
        .filter(|event| name(event) == "task.ended")
    {
        let EventData::Custom(custom) = &event.data else {
            continue;
        };
        let id: TaskId = custom.payload["task_id"].as_str().unwrap().parse().unwrap();
        *finished.get_mut(&*tasks[&id].owner).unwrap() += 1.0;
        all += 1;
        let most = finished.values().copied().fold(0.0, f64::max);
        let least = finished.values().copied().fold(f64::MAX, f64::min);
        // Turns take a random time, so the counts of fairly served owners differ by chance: by at most six times the
        // standard deviation of a count. A queue in order of arrival exceeds that within the first hundred tasks.
        assert!(
            most - least <= 6.0 * most.sqrt(),
            "after {all}: {finished:?}"
        );
    }
}
