//! Kills the daemon while a scripted model edits a file, runs a command and asks, and while the changes are undone.
//!
//! A client lets a model make one call in each of three turns: an edit, a command in the sandbox, and a command that needs an approval. Then it
//! undoes some of the turns, with their files. The daemon is killed at a random moment of each. After each restart the client repeats its request.
//! Every turn ends once, no command runs twice, and files and conversation are restored together. Concurrent changes by the user are preserved.

mod drive;
pub(crate) mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::daemon::{ApiReply, Daemon, Home, home, start};
use crate::random::Random;
use drive::{ClientRequest, DriveError, ScriptedTurn, UndoRequest};
use model::ScriptedModel;

/// UndoRequest rounds per thread.
const ROUNDS_PER_THREAD: u64 = 5;
/// FileSnapshot that a command creates; undo restores each in its own step.
const MADE: u64 = 40;
/// File that counts a command's effects, outside the checkpointed files.
const EFFECTS: &str = "effects";

#[derive(Debug, Clone)]
pub struct UndoTrialPlan {
    /// Path of the daemon's program.
    pub daemon: PathBuf,
    /// Number of kills during an operation.
    pub kills: u64,
    /// Seed for the moments.
    pub seed: u64,
}

/// The operation during which the daemon is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Edit,
    Command,
    Approval,
    Undo,
}

/// Results of the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UndoTrialSummary {
    /// Kills during an edit, a command, an approval and an undo.
    pub kills: [u64; 4],
    /// Kills just after the operation had completed.
    pub late_kills: u64,
    /// How many turns there were.
    pub turns: u64,
    /// Calls with an unknown outcome.
    pub unknown: u64,
    /// Number of undos of files and conversation.
    pub undone: u64,
    /// How often an undo was refused because the user had changed a file.
    pub refused: u64,
    /// Number of undos that were refused first because a call was interrupted.
    pub cut_off: u64,
}

impl UndoTrialSummary {
    /// Returns the number of kills during an operation.
    #[must_use]
    pub fn all_kills(&self) -> u64 {
        self.kills.iter().sum()
    }
}

/// Runs a plan. The error names the violated invariant.
pub fn run(
    plan: &UndoTrialPlan,
    mut progress: impl FnMut(u64),
) -> Result<UndoTrialSummary, String> {
    let model = ScriptedModel::start()?;
    let mut home = home(&plan.daemon)?;
    home.variables = vec![
        ("ANTHROPIC_API_KEY".to_owned(), "none".to_owned()),
        ("ANTHROPIC_BASE_URL".to_owned(), model.url()),
    ];
    let mut trial = UndoTrial {
        home: &home,
        random: Random::new(plan.seed),
        summary: UndoTrialSummary::default(),
        lengths: [Duration::from_millis(200); 4],
        requests: 0,
    };
    let mut daemon = start(&home)?;
    while trial.summary.all_kills() < plan.kills {
        let result = trial.run_thread(daemon, plan.kills);
        daemon = result.map_err(|what| {
            let kills = trial.summary.all_kills();
            format!("seed {}, after {kills} kills: {what}", plan.seed)
        })?;
        progress(trial.summary.all_kills());
    }
    Ok(trial.summary)
}

type FileSnapshot = BTreeMap<PathBuf, Vec<u8>>;

struct UndoTrial<'a> {
    home: &'a Home,
    random: Random,
    summary: UndoTrialSummary,
    /// Duration of each kind of operation when it last ran without a kill.
    lengths: [Duration; 4],
    /// Counter for the names of requests and calls.
    requests: u64,
}

/// A turn that ended.
struct UndoableTurn {
    /// The files before it.
    before: FileSnapshot,
    is_unknown: bool,
}

impl UndoTrial<'_> {
    /// Creates a thread, and runs and undoes turns on it.
    fn run_thread(&mut self, mut daemon: Daemon, kills: u64) -> Result<Daemon, String> {
        self.create_files().map_err(|error| error.to_string())?;
        let thread = daemon.client.try_post("/v1/threads", &json!({}))?;
        let mut thread = path_of(&thread)?;
        let mut turns = Vec::new();
        for _ in 0..ROUNDS_PER_THREAD {
            for phase in [Phase::Edit, Phase::Command, Phase::Approval] {
                let (next, ended) = self.turn(daemon, &thread, phase)?;
                daemon = next;
                turns.push(ended);
            }
            (daemon, thread) = self.undo_turns(daemon, &thread, &mut turns)?;
            if self.summary.all_kills() >= kills {
                break;
            }
        }
        Ok(daemon)
    }

    /// Creates the user's files in the workspace.
    fn create_files(&self) -> std::io::Result<()> {
        let at = self.home.workspace.clone();
        fs::create_dir_all(at.join(EFFECTS))?;
        fs::write(at.join(".gitignore"), format!("/{EFFECTS}/\n"))?;
        fs::write(
            at.join("notes"),
            format!("at first\n{}", "a line\n".repeat(9_000)),
        )?;
        fs::write(at.join("theirs"), "the user's text\n")
    }

    fn files(&self) -> Result<FileSnapshot, String> {
        let mut files = FileSnapshot::new();
        read_below(&self.home.workspace, Path::new(""), &mut files)
            .map_err(|error| error.to_string())?;
        Ok(files)
    }

    fn new_name(&mut self) -> String {
        self.requests += 1;
        format!("name-{:05}", self.requests)
    }

    /// Drives a client's request to its end while the daemon is killed up to twice. Returns the response.
    fn drive_with_kills(
        &mut self,
        mut daemon: Daemon,
        phase: Phase,
        work: &ClientRequest,
        check: impl Fn(&Daemon) -> Result<(), String>,
    ) -> Result<(Daemon, ApiReply), String> {
        let index = phase as usize;
        // A turn that crashes the process three times in a row fails.
        let kills = [0, 1, 1, 2][self.random.below(4) as usize];
        for _ in 0..kills {
            let longest = self.lengths[index]
                .as_micros()
                .try_into()
                .unwrap_or(u64::MAX);
            let moment = Duration::from_micros(self.random.below(longest + longest / 10));
            let client = daemon.client.clone();
            let driven = std::thread::scope(|scope| {
                let driving = scope.spawn(move || work.drive(&client));
                std::thread::sleep(moment);
                daemon.kill();
                driving.join().map_err(|_| "the client panicked".to_owned())
            })?;
            daemon = start(self.home)?;
            match driven {
                Ok(_) => self.summary.late_kills += 1,
                Err(DriveError::Lost) => self.summary.kills[index] += 1,
                Err(DriveError::Wrong(what)) => return Err(what),
            }
            check(&daemon)?;
        }
        let begun = Instant::now();
        let answer = work.drive(&daemon.client).map_err(|failed| match failed {
            DriveError::Wrong(what) => what,
            DriveError::Lost => "the daemon is gone".to_owned(),
        })?;
        if kills == 0 {
            self.lengths[index] = begun.elapsed();
        }
        Ok((daemon, answer))
    }

    /// Drives one turn to its end.
    fn turn(
        &mut self,
        daemon: Daemon,
        thread: &str,
        phase: Phase,
    ) -> Result<(Daemon, UndoableTurn), String> {
        let before = self.files()?;
        let name = self.new_name();
        let call = match phase {
            Phase::Edit => edit(&before, &name),
            _ => command(&name),
        };
        let decision = match phase {
            Phase::Approval if self.random.below(4) == 0 => Some("deny"),
            Phase::Approval => Some("allow"),
            _ => None,
        };
        let work = ClientRequest::Turn(ScriptedTurn {
            thread: thread.to_owned(),
            key: name.clone(),
            call,
            decision,
            delay: Duration::from_millis(self.random.below(40)),
            approval: OnceLock::new(),
            is_decided: OnceLock::new(),
        });
        let (daemon, ended) = self.drive_with_kills(daemon, phase, &work, |_| Ok(()))?;
        self.summary.turns += 1;
        let ended = ended.json()?;
        let outcome = outcome(&ended)?;
        let is_unknown = outcome == CallOutcome::Unknown;
        self.summary.unknown += u64::from(is_unknown);
        let checked = match phase {
            Phase::Edit => self.check_edit(&before, &name, outcome),
            _ => self.check_command(&name, outcome, decision),
        };
        checked.map_err(|what| format!("{name}: {what}: {ended:#}"))?;
        Ok((daemon, UndoableTurn { before, is_unknown }))
    }

    /// The edit is either complete or absent, and nothing else has changed.
    fn check_edit(
        &self,
        before: &FileSnapshot,
        name: &str,
        outcome: CallOutcome,
    ) -> Result<(), String> {
        let mut after = before.clone();
        after.insert("notes".into(), edited(before, name).into_bytes());
        let now = self.files()?;
        let is_edited = now == after;
        match outcome {
            CallOutcome::Success if is_edited => Ok(()),
            CallOutcome::Unknown if is_edited || now == *before => Ok(()),
            _ => Err(format!("{outcome:?}, and the file is edited: {is_edited}")),
        }
    }

    /// A command ran at most once, and completed if the thread reports it.
    fn check_command(
        &self,
        name: &str,
        outcome: CallOutcome,
        decision: Option<&str>,
    ) -> Result<(), String> {
        let at = self.home.workspace.clone();
        let log = fs::read_to_string(at.join(EFFECTS).join("log")).unwrap_or_default();
        let begun = log.lines().filter(|line| *line == name).count();
        let result = fs::read_to_string(at.join("result")).unwrap_or_default();
        let is_done = result.trim_end() == name;
        match (outcome, decision) {
            (CallOutcome::Success, None | Some("allow")) if begun == 1 && is_done => Ok(()),
            (CallOutcome::Unknown, None | Some("allow")) if begun <= 1 => Ok(()),
            (CallOutcome::Failure, Some("deny")) if begun == 0 => Ok(()),
            _ => Err(format!(
                "{outcome:?} of {decision:?}, begun {begun} times, done: {is_done}"
            )),
        }
    }

    /// Undoes some turns and checks the result.
    fn undo_turns(
        &mut self,
        mut daemon: Daemon,
        thread: &str,
        turns: &mut Vec<UndoableTurn>,
    ) -> Result<(Daemon, String), String> {
        let depth = self.random.below(3.min(turns.len() as u64)) as usize;
        let left = turns.len() - 1 - depth;
        // The user writes a file that no turn changed.
        let theirs = self.home.workspace.join("theirs");
        let note = self.new_name();
        fs::write(&theirs, &note).map_err(|error| error.to_string())?;
        let mut wanted = turns[left].before.clone();
        wanted.insert("theirs".into(), note.into_bytes());
        if self.random.below(3) == 0 {
            daemon = self.check_undo_of_changed_file(daemon, thread, depth, &wanted)?;
        }
        let now = self.files()?;
        let threads = threads(&daemon)?;
        let mut body = json!({ "depth": depth, "files": true });
        let dropped = turns.drain(left..);
        let may_be_cut_off = dropped.filter(|turn| turn.is_unknown).count() > 0;
        let (next, mut answer) = self.undo(daemon, thread, &body, &threads, &now, &wanted)?;
        daemon = next;
        if answer.status == 409 && may_be_cut_off {
            self.summary.cut_off += 1;
            self.check_refused(&daemon, &answer, &threads, &now)?;
            body["cut_off"] = true.into();
            (daemon, answer) = self.undo(daemon, thread, &body, &threads, &now, &wanted)?;
        }
        if answer.status != 201 {
            return Err(format!("the undo failed: {answer:?}"));
        }
        self.summary.undone += 1;
        same("the undo", &self.files()?, &wanted)?;
        let fork = path_of(&answer.json()?["thread"])?;
        let detail = daemon.client.try_get(&fork)?;
        let remaining = detail["turns"].as_array().map_or(0, Vec::len);
        if remaining != left {
            return Err(format!(
                "{remaining} turns are left instead of {left}: {detail:#}"
            ));
        }
        let made = self::threads(&daemon)?;
        let made: Vec<_> = made.difference(&threads).collect();
        if made.len() != 1 {
            return Err(format!("the undo created {made:?}"));
        }
        ends_once(&daemon, thread)?;
        Ok((daemon, fork))
    }

    /// Requests the undo while the daemon is killed. After each restart either nothing has changed or all files are restored, consistent with the
    /// conversation.
    fn undo(
        &mut self,
        daemon: Daemon,
        thread: &str,
        body: &Value,
        threads: &BTreeSet<String>,
        before: &FileSnapshot,
        wanted: &FileSnapshot,
    ) -> Result<(Daemon, ApiReply), String> {
        let work = ClientRequest::Undo(UndoRequest {
            thread: thread.to_owned(),
            key: self.new_name(),
            body: body.clone(),
        });
        let workspace = self.home.workspace.clone();
        self.drive_with_kills(daemon, Phase::Undo, &work, |daemon| {
            let mut now = FileSnapshot::new();
            read_below(&workspace, Path::new(""), &mut now).map_err(|error| error.to_string())?;
            let is_made = self::threads(daemon)?.len() > threads.len();
            match (now == *wanted, now == *before) {
                (true, _) => Ok(()),
                (false, true) if !is_made => Ok(()),
                _ => {
                    let what = same("a restart", &now, wanted).err();
                    Err(format!(
                        "{}; a thread is made: {is_made}",
                        what.unwrap_or_default()
                    ))
                }
            }
        })
    }

    /// The user changed a file that a turn had changed: the undo changes nothing.
    fn check_undo_of_changed_file(
        &mut self,
        daemon: Daemon,
        thread: &str,
        depth: usize,
        wanted: &FileSnapshot,
    ) -> Result<Daemon, String> {
        let now = self.files()?;
        let differs = |path: &&str| now.get(Path::new(path)) != wanted.get(Path::new(path));
        let Some(path) = ["notes", "result"].iter().find(|path| differs(path)) else {
            return Ok(daemon);
        };
        let at = self.home.workspace.join(path);
        let content = format!("by the user {}", self.new_name());
        fs::write(&at, &content).map_err(|error| error.to_string())?;
        let (before, threads) = (self.files()?, threads(&daemon)?);
        for cut_off in [false, true] {
            let body = json!({ "depth": depth, "files": true, "cut_off": cut_off });
            let path = format!("{thread}/undo");
            let answer = daemon
                .client
                .exchange("POST", &path, &[], &body.to_string())?;
            self.check_refused(&daemon, &answer, &threads, &before)?;
        }
        self.summary.refused += 1;
        match now.get(Path::new(path)) {
            Some(content) => fs::write(&at, content),
            None => fs::remove_file(&at),
        }
        .map_err(|error| error.to_string())?;
        Ok(daemon)
    }

    fn check_refused(
        &self,
        daemon: &Daemon,
        answer: &ApiReply,
        threads: &BTreeSet<String>,
        before: &FileSnapshot,
    ) -> Result<(), String> {
        let code = answer.json()?["error"]["code"].clone();
        if answer.status != 409 || code != "files_changed" {
            return Err(format!("it is not refused: {answer:?}"));
        }
        same("a refusal", &self.files()?, before)?;
        if self::threads(daemon)? == *threads {
            Ok(())
        } else {
            Err("a refusal made a thread".to_owned())
        }
    }
}

/// The recorded outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallOutcome {
    Success,
    Failure,
    Unknown,
}

/// Returns the outcome of the only call of a turn.
fn outcome(turn: &Value) -> Result<CallOutcome, String> {
    let items = turn["items"].as_array().cloned().unwrap_or_default();
    let is_call = |item: &&Value| {
        let kind = item["kind"].as_str().unwrap_or_default();
        ["tool_call", "command_execution", "file_change"].contains(&kind)
    };
    let calls: Vec<_> = items.iter().filter(is_call).collect();
    let [call] = calls[..] else {
        return Err(format!("a turn has not one call: {turn:#}"));
    };
    if turn["status"] != "completed" {
        return Err(format!("a turn did not complete: {turn:#}"));
    }
    match (
        call["status"].as_str(),
        call.to_string().contains("unknown"),
    ) {
        (Some("completed"), false) => Ok(CallOutcome::Success),
        (Some("failed"), true) | (Some("interrupted"), _) => Ok(CallOutcome::Unknown),
        (Some("failed"), false) => Ok(CallOutcome::Failure),
        _ => Err(format!("the outcome of {call:#} is unclear")),
    }
}

/// Every turn of the thread has one recorded end.
fn ends_once(daemon: &Daemon, thread: &str) -> Result<(), String> {
    let export = daemon.client.ask("GET", &format!("{thread}/export"), "")?;
    let mut ends: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in export.body.lines() {
        let event: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let turn = event["turn_id"].as_str().unwrap_or_default();
        match event["event"].as_str() {
            Some("turn.started") => ends.entry(turn.to_owned()).or_default().0 += 1,
            Some("turn.completed") => ends.entry(turn.to_owned()).or_default().1 += 1,
            _ => {}
        }
    }
    if ends.values().all(|counts| *counts == (1, 1)) && !ends.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "not every turn of {thread} starts and ends once: {ends:?}"
        ))
    }
}

fn threads(daemon: &Daemon) -> Result<BTreeSet<String>, String> {
    let listed = daemon.client.try_get("/v1/threads?limit=500")?;
    let ids = listed.as_array().into_iter().flatten();
    Ok(ids.map(|thread| thread["id"].to_string()).collect())
}

fn path_of(thread: &Value) -> Result<String, String> {
    let id = thread["id"].as_str().ok_or("a thread has no id")?;
    Ok(format!("/v1/threads/{id}"))
}

fn first_line(files: &FileSnapshot) -> String {
    let notes = files.get(Path::new("notes")).cloned().unwrap_or_default();
    let notes = String::from_utf8_lossy(&notes);
    notes.lines().next().unwrap_or_default().to_owned()
}

fn edited(files: &FileSnapshot, name: &str) -> String {
    let notes = files.get(Path::new("notes")).cloned().unwrap_or_default();
    let notes = String::from_utf8_lossy(&notes);
    notes.replacen(&first_line(files), &format!("edited by {name}"), 1)
}

/// A call that changes the first line of a file.
fn edit(files: &FileSnapshot, name: &str) -> Value {
    json!({ "name": "edit", "arguments": {
        "path": "notes", "old_string": first_line(files), "new_string": format!("edited by {name}"),
    }})
}

/// A call that creates, changes and removes files, and logs its run outside them.
fn command(name: &str) -> Value {
    let line = format!(
        "echo {name} >> {EFFECTS}/log; mkdir -p made; rm -f made/*-old; for i in $(seq {MADE}); do echo {name} > made/$i; done; \
         sleep 0.03; chmod +x made/1; echo {name} > made/{name}-old; echo {name} > result"
    );
    json!({ "name": "shell", "arguments": { "command": line } })
}

fn read_below(root: &Path, below: &Path, files: &mut FileSnapshot) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true if path == Path::new(EFFECTS) => {}
            true => {
                files.insert(path.join(""), Vec::new());
                read_below(root, &path, files)?;
            }
            false => {
                files.insert(path, fs::read(entry.path())?);
            }
        }
    }
    Ok(())
}

fn same(when: &str, now: &FileSnapshot, wanted: &FileSnapshot) -> Result<(), String> {
    let all: BTreeSet<_> = now.keys().chain(wanted.keys()).collect();
    let other: Vec<_> = all
        .into_iter()
        .filter(|path| now.get(*path) != wanted.get(*path))
        .collect();
    if other.is_empty() {
        Ok(())
    } else {
        Err(format!("after {when} these files are wrong: {other:?}"))
    }
}
