//! The daemon is killed while a fleet works: many tasks over workers, half of them on an agent of others.
//!
//! A client makes a run and starts it. While it works the daemon dies again and again, and between the deaths somebody interrupts and
//! restarts workers. Every task ends once and stays as it ended, attempts are counted as the rule says, each attempt is one turn, no command
//! runs twice in an attempt, and the agent is told nothing twice unless the thread says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::backends::{self, agent};
use crate::chance::Chance;
use crate::daemon::{Daemon, Home};
use crate::undo::model::{CALL, FAIL, Model};

/// How often a task may be tried.
const ATTEMPTS: u64 = 3;
/// A fleet that gets on no further for so long is stuck, which is a finding.
const PATIENCE: Duration = Duration::from_secs(120);
/// The latest moment behind the end of some tasks at which the daemon dies.
const LATEST_MS: u64 = 250;
const PAUSE: Duration = Duration::from_millis(20);
/// Where commands leave a line, each in a file of its task.
const EFFECTS: &str = "effects";

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The daemon.
    pub daemon: PathBuf,
    /// The program that is the agent when it is told so.
    pub agent: PathBuf,
    /// How many tasks the run has.
    pub tasks: u64,
    /// How many workers; every other one is on the agent.
    pub workers: u64,
    /// How often the daemon is killed.
    pub kills: u64,
    /// Chooses the moments.
    pub seed: u64,
}

/// What was done and found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// How often the daemon was killed.
    pub kills: u64,
    /// How many tasks were completed, failed and cancelled.
    pub ends: [u64; 3],
    /// How many tasks were on the agent.
    pub on_agent: u64,
    /// How many attempts there were in all.
    pub attempts: u64,
    /// How many attempts were restarted by somebody.
    pub restarts: u64,
    /// How many workers were told to give their task up.
    pub interrupts: u64,
    /// Of how many commands the outcome was unknown.
    pub unknown: u64,
    /// How many prompts were told the agent again, with a notice.
    pub told_again: u64,
    /// How many commands ran.
    pub commands: u64,
}

/// Carries a plan out. The error says what did not hold.
pub fn run(plan: &Plan, mut progress: impl FnMut(u64, u64)) -> Result<Summary, String> {
    let model = Model::start()?;
    let mut home = backends::with_agent(&plan.daemon, &plan.agent)?;
    home.arguments.clear();
    home.variables = vec![
        ("ANTHROPIC_API_KEY".to_owned(), "none".to_owned()),
        ("ANTHROPIC_BASE_URL".to_owned(), model.url()),
    ];
    let effects = home.workspace().join(EFFECTS);
    fs::create_dir_all(effects).map_err(|error| error.to_string())?;
    let mut trial = Trial {
        plan,
        home: &home,
        chance: Chance::new(plan.seed),
        summary: Summary::default(),
        seen: BTreeMap::new(),
    };
    let done = trial.live(&mut progress);
    done.map_err(|what| {
        let kills = trial.summary.kills;
        format!("seed {}, after {kills} kills: {what}", plan.seed)
    })?;
    Ok(trial.summary)
}

struct Trial<'a> {
    plan: &'a Plan,
    home: &'a Home,
    chance: Chance,
    summary: Summary,
    /// Each task as it was seen last.
    seen: BTreeMap<String, Value>,
}

fn is_ended(task: &Value) -> bool {
    let status = task["status"].as_str().unwrap_or_default();
    ["completed", "failed", "cancelled"].contains(&status)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

impl Trial<'_> {
    /// Makes the run and goes on to its end.
    fn live(&mut self, progress: &mut impl FnMut(u64, u64)) -> Result<(), String> {
        let mut daemon = self.home.start()?;
        let made = daemon.post("/v1/fleet/runs", &self.request())?;
        let run = format!("/v1/fleet/runs/{}", text(&made["run"]["id"]));
        if made["run"]["lifecycle_status"] != "pending" {
            return Err(format!("a run begins before it is started: {made:#}"));
        }
        daemon.post(&format!("{run}/start"), &json!({}))?;
        let mut moved = Instant::now();
        let mut ended = 0;
        loop {
            let shown = daemon.get(&run)?;
            let now = self.look(&shown)?;
            if now > ended {
                (ended, moved) = (now, Instant::now());
            }
            if !shown["completed_at"].is_null() {
                break;
            }
            if moved.elapsed() > PATIENCE {
                let workers = daemon.get(&format!("{run}/workers"))?;
                return Err(format!("the fleet does not get on: {workers:#}"));
            }
            // Each part of the work has its death, so that all of them are in the middle of something.
            let due = self.summary.kills < self.plan.kills
                && ended * (self.plan.kills + 1) >= self.summary.kills * self.plan.tasks;
            if due {
                std::thread::sleep(Duration::from_millis(self.chance.below(LATEST_MS)));
                self.meddle(&daemon, &shown)?;
                daemon.kill()?;
                daemon = self.home.start()?;
                self.summary.kills += 1;
                progress(self.summary.kills, ended);
            }
            std::thread::sleep(PAUSE);
        }
        if self.summary.kills < self.plan.kills {
            return Err("the run ended before all kills".to_owned());
        }
        self.check(&daemon, &run)
    }

    fn request(&self) -> Value {
        let task = |n: u64| {
            let name = format!("task-{n:04}");
            // Some fail wherever the model is ours.
            let instructions = match n % 12 {
                7 => format!("{FAIL}{name}"),
                _ => {
                    let command = format!("echo {name} >> {EFFECTS}/{name}; sleep 0.05");
                    let call = json!({"name": "shell", "arguments": {"command": command}});
                    format!("{CALL}{call}")
                }
            };
            json!({
                "id": name, "name": name, "instructions": instructions, "auto_approve": true,
                "worker": {"role": "builder"}, "retry_policy": {"max_attempts": ATTEMPTS},
            })
        };
        let worker = |n: u64| match n % 2 {
            0 => json!({"role": "builder"}),
            _ => json!({"role": "builder", "backend": backends::BACKEND}),
        };
        json!({
            "name": "killed", "target": "this_computer", "roles": [{"name": "builder"}],
            "workflow": {
                "id": "killed", "kind": "parallel",
                "tasks": (0..self.plan.tasks).map(task).collect::<Vec<_>>(),
            },
            "workers": (0..self.plan.workers).map(worker).collect::<Vec<_>>(),
        })
    }

    /// Interrupts or restarts a worker now and then.
    fn meddle(&mut self, daemon: &Daemon, shown: &Value) -> Result<(), String> {
        let busy = list(&shown["tasks"]);
        let busy: Vec<_> = busy
            .iter()
            .filter(|task| task["status"] == "leased")
            .collect();
        let word = match self.chance.below(8) {
            0 => "interrupt",
            1 | 2 => "restart",
            _ => return Ok(()),
        };
        let at = self.chance.below(busy.len() as u64);
        let Some(task) = usize::try_from(at).ok().and_then(|at| busy.get(at)) else {
            return Ok(());
        };
        let path = format!("/v1/fleet/workers/{}/{word}", text(&task["leased_to"]));
        let answer = daemon.client.exchange("POST", &path, &[], "")?;
        match (answer.status, answer.json()?["error"]["code"].as_str()) {
            (200, _) if word == "interrupt" => self.summary.interrupts += 1,
            // It had just ended its task, or the run.
            (200, _) | (409, Some("worker_idle" | "fleet_run_ended")) => {}
            _ => return Err(format!("{word} was answered with {answer:?}")),
        }
        Ok(())
    }

    /// Compares the tasks with what was seen before; returns how many have ended.
    fn look(&mut self, shown: &Value) -> Result<u64, String> {
        let mut ended = 0;
        for task in list(&shown["tasks"]) {
            let id = text(&task["task_id"]);
            ended += u64::from(is_ended(&task));
            if let Some(before) = self.seen.get(&id) {
                if is_ended(before) && *before != task {
                    return Err(format!("{before} had ended and is {task} now"));
                }
                if number(&task["attempts"]) < number(&before["attempts"]) {
                    return Err(format!("an attempt is forgotten: {before}, now {task}"));
                }
            }
            self.seen.insert(id, task);
        }
        match self.seen.len() as u64 == self.plan.tasks {
            true => Ok(ended),
            false => Err(format!("{} tasks are left", self.seen.len())),
        }
    }

    /// Checks what is left of the run.
    fn check(&mut self, daemon: &Daemon, run: &str) -> Result<(), String> {
        let leases = self.check_records(daemon, run)?;
        let told = agent::told(&backends::of_agent(self.home))?;
        for (id, task) in self.seen.clone() {
            if leases.get(&id) != Some(&number(&task["attempts"])) {
                return Err(format!("{task} has {:?} leases on record", leases.get(&id)));
            }
            let checked = self.check_task(daemon, &id, &task, &told);
            checked.map_err(|what| format!("{what}: {task:#}"))?;
        }
        Ok(())
    }

    /// Reads the records of the run: each task ends once, and nothing is leased behind its end. Returns how often each was leased.
    fn check_records(&self, daemon: &Daemon, run: &str) -> Result<BTreeMap<String, u64>, String> {
        let mut leases: BTreeMap<String, u64> = BTreeMap::new();
        let mut ends = BTreeSet::new();
        let mut after = String::new();
        loop {
            let page = daemon.get(&format!("{run}/events/replay?limit=100{after}"))?;
            for event in list(&page["events"]) {
                let task = text(&event["task_id"]);
                match event["event"].as_str() {
                    Some("fleet.task.leased") if !ends.contains(&task) => {
                        *leases.entry(task).or_default() += 1;
                    }
                    Some("fleet.task.terminal") if ends.insert(task) => {}
                    Some("fleet.task.leased" | "fleet.task.terminal") => {
                        return Err(format!("a task ended before: {event}"));
                    }
                    _ => {}
                }
            }
            if page["has_more"] != true {
                break;
            }
            after = format!("&after={}", text(&page["next_cursor"]));
        }
        match ends.len() as u64 == self.plan.tasks {
            true => Ok(leases),
            false => Err(format!("{} tasks have an end on record", ends.len())),
        }
    }

    fn check_task(
        &mut self,
        daemon: &Daemon,
        id: &str,
        task: &Value,
        told: &[String],
    ) -> Result<(), String> {
        let status = task["status"].as_str().unwrap_or_default();
        let (attempts, restarts) = (number(&task["attempts"]), number(&task["restarts"]));
        let counted = attempts.saturating_sub(restarts);
        self.summary.attempts += attempts;
        self.summary.restarts += restarts;
        let place = ["completed", "failed", "cancelled"]
            .iter()
            .position(|it| *it == status);
        let place = place.ok_or("it has not ended")?;
        self.summary.ends[place] += 1;
        if counted > ATTEMPTS || (status == "failed" && counted != ATTEMPTS) {
            return Err(format!(
                "{counted} attempts count, and the rule says {ATTEMPTS}"
            ));
        }
        let thread = daemon.get(&format!("/v1/threads/{}", text(&task["thread_id"])));
        let thread = match thread {
            Ok(thread) => thread,
            // It was called off before its turn began.
            Err(_) if status == "cancelled" && attempts == 1 => return Ok(()),
            Err(what) => return Err(what),
        };
        let turns = list(&thread["turns"]);
        let open = turns.iter().find(|turn| turn["status"] == "in_progress");
        if let Some(open) = open {
            return Err(format!("a turn has not ended: {open}"));
        }
        // An attempt that is called off before it begins has no turn.
        let least = counted.saturating_sub(u64::from(status == "cancelled"));
        if !(least..=attempts).contains(&(turns.len() as u64)) {
            return Err(format!("{} turns are not {attempts} attempts", turns.len()));
        }
        let items = list(&thread["items"]);
        match thread["thread"]["backend"].as_str() {
            Some(_) => self.check_told(id, turns.len() as u64, &items, told),
            None => self.check_commands(id, status, turns.len() as u64, &items),
        }
    }

    /// The agent was told a task once in each attempt, and more often only where the thread says so.
    fn check_told(
        &mut self,
        id: &str,
        turns: u64,
        items: &[Value],
        told: &[String],
    ) -> Result<(), String> {
        self.summary.on_agent += 1;
        let times = told.iter().filter(|it| backends::is_new_in(it, id)).count() as u64;
        let again = times.saturating_sub(turns);
        self.summary.told_again += again;
        let notices = items
            .iter()
            .filter(|item| backends::is_notice(item))
            .count() as u64;
        match again <= notices {
            true => Ok(()),
            false => Err(format!(
                "the agent was told {times} times in {turns} turns, with {notices} notices"
            )),
        }
    }

    /// A command runs at most once in each attempt, and where it did not run in one that was completed, nobody says that it did.
    fn check_commands(
        &mut self,
        id: &str,
        status: &str,
        turns: u64,
        items: &[Value],
    ) -> Result<(), String> {
        let unknown = |item: &&Value| {
            let is_call = item["kind"] == "command_execution" || item["kind"] == "tool_call";
            is_call && item["status"] != "completed" && item.to_string().contains("unknown")
        };
        let unknown = items.iter().filter(unknown).count() as u64;
        self.summary.unknown += unknown;
        let lines = fs::read_to_string(self.home.workspace().join(EFFECTS).join(id));
        let lines = lines.unwrap_or_default().lines().count() as u64;
        self.summary.commands += lines;
        if lines > turns {
            return Err(format!("a command ran {lines} times in {turns} attempts"));
        }
        match status == "completed" && turns == 1 && lines == 0 && unknown == 0 {
            true => Err("it is completed, and its command never ran".to_owned()),
            false => Ok(()),
        }
    }
}
