//! Transitions of tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_jobs::tasks::EndStatus;
use windlass_jobs::{
    HoldCause, JobError, JobSpec, JobStore, NewTask, TaskId, TaskSettings, TaskStatus, Tasks,
    TurnEnd, TurnRunner,
};
use windlass_store::StreamKey;

use crate::support::{
    CountedRecords, LimitedThreads, StuckRunner, TestClock, Threads, done, failed, fold_tasks,
    held, interrupted, kill, memory, stopped_by_budget, task, time,
};

struct TestHost {
    tasks: Tasks,
    threads: Arc<Threads>,
    clock: Arc<TestClock>,
    store: JobStore,
    running: tokio::task::JoinHandle<JobError>,
}

impl TestHost {
    async fn new(workers: usize) -> Self {
        Self::on(memory(), Arc::default(), workers).await
    }

    async fn on(store: JobStore, threads: Arc<Threads>, workers: usize) -> Self {
        let host = Self::with(store, threads.clone(), workers).await;
        Self { threads, ..host }
    }

    /// Starts with another turn runner.
    async fn with(store: JobStore, runner: Arc<dyn TurnRunner>, workers: usize) -> Self {
        let clock = TestClock::new();
        let settings = TaskSettings {
            workers,
            ..TaskSettings::default()
        };
        let tasks = Tasks::open(store.clone(), clock.clone(), settings);
        let tasks = tasks.await.unwrap();
        let running = tokio::spawn({
            let tasks = tasks.clone();
            async move { tasks.run(runner).await }
        });
        Self {
            tasks,
            threads: Arc::default(),
            clock,
            store,
            running,
        }
    }

    /// Kills the daemon and starts it again on the same store.
    async fn restart(self) -> Self {
        kill(self.running).await;
        Self::on(self.store, self.threads, self.tasks.settings().workers).await
    }

    async fn submit(&self, owner: &str, prompt: &str) -> TaskId {
        self.tasks.submit(owner, task(prompt)).await.unwrap().id
    }

    async fn until(&self, id: TaskId, wanted: TaskStatus) -> windlass_jobs::Task {
        let mut changed = self.tasks.watch();
        loop {
            let task = self.tasks.get(id).await.unwrap();
            if task.status() == wanted {
                return task;
            }
            changed.changed().await.unwrap();
        }
    }

    /// Advances the clock until a task has ended.
    async fn advance_until_ended(&self, id: TaskId) -> windlass_jobs::Task {
        for _ in 0..2000 {
            let task = self.tasks.get(id).await.unwrap();
            if task.end().is_some() {
                return task;
            }
            self.clock.by(1);
            tokio::task::yield_now().await;
        }
        panic!("the task does not end");
    }

    async fn begun(&self) -> Vec<String> {
        let turns = self.threads.all();
        let mut begun: Vec<_> = turns
            .into_iter()
            .map(|t| t.work.unwrap().spec.prompt)
            .collect();
        begun.sort();
        begun
    }
}

#[tokio::test]
async fn task_ends_with_the_outcome_of_its_turn() {
    let host = TestHost::new(1).await;
    for (prompt, end, status) in [
        ("good", done("42"), TaskStatus::Completed),
        ("bad", failed("no"), TaskStatus::Failed),
        ("stopped", interrupted("you"), TaskStatus::Canceled),
    ] {
        let id = host.submit("a", prompt).await;
        let turn = host.threads.begun(prompt).await;
        let running = host.until(id, TaskStatus::Running).await;
        let work = turn.work.unwrap();
        assert_eq!(work.thread_id, running.thread_id());
        assert_eq!(Some(work.turn_id), running.turn_id());
        host.threads.end(prompt, end).await;
        let ended = host.until(id, status).await;
        assert_eq!(ended.attempts.len(), 1);
        assert_eq!(ended.changes, 3);
    }
    let counts = host.tasks.counts().await.unwrap();
    assert_eq!(
        (counts.completed, counts.failed, counts.canceled),
        (1, 1, 1)
    );
    assert_eq!((counts.queued, counts.running), (0, 0));
}

#[tokio::test]
async fn running_tasks_are_limited_by_workers() {
    let host = TestHost::new(2).await;
    for prompt in ["1", "2", "3", "4"] {
        host.submit("a", prompt).await;
    }
    host.threads.begun("2").await;
    let counts = host.tasks.counts().await.unwrap();
    assert_eq!((counts.queued, counts.running), (2, 2));
    host.threads.end("1", done("")).await;
    host.threads.begun("3").await;
    assert_eq!(host.begun().await, ["1", "2", "3"]);
}

/// Runs all tasks that can make progress.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn parked_task_releases_its_worker() {
    let host = TestHost::new(1).await;
    let asks = host.submit("a", "asks").await;
    host.threads.park("asks", true).await;
    host.submit("a", "other").await;
    host.threads.begun("other").await;
    let counts = host.tasks.counts().await.unwrap();
    assert_eq!((counts.queued, counts.running), (0, 2));
    // It resumes without waiting for a worker, and counts again.
    host.threads.park("asks", false).await;
    settle().await;
    let third = host.submit("a", "third").await;
    host.threads.end("other", done("")).await;
    settle().await;
    assert_eq!(host.begun().await, ["asks", "other"]);
    host.threads.end("asks", done("")).await;
    host.until(asks, TaskStatus::Completed).await;
    host.threads.end("third", done("")).await;
    host.until(third, TaskStatus::Completed).await;
}

#[tokio::test]
async fn owner_with_many_parked_tasks_starts_no_more_and_blocks_no_other_owner() {
    let host = TestHost::new(2).await;
    for n in 0..40 {
        host.submit("a", &n.to_string()).await;
    }
    for n in 0..40 {
        let prompt = n.to_string();
        settle().await;
        if !host.begun().await.contains(&prompt) {
            break;
        }
        host.threads.park(&prompt, true).await;
    }
    let begun = host.begun().await.len();
    assert!((16..=18).contains(&begun), "{begun}");
    let other = host.submit("b", "other").await;
    host.threads.end("other", done("")).await;
    host.until(other, TaskStatus::Completed).await;
    // Each ended task allows another to start.
    for n in 0..3 {
        host.threads.end(&n.to_string(), done("")).await;
    }
    host.threads.begun(&begun.to_string()).await;
}

#[tokio::test]
async fn task_parked_at_a_kill_stays_parked() {
    let host = TestHost::new(1).await;
    let asks = host.submit("a", "asks").await;
    host.threads.park("asks", true).await;
    let other = host.submit("b", "other").await;
    host.threads.begun("other").await;
    let third = host.submit("b", "third").await;
    let host = host.restart().await;
    host.threads.end("other", done("")).await;
    host.until(other, TaskStatus::Completed).await;
    host.threads.end("third", done("")).await;
    host.until(third, TaskStatus::Completed).await;
    host.threads.end("asks", done("")).await;
    let asks = host.until(asks, TaskStatus::Completed).await;
    assert_eq!(asks.attempts.len(), 1);
    assert!(host.threads.all().iter().all(|turn| turn.starts == 1));
}

#[tokio::test]
async fn queued_task_is_cancelled_immediately_and_running_task_is_stopped() {
    let host = TestHost::new(1).await;
    let running = host.submit("a", "running").await;
    let waiting = host.submit("a", "waiting").await;
    host.threads.begun("running").await;
    let canceled = host.tasks.cancel(waiting).await.unwrap();
    assert_eq!(canceled.status(), TaskStatus::Canceled);
    let requested = host.tasks.cancel(running).await.unwrap();
    assert_eq!(requested.status(), TaskStatus::Running);
    assert!(requested.cancel_requested_at.is_some());
    host.until(running, TaskStatus::Canceled).await;
    assert!(host.threads.all().iter().all(|turn| turn.is_stopped));
    let again = host.tasks.cancel(running).await.unwrap();
    assert_eq!(again.changes, 4);
    assert_eq!(host.begun().await, ["running"]);
}

#[tokio::test]
async fn cancellation_before_a_kill_takes_effect_after_it() {
    let host = TestHost::new(1).await;
    let id = host.submit("a", "p").await;
    host.threads.begun("p").await;
    // The loop is gone before it can signal the cancellation.
    host.running.abort();
    host.tasks.cancel(id).await.unwrap();
    assert!(!host.threads.all()[0].is_stopped);
    let host = host.restart().await;
    host.until(id, TaskStatus::Canceled).await;
}

#[tokio::test]
async fn failed_turn_is_retried_up_to_max_attempts() {
    let host = TestHost::new(1).await;
    let mut again = task("p");
    again.spec.max_attempts = 3;
    let id = host.tasks.submit("a", again).await.unwrap().id;
    let mut turns = Vec::new();
    for wait in [0, 1, 4] {
        // Not before its time.
        if wait > 0 {
            host.until(id, TaskStatus::Queued).await;
            assert_eq!(host.threads.all().len(), turns.len());
            host.clock.by(wait);
        }
        let work = host.threads.begun("p").await.work.unwrap();
        turns.push(work.turn_id);
        host.threads.end("p", failed("no")).await;
    }
    let task = host.until(id, TaskStatus::Failed).await;
    turns.dedup();
    assert_eq!((task.attempts.len(), turns.len()), (3, 3));
    let threads: std::collections::HashSet<_> = host
        .threads
        .all()
        .into_iter()
        .map(|t| t.work.unwrap().thread_id)
        .collect();
    assert_eq!(threads.len(), 1, "all attempts share a thread");
}

#[tokio::test]
async fn refused_attempt_is_not_retried() {
    let host = TestHost::new(1).await;
    let mut new = task("p");
    new.spec.max_attempts = 3;
    let id = host.tasks.submit("a", new).await.unwrap().id;
    let end = TurnEnd::Refused {
        error: "no such workspace".to_owned(),
    };
    host.threads.end("p", end).await;
    let task = host.until(id, TaskStatus::Failed).await;
    assert_eq!(task.attempts.len(), 1);
}

#[tokio::test]
async fn retry_creates_a_new_task_and_leaves_the_old_one_unchanged() {
    let host = TestHost::new(1).await;
    let id = host.submit("a", "p").await;
    let refused = host.tasks.retry("a", id).await;
    assert!(matches!(refused, Err(JobError::Conflict { .. })));
    host.threads.end("p", failed("no")).await;
    let ended = host.until(id, TaskStatus::Failed).await;
    let again = host.tasks.retry("a", id).await.unwrap();
    assert_eq!(
        (again.retry_of, again.status()),
        (Some(id), TaskStatus::Queued)
    );
    assert_ne!(again.thread_id(), ended.thread_id());
    assert_eq!(host.tasks.get(id).await.unwrap(), ended);
}

#[tokio::test]
async fn task_running_at_a_kill_continues_without_a_second_start() {
    let mut host = TestHost::new(2).await;
    let id = host.submit("a", "p").await;
    host.threads.begun("p").await;
    for _ in 0..3 {
        host = host.restart().await;
    }
    host.threads.end("p", done("x")).await;
    let task = host.until(id, TaskStatus::Completed).await;
    assert_eq!(task.attempts.len(), 1);
    assert_eq!(host.threads.all()[0].starts, 1);
}

#[tokio::test]
async fn turn_that_ends_during_downtime_ends_its_task() {
    let host = TestHost::new(1).await;
    let id = host.submit("a", "p").await;
    let turn = host.threads.begun("p").await.work.unwrap().turn_id;
    host.running.abort();
    host.threads.end_turn(turn, done("while you were away"));
    let host = host.restart().await;
    let task = host.until(id, TaskStatus::Completed).await;
    let end = task.end().unwrap();
    assert_eq!(end.summary.as_deref(), Some("while you were away"));
    assert_eq!(end.status, EndStatus::Completed);
}

#[tokio::test]
async fn held_attempt_is_retried_without_a_new_attempt() {
    let host = TestHost::new(1).await;
    let id = host.submit("a", "p").await;
    let reason = "stopping".to_owned();
    let turn = host.threads.begun("p").await.work.unwrap().turn_id;
    host.threads.end_turn(turn, held(&reason));
    // The attempt is held until the clock advances; then the turn has ended.
    tokio::task::yield_now().await;
    host.threads.end_turn(turn, done(""));
    host.clock.by(1);
    let task = host.until(id, TaskStatus::Completed).await;
    assert_eq!(task.attempts.len(), 1);
}

#[tokio::test]
async fn same_id_is_queued_once() {
    let host = TestHost::new(1).await;
    let new = NewTask {
        id: Some(TaskId::from_seed(7)),
        ..task("p")
    };
    let first = host.tasks.submit("a", new.clone()).await.unwrap();
    host.threads.end("p", done("")).await;
    host.until(first.id, TaskStatus::Completed).await;
    let again = host.tasks.submit("a", new.clone()).await.unwrap();
    assert_eq!(again.status(), TaskStatus::Completed);
    let twice = host.tasks.submit_all(
        "a",
        vec![
            NewTask {
                id: Some(TaskId::from_seed(8)),
                ..task("q")
            },
            NewTask {
                id: Some(TaskId::from_seed(8)),
                ..task("q")
            },
        ],
    );
    assert!(matches!(
        twice.await,
        Err(JobError::Invalid { field: "id", .. })
    ));
    assert_eq!(host.tasks.counts().await.unwrap().queued, 0);
}

#[tokio::test]
async fn id_of_another_owners_task_grants_no_access() {
    let host = TestHost::new(1).await;
    let id = host.submit("a", "secret").await;
    let new = NewTask {
        id: Some(id),
        ..task("p")
    };
    let answered = host.tasks.submit("b", new).await;
    assert!(
        matches!(answered, Err(JobError::Conflict { .. })),
        "{answered:?}"
    );
    host.threads.end("secret", failed("no")).await;
    host.until(id, TaskStatus::Failed).await;
    let copied = host.tasks.retry("b", id).await;
    assert!(
        matches!(copied, Err(JobError::Conflict { .. })),
        "{copied:?}"
    );
    assert_eq!(host.tasks.counts().await.unwrap().queued, 0);
    host.tasks.retry("a", id).await.unwrap();
}

#[tokio::test]
async fn repeated_request_returns_its_task_after_a_kill() {
    let (store, clock) = (memory(), TestClock::new());
    let new = |prompt: &str, request: &str| NewTask {
        request: Some(request.to_owned()),
        ..task(prompt)
    };
    let settings = TaskSettings::default();
    let open = || Tasks::open(store.clone(), clock.clone(), settings);
    let tasks = open().await.unwrap();
    let first = tasks.submit("a", new("p", "one")).await.unwrap();
    let other = tasks.submit("a", new("p", "other")).await.unwrap();
    assert_ne!(first.id, other.id);
    drop(tasks);
    let tasks = open().await.unwrap();
    let again = tasks.submit("a", new("p", "one")).await.unwrap();
    assert_eq!(again, first);
    assert_eq!(tasks.counts().await.unwrap().queued, 2);
    clock.by(60);
    let age = std::time::Duration::from_secs(30);
    assert_eq!(tasks.forget_requests(age).await.unwrap(), 2);
    let later = tasks.submit("a", new("p", "one")).await.unwrap();
    assert_ne!(later.id, first.id);
}

#[tokio::test]
async fn tasks_over_a_limit_are_rejected_and_not_queued() {
    let store = memory();
    let settings = TaskSettings {
        workers: 1,
        open_tasks: 3,
        open_tasks_of_owner: 2,
        ..TaskSettings::default()
    };
    let tasks = Tasks::open(store.clone(), TestClock::new(), settings)
        .await
        .unwrap();
    let field = |refused: Result<_, JobError>| match refused {
        Err(JobError::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let spec = |change: fn(&mut JobSpec)| {
        let mut new = task("p");
        change(&mut new.spec);
        new
    };
    for (new, named) in [
        (spec(|s| s.prompt = "  \n".to_owned()), "prompt"),
        (spec(|s| s.prompt = "x".repeat(256 * 1024 + 1)), "prompt"),
        (
            spec(|s| s.policy.model = Some("m\u{1b}[2J".to_owned())),
            "model",
        ),
        (spec(|s| s.workspace = Some("w".repeat(4097))), "workspace"),
        (spec(|s| s.max_attempts = 0), "max_attempts"),
        (spec(|s| s.max_attempts = 11), "max_attempts"),
    ] {
        assert_eq!(field(tasks.submit("a", new).await), named);
    }
    assert_eq!(field(tasks.submit("", task("p")).await), "owner");
    let three = vec![task("1"), task("2"), task("3")];
    let refused = tasks.submit_all("a", three).await;
    assert!(matches!(refused, Err(JobError::TooMany { limit: 2, .. })));
    assert_eq!(tasks.counts().await.unwrap().queued, 0);
    // An owner at its own limit leaves capacity for others until the total limit is reached.
    for (owner, limit) in [
        ("a", None),
        ("a", None),
        ("a", Some(2)),
        ("b", None),
        ("b", Some(3)),
    ] {
        let full = match tasks.submit(owner, task("p")).await {
            Err(JobError::TooMany { limit, .. }) => Some(limit),
            queued => queued.map(|_| None).unwrap(),
        };
        assert_eq!(full, limit, "{owner}");
    }
    for workers in [0, 9] {
        let settings = TaskSettings {
            workers,
            ..settings
        };
        let refused = Tasks::open(store.clone(), TestClock::new(), settings).await;
        assert!(matches!(
            refused,
            Err(JobError::Invalid {
                field: "workers",
                ..
            })
        ));
    }
}

#[tokio::test]
async fn lists_are_paged_newest_first() {
    let host = TestHost::new(1).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(host.submit(["a", "b"][n % 2], &n.to_string()).await);
        host.clock.by(1);
    }
    host.threads.end("0", done("")).await;
    host.until(ids[0], TaskStatus::Completed).await;
    ids.reverse();
    let all = host.tasks.list(None, None, 100).await.unwrap();
    assert_eq!(all.tasks.iter().map(|t| t.id).collect::<Vec<_>>(), ids);
    assert_eq!(all.next, None);
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let page = host.tasks.list(Some("a"), before, 2).await.unwrap();
        paged.extend(page.tasks.iter().map(|t| t.id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let wanted: Vec<_> = ids.iter().copied().skip(1).step_by(2).collect();
    assert_eq!(paged, wanted);
}

#[tokio::test]
async fn page_of_large_tasks_is_short_and_has_a_cursor() {
    let tasks = Tasks::open(memory(), TestClock::new(), TaskSettings::default());
    let tasks = tasks.await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..12 {
        let news = (0..4).map(|_| task(&"x".repeat(256 * 1024))).collect();
        let queued = tasks.submit_all("a", news).await.unwrap();
        ids.extend(queued.iter().map(|task| task.id));
    }
    ids.reverse();
    for owner in [None, Some("a")] {
        let (mut listed, mut before) = (Vec::new(), None);
        loop {
            let page = tasks.list(owner, before, 500).await.unwrap();
            assert!(page.tasks.len() <= 16, "{} tasks", page.tasks.len());
            listed.extend(page.tasks.iter().map(|task| task.id));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(listed, ids);
    }
}

#[tokio::test]
async fn list_of_an_owner_with_few_tasks_reads_large_pages() {
    let memory = memory();
    let counted = Arc::new(CountedRecords::new(memory.records));
    let store = JobStore {
        journal: memory.journal,
        records: counted.clone(),
    };
    let tasks = Tasks::open(store, TestClock::new(), TaskSettings::default());
    let tasks = tasks.await.unwrap();
    for _ in 0..3 {
        let news = (0..1000).map(|n| task(&n.to_string())).collect();
        tasks.submit_all("a", news).await.unwrap();
    }
    let before = counted.reads();
    let page = tasks.list(Some("b"), None, 1).await.unwrap();
    assert_eq!(page, windlass_jobs::TaskPage::default());
    let reads = counted.reads() - before;
    assert!(reads <= 60, "{reads} reads for 3000 rows");
}

#[tokio::test]
async fn oversized_batch_is_rejected() {
    let host = TestHost::new(1).await;
    let field = |refused: Result<_, JobError>| match refused {
        Err(JobError::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let many = vec![task("p"); 1001];
    assert_eq!(field(host.tasks.submit_all("a", many).await), "tasks");
    let big = vec![task(&"x".repeat(256 * 1024)); 5];
    assert_eq!(field(host.tasks.submit_all("a", big).await), "tasks");
    let counts = host.tasks.counts().await.unwrap();
    assert_eq!((counts.queued, counts.running), (0, 0));
}

#[tokio::test]
async fn only_ended_tasks_are_removed_by_age() {
    let host = TestHost::new(1).await;
    let ended = host.submit("a", "ended").await;
    host.threads.end("ended", done("")).await;
    host.until(ended, TaskStatus::Completed).await;
    let open = host.submit("a", "open").await;
    host.clock.by(3600);
    assert_eq!(host.tasks.forget(Duration::from_secs(60)).await.unwrap(), 1);
    assert!(matches!(
        host.tasks.get(ended).await,
        Err(JobError::NotFound { .. })
    ));
    host.tasks.get(open).await.unwrap();
    assert_eq!(host.tasks.counts().await.unwrap().completed, 1);
}

#[tokio::test]
async fn ended_tasks_are_retained_per_owner() {
    let store = memory();
    let counted = Arc::new(CountedRecords::new(store.records.clone()));
    let counting = JobStore {
        records: counted.clone(),
        ..store
    };
    let settings = TaskSettings {
        ended_tasks_of_owner: 5,
        ..TaskSettings::default()
    };
    let (clock, mut reads) = (TestClock::new(), Vec::new());
    let tasks = Tasks::open(counting, clock.clone(), settings);
    let tasks = tasks.await.unwrap();
    let end = async |owner: &str| {
        let id = tasks.submit(owner, task("p")).await.unwrap().id;
        clock.by(1);
        tasks.cancel(id).await.unwrap();
        id
    };
    // Owners whose names share a prefix are different owners.
    let mut others = Vec::new();
    for owner in ["a 0", "ab", "b"] {
        others.push(end(owner).await);
    }
    let mut own = Vec::new();
    for _ in 0..100 {
        let before = counted.reads();
        own.insert(0, end("a").await);
        reads.push(counted.reads() - before);
    }
    let listed = async |owner: &str| {
        let page = tasks.list(Some(owner), None, 500).await.unwrap();
        page.tasks.iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!(listed("a").await, own[..5]);
    for (owner, id) in ["a 0", "ab", "b"].into_iter().zip(others) {
        assert_eq!(listed(owner).await, [id], "{owner}");
    }
    assert_eq!(
        reads[50], reads[99],
        "the cost must not depend on the number of tasks"
    );
    // Removal by age applies to all owners.
    clock.by(3600);
    assert_eq!(tasks.forget(Duration::from_secs(60)).await.unwrap(), 8);
    let last = end("a").await;
    assert_eq!(listed("a").await, [last]);
}

#[tokio::test]
async fn journal_and_rows_contain_the_same_tasks() {
    let host = TestHost::new(2).await;
    let mut ids = Vec::new();
    for (n, end) in [done("x"), failed("y"), done("z")].into_iter().enumerate() {
        ids.push(host.submit("a", &n.to_string()).await);
        host.threads.end(&n.to_string(), end).await;
    }
    let waits = host.submit("b", "stays").await;
    host.threads.begun("stays").await;
    for id in &ids {
        let mut changed = host.tasks.watch();
        while host.tasks.get(*id).await.unwrap().end().is_none() {
            changed.changed().await.unwrap();
        }
    }
    let stream = StreamKey::new("work:tasks");
    let page = host.store.journal.read(&stream, 0, 1000).await.unwrap();
    let folded = fold_tasks(&page.events);
    assert_eq!(folded.len(), 4);
    for id in ids.into_iter().chain([waits]) {
        assert_eq!(folded[&id], host.tasks.get(id).await.unwrap());
    }
}

#[tokio::test]
async fn replaced_process_writes_nothing() {
    let host = TestHost::new(1).await;
    let id = host.submit("a", "p").await;
    host.threads.begun("p").await;
    let settings = host.tasks.settings();
    let newer = Tasks::open(host.store.clone(), host.clock.clone(), settings);
    let newer = newer.await.unwrap();
    let refused = host.tasks.submit("a", task("late")).await;
    assert_eq!(refused, Err(JobError::Replaced));
    host.threads.end("p", done("")).await;
    assert_eq!(host.running.await.unwrap(), JobError::Replaced);
    assert_eq!(newer.get(id).await.unwrap().status(), TaskStatus::Running);
}

#[tokio::test]
async fn unreadable_row_does_not_affect_others() {
    let store = memory();
    let put = |name: &str, body: &'static str| {
        let record = windlass_store::HostRecord {
            name: name.to_owned(),
            body: body.as_bytes().to_vec().into(),
        };
        let at = crate::support::time("2026-03-01T00:00:00Z");
        let records = store.records.clone();
        async move { records.put("work.task", record, at).await.unwrap() }
    };
    put("task_00", "{}").await;
    put("task_01", "\u{0}nonsense").await;
    put("task_ff", r#"{"version": 2, "id": "task_ff"}"#).await;
    let host = TestHost::on(store, Arc::default(), 1).await;
    let id = host.submit("a", "p").await;
    host.threads.end("p", done("")).await;
    host.until(id, TaskStatus::Completed).await;
    let listed = host.tasks.list(None, None, 100).await.unwrap();
    assert_eq!(listed.tasks.len(), 1);
    let left = host.store.records.list("work.task").await.unwrap();
    assert_eq!(left.len(), 3, "unreadable rows are not changed");
}

#[tokio::test]
async fn row_damaged_while_running_does_not_affect_others() {
    let host = TestHost::new(1).await;
    host.submit("a", "first").await;
    host.threads.begun("first").await;
    let bad = host.submit("a", "bad").await;
    let good = host.submit("a", "good").await;
    let record = windlass_store::HostRecord {
        name: bad.to_string(),
        body: b"{}".to_vec().into(),
    };
    let at = crate::support::time("2026-03-01T00:00:00Z");
    let put = host.store.records.put("work.task", record, at);
    put.await.unwrap();
    host.threads.end("first", done("")).await;
    for _ in 0..2000 {
        host.clock.by(1);
        tokio::task::yield_now().await;
    }
    let good = host.tasks.get(good).await.unwrap();
    assert_eq!(good.status(), TaskStatus::Running);
    let counts = host.tasks.counts().await.unwrap();
    assert_eq!((counts.queued, counts.running), (0, 1));
}

/// Panics on the first call and succeeds afterwards.
struct PanicsOnce(std::sync::atomic::AtomicU32);

#[async_trait::async_trait]
impl TurnRunner for PanicsOnce {
    async fn run_attempt(
        &self,
        _: windlass_jobs::Assignment,
        _: tokio_util::sync::CancellationToken,
        _: windlass_jobs::WorkerSlot,
    ) -> TurnEnd {
        let calls = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(calls > 0, "clumsy");
        done("in the end")
    }
}

#[tokio::test]
async fn attempt_is_retried_after_a_panic_of_the_runner() {
    let host = TestHost::new(1).await;
    host.running.abort();
    let tasks = host.tasks.clone();
    tokio::spawn(async move { tasks.run(Arc::new(PanicsOnce(0.into()))).await });
    let id = host.submit("a", "p").await;
    let task = host.advance_until_ended(id).await;
    assert_eq!(
        (task.status(), task.attempts.len()),
        (TaskStatus::Completed, 1)
    );
}

#[tokio::test]
async fn cancelled_task_is_held_until_its_turn_has_ended() {
    for runner in [StuckRunner::Panics, StuckRunner::Holds] {
        let host = TestHost::new(1).await;
        host.running.abort();
        let tasks = host.tasks.clone();
        tokio::spawn(async move { tasks.run(Arc::new(runner)).await });
        let id = host.submit("a", "p").await;
        host.until(id, TaskStatus::Running).await;
        host.tasks.cancel(id).await.unwrap();
        for _ in 0..2000 {
            host.clock.by(1);
            tokio::task::yield_now().await;
        }
        let task = host.tasks.get(id).await.unwrap();
        assert_eq!(task.status(), TaskStatus::Running);
        assert!(task.cancel_requested_at.is_some());
        assert_eq!(task.attempts.len(), 1);
        let hold = host.tasks.hold_of(&task).unwrap();
        assert!(hold.tries > 3, "{hold:?}");
    }
}

#[tokio::test]
async fn held_task_releases_its_worker() {
    let host = TestHost::new(1).await;
    let id = host.submit("a", "p").await;
    let turn = host.threads.begun("p").await.work.unwrap().turn_id;
    host.threads.end_turn(turn, held("the model is missing"));
    let other = host.submit("a", "other").await;
    host.threads.end("other", done("")).await;
    host.until(other, TaskStatus::Completed).await;
    let task = host.tasks.get(id).await.unwrap();
    assert_eq!(task.status(), TaskStatus::Running);
    let hold = host.tasks.hold_of(&task).unwrap();
    assert_eq!(hold.reason, "the model is missing");
    host.threads.end_turn(turn, done("at last"));
    host.tasks.retry_held().await.unwrap();
    let task = host.until(id, TaskStatus::Completed).await;
    assert_eq!(host.tasks.hold_of(&task), None);
}

#[tokio::test]
async fn task_stopped_by_a_budget_continues_after_renewal_and_the_attempt_does_not_count() {
    let host = TestHost::new(1).await;
    let id = host.submit("a", "p").await;
    let renews_at = time("2026-03-02T00:00:00Z");
    host.threads.end("p", stopped_by_budget(renews_at)).await;
    let task = host.until(id, TaskStatus::Queued).await;
    let hold = host.tasks.hold_of(&task).unwrap();
    assert_eq!(
        (hold.cause, hold.retry_at),
        (HoldCause::Budget, Some(renews_at))
    );
    host.clock.by(3600);
    settle().await;
    assert_eq!(host.threads.all().len(), 1);
    host.clock.to(renews_at);
    host.threads.end("p", done("ok")).await;
    let task = host.until(id, TaskStatus::Completed).await;
    assert_eq!(task.attempts.len(), 2);
    assert!(task.attempts[0].is_excused);
}

/// A client that disconnects affects only its own response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disconnected_client_leaves_the_queue_consistent() {
    let directory = tempfile::tempdir().unwrap();
    let store = crate::support::sqlite(directory.path()).await;
    let host = TestHost::on(store, Arc::default(), 1).await;
    for n in 0..40 {
        let gone = format!("gone {n}");
        tokio::select! {
            biased;
            _ = host.tasks.submit("a", task(&gone)) => {}
            () = tokio::task::yield_now() => {}
        }
        host.submit("b", &n.to_string()).await;
    }
    let counts = host.tasks.counts().await.unwrap();
    let listed = host.tasks.list(None, None, 100).await.unwrap().tasks;
    assert_eq!(counts.queued + counts.running, listed.len());
    let stays = listed.iter().filter(|task| task.owner == "b").count();
    assert_eq!(stays, 40);
    let stream = StreamKey::new("work:tasks");
    let page = host.store.journal.read(&stream, 0, 1000).await.unwrap();
    assert_eq!(fold_tasks(&page.events).len(), listed.len());
}

/// Advances the clock until `times` attempts were made; returns the seconds that passed.
async fn tried(host: &TestHost, limited: &LimitedThreads, times: usize) -> i64 {
    for seconds in 0..10_000 {
        settle().await;
        if limited.tries.load(Ordering::SeqCst) >= times {
            return seconds;
        }
        host.clock.by(1);
    }
    panic!("the attempt is not retried");
}

#[tokio::test]
async fn task_without_a_free_thread_waits_in_the_queue() {
    let limited = Arc::new(LimitedThreads::default());
    let host = TestHost::with(memory(), limited.clone(), 1).await;
    let id = host.submit("a", "p").await;
    let later = host.submit("a", "later").await;
    tried(&host, &limited, 1).await;
    let held = host.tasks.get(id).await.unwrap();
    assert_eq!(held.status(), TaskStatus::Queued);
    // Nothing has begun, so it does not count as an attempt.
    assert_eq!((held.attempts.len(), held.turn_id()), (0, None));
    let why = &held.queued_hold().unwrap().reason;
    assert_eq!(why, "the limit of 3 threads is reached");
    // Each delay is longer, up to half a minute, and the owner's later tasks wait too.
    let mut waits = Vec::new();
    for times in 2..9 {
        waits.push(tried(&host, &limited, times).await);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    assert_eq!(host.tasks.get(later).await.unwrap().changes, 1);
    // A restart forgets nothing of it.
    let tries = limited.tries.load(Ordering::SeqCst);
    let TestHost { running, store, .. } = host;
    kill(running).await;
    let host = TestHost::with(store, limited.clone(), 1).await;
    limited.has_free_thread.store(true, Ordering::SeqCst);
    tried(&host, &limited, tries + 1).await;
    limited.threads.end("p", done("")).await;
    let task = host.until(id, TaskStatus::Completed).await;
    assert_eq!((task.attempts.len(), task.hold), (1, None));
    limited.threads.end("later", done("")).await;
    host.until(later, TaskStatus::Completed).await;
    let stream = StreamKey::new("work:tasks");
    let page = host.store.journal.read(&stream, 0, 1000).await.unwrap();
    let folded = fold_tasks(&page.events);
    assert_eq!(folded[&id], host.tasks.get(id).await.unwrap());
}

#[tokio::test]
async fn task_without_a_free_thread_blocks_no_other_owner_and_can_be_cancelled() {
    let limited = Arc::new(LimitedThreads::default());
    let host = TestHost::with(memory(), limited.clone(), 1).await;
    let held = host.submit("a", "held").await;
    let behind = host.submit("a", "behind").await;
    tried(&host, &limited, 1).await;
    limited.has_free_thread.store(true, Ordering::SeqCst);
    let other = host.submit("b", "other").await;
    limited.threads.end("other", done("")).await;
    host.until(other, TaskStatus::Completed).await;
    let canceled = host.tasks.cancel(held).await.unwrap();
    assert_eq!(canceled.status(), TaskStatus::Canceled);
    // The task queued after it does not wait longer than before.
    tried(&host, &limited, 3).await;
    limited.threads.end("behind", done("")).await;
    host.until(behind, TaskStatus::Completed).await;
}

#[tokio::test]
async fn open_tasks_of_an_owner_are_limited_by_bytes() {
    let (store, clock) = (memory(), TestClock::new());
    let settings = TaskSettings {
        bytes_of_owner: 100_000,
        ..TaskSettings::default()
    };
    let open = || Tasks::open(store.clone(), clock.clone(), settings);
    let tasks = open().await.unwrap();
    let prompt = "p".repeat(30_000);
    let first = tasks.submit("a", task(&prompt)).await.unwrap();
    tasks.submit("a", task(&prompt)).await.unwrap();
    tasks.submit("a", task(&prompt)).await.unwrap();
    let refused = JobError::TooManyBytes {
        object: "open tasks of this owner",
        limit: 100_000,
    };
    let fourth = tasks.submit("a", task(&prompt)).await;
    assert_eq!(fourth.unwrap_err(), refused);
    tasks.submit("b", task(&prompt)).await.unwrap();
    // The count is the same after a restart, and the end of a task frees capacity.
    let tasks = open().await.unwrap();
    let fourth = tasks.submit("a", task(&prompt)).await;
    assert_eq!(fourth.unwrap_err(), refused);
    tasks.cancel(first.id).await.unwrap();
    tasks.submit("a", task(&prompt)).await.unwrap();
}

#[tokio::test]
async fn ended_tasks_of_an_owner_are_limited_by_bytes() {
    let (store, clock) = (memory(), TestClock::new());
    let settings = TaskSettings {
        bytes_of_owner: 100_000,
        ..TaskSettings::default()
    };
    let open = || Tasks::open(store.clone(), clock.clone(), settings);
    let mut tasks = open().await.unwrap();
    let prompt = "p".repeat(30_000);
    let (mut ended, mut other) = (Vec::new(), None);
    for number in 0..10 {
        let id = tasks.submit("a", task(&prompt)).await.unwrap().id;
        tasks.cancel(id).await.unwrap();
        clock.by(1);
        ended.push(id);
        match number {
            4 => tasks = open().await.unwrap(),
            // The first three are removed by age; the bound applies to those that remain.
            7 => drop(tasks.forget(Duration::from_secs(2)).await.unwrap()),
            _ => {}
        }
        if number == 8 {
            other = Some(tasks.submit("b", task("p")).await.unwrap().id);
            tasks.cancel(other.unwrap()).await.unwrap();
        }
    }
    let page = tasks.list(Some("a"), None, 500).await.unwrap();
    let listed: Vec<_> = page.tasks.iter().rev().map(|task| task.id).collect();
    assert_eq!(listed, ended[7..]);
    tasks.get(other.unwrap()).await.unwrap();
}
