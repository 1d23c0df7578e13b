//! Kills the daemon and restarts it with a changing configuration while tasks and fleet runs wait and run.
//!
//! Before each start a backend, a model, a directory and the token file are removed or restored at random; the last two also change while the daemon
//! runs. A job whose requirements are missing is held: its status is held, it does not end, and it loses no attempt. No job ends while its turn is
//! open, and each ends as its last turn did. Once everything is restored, every job ends, and no command ran twice in a turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::backends::{self, BACKEND, agent};
use crate::daemon::{Client, Daemon, Home, configure, start};
use crate::random::Random;
use crate::undo::model::{CALL, ScriptedModel};

/// The model that is removed and restored.
const OTHER_MODEL: &str = "anthropic/claude-other";
/// The directory that is removed and restored.
const DIRECTORY: &str = "part";
/// Directory where commands append a line, each to a file of its job.
const EFFECTS: &str = "effects";
/// Maximum runtime of a daemon.
const MAX_UPTIME_MS: u64 = 500;
/// Tasks queued per daemon process, and the processes in which a fleet run starts.
const TASKS_PER_START: u64 = 6;
const STARTS_PER_RUN: u64 = 5;
/// Maximum attempts of a job: a turn that crashes three processes fails.
const ATTEMPTS: u64 = 10;
/// Work that takes longer is stuck, which is a failure.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub struct ConfigTrialPlan {
    /// Path of the daemon's program.
    pub daemon: PathBuf,
    /// The program that acts as the agent if its argument is [`agent::ARGUMENT`].
    pub agent: PathBuf,
    /// How often the daemon is killed.
    pub kills: u64,
    /// Seed for the moments and the configurations.
    pub seed: u64,
}

/// Results of the test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigTrialSummary {
    /// How often the daemon was killed.
    pub kills: u64,
    /// How many tasks ended.
    pub tasks: u64,
    /// How many tasks of fleet runs ended.
    pub fleet_tasks: u64,
    /// How often a job was seen held, by cause.
    pub held: BTreeMap<String, u64>,
    /// How many jobs were cancelled.
    pub cancelled: u64,
    /// How many commands ran.
    pub commands: u64,
}

/// A job's requirement in addition to the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Token,
    Model,
    Backend,
    Directory,
}

const NEEDS: [Need; 4] = [Need::Token, Need::Model, Need::Backend, Need::Directory];

/// Runs a plan. The error names the check that failed.
pub fn run(
    plan: &ConfigTrialPlan,
    mut progress: impl FnMut(u64),
) -> Result<ConfigTrialSummary, String> {
    let model = ScriptedModel::start()?;
    let mut home = backends::with_agent(&plan.daemon, &plan.agent)?;
    home.arguments = vec!["--workers".to_owned(), "4".to_owned()];
    home.variables = vec![
        ("ANTHROPIC_API_KEY".to_owned(), "none".to_owned()),
        ("ANTHROPIC_BASE_URL".to_owned(), model.url()),
    ];
    for directory in [EFFECTS, DIRECTORY] {
        let output = fs::create_dir_all(home.workspace.join(directory));
        output.map_err(|error| error.to_string())?;
    }
    let token = token(plan, &home)?;
    let mut trial = ConfigTrial {
        home: &home,
        token,
        random: Random::new(plan.seed),
        missing: BTreeSet::new(),
        summary: ConfigTrialSummary::default(),
        tasks: BTreeMap::new(),
        runs: Vec::new(),
        job_count: 0,
    };
    let done = trial.run(plan.kills, &mut progress);
    done.map_err(|what| {
        let (seed, kills) = (plan.seed, trial.summary.kills);
        format!("seed {seed}, after {kills} kills: {what}")
    })?;
    Ok(trial.summary)
}

/// Creates a token, and returns its secret.
fn token(plan: &ConfigTrialPlan, home: &Home) -> Result<String, String> {
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

struct ConfigTrial<'a> {
    home: &'a Home,
    token: String,
    random: Random,
    missing: BTreeSet<Need>,
    summary: ConfigTrialSummary,
    /// The queued tasks by id, with the name of each.
    tasks: BTreeMap<String, String>,
    /// The paths of the fleet runs.
    runs: Vec<String>,
    job_count: u64,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn swap(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|error| format!("{}: {error}", from.display()))
}

impl ConfigTrial<'_> {
    fn run(&mut self, kills: u64, progress: &mut impl FnMut(u64)) -> Result<(), String> {
        self.configure(BTreeSet::new())?;
        let mut daemon = start(self.home)?;
        while self.summary.kills < kills {
            self.queue(&daemon)?;
            if self.random.below(3) == 0 {
                let files = [Need::Token, Need::Directory];
                let mut missing = self.random_subset(&files);
                let stays = self.missing.iter().filter(|need| !files.contains(need));
                missing.extend(stays);
                self.configure(missing)?;
            }
            std::thread::sleep(Duration::from_millis(self.random.below(MAX_UPTIME_MS)));
            self.check_jobs(&daemon)?;
            daemon.kill();
            self.summary.kills += 1;
            let missing = self.random_subset(&NEEDS);
            self.configure(missing)?;
            daemon = start(self.home)?;
            progress(self.summary.kills);
        }
        daemon.kill();
        self.configure(BTreeSet::new())?;
        daemon = start(self.home)?;
        self.wait(&daemon)?;
        self.check(&daemon)
    }

    /// Chooses the missing requirements; none in one of three cases.
    fn random_subset(&mut self, needs: &[Need]) -> BTreeSet<Need> {
        if self.random.below(3) == 0 {
            return BTreeSet::new();
        }
        let chosen = needs.iter().filter(|_| self.random.below(2) == 0);
        chosen.copied().collect()
    }

    /// Removes and restores requirements. The daemon reads the configuration at its next start, and the files at once.
    fn configure(&mut self, missing: BTreeSet<Need>) -> Result<(), String> {
        let (data, workspace) = (self.home.data(), self.home.workspace.clone());
        for need in [Need::Token, Need::Directory] {
            let (is, was) = (missing.contains(&need), self.missing.contains(&need));
            let (path, aside) = match need {
                Need::Token => (data.join("tokens.json"), data.join("tokens.aside")),
                _ => (
                    workspace.join(DIRECTORY),
                    self.home.data().join("part.aside"),
                ),
            };
            if is && !was {
                swap(&path, &aside)?;
                if need == Need::Token {
                    fs::write(&path, "{").map_err(|error| error.to_string())?;
                }
            } else if was && !is {
                swap(&aside, &path)?;
            }
        }
        let mut config = "model = 'anthropic/claude-usual'\nunknown_models = 'refuse'\n".to_owned();
        if !missing.contains(&Need::Model) {
            config.push_str(&format!("models = ['{OTHER_MODEL}']\n"));
        }
        if !missing.contains(&Need::Backend) {
            config.push_str(&format!(
                "[backends.{BACKEND}]\nkind = 'claude-code'\nhome = 'own'\ncommand = '{}'\narguments = ['{}']\n",
                workspace.join("agent").display(),
                agent::ARGUMENT
            ));
        }
        self.missing = missing;
        configure(self.home, &config)
    }

    fn client(&self, daemon: &Daemon) -> Client {
        daemon.client.with_token(&self.token)
    }

    /// Queues jobs whose requirements are available.
    fn queue(&mut self, daemon: &Daemon) -> Result<(), String> {
        if self.missing.contains(&Need::Token) {
            return Ok(());
        }
        let client = self.client(daemon);
        for _ in 0..TASKS_PER_START {
            let Some((name, need)) = self.next_job() else {
                continue;
            };
            let mut body = json!({
                "prompt": self.prompt(&name), "auto_approve": true, "max_attempts": ATTEMPTS,
            });
            match need {
                Need::Token => {}
                Need::Model => body["model"] = json!(OTHER_MODEL),
                Need::Backend => body["backend"] = json!(BACKEND),
                Need::Directory => {
                    body["workspace"] = json!(self.home.workspace.join(DIRECTORY));
                }
            }
            let task = client.try_post("/v1/tasks", &body)?;
            let id = text(&task["id"]);
            if self.random.below(12) == 0 {
                client.try_post(&format!("/v1/tasks/{id}/cancel"), &json!({}))?;
            }
            self.tasks.insert(id, name);
        }
        if self.summary.kills.is_multiple_of(STARTS_PER_RUN) {
            self.start_run(&client)?;
        }
        Ok(())
    }

    fn start_run(&mut self, client: &Client) -> Result<(), String> {
        let mut tasks = Vec::new();
        for _ in 0..TASKS_PER_START {
            let Some((name, need)) = self.next_job() else {
                continue;
            };
            let mut task = json!({
                "id": name, "instructions": self.prompt(&name), "auto_approve": true,
                "retry_policy": {"max_attempts": ATTEMPTS},
            });
            match need {
                Need::Token => {}
                Need::Model => task["worker"] = json!({ "model": OTHER_MODEL }),
                Need::Backend => task["backend"] = json!(BACKEND),
                Need::Directory => {
                    task["workspace"] = json!({"root": self.home.workspace.join(DIRECTORY)});
                }
            }
            tasks.push(task);
        }
        if tasks.is_empty() {
            return Ok(());
        }
        let body = json!({"name": "changing", "tasks": tasks, "max_workers": 2, "start": true});
        let output = client.try_post("/v1/fleet/runs", &body)?;
        self.runs
            .push(format!("/v1/fleet/runs/{}", text(&output["run"]["id"])));
        Ok(())
    }

    /// Names the next job and its requirement; `None` if that is missing now.
    fn next_job(&mut self) -> Option<(String, Need)> {
        self.job_count += 1;
        let index = usize::try_from(self.job_count).unwrap_or_default() % NEEDS.len();
        let need = NEEDS[index];
        let name = format!("job-{:05}", self.job_count);
        (!self.missing.contains(&need)).then_some((name, need))
    }

    fn prompt(&self, name: &str) -> String {
        let file = self.home.workspace.join(EFFECTS).join(name);
        let command = format!("echo {name} >> {}; sleep 0.3", file.display());
        let call = json!({"name": "shell", "arguments": {"command": command}});
        format!("{CALL}{call}")
    }

    /// Checks all jobs: a held job has not ended, and an ended job has a turn with the same end.
    fn check_jobs(&mut self, daemon: &Daemon) -> Result<u64, String> {
        let mut open = 0;
        for id in self.tasks.keys().cloned().collect::<Vec<_>>() {
            let task = daemon.client.try_get(&format!("/v1/tasks/{id}"))?;
            open += u64::from(self.check_open(daemon, &task)?);
        }
        for path in self.runs.clone() {
            let run = daemon.client.try_get(&path)?;
            for task in list(&run["tasks"]) {
                open += u64::from(self.check_open(daemon, &task)?);
            }
        }
        Ok(open)
    }

    /// Returns whether a job is open.
    fn check_open(&mut self, daemon: &Daemon, job: &Value) -> Result<bool, String> {
        let status = text(&job["status"]);
        let is_open = ["queued", "enqueued", "running", "leased"].contains(&status.as_str());
        if job["held"].is_object() {
            let cause = text(&job["held"]["cause"]);
            *self.summary.held.entry(cause).or_default() += 1;
            if !is_open {
                return Err(format!("it has ended and is held: {job:#}"));
            }
        }
        if is_open {
            return Ok(true);
        }
        let turns = self.turns(daemon, job)?;
        let is_running = |turn: &Value| turn["status"] == "in_progress";
        if turns.iter().any(is_running) {
            return Err(format!("it has ended and its turn is open: {job:#}"));
        }
        let last = turns.last().map(|turn| text(&turn["status"]));
        match (status.as_str(), last.as_deref()) {
            ("completed", Some("completed"))
            | ("failed", Some("failed"))
            | ("canceled" | "cancelled", Some("interrupted") | None) => Ok(false),
            other => Err(format!(
                "its status differs from that of its turn, {other:?}: {job:#}"
            )),
        }
    }

    fn turns(&self, daemon: &Daemon, job: &Value) -> Result<Vec<Value>, String> {
        match job["thread_id"].as_str() {
            None => Ok(Vec::new()),
            Some(thread) => {
                let path = format!("/v1/threads/{thread}");
                let answer = daemon.client.exchange("GET", &path, &[], "")?;
                match answer.status {
                    // It was cancelled before its thread existed.
                    404 => Ok(Vec::new()),
                    _ => Ok(list(&answer.json()?["turns"])),
                }
            }
        }
    }

    /// Waits until no job is open.
    fn wait(&mut self, daemon: &Daemon) -> Result<(), String> {
        let until = Instant::now() + COMPLETION_TIMEOUT;
        loop {
            let open = self.check_jobs(daemon)?;
            if open == 0 {
                return Ok(());
            }
            if Instant::now() > until {
                let tasks = daemon.client.try_get("/v1/tasks?status=queued,running")?;
                return Err(format!("{open} jobs do not end: {tasks:#}"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Checks the final state after every job has ended.
    fn check(&mut self, daemon: &Daemon) -> Result<(), String> {
        for (id, name) in self.tasks.clone() {
            let task = daemon.client.try_get(&format!("/v1/tasks/{id}"))?;
            self.summary.tasks += 1;
            self.check_job(daemon, &task, &name)?;
        }
        for path in self.runs.clone() {
            for task in list(&daemon.client.try_get(&path)?["tasks"]) {
                self.summary.fleet_tasks += 1;
                self.check_job(daemon, &task, &text(&task["task_id"]))?;
            }
        }
        if self.summary.held.is_empty() && self.summary.kills > 10 {
            Err("no job was ever held, so the test shows nothing".to_owned())
        } else {
            Ok(())
        }
    }

    /// A job is completed, unless it was cancelled, and its command ran at most once in each turn.
    fn check_job(&mut self, daemon: &Daemon, job: &Value, name: &str) -> Result<(), String> {
        let turns = self.turns(daemon, job)?.len() as u64;
        match text(&job["status"]).as_str() {
            "completed" => {}
            "canceled" => self.summary.cancelled += 1,
            _ => return Err(format!("it is not completed: {job:#}")),
        }
        let lines = fs::read_to_string(self.home.workspace.join(EFFECTS).join(name));
        let lines = lines.unwrap_or_default().lines().count() as u64;
        self.summary.commands += lines;
        if lines > turns {
            Err(format!(
                "a command ran {lines} times in {turns} turns: {job:#}"
            ))
        } else {
            Ok(())
        }
    }
}
