//! Kills the daemon while an external agent executes a turn.
//!
//! A client starts one turn after another on a thread of an [`agent`] that stores its sessions on disk. The daemon is killed at a random moment of
//! each turn, sometimes twice. After each restart no process of the old tree remains, and the turn completes. The agent received each prompt, and
//! none twice unless the thread has a notice about it.

pub mod agent;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::daemon::{Daemon, Home, configure, home, start, started_at};
use crate::random::Random;

pub(crate) const BACKEND: &str = "killed";
/// The latest moment of a turn at which the daemon is killed; about the duration of a turn.
const MAX_DELAY_MS: u64 = 450;
/// A turn that takes longer is stuck, which is a failure.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for ended processes to disappear.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Turns per thread. The limit matters because a lost session makes Windlass send the whole history again.
const TURNS_PER_THREAD: u64 = 10;
/// Start of the line that precedes the new input if the agent also receives the history.
const NOW: &str = "This is the new input:";
/// The thread's notices about a prompt that is sent again.
const NOTICES: [&str; 2] = [
    "the prompt is sent again",
    "starts again with the conversation",
];

#[derive(Debug, Clone)]
pub struct BackendTrialPlan {
    /// Path of the daemon's program.
    pub daemon: PathBuf,
    /// The program that acts as the agent if its argument is [`agent::ARGUMENT`].
    pub agent: PathBuf,
    /// How often the daemon is killed during a turn.
    pub kills: u64,
    /// Seed for the moments.
    pub seed: u64,
}

/// Results of the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackendTrialSummary {
    /// How often the daemon was killed during a turn that then resumed.
    pub kills: u64,
    /// How often it was killed just after the turn had ended.
    pub late_kills: u64,
    /// Number of turns.
    pub turns: u64,
    /// Agent processes that outlived a daemon until the next one ended them.
    pub left_behind: u64,
    /// Prompts sent again with a notice.
    pub repeated_prompts: u64,
}

/// Runs a plan. The error names the violated invariant.
pub fn run(
    plan: &BackendTrialPlan,
    mut progress: impl FnMut(u64),
) -> Result<BackendTrialSummary, String> {
    let home = with_agent(&plan.daemon, &plan.agent)?;
    let mut trial = BackendTrial {
        home: &home,
        random: Random::new(plan.seed),
        summary: BackendTrialSummary::default(),
        threads: Vec::new(),
    };
    let context =
        |kills: u64, what: String| format!("seed {}, after {kills} kills: {what}", plan.seed);
    let mut daemon = start(&home)?;
    while trial.summary.kills < plan.kills {
        let turned = trial.turn(daemon);
        daemon = turned.map_err(|what| context(trial.summary.kills, what))?;
        progress(trial.summary.kills);
    }
    let checked = trial.check(&daemon);
    checked.map_err(|what| context(trial.summary.kills, what))?;
    Ok(trial.summary)
}

/// Creates a home with an agent in its workspace, which is visible in every sandbox.
pub(crate) fn with_agent(daemon: &Path, agent: &Path) -> Result<Home, String> {
    let mut home = home(daemon)?;
    let program = home.workspace.join("agent");
    fs::copy(agent, &program).map_err(|error| error.to_string())?;
    configure(
        &home,
        &format!(
            "[backends.{BACKEND}]\nkind = 'claude-code'\nhome = 'own'\ncommand = '{}'\narguments = ['{}']\n",
            program.display(),
            self::agent::ARGUMENT
        ),
    )?;
    home.arguments = ["--model", "sim"].map(str::to_owned).into();
    Ok(home)
}

/// The agent's home for threads of the operator.
pub(crate) fn agent_home(home: &Home) -> PathBuf {
    let homes = home.data().join("backends");
    homes.join(BACKEND).join("operator")
}

/// Returns the live processes of an agent with their start times.
fn processes(agent_home: &Path) -> Vec<(u32, String)> {
    let marker = format!("HOME={}", agent_home.display());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let agent_home = pids.filter(|pid: &u32| {
        let around = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        around
            .split(|byte| *byte == 0)
            .any(|variable| variable == marker.as_bytes())
    });
    agent_home
        .filter_map(|pid| Some((pid, started_at(pid)?)))
        .collect()
}

struct BackendTrial<'a> {
    home: &'a Home,
    random: Random,
    summary: BackendTrialSummary,
    /// The paths of the threads.
    threads: Vec<String>,
}

impl BackendTrial<'_> {
    /// Starts a turn, kills the daemon once or twice during it, and waits for its end.
    fn turn(&mut self, mut daemon: Daemon) -> Result<Daemon, String> {
        if self.summary.turns.is_multiple_of(TURNS_PER_THREAD) {
            let thread = daemon
                .client
                .try_post("/v1/threads", &json!({"backend": BACKEND}))?;
            let id = thread["id"].as_str().ok_or("a thread has no id")?;
            self.threads.push(format!("/v1/threads/{id}"));
        }
        let thread = self.threads.last().cloned().unwrap_or_default();
        self.summary.turns += 1;
        let words = json!({"prompt": format!("words-{:04}", self.summary.turns)});
        let started = daemon.client.try_post(&format!("{thread}/turns"), &words)?;
        let turn = started["turn"]["id"].as_str().ok_or("a turn has no id")?;
        // A turn that crashes the process three times in a row fails.
        let kills = 1 + u64::from(self.random.below(4) == 0);
        let mut resumed = 0;
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(self.random.below(MAX_DELAY_MS)));
            daemon.kill();
            let left = processes(&agent_home(self.home));
            self.summary.left_behind += left.len() as u64;
            daemon = start(self.home)?;
            wait_until_gone(&left)?;
            let known = resumed;
            resumed = newest(&daemon, &thread)?["resumed_count"]
                .as_u64()
                .unwrap_or(0);
            if resumed > known {
                self.summary.kills += 1
            } else {
                self.summary.late_kills += 1
            }
        }
        let given_up = Instant::now() + TURN_TIMEOUT;
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

    /// Compares the threads with the prompts that the agent received.
    fn check(&mut self, daemon: &Daemon) -> Result<(), String> {
        let received = agent::received(&agent_home(self.home))?;
        let mut turns = 0;
        for thread in &self.threads {
            let detail = daemon.client.try_get(thread)?;
            let items = detail["items"].as_array().cloned().unwrap_or_default();
            for turn in detail["turns"].as_array().into_iter().flatten() {
                turns += 1;
                let mut of_turn = items.clone();
                of_turn.retain(|item| item["turn_id"] == turn["id"]);
                let again = check_turn(turn, &of_turn, &received);
                let again = again.map_err(|what| format!("{what}: {of_turn:#?}"))?;
                self.summary.repeated_prompts += again;
            }
        }
        if turns == self.summary.turns {
            Ok(())
        } else {
            Err(format!("{turns} turns are left of {}", self.summary.turns))
        }
    }
}

fn newest(daemon: &Daemon, thread: &str) -> Result<Value, String> {
    let detail = daemon.client.try_get(thread)?;
    let newest = detail["turns"].as_array().and_then(|turns| turns.last());
    newest
        .cloned()
        .ok_or_else(|| format!("{thread} has no turn"))
}

/// Checks one turn, and returns how often its prompt was sent again.
fn check_turn(turn: &Value, items: &[Value], received: &[String]) -> Result<u64, String> {
    let words = turn["input_summary"].as_str().unwrap_or_default();
    let is_answered = items.iter().any(|item| {
        item["kind"] == "agent_message" && item["detail"].to_string().contains("piece 5")
    });
    if !is_answered {
        return Err(format!("{words} has no complete answer"));
    }
    let new_in = received.iter().filter(|prompt| is_new_in(prompt, words));
    let again = match new_in.count() {
        0 => return Err(format!("the agent never received {words}")),
        times => times as u64 - 1,
    };
    let notices = items.iter().filter(|item| is_notice(item));
    if again > notices.count() as u64 {
        Err(format!(
            "{words} was sent again {again} times, with fewer notices"
        ))
    } else {
        Ok(again)
    }
}

/// Returns whether a text is the prompt's new input and not part of the repeated history.
pub(crate) fn is_new_in(prompt: &str, words: &str) -> bool {
    let new = prompt.rsplit_once(NOW).map_or(prompt, |(_, new)| new);
    new.contains(words)
}

/// Returns whether an item is a notice about a repeated prompt.
pub(crate) fn is_notice(item: &Value) -> bool {
    let text = item["detail"].to_string();
    item["kind"] == "status" && NOTICES.iter().any(|notice| text.contains(notice))
}

/// Waits until the processes that a daemon left running are gone.
fn wait_until_gone(left: &[(u32, String)]) -> Result<(), String> {
    let given_up = Instant::now() + EXIT_TIMEOUT;
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
