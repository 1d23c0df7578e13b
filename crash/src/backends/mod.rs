//! The daemon is killed while an agent of others carries a turn.
//!
//! A client starts one turn after the other on a thread of an [`agent`] that keeps its sessions on disk. The daemon dies at a random
//! moment of each turn, sometimes twice. After each restart nothing of the old process tree is left, and the turn comes to its end. The
//! agent was told each prompt, and none twice unless the thread says so.

pub mod agent;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::daemon::{Daemon, Home, started_at};

/// How the agent is named.
pub(crate) const BACKEND: &str = "killed";
/// The latest moment of a turn at which the daemon dies; about as long as a turn takes.
const LATEST_MS: u64 = 450;
/// A turn that takes longer is stuck, which is a finding.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long ended processes may take to be gone.
const BURIAL: Duration = Duration::from_secs(10);
/// How many turns a thread has: a history that grows is told again with every lost session.
const TURNS_OF_A_THREAD: u64 = 10;
/// What stands before the words that are new to the agent, where it is told more.
const NOW: &str = "This is what you are told now:";
/// What the thread says of a prompt that is told again.
const NOTICES: [&str; 2] = [
    "is told the same once more",
    "starts again with the conversation",
];

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The daemon.
    pub daemon: PathBuf,
    /// The program that is the agent when it is told [`agent::WORD`].
    pub agent: PathBuf,
    /// How often the daemon is killed in the middle of a turn.
    pub kills: u64,
    /// Chooses the moments.
    pub seed: u64,
}

/// What was done and found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// How often the daemon was killed in the middle of a turn, which then went on.
    pub kills: u64,
    /// How often it was killed when the turn had just ended.
    pub late_kills: u64,
    /// How many turns there were.
    pub turns: u64,
    /// How many processes of agents outlived a daemon, until the next one ended them.
    pub left_behind: u64,
    /// How many prompts were told again, with a notice.
    pub told_again: u64,
}

/// Carries a plan out. The error says what did not hold.
pub fn run(plan: &Plan, mut progress: impl FnMut(u64)) -> Result<Summary, String> {
    let home = with_agent(&plan.daemon, &plan.agent)?;
    let mut trial = Trial {
        home: &home,
        chance: Chance::new(plan.seed),
        summary: Summary::default(),
        threads: Vec::new(),
    };
    let told =
        |kills: u64, what: String| format!("seed {}, after {kills} kills: {what}", plan.seed);
    let mut daemon = home.start()?;
    while trial.summary.kills < plan.kills {
        let turned = trial.turn(daemon);
        daemon = turned.map_err(|what| told(trial.summary.kills, what))?;
        progress(trial.summary.kills);
    }
    let checked = trial.check(&daemon);
    checked.map_err(|what| told(trial.summary.kills, what))?;
    Ok(trial.summary)
}

/// Makes a home with an agent in its workspace: what lies there is seen in every sandbox.
pub(crate) fn with_agent(daemon: &Path, agent: &Path) -> Result<Home, String> {
    let mut home = Home::new(daemon)?;
    let program = home.workspace().join("agent");
    fs::copy(agent, &program).map_err(|error| error.to_string())?;
    home.configure(&format!(
        "[backends.{BACKEND}]\nkind = 'claude-code'\nhome = 'own'\ncommand = '{}'\narguments = ['{}']\n",
        program.display(),
        self::agent::WORD
    ))?;
    home.arguments = ["--model", "sim"].map(str::to_owned).into();
    Ok(home)
}

/// The home of the agent in threads that nobody else owns.
pub(crate) fn of_agent(home: &Home) -> PathBuf {
    let homes = home.data().join("backends");
    homes.join(BACKEND).join("operator")
}

/// Returns the living processes of an agent, each with the moment of its start.
fn processes(of_agent: &Path) -> Vec<(u32, String)> {
    let marker = format!("HOME={}", of_agent.display());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let of_agent = pids.filter(|pid: &u32| {
        let around = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        around
            .split(|byte| *byte == 0)
            .any(|variable| variable == marker.as_bytes())
    });
    of_agent
        .filter_map(|pid| Some((pid, started_at(pid)?)))
        .collect()
}

struct Trial<'a> {
    home: &'a Home,
    chance: Chance,
    summary: Summary,
    /// The paths of the threads.
    threads: Vec<String>,
}

impl Trial<'_> {
    /// Starts a turn, kills the daemon in it once or twice, and waits for its end.
    fn turn(&mut self, mut daemon: Daemon) -> Result<Daemon, String> {
        if self.summary.turns.is_multiple_of(TURNS_OF_A_THREAD) {
            let thread = daemon.post("/v1/threads", &json!({"backend": BACKEND}))?;
            let id = thread["id"].as_str().ok_or("a thread has no id")?;
            self.threads.push(format!("/v1/threads/{id}"));
        }
        let thread = self.threads.last().cloned().unwrap_or_default();
        self.summary.turns += 1;
        let words = json!({"prompt": format!("words-{:04}", self.summary.turns)});
        let started = daemon.post(&format!("{thread}/turns"), &words)?;
        let turn = started["turn"]["id"].as_str().ok_or("a turn has no id")?;
        // A turn that brings the process down three times in a row is given up.
        let kills = 1 + u64::from(self.chance.below(4) == 0);
        let mut resumed = 0;
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(self.chance.below(LATEST_MS)));
            daemon.kill()?;
            let left = processes(&of_agent(self.home));
            self.summary.left_behind += left.len() as u64;
            daemon = self.home.start()?;
            gone(&left)?;
            let known = resumed;
            resumed = newest(&daemon, &thread)?["resumed_count"]
                .as_u64()
                .unwrap_or(0);
            match resumed > known {
                true => self.summary.kills += 1,
                false => self.summary.late_kills += 1,
            }
        }
        let given_up = Instant::now() + PATIENCE;
        loop {
            let newest = newest(&daemon, &thread)?;
            match newest["status"].as_str() {
                Some("completed") if newest["id"] == turn => return Ok(daemon),
                Some("in_progress") if Instant::now() < given_up => {}
                _ => return Err(format!("{turn} did not complete: {newest:#}")),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Compares what the threads show with what the agent was told.
    fn check(&mut self, daemon: &Daemon) -> Result<(), String> {
        let told = agent::told(&of_agent(self.home))?;
        let mut turns = 0;
        for thread in &self.threads {
            let detail = daemon.get(thread)?;
            let items = detail["items"].as_array().cloned().unwrap_or_default();
            for turn in detail["turns"].as_array().into_iter().flatten() {
                turns += 1;
                let mut of_turn = items.clone();
                of_turn.retain(|item| item["turn_id"] == turn["id"]);
                let again = check_turn(turn, &of_turn, &told);
                let again = again.map_err(|what| format!("{what}: {of_turn:#?}"))?;
                self.summary.told_again += again;
            }
        }
        match turns == self.summary.turns {
            true => Ok(()),
            false => Err(format!("{turns} turns are left of {}", self.summary.turns)),
        }
    }
}

fn newest(daemon: &Daemon, thread: &str) -> Result<Value, String> {
    let detail = daemon.get(thread)?;
    let newest = detail["turns"].as_array().and_then(|turns| turns.last());
    newest
        .cloned()
        .ok_or_else(|| format!("{thread} has no turn"))
}

/// Checks one turn, and returns how often its words were told again.
fn check_turn(turn: &Value, items: &[Value], told: &[String]) -> Result<u64, String> {
    let words = turn["input_summary"].as_str().unwrap_or_default();
    let is_answered = items.iter().any(|item| {
        item["kind"] == "agent_message" && item["detail"].to_string().contains("piece 5")
    });
    if !is_answered {
        return Err(format!("{words} has no whole answer"));
    }
    let new_in = told.iter().filter(|prompt| is_new_in(prompt, words));
    let again = match new_in.count() {
        0 => return Err(format!("the agent was never told {words}")),
        times => times as u64 - 1,
    };
    let notices = items.iter().filter(|item| is_notice(item));
    match again > notices.count() as u64 {
        true => Err(format!(
            "{words} was told again {again} times, and fewer notices say so"
        )),
        false => Ok(again),
    }
}

/// Tells whether words are what an agent is told now, and not what it hears of the history.
pub(crate) fn is_new_in(prompt: &str, words: &str) -> bool {
    let new = prompt.rsplit_once(NOW).map_or(prompt, |(_, new)| new);
    new.contains(words)
}

/// Tells whether an item says that an agent is told something again.
pub(crate) fn is_notice(item: &Value) -> bool {
    let said = item["detail"].to_string();
    item["kind"] == "status" && NOTICES.iter().any(|notice| said.contains(notice))
}

/// Waits until processes are gone that a daemon left behind.
fn gone(left: &[(u32, String)]) -> Result<(), String> {
    let given_up = Instant::now() + BURIAL;
    loop {
        let still = |(pid, at): &&(u32, String)| started_at(*pid).as_ref() == Some(at);
        match left.iter().find(still) {
            None => return Ok(()),
            Some(_) if Instant::now() < given_up => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Some((pid, _)) => {
                return Err(format!(
                    "process {pid} of the old daemon's agent is still there"
                ));
            }
        }
    }
}
