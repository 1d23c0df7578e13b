//! Kills the daemon while a fleet works: many tasks over workers, half of them on an external agent.
//!
//! A client creates a run and starts it. The daemon is killed repeatedly while the run works, and in between the client interrupts and restarts
//! workers. Every task ends once and its end does not change. Attempts are counted according to the rule, and each attempt is one turn. No command
//! runs twice in an attempt, and the agent receives no prompt twice unless the thread has a notice about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::backends::{self, agent};
use crate::daemon::{Daemon, Home, start};
use crate::random::Random;
use crate::undo::model::{CALL, FAIL, ScriptedModel};

/// Maximum attempts of a task.
const ATTEMPTS: u64 = 3;
/// A fleet without progress for this long is stuck, which is a failure.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum delay of a kill after the end of some tasks.
const MAX_DELAY_MS: u64 = 250;
const PAUSE: Duration = Duration::from_millis(20);
/// Directory where commands append a line, each to a file of its task.
const EFFECTS: &str = "effects";

#[derive(Debug, Clone)]
pub struct FleetTrialPlan {
    /// Path of the daemon's program.
    pub daemon: PathBuf,
    /// The program that acts as the agent.
    pub agent: PathBuf,
    /// How many tasks the run has.
    pub tasks: u64,
    /// Number of workers; every other one uses the agent.
    pub workers: u64,
    /// How often the daemon is killed.
    pub kills: u64,
    /// Seed for the moments.
    pub seed: u64,
}

/// Results of the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetTrialSummary {
    /// How often the daemon was killed.
    pub kills: u64,
    /// How many tasks were completed, failed and cancelled.
    pub ends: [u64; 3],
    /// Number of tasks executed by the agent.
    pub on_agent: u64,
    /// How many attempts there were in all.
    pub attempts: u64,
    /// Attempts restarted by the client.
    pub restarts: u64,
    /// Workers interrupted by the client.
    pub interrupts: u64,
    /// Commands with an unknown outcome.
    pub unknown: u64,
    /// Prompts sent to the agent again, with a notice.
    pub repeated_prompts: u64,
    /// How many commands ran.
    pub commands: u64,
}

/// Runs a plan. The error names the violated invariant.
pub fn run(
    plan: &FleetTrialPlan,
    mut progress: impl FnMut(u64, u64),
) -> Result<FleetTrialSummary, String> {
    let model = ScriptedModel::start()?;
    let mut home = backends::with_agent(&plan.daemon, &plan.agent)?;
    home.arguments.clear();
    home.variables = vec![
        ("ANTHROPIC_API_KEY".to_owned(), "none".to_owned()),
        ("ANTHROPIC_BASE_URL".to_owned(), model.url()),
    ];
    let effects = home.workspace.join(EFFECTS);
    fs::create_dir_all(effects).map_err(|error| error.to_string())?;
    let mut trial = FleetTrial {
        plan,
        home: &home,
        random: Random::new(plan.seed),
        summary: FleetTrialSummary::default(),
        seen: BTreeMap::new(),
    };
    let done = trial.run(&mut progress);
    done.map_err(|what| {
        let kills = trial.summary.kills;
        format!("seed {}, after {kills} kills: {what}", plan.seed)
    })?;
    Ok(trial.summary)
}

struct FleetTrial<'a> {
    plan: &'a FleetTrialPlan,
    home: &'a Home,
    random: Random,
    summary: FleetTrialSummary,
    /// Each task as last seen.
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

impl FleetTrial<'_> {
    /// Creates the run and drives it to its end.
    fn run(&mut self, progress: &mut impl FnMut(u64, u64)) -> Result<(), String> {
        let mut daemon = start(self.home)?;
        let made = daemon.client.try_post("/v1/fleet/runs", &self.request())?;
        let run = format!("/v1/fleet/runs/{}", text(&made["run"]["id"]));
        if made["run"]["lifecycle_status"] != "pending" {
            return Err(format!("a run begins before it is started: {made:#}"));
        }
        daemon
            .client
            .try_post(&format!("{run}/start"), &json!({}))?;
        let mut moved = Instant::now();
        let mut ended = 0;
        loop {
            let shown = daemon.client.try_get(&run)?;
            let now = self.compare(&shown)?;
            if now > ended {
                (ended, moved) = (now, Instant::now());
            }
            if !shown["completed_at"].is_null() {
                break;
            }
            if moved.elapsed() > STALL_TIMEOUT {
                let workers = daemon.client.try_get(&format!("{run}/workers"))?;
                return Err(format!("the fleet makes no progress: {workers:#}"));
            }
            // Kills are spread over the run, so that each one interrupts work.
            let due = self.summary.kills < self.plan.kills
                && ended * (self.plan.kills + 1) >= self.summary.kills * self.plan.tasks;
            if due {
                std::thread::sleep(Duration::from_millis(self.random.below(MAX_DELAY_MS)));
                self.command_random_worker(&daemon, &shown)?;
                daemon.kill();
                daemon = start(self.home)?;
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
            // Some fail if Windlass calls the model itself.
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

    /// Occasionally interrupts or restarts a worker.
    fn command_random_worker(&mut self, daemon: &Daemon, shown: &Value) -> Result<(), String> {
        let busy = list(&shown["tasks"]);
        let busy: Vec<_> = busy
            .iter()
            .filter(|task| task["status"] == "leased")
            .collect();
        let action = match self.random.below(8) {
            0 => "interrupt",
            1 | 2 => "restart",
            _ => return Ok(()),
        };
        let at = self.random.below(busy.len() as u64);
        let Some(task) = usize::try_from(at).ok().and_then(|at| busy.get(at)) else {
            return Ok(());
        };
        let path = format!("/v1/fleet/workers/{}/{action}", text(&task["leased_to"]));
        let answer = daemon.client.exchange("POST", &path, &[], "")?;
        match (answer.status, answer.json()?["error"]["code"].as_str()) {
            (200, _) if action == "interrupt" => self.summary.interrupts += 1,
            // The task or the run had just ended.
            (200, _) | (409, Some("worker_idle" | "fleet_run_ended")) => {}
            _ => return Err(format!("{action} was answered with {answer:?}")),
        }
        Ok(())
    }

    /// Compares the tasks with their last state; returns how many have ended.
    fn compare(&mut self, shown: &Value) -> Result<u64, String> {
        let mut ended = 0;
        for task in list(&shown["tasks"]) {
            let id = text(&task["task_id"]);
            ended += u64::from(is_ended(&task));
            if let Some(before) = self.seen.get(&id) {
                if is_ended(before) && *before != task {
                    return Err(format!("{before} had ended and is {task} now"));
                }
                if number(&task["attempts"]) < number(&before["attempts"]) {
                    return Err(format!("an attempt is missing: {before}, now {task}"));
                }
            }
            self.seen.insert(id, task);
        }
        if self.seen.len() as u64 == self.plan.tasks {
            Ok(ended)
        } else {
            Err(format!("{} tasks are left", self.seen.len()))
        }
    }

    /// Checks the final state of the run.
    fn check(&mut self, daemon: &Daemon, run: &str) -> Result<(), String> {
        let leases = self.check_records(daemon, run)?;
        let received = agent::received(&backends::agent_home(self.home))?;
        for (id, task) in self.seen.clone() {
            if leases.get(&id) != Some(&number(&task["attempts"])) {
                return Err(format!("{task} has {:?} leases on record", leases.get(&id)));
            }
            let checked = self.check_task(daemon, &id, &task, &received);
            checked.map_err(|what| format!("{what}: {task:#}"))?;
        }
        Ok(())
    }

    /// Reads the records of the run: each task ends once, and is not leased after its end. Returns the number of leases of each task.
    fn check_records(&self, daemon: &Daemon, run: &str) -> Result<BTreeMap<String, u64>, String> {
        let mut leases: BTreeMap<String, u64> = BTreeMap::new();
        let mut ends = BTreeSet::new();
        let mut after = String::new();
        loop {
            let page = daemon
                .client
                .try_get(&format!("{run}/events/replay?limit=100{after}"))?;
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
        if ends.len() as u64 == self.plan.tasks {
            Ok(leases)
        } else {
            Err(format!("{} tasks have an end on record", ends.len()))
        }
    }

    fn check_task(
        &mut self,
        daemon: &Daemon,
        id: &str,
        task: &Value,
        received: &[String],
    ) -> Result<(), String> {
        let status = task["status"].as_str().unwrap_or_default();
        let (attempts, restarts) = (number(&task["attempts"]), number(&task["restarts"]));
        let counted = attempts.saturating_sub(restarts);
        self.summary.attempts += attempts;
        self.summary.restarts += restarts;
        let index = ["completed", "failed", "cancelled"]
            .iter()
            .position(|it| *it == status);
        let index = index.ok_or("it has not ended")?;
        self.summary.ends[index] += 1;
        if counted > ATTEMPTS || (status == "failed" && counted != ATTEMPTS) {
            return Err(format!(
                "{counted} attempts count, but {ATTEMPTS} are allowed"
            ));
        }
        let thread = daemon
            .client
            .try_get(&format!("/v1/threads/{}", text(&task["thread_id"])));
        let thread = match thread {
            Ok(thread) => thread,
            // It was cancelled before its turn started.
            Err(_) if status == "cancelled" && attempts == 1 => return Ok(()),
            Err(what) => return Err(what),
        };
        let turns = list(&thread["turns"]);
        let open = turns.iter().find(|turn| turn["status"] == "in_progress");
        if let Some(open) = open {
            return Err(format!("a turn has not ended: {open}"));
        }
        // An attempt that is cancelled before it starts has no turn.
        let least = counted.saturating_sub(u64::from(status == "cancelled"));
        if !(least..=attempts).contains(&(turns.len() as u64)) {
            return Err(format!("{} turns are not {attempts} attempts", turns.len()));
        }
        let items = list(&thread["items"]);
        match thread["thread"]["backend"].as_str() {
            Some(_) => self.check_prompts(id, turns.len() as u64, &items, received),
            None => self.check_commands(id, status, turns.len() as u64, &items),
        }
    }

    /// The agent received a task's prompt once per attempt, and more often only if the thread has a notice about it.
    fn check_prompts(
        &mut self,
        id: &str,
        turns: u64,
        items: &[Value],
        received: &[String],
    ) -> Result<(), String> {
        self.summary.on_agent += 1;
        let times = received
            .iter()
            .filter(|it| backends::is_new_in(it, id))
            .count() as u64;
        let again = times.saturating_sub(turns);
        self.summary.repeated_prompts += again;
        let notices = items
            .iter()
            .filter(|item| backends::is_notice(item))
            .count() as u64;
        if again <= notices {
            Ok(())
        } else {
            Err(format!(
                "the agent received the prompt {times} times in {turns} turns, with {notices} notices"
            ))
        }
    }

    /// A command runs at most once per attempt. If it did not run in a completed attempt, no record claims that it did.
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
        let lines = fs::read_to_string(self.home.workspace.join(EFFECTS).join(id));
        let lines = lines.unwrap_or_default().lines().count() as u64;
        self.summary.commands += lines;
        if lines > turns {
            return Err(format!("a command ran {lines} times in {turns} attempts"));
        }
        if status == "completed" && turns == 1 && lines == 0 && unknown == 0 {
            Err("it is completed, and its command never ran".to_owned())
        } else {
            Ok(())
        }
    }
}
