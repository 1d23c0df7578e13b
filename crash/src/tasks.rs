//! Kills the daemon while three clients queue tasks and its workers run them.
//!
//! Each client has its own token and queues as many tasks as the others, at their round. A client that lost a response sends the same request to the
//! next daemon. At the end, exactly the requested tasks exist, each ended once, each attempt is one turn of its thread, and no token was served much
//! better than another at any time.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_core::events::EventData;
use windlass_store::{Journal, SqliteOptions, SqliteStore, StreamKey};

use crate::daemon::{Client, Daemon, Home, configure, home, start};
use crate::random::Random;

/// Number of clients.
const TOKENS: usize = 3;
/// Tasks that a client queues before it waits for the others.
const TASKS_PER_ROUND: u64 = 5;
/// Maximum runtime of a daemon while kills remain.
const MAX_UPTIME_MS: u64 = 600;
/// How much sooner than another a token may be served, in percent, once this many tasks have ended.
const MAX_LEAD_PERCENT: u64 = 20;
const MIN_ENDED: usize = 100;
/// Work that takes longer is stuck, which is a failure.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(20);
/// How many records are read at a time.
const PAGE: usize = 1_000;

#[derive(Debug, Clone)]
pub struct TaskTrialPlan {
    /// Path of the daemon's program.
    pub daemon: PathBuf,
    /// How many tasks there are.
    pub tasks: u64,
    /// How many run at once.
    pub workers: u64,
    /// How often the daemon is killed, if the work lasts long enough.
    pub kills: u64,
    /// Seed for the moments.
    pub seed: u64,
}

/// Results of the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskTrialSummary {
    /// How often the daemon was killed.
    pub kills: u64,
    /// How many tasks ended.
    pub tasks: u64,
    /// Tasks that failed because the daemon was killed three times in a row during their turn.
    pub failed: u64,
    /// How many attempts there were.
    pub attempts: u64,
    /// Maximum lead of one token over another, in percent.
    pub max_lead: u64,
}

/// The client of the running daemon.
struct CurrentDaemon {
    client: Mutex<Client>,
    is_over: AtomicBool,
}

impl CurrentDaemon {
    fn get(&self) -> Client {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.clone()
    }

    fn set(&self, client: Client) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }
}

/// Runs a plan. The error names the violated invariant.
pub fn run(plan: &TaskTrialPlan, progress: impl FnMut(u64)) -> Result<TaskTrialSummary, String> {
    let mut home = home(&plan.daemon)?;
    configure(&home, "model = 'sim'\n")?;
    home.arguments = vec!["--workers".to_owned(), plan.workers.to_string()];
    let tokens = (0..TOKENS).map(|_| token(plan, &home));
    let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
    let daemon = start(&home)?;
    let current = CurrentDaemon {
        client: Mutex::new(daemon.client.clone()),
        is_over: AtomicBool::new(false),
    };
    let round = Barrier::new(TOKENS);
    let worked = std::thread::scope(|scope| {
        let queueing: Vec<_> = (0..TOKENS)
            .map(|number| {
                let (current, round, token) = (&current, &round, &tokens[number]);
                let share = plan.tasks / TOKENS as u64;
                scope.spawn(move || queue(current, token, number, share, round))
            })
            .collect();
        let killed = kill(plan, &home, daemon, &current, progress);
        if killed.is_err() {
            current.is_over.store(true, Ordering::Relaxed);
        }
        let queued = queueing.into_iter().map(|one| {
            let queued = one.join().map_err(|_| "a client panicked".to_owned());
            queued.and_then(|queued| queued)
        });
        let queued = queued.collect::<Vec<_>>();
        let (daemon, kills) = killed?;
        let queued = queued.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok::<_, String>((daemon, kills, queued))
    });
    let seeded = |what: String| format!("seed {}: {what}", plan.seed);
    let (daemon, kills, queued) = worked.map_err(seeded)?;
    let checked = check(&home, daemon, &queued);
    let summary = checked.map_err(seeded)?;
    Ok(TaskTrialSummary { kills, ..summary })
}

/// Makes a token, and returns its secret.
fn token(plan: &TaskTrialPlan, home: &Home) -> Result<String, String> {
    let output = Command::new(&plan.daemon)
        .args(["token", "create", "--scope", "client", "--data"])
        .arg(home.data())
        .output();
    let output = output.map_err(|error| error.to_string())?;
    let secret = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !secret.is_empty() {
        Ok(secret)
    } else {
        Err(format!("no token was created: {output:?}"))
    }
}

/// Queues the tasks of one client; returns their ids.
fn queue(
    current: &CurrentDaemon,
    token: &str,
    number: usize,
    share: u64,
    round: &Barrier,
) -> Result<Vec<String>, String> {
    let mut ids = Vec::new();
    let mut failed = None;
    for task in 0..share {
        if task % TASKS_PER_ROUND == 0 {
            round.wait();
        }
        // The others wait for it at the barrier, even if it has no more tasks.
        if failed.is_some() || current.is_over.load(Ordering::Relaxed) {
            continue;
        }
        match queue_one(current, token, &format!("task-{number}-{task}")) {
            Ok(id) => ids.push(id),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(ids),
    }
}

/// Repeats the request with the same key until a daemon answers.
fn queue_one(current: &CurrentDaemon, token: &str, key: &str) -> Result<String, String> {
    let body = json!({ "prompt": key, "max_attempts": 3 }).to_string();
    let until = Instant::now() + COMPLETION_TIMEOUT;
    while Instant::now() < until && !current.is_over.load(Ordering::Relaxed) {
        let client = current.get().with_token(token);
        let answer = client.exchange("POST", "/v1/tasks", &[("idempotency-key", key)], &body);
        match answer {
            Ok(answer) if answer.status == 201 => {
                let id = answer.json()?["id"].as_str().map(str::to_owned);
                return id.ok_or_else(|| format!("a task without an id: {answer:?}"));
            }
            Ok(answer) => return Err(format!("a task is refused: {answer:?}")),
            // The daemon is gone, and another one is starting.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
    Err(format!("{key} is not queued"))
}

/// Kills one daemon after another, and lets the last one finish.
fn kill(
    plan: &TaskTrialPlan,
    home: &Home,
    mut daemon: Daemon,
    current: &CurrentDaemon,
    mut progress: impl FnMut(u64),
) -> Result<(Daemon, u64), String> {
    let mut random = Random::new(plan.seed);
    let mut kills = 0;
    while kills < plan.kills && !is_done(&daemon, plan.tasks)? {
        let life = Duration::from_millis(random.below(MAX_UPTIME_MS));
        std::thread::sleep(life);
        daemon.kill();
        kills += 1;
        daemon = start(home)?;
        current.set(daemon.client.clone());
        progress(kills);
    }
    let until = Instant::now() + COMPLETION_TIMEOUT;
    while !is_done(&daemon, plan.tasks)? {
        if Instant::now() > until {
            let counts = daemon.client.try_get("/v1/tasks?limit=1")?;
            return Err(format!("the tasks do not end: {counts}"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok((daemon, kills))
}

fn is_done(daemon: &Daemon, tasks: u64) -> Result<bool, String> {
    let list = daemon.client.try_get("/v1/tasks?limit=1")?;
    let count = |name: &str| list["counts"][name].as_u64().unwrap_or(0);
    let ended = count("completed") + count("failed") + count("canceled");
    Ok(ended >= tasks / TOKENS as u64 * TOKENS as u64)
}

/// Checks what the daemon shows, and then what it has recorded.
fn check(home: &Home, daemon: Daemon, queued: &[Vec<String>]) -> Result<TaskTrialSummary, String> {
    let mut owners: HashMap<&str, usize> = HashMap::new();
    for (owner, ids) in queued.iter().enumerate() {
        for id in ids {
            if owners.insert(id, owner).is_some() {
                return Err(format!("{id} was answered twice"));
            }
        }
    }
    let listed = listed(&daemon)?;
    if listed.len() != owners.len() {
        let (there, asked) = (listed.len(), owners.len());
        return Err(format!("{there} tasks exist, and {asked} were requested"));
    }
    let mut summary = TaskTrialSummary {
        tasks: listed.len() as u64,
        max_lead: max_lead(&listed, &owners)?,
        ..TaskTrialSummary::default()
    };
    for task in &listed {
        let (attempts, has_failed) = check_task(&daemon, task)?;
        summary.attempts += attempts;
        summary.failed += u64::from(has_failed);
    }
    daemon.kill();
    check_records(home, &listed, summary.attempts)?;
    Ok(summary)
}

fn listed(daemon: &Daemon) -> Result<Vec<Value>, String> {
    let mut all: Vec<Value> = Vec::new();
    loop {
        // The next page starts after the last task of this one.
        let cursor = all.last().and_then(|last| last["id"].as_str());
        let cursor = cursor.map_or(String::new(), |cursor| format!("&cursor={cursor}"));
        let page = daemon
            .client
            .try_get(&format!("/v1/tasks?limit=500{cursor}"))?;
        let tasks = page["tasks"].as_array().cloned().unwrap_or_default();
        if tasks.is_empty() {
            return Ok(all);
        }
        all.extend(tasks);
    }
}

/// Returns the maximum lead of one token over another in the order in which tasks ended, in percent.
fn max_lead(listed: &[Value], owners: &HashMap<&str, usize>) -> Result<u64, String> {
    let mut ends: Vec<(&str, usize)> = Vec::new();
    for task in listed {
        let (id, at) = (task["id"].as_str(), task["ended_at"].as_str());
        let owner = id.and_then(|id| owners.get(id));
        let (Some(owner), Some(at)) = (owner, at) else {
            return Err(format!("it was not requested, or it has no end: {task}"));
        };
        ends.push((at, *owner));
    }
    let moment = |text: &str| chrono::DateTime::parse_from_rfc3339(text).ok();
    ends.sort_by_key(|(at, _)| moment(at));
    let mut served = [0_u64; TOKENS];
    let mut worst = 0;
    for (number, (_, owner)) in ends.iter().enumerate() {
        served[*owner] += 1;
        let (least, most) = (served.iter().min(), served.iter().max());
        if let (Some(least), Some(most)) = (least, most)
            && number >= MIN_ENDED
        {
            worst = worst.max((most - least) * 100 / most.max(&1));
        }
    }
    if worst > MAX_LEAD_PERCENT {
        Err(format!("one token was {worst} % ahead of another"))
    } else {
        Ok(worst)
    }
}

/// A task has ended, and each attempt is one turn of its thread, which has ended too.
fn check_task(daemon: &Daemon, listed: &Value) -> Result<(u64, bool), String> {
    let id = listed["id"].as_str().unwrap_or_default();
    let task = daemon.client.try_get(&format!("/v1/tasks/{id}"))?;
    let thread = task["thread_id"].as_str().unwrap_or_default();
    let thread = daemon.client.try_get(&format!("/v1/threads/{thread}"))?;
    let turns = thread["turns"].as_array().cloned().unwrap_or_default();
    let attempts = task["attempt_count"].as_u64().unwrap_or(0);
    let is_open = |turn: &Value| turn["status"] == "in_progress";
    if attempts == 0 || turns.len() as u64 != attempts || turns.iter().any(is_open) {
        return Err(format!("{attempts} attempts, and these turns: {turns:#?}"));
    }
    let last = turns.last().map(|turn| &turn["status"]);
    match (task["status"].as_str(), last.and_then(Value::as_str)) {
        (Some("completed"), Some("completed")) => Ok((attempts, false)),
        (Some("failed"), Some("failed")) => Ok((attempts, true)),
        other => Err(format!("{id} is {other:?}")),
    }
}

/// The journal has one beginning and one end of each task, and one start of each attempt.
fn check_records(home: &Home, listed: &[Value], attempts: u64) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let records = runtime.block_on(async {
        let store = SqliteStore::open(SqliteOptions::new(home.data())).await;
        let store = store.map_err(|error| error.to_string())?;
        let (journal, stream) = (store.journal(), StreamKey::new("work:tasks"));
        let mut records: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut after = 0;
        loop {
            let page = journal.read(&stream, after, PAGE).await;
            let page = page.map_err(|error| error.to_string())?;
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.seq();
            for event in &page.events {
                if let EventData::Custom(custom) = &event.data {
                    let id = custom.payload["task_id"].as_str().unwrap_or_default();
                    *records
                        .entry((id.to_owned(), custom.name.clone()))
                        .or_default() += 1;
                }
            }
        }
        store.close().await;
        Ok::<_, String>(records)
    })?;
    let count = |id: &str, name: &str| {
        let found = records.get(&(id.to_owned(), name.to_owned()));
        found.copied().unwrap_or(0)
    };
    for task in listed {
        let id = task["id"].as_str().unwrap_or_default();
        let (begun, ended) = (count(id, "task.queued"), count(id, "task.ended"));
        if (begun, ended) != (1, 1) {
            return Err(format!(
                "{id} was queued {begun} times and ended {ended} times"
            ));
        }
    }
    let is_start = |(key, _): &(&(String, String), &u64)| key.1 == "task.started";
    let starts: u64 = records
        .iter()
        .filter(is_start)
        .map(|(_, count)| count)
        .sum();
    if starts == attempts {
        Ok(())
    } else {
        Err(format!(
            "{starts} starts are recorded for {attempts} attempts"
        ))
    }
}
