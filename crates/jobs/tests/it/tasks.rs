//! What can happen to one task, and to a few.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_jobs::tasks::{EndStatus, fold_tasks};
use windlass_jobs::{
    HoldCause, JobError, JobSpec, JobStore, NewTask, TaskId, TaskSettings, TaskStatus, Tasks,
    TurnEnd, TurnRunner,
};
use windlass_store::StreamKey;

use crate::support::{
    Counted, Moved, Rooms, Stubborn, Threads, done, failed, held, interrupted, kill, memory,
    stopped_by_budget, task, time,
};

struct World {
    tasks: Tasks,
    threads: Arc<Threads>,
    clock: Arc<Moved>,
    store: JobStore,
    running: tokio::task::JoinHandle<JobError>,
}

impl World {
    async fn new(workers: usize) -> Self {
        Self::on(memory(), Arc::default(), workers).await
    }

    async fn on(store: JobStore, threads: Arc<Threads>, workers: usize) -> Self {
        let world = Self::with(store, threads.clone(), workers).await;
        Self { threads, ..world }
    }

    /// Begins with runner of another kind.
    async fn with(store: JobStore, runner: Arc<dyn TurnRunner>, workers: usize) -> Self {
        let clock = Moved::new();
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

    /// Lets time pass until a task has its end.
    async fn until_it_ends(&self, id: TaskId) -> windlass_jobs::Task {
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
async fn a_task_is_a_turn_of_a_thread_and_ends_as_the_turn_does() {
    let world = World::new(1).await;
    for (prompt, end, status) in [
        ("good", done("42"), TaskStatus::Completed),
        ("bad", failed("no"), TaskStatus::Failed),
        ("stopped", interrupted("you"), TaskStatus::Canceled),
    ] {
        let id = world.submit("a", prompt).await;
        let turn = world.threads.begun(prompt).await;
        let running = world.until(id, TaskStatus::Running).await;
        let work = turn.work.unwrap();
        assert_eq!(work.thread_id, running.thread_id());
        assert_eq!(Some(work.turn_id), running.turn_id());
        world.threads.end(prompt, end).await;
        let ended = world.until(id, status).await;
        assert_eq!(ended.attempts.len(), 1);
        assert_eq!(ended.changes, 3);
    }
    let counts = world.tasks.counts().await.unwrap();
    assert_eq!(
        (counts.completed, counts.failed, counts.canceled),
        (1, 1, 1)
    );
    assert_eq!((counts.queued, counts.running), (0, 0));
}

#[tokio::test]
async fn no_more_run_at_once_than_there_are_workers() {
    let world = World::new(2).await;
    for prompt in ["1", "2", "3", "4"] {
        world.submit("a", prompt).await;
    }
    world.threads.begun("2").await;
    let counts = world.tasks.counts().await.unwrap();
    assert_eq!((counts.queued, counts.running), (2, 2));
    world.threads.end("1", done("")).await;
    world.threads.begun("3").await;
    assert_eq!(world.begun().await, ["1", "2", "3"]);
}

/// Lets everything that can go on do so.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_task_that_waits_for_somebody_leaves_its_worker_to_others() {
    let world = World::new(1).await;
    let asks = world.submit("a", "asks").await;
    world.threads.park("asks", true).await;
    world.submit("a", "other").await;
    world.threads.begun("other").await;
    let counts = world.tasks.counts().await.unwrap();
    assert_eq!((counts.queued, counts.running), (0, 2));
    // It goes on without waiting for a worker, and counts again.
    world.threads.park("asks", false).await;
    settle().await;
    let third = world.submit("a", "third").await;
    world.threads.end("other", done("")).await;
    settle().await;
    assert_eq!(world.begun().await, ["asks", "other"]);
    world.threads.end("asks", done("")).await;
    world.until(asks, TaskStatus::Completed).await;
    world.threads.end("third", done("")).await;
    world.until(third, TaskStatus::Completed).await;
}

#[tokio::test]
async fn who_has_many_that_wait_for_somebody_begins_no_more_and_keeps_nobody_from_it() {
    let world = World::new(2).await;
    for n in 0..40 {
        world.submit("a", &n.to_string()).await;
    }
    for n in 0..40 {
        let prompt = n.to_string();
        settle().await;
        if !world.begun().await.contains(&prompt) {
            break;
        }
        world.threads.park(&prompt, true).await;
    }
    let begun = world.begun().await.len();
    assert!((16..=18).contains(&begun), "{begun}");
    let other = world.submit("b", "other").await;
    world.threads.end("other", done("")).await;
    world.until(other, TaskStatus::Completed).await;
    // Whoever is answered makes room.
    for n in 0..3 {
        world.threads.end(&n.to_string(), done("")).await;
    }
    world.threads.begun(&begun.to_string()).await;
}

#[tokio::test]
async fn what_waits_for_somebody_at_a_kill_waits_on_and_has_no_worker_after_it() {
    let world = World::new(1).await;
    let asks = world.submit("a", "asks").await;
    world.threads.park("asks", true).await;
    let other = world.submit("b", "other").await;
    world.threads.begun("other").await;
    let third = world.submit("b", "third").await;
    let world = world.restart().await;
    world.threads.end("other", done("")).await;
    world.until(other, TaskStatus::Completed).await;
    world.threads.end("third", done("")).await;
    world.until(third, TaskStatus::Completed).await;
    world.threads.end("asks", done("")).await;
    let asks = world.until(asks, TaskStatus::Completed).await;
    assert_eq!(asks.attempts.len(), 1);
    assert!(world.threads.all().iter().all(|turn| turn.begun == 1));
}

#[tokio::test]
async fn a_task_that_waits_is_called_off_at_once_and_one_that_runs_is_stopped() {
    let world = World::new(1).await;
    let running = world.submit("a", "running").await;
    let waiting = world.submit("a", "waiting").await;
    world.threads.begun("running").await;
    let canceled = world.tasks.cancel(waiting).await.unwrap();
    assert_eq!(canceled.status(), TaskStatus::Canceled);
    let asked = world.tasks.cancel(running).await.unwrap();
    assert_eq!(asked.status(), TaskStatus::Running);
    assert!(asked.cancel_requested_at.is_some());
    world.until(running, TaskStatus::Canceled).await;
    assert!(world.threads.all().iter().all(|turn| turn.is_stopped));
    let again = world.tasks.cancel(running).await.unwrap();
    assert_eq!(again.changes, 4);
    assert_eq!(world.begun().await, ["running"]);
}

#[tokio::test]
async fn what_was_asked_to_stop_before_a_kill_is_stopped_after_it() {
    let world = World::new(1).await;
    let id = world.submit("a", "p").await;
    world.threads.begun("p").await;
    // The loop is gone before it can pass the word on.
    world.running.abort();
    world.tasks.cancel(id).await.unwrap();
    assert!(!world.threads.all()[0].is_stopped);
    let world = world.restart().await;
    world.until(id, TaskStatus::Canceled).await;
}

#[tokio::test]
async fn a_turn_that_failed_is_tried_again_as_often_as_the_rule_says() {
    let world = World::new(1).await;
    let mut again = task("p");
    again.spec.max_attempts = 3;
    let id = world.tasks.submit("a", again).await.unwrap().id;
    let mut turns = Vec::new();
    for wait in [0, 1, 4] {
        // Not before its time.
        if wait > 0 {
            world.until(id, TaskStatus::Queued).await;
            assert_eq!(world.threads.all().len(), turns.len());
            world.clock.by(wait);
        }
        let work = world.threads.begun("p").await.work.unwrap();
        turns.push(work.turn_id);
        world.threads.end("p", failed("no")).await;
    }
    let task = world.until(id, TaskStatus::Failed).await;
    turns.dedup();
    assert_eq!((task.attempts.len(), turns.len()), (3, 3));
    let threads: std::collections::HashSet<_> = world
        .threads
        .all()
        .into_iter()
        .map(|t| t.work.unwrap().thread_id)
        .collect();
    assert_eq!(threads.len(), 1, "later attempts see what earlier ones did");
}

#[tokio::test]
async fn a_refused_attempt_is_not_tried_again() {
    let world = World::new(1).await;
    let mut new = task("p");
    new.spec.max_attempts = 3;
    let id = world.tasks.submit("a", new).await.unwrap().id;
    let end = TurnEnd::Refused {
        error: "no such workspace".to_owned(),
    };
    world.threads.end("p", end).await;
    let task = world.until(id, TaskStatus::Failed).await;
    assert_eq!(task.attempts.len(), 1);
}

#[tokio::test]
async fn doing_it_again_by_hand_is_a_new_task_and_the_end_stays() {
    let world = World::new(1).await;
    let id = world.submit("a", "p").await;
    let refused = world.tasks.retry("a", id).await;
    assert!(matches!(refused, Err(JobError::Conflict { .. })));
    world.threads.end("p", failed("no")).await;
    let ended = world.until(id, TaskStatus::Failed).await;
    let again = world.tasks.retry("a", id).await.unwrap();
    assert_eq!(
        (again.retry_of, again.status()),
        (Some(id), TaskStatus::Queued)
    );
    assert_ne!(again.thread_id(), ended.thread_id());
    assert_eq!(world.tasks.get(id).await.unwrap(), ended);
}

#[tokio::test]
async fn a_task_that_runs_at_a_kill_goes_on_and_is_not_begun_twice() {
    let mut world = World::new(2).await;
    let id = world.submit("a", "p").await;
    world.threads.begun("p").await;
    for _ in 0..3 {
        world = world.restart().await;
    }
    world.threads.end("p", done("x")).await;
    let task = world.until(id, TaskStatus::Completed).await;
    assert_eq!(task.attempts.len(), 1);
    assert_eq!(world.threads.all()[0].begun, 1);
}

#[tokio::test]
async fn a_turn_that_ended_while_nobody_listened_is_still_the_end_of_its_task() {
    let world = World::new(1).await;
    let id = world.submit("a", "p").await;
    let turn = world.threads.begun("p").await.work.unwrap().turn_id;
    world.running.abort();
    world.threads.end_turn(turn, done("while you were away"));
    let world = world.restart().await;
    let task = world.until(id, TaskStatus::Completed).await;
    let end = task.end().unwrap();
    assert_eq!(end.summary.as_deref(), Some("while you were away"));
    assert_eq!(end.status, EndStatus::Completed);
}

#[tokio::test]
async fn what_cannot_be_carried_now_is_carried_later_without_a_new_attempt() {
    let world = World::new(1).await;
    let id = world.submit("a", "p").await;
    let reason = "stopping".to_owned();
    let turn = world.threads.begun("p").await.work.unwrap().turn_id;
    world.threads.end_turn(turn, held(&reason));
    // It is answered so until the clock moves, and then the turn has an end.
    tokio::task::yield_now().await;
    world.threads.end_turn(turn, done(""));
    world.clock.by(1);
    let task = world.until(id, TaskStatus::Completed).await;
    assert_eq!(task.attempts.len(), 1);
}

#[tokio::test]
async fn the_same_id_is_queued_once() {
    let world = World::new(1).await;
    let new = NewTask {
        id: Some(TaskId::from_seed(7)),
        ..task("p")
    };
    let first = world.tasks.submit("a", new.clone()).await.unwrap();
    world.threads.end("p", done("")).await;
    world.until(first.id, TaskStatus::Completed).await;
    let again = world.tasks.submit("a", new.clone()).await.unwrap();
    assert_eq!(again.status(), TaskStatus::Completed);
    let twice = world.tasks.submit_all(
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
    assert_eq!(world.tasks.counts().await.unwrap().queued, 0);
}

#[tokio::test]
async fn who_knows_the_id_of_a_task_of_somebody_else_gets_nothing_by_it() {
    let world = World::new(1).await;
    let id = world.submit("a", "secret").await;
    let new = NewTask {
        id: Some(id),
        ..task("p")
    };
    let answered = world.tasks.submit("b", new).await;
    assert!(
        matches!(answered, Err(JobError::Conflict { .. })),
        "{answered:?}"
    );
    world.threads.end("secret", failed("no")).await;
    world.until(id, TaskStatus::Failed).await;
    let copied = world.tasks.retry("b", id).await;
    assert!(
        matches!(copied, Err(JobError::Conflict { .. })),
        "{copied:?}"
    );
    assert_eq!(world.tasks.counts().await.unwrap().queued, 0);
    world.tasks.retry("a", id).await.unwrap();
}

#[tokio::test]
async fn a_request_that_comes_again_is_answered_with_its_task_also_after_a_kill() {
    let (store, clock) = (memory(), Moved::new());
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
async fn what_is_over_a_bound_is_refused_and_nothing_is_queued() {
    let store = memory();
    let settings = TaskSettings {
        workers: 1,
        open_tasks: 3,
        open_tasks_of_owner: 2,
        ..TaskSettings::default()
    };
    let tasks = Tasks::open(store.clone(), Moved::new(), settings)
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
    // One who fills his share leaves room for others, until there is none.
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
        let refused = Tasks::open(store.clone(), Moved::new(), settings).await;
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
async fn lists_show_the_newest_first_page_by_page() {
    let world = World::new(1).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(world.submit(["a", "b"][n % 2], &n.to_string()).await);
        world.clock.by(1);
    }
    world.threads.end("0", done("")).await;
    world.until(ids[0], TaskStatus::Completed).await;
    ids.reverse();
    let all = world.tasks.list(None, None, 100).await.unwrap();
    assert_eq!(all.tasks.iter().map(|t| t.id).collect::<Vec<_>>(), ids);
    assert_eq!(all.next, None);
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let page = world.tasks.list(Some("a"), before, 2).await.unwrap();
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
async fn a_page_of_big_tasks_is_short_and_says_where_to_go_on() {
    let tasks = Tasks::open(memory(), Moved::new(), TaskSettings::default());
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
async fn a_list_for_an_owner_who_has_little_is_read_in_big_pages() {
    let memory = memory();
    let counted = Arc::new(Counted::new(memory.records));
    let store = JobStore {
        journal: memory.journal,
        records: counted.clone(),
    };
    let tasks = Tasks::open(store, Moved::new(), TaskSettings::default());
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
async fn more_than_can_be_queued_at_once_is_refused() {
    let world = World::new(1).await;
    let field = |refused: Result<_, JobError>| match refused {
        Err(JobError::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let many = vec![task("p"); 1001];
    assert_eq!(field(world.tasks.submit_all("a", many).await), "tasks");
    let big = vec![task(&"x".repeat(256 * 1024)); 5];
    assert_eq!(field(world.tasks.submit_all("a", big).await), "tasks");
    let counts = world.tasks.counts().await.unwrap();
    assert_eq!((counts.queued, counts.running), (0, 0));
}

#[tokio::test]
async fn ended_tasks_are_forgotten_and_open_ones_never() {
    let world = World::new(1).await;
    let ended = world.submit("a", "ended").await;
    world.threads.end("ended", done("")).await;
    world.until(ended, TaskStatus::Completed).await;
    let open = world.submit("a", "open").await;
    world.clock.by(3600);
    assert_eq!(
        world.tasks.forget(Duration::from_secs(60)).await.unwrap(),
        1
    );
    assert!(matches!(
        world.tasks.get(ended).await,
        Err(JobError::NotFound { .. })
    ));
    world.tasks.get(open).await.unwrap();
    assert_eq!(world.tasks.counts().await.unwrap().completed, 1);
}

#[tokio::test]
async fn the_ended_tasks_of_one_owner_push_out_none_of_another() {
    let store = memory();
    let counted = Arc::new(Counted::new(store.records.clone()));
    let counting = JobStore {
        records: counted.clone(),
        ..store
    };
    let settings = TaskSettings {
        ended_tasks_of_owner: 5,
        ..TaskSettings::default()
    };
    let (clock, mut reads) = (Moved::new(), Vec::new());
    let tasks = Tasks::open(counting, clock.clone(), settings);
    let tasks = tasks.await.unwrap();
    let end = async |owner: &str| {
        let id = tasks.submit(owner, task("p")).await.unwrap().id;
        clock.by(1);
        tasks.cancel(id).await.unwrap();
        id
    };
    // Names that begin alike are others.
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
        "it costs the same however many there were"
    );
    // By age they go whoever's they are.
    clock.by(3600);
    assert_eq!(tasks.forget(Duration::from_secs(60)).await.unwrap(), 8);
    let last = end("a").await;
    assert_eq!(listed("a").await, [last]);
}

#[tokio::test]
async fn the_journal_alone_says_what_the_rows_say() {
    let world = World::new(2).await;
    let mut ids = Vec::new();
    for (n, end) in [done("x"), failed("y"), done("z")].into_iter().enumerate() {
        ids.push(world.submit("a", &n.to_string()).await);
        world.threads.end(&n.to_string(), end).await;
    }
    let waits = world.submit("b", "stays").await;
    world.threads.begun("stays").await;
    for id in &ids {
        let mut changed = world.tasks.watch();
        while world.tasks.get(*id).await.unwrap().end().is_none() {
            changed.changed().await.unwrap();
        }
    }
    let stream = StreamKey::new("work:tasks");
    let page = world.store.journal.read(&stream, 0, 1000).await.unwrap();
    let folded = fold_tasks(&page.events).unwrap();
    assert_eq!(folded.len(), 4);
    for id in ids.into_iter().chain([waits]) {
        assert_eq!(folded[&id], world.tasks.get(id).await.unwrap());
    }
}

#[tokio::test]
async fn who_was_replaced_writes_nothing_more() {
    let world = World::new(1).await;
    let id = world.submit("a", "p").await;
    world.threads.begun("p").await;
    let settings = world.tasks.settings();
    let newer = Tasks::open(world.store.clone(), world.clock.clone(), settings);
    let newer = newer.await.unwrap();
    let refused = world.tasks.submit("a", task("late")).await;
    assert_eq!(refused, Err(JobError::Replaced));
    world.threads.end("p", done("")).await;
    assert_eq!(world.running.await.unwrap(), JobError::Replaced);
    assert_eq!(newer.get(id).await.unwrap().status(), TaskStatus::Running);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_keeps_nobody_from_the_others() {
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
    let world = World::on(store, Arc::default(), 1).await;
    let id = world.submit("a", "p").await;
    world.threads.end("p", done("")).await;
    world.until(id, TaskStatus::Completed).await;
    let listed = world.tasks.list(None, None, 100).await.unwrap();
    assert_eq!(listed.tasks.len(), 1);
    let left = world.store.records.list("work.task").await.unwrap();
    assert_eq!(left.len(), 3, "what cannot be read is left alone");
}

#[tokio::test]
async fn a_row_that_goes_bad_later_keeps_nobody_from_the_others_either() {
    let world = World::new(1).await;
    world.submit("a", "first").await;
    world.threads.begun("first").await;
    let bad = world.submit("a", "bad").await;
    let good = world.submit("a", "good").await;
    let record = windlass_store::HostRecord {
        name: bad.to_string(),
        body: b"{}".to_vec().into(),
    };
    let at = crate::support::time("2026-03-01T00:00:00Z");
    let put = world.store.records.put("work.task", record, at);
    put.await.unwrap();
    world.threads.end("first", done("")).await;
    for _ in 0..2000 {
        world.clock.by(1);
        tokio::task::yield_now().await;
    }
    let good = world.tasks.get(good).await.unwrap();
    assert_eq!(good.status(), TaskStatus::Running);
    let counts = world.tasks.counts().await.unwrap();
    assert_eq!((counts.queued, counts.running), (0, 1));
}

/// Panics at first, and then does as it should.
struct Clumsy(std::sync::atomic::AtomicU32);

#[async_trait::async_trait]
impl TurnRunner for Clumsy {
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
async fn hands_that_panic_are_asked_again_for_the_same_attempt() {
    let world = World::new(1).await;
    world.running.abort();
    let tasks = world.tasks.clone();
    tokio::spawn(async move { tasks.run(Arc::new(Clumsy(0.into()))).await });
    let id = world.submit("a", "p").await;
    let task = world.until_it_ends(id).await;
    assert_eq!(
        (task.status(), task.attempts.len()),
        (TaskStatus::Completed, 1)
    );
}

#[tokio::test]
async fn a_cancelled_task_is_held_until_the_end_of_its_turn_is_recorded() {
    for runner in [Stubborn::Panics, Stubborn::Holds] {
        let world = World::new(1).await;
        world.running.abort();
        let tasks = world.tasks.clone();
        tokio::spawn(async move { tasks.run(Arc::new(runner)).await });
        let id = world.submit("a", "p").await;
        world.until(id, TaskStatus::Running).await;
        world.tasks.cancel(id).await.unwrap();
        for _ in 0..2000 {
            world.clock.by(1);
            tokio::task::yield_now().await;
        }
        let task = world.tasks.get(id).await.unwrap();
        assert_eq!(task.status(), TaskStatus::Running);
        assert!(task.cancel_requested_at.is_some());
        assert_eq!(task.attempts.len(), 1);
        let hold = world.tasks.hold_of(&task).unwrap();
        assert!(hold.tries > 3, "{hold:?}");
    }
}

#[tokio::test]
async fn a_held_task_leaves_its_worker_to_others() {
    let world = World::new(1).await;
    let id = world.submit("a", "p").await;
    let turn = world.threads.begun("p").await.work.unwrap().turn_id;
    world.threads.end_turn(turn, held("the model is missing"));
    let other = world.submit("a", "other").await;
    world.threads.end("other", done("")).await;
    world.until(other, TaskStatus::Completed).await;
    let task = world.tasks.get(id).await.unwrap();
    assert_eq!(task.status(), TaskStatus::Running);
    let hold = world.tasks.hold_of(&task).unwrap();
    assert_eq!(hold.reason, "the model is missing");
    world.threads.end_turn(turn, done("at last"));
    world.tasks.retry_held().await.unwrap();
    let task = world.until(id, TaskStatus::Completed).await;
    assert_eq!(world.tasks.hold_of(&task), None);
}

#[tokio::test]
async fn a_task_that_a_budget_stops_continues_when_it_renews_and_the_attempt_does_not_count() {
    let world = World::new(1).await;
    let id = world.submit("a", "p").await;
    let renews_at = time("2026-03-02T00:00:00Z");
    world.threads.end("p", stopped_by_budget(renews_at)).await;
    let task = world.until(id, TaskStatus::Queued).await;
    let hold = world.tasks.hold_of(&task).unwrap();
    assert_eq!(
        (hold.cause, hold.retry_at),
        (HoldCause::Budget, Some(renews_at))
    );
    world.clock.by(3600);
    settle().await;
    assert_eq!(world.threads.all().len(), 1);
    world.clock.to(renews_at);
    world.threads.end("p", done("ok")).await;
    let task = world.until(id, TaskStatus::Completed).await;
    assert_eq!(task.attempts.len(), 2);
    assert!(task.attempts[0].is_excused);
}

/// A client that hangs up takes nothing with it but its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_goes_away_in_the_middle_leaves_everything_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let store = crate::support::sqlite(directory.path()).await;
    let world = World::on(store, Arc::default(), 1).await;
    for n in 0..40 {
        let gone = format!("gone {n}");
        tokio::select! {
            biased;
            _ = world.tasks.submit("a", task(&gone)) => {}
            () = tokio::task::yield_now() => {}
        }
        world.submit("b", &n.to_string()).await;
    }
    let counts = world.tasks.counts().await.unwrap();
    let listed = world.tasks.list(None, None, 100).await.unwrap().tasks;
    assert_eq!(counts.queued + counts.running, listed.len());
    let stays = listed.iter().filter(|task| task.owner == "b").count();
    assert_eq!(stays, 40);
    let stream = StreamKey::new("work:tasks");
    let page = world.store.journal.read(&stream, 0, 1000).await.unwrap();
    assert_eq!(fold_tasks(&page.events).unwrap().len(), listed.len());
}

/// Lets time pass until something was tried so many times, and says how long that took.
async fn tried(world: &World, rooms: &Rooms, times: usize) -> i64 {
    for seconds in 0..10_000 {
        settle().await;
        if rooms.asked.load(Ordering::SeqCst) >= times {
            return seconds;
        }
        world.clock.by(1);
    }
    panic!("it is not tried again");
}

#[tokio::test]
async fn a_task_without_room_waits_in_the_queue_and_begins_when_there_is_some() {
    let rooms = Arc::new(Rooms::default());
    let world = World::with(memory(), rooms.clone(), 1).await;
    let id = world.submit("a", "p").await;
    let later = world.submit("a", "later").await;
    tried(&world, &rooms, 1).await;
    let held = world.tasks.get(id).await.unwrap();
    assert_eq!(held.status(), TaskStatus::Queued);
    // Nothing has begun, so it was no attempt.
    assert_eq!((held.attempts.len(), held.turn_id()), (0, None));
    let why = &held.queued_hold().unwrap().reason;
    assert_eq!(why, "the limit of 3 threads is reached");
    // It waits longer each time, up to half a minute, and what comes behind it waits with it.
    let mut waits = Vec::new();
    for times in 2..9 {
        waits.push(tried(&world, &rooms, times).await);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    assert_eq!(world.tasks.get(later).await.unwrap().changes, 1);
    // A restart forgets nothing of it.
    let tries = rooms.asked.load(Ordering::SeqCst);
    let World { running, store, .. } = world;
    kill(running).await;
    let world = World::with(store, rooms.clone(), 1).await;
    rooms.has_room.store(true, Ordering::SeqCst);
    tried(&world, &rooms, tries + 1).await;
    rooms.threads.end("p", done("")).await;
    let task = world.until(id, TaskStatus::Completed).await;
    assert_eq!((task.attempts.len(), task.hold), (1, None));
    rooms.threads.end("later", done("")).await;
    world.until(later, TaskStatus::Completed).await;
    let stream = StreamKey::new("work:tasks");
    let page = world.store.journal.read(&stream, 0, 1000).await.unwrap();
    let folded = fold_tasks(&page.events).unwrap();
    assert_eq!(folded[&id], world.tasks.get(id).await.unwrap());
}

#[tokio::test]
async fn a_task_without_room_keeps_nobody_elses_from_working_and_can_be_called_off() {
    let rooms = Arc::new(Rooms::default());
    let world = World::with(memory(), rooms.clone(), 1).await;
    let held = world.submit("a", "held").await;
    let behind = world.submit("a", "behind").await;
    tried(&world, &rooms, 1).await;
    rooms.has_room.store(true, Ordering::SeqCst);
    let other = world.submit("b", "other").await;
    rooms.threads.end("other", done("")).await;
    world.until(other, TaskStatus::Completed).await;
    let canceled = world.tasks.cancel(held).await.unwrap();
    assert_eq!(canceled.status(), TaskStatus::Canceled);
    // What waited behind it does so no longer than it would have.
    tried(&world, &rooms, 3).await;
    rooms.threads.end("behind", done("")).await;
    world.until(behind, TaskStatus::Completed).await;
}

#[tokio::test]
async fn open_tasks_of_an_owner_are_bounded_by_bytes() {
    let (store, clock) = (memory(), Moved::new());
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
        what: "open tasks of this owner",
        limit: 100_000,
    };
    let fourth = tasks.submit("a", task(&prompt)).await;
    assert_eq!(fourth.unwrap_err(), refused);
    tasks.submit("b", task(&prompt)).await.unwrap();
    // A restart counts the same, and the end of a task makes room.
    let tasks = open().await.unwrap();
    let fourth = tasks.submit("a", task(&prompt)).await;
    assert_eq!(fourth.unwrap_err(), refused);
    tasks.cancel(first.id).await.unwrap();
    tasks.submit("a", task(&prompt)).await.unwrap();
}

#[tokio::test]
async fn ended_tasks_of_an_owner_are_bounded_by_bytes() {
    let (store, clock) = (memory(), Moved::new());
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
