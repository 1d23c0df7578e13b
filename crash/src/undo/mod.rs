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

use crate::chance::Chance;
use crate::daemon::{ApiReply, Daemon, Home, home, start};
use drive::{Failed, Turn, Undo, Work};
use model::Model;

/// Undo rounds per thread.
const ROUNDS_OF_A_THREAD: u64 = 5;
/// Files that a command creates; undo restores each in its own step.
const MADE: u64 = 40;
/// File that counts a command's effects, outside the checkpointed files.
const EFFECTS: &str = "effects";

#[derive(Debug, Clone)]
pub struct Plan {
    /// Path of the daemon's program.
    pub daemon: PathBuf,
    /// How often the daemon is killed in the middle of something.
    pub kills: u64,
    /// Seed for the moments.
    pub seed: u64,
}

/// In the middle of what the daemon dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Edit,
    Command,
    Approval,
    Undo,
}

/// Results of the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// How often the daemon was killed in the middle of an edit, a command, an approval, and of going back.
    pub kills: [u64; 4],
    /// How often it was killed when the work had just been done.
    pub late_kills: u64,
    /// How many turns there were.
    pub turns: u64,
    /// Calls with an unknown outcome.
    pub unknown: u64,
    /// How often files and conversation came back.
    pub undone: u64,
    /// How often an undo was refused because the user had changed a file.
    pub refused: u64,
    /// How often it was refused first because a call was cut off.
    pub cut_off: u64,
}

impl Summary {
    /// Returns how often the daemon was killed in the middle of something.
    #[must_use]
    pub fn all_kills(&self) -> u64 {
        self.kills.iter().sum()
    }
}

/// Runs a plan. The error names the violated invariant.
pub fn run(plan: &Plan, mut progress: impl FnMut(u64)) -> Result<Summary, String> {
    let model = Model::start()?;
    let mut home = home(&plan.daemon)?;
    home.variables = vec![
        ("ANTHROPIC_API_KEY".to_owned(), "none".to_owned()),
        ("ANTHROPIC_BASE_URL".to_owned(), model.url()),
    ];
    let mut trial = Trial {
        home: &home,
        chance: Chance::new(plan.seed),
        summary: Summary::default(),
        lengths: [Duration::from_millis(200); 4],
        requests: 0,
    };
    let mut daemon = start(&home)?;
    while trial.summary.all_kills() < plan.kills {
        let talked = trial.talk(daemon, plan.kills);
        daemon = talked.map_err(|what| {
            let kills = trial.summary.all_kills();
            format!("seed {}, after {kills} kills: {what}", plan.seed)
        })?;
        progress(trial.summary.all_kills());
    }
    Ok(trial.summary)
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

struct Trial<'a> {
    home: &'a Home,
    chance: Chance,
    summary: Summary,
    /// How long each kind of work took the last time that it was left alone.
    lengths: [Duration; 4],
    /// Gives each request and each call its name.
    requests: u64,
}

/// A turn that ended.
struct Ended {
    /// The files before it.
    before: Files,
    is_unknown: bool,
}

impl Trial<'_> {
    /// Begins a thread, and goes forth and back in it.
    fn talk(&mut self, mut daemon: Daemon, kills: u64) -> Result<Daemon, String> {
        self.furnish().map_err(|error| error.to_string())?;
        let thread = daemon.client.try_post("/v1/threads", &json!({}))?;
        let mut thread = path_of(&thread)?;
        let mut turns = Vec::new();
        for _ in 0..ROUNDS_OF_A_THREAD {
            for phase in [Phase::Edit, Phase::Command, Phase::Approval] {
                let (next, ended) = self.turn(daemon, &thread, phase)?;
                daemon = next;
                turns.push(ended);
            }
            (daemon, thread) = self.go_back(daemon, &thread, &mut turns)?;
            if self.summary.all_kills() >= kills {
                break;
            }
        }
        Ok(daemon)
    }

    /// Puts files of people into the workspace.
    fn furnish(&self) -> std::io::Result<()> {
        let at = self.home.workspace.clone();
        fs::create_dir_all(at.join(EFFECTS))?;
        fs::write(at.join(".gitignore"), format!("/{EFFECTS}/\n"))?;
        fs::write(
            at.join("notes"),
            format!("at first\n{}", "a line\n".repeat(9_000)),
        )?;
        fs::write(at.join("theirs"), "nobody's business\n")
    }

    fn files(&self) -> Result<Files, String> {
        let mut files = Files::new();
        read_below(&self.home.workspace, Path::new(""), &mut files)
            .map_err(|error| error.to_string())?;
        Ok(files)
    }

    fn new_name(&mut self) -> String {
        self.requests += 1;
        format!("name-{:05}", self.requests)
    }

    /// Drives a client's request to its end while the daemon is killed up to twice. Returns the response.
    fn carry(
        &mut self,
        mut daemon: Daemon,
        phase: Phase,
        work: &Work,
        check: impl Fn(&Daemon) -> Result<(), String>,
    ) -> Result<(Daemon, ApiReply), String> {
        let place = phase as usize;
        // A turn that crashes the process three times in a row fails.
        let kills = [0, 1, 1, 2][self.chance.below(4) as usize];
        for _ in 0..kills {
            let longest = self.lengths[place]
                .as_micros()
                .try_into()
                .unwrap_or(u64::MAX);
            let moment = Duration::from_micros(self.chance.below(longest + longest / 10));
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
                Err(Failed::Lost) => self.summary.kills[place] += 1,
                Err(Failed::Wrong(what)) => return Err(what),
            }
            check(&daemon)?;
        }
        let begun = Instant::now();
        let answer = work.drive(&daemon.client).map_err(|failed| match failed {
            Failed::Wrong(what) => what,
            Failed::Lost => "the daemon is gone".to_owned(),
        })?;
        if kills == 0 {
            self.lengths[place] = begun.elapsed();
        }
        Ok((daemon, answer))
    }

    /// Carries one turn through.
    fn turn(
        &mut self,
        daemon: Daemon,
        thread: &str,
        phase: Phase,
    ) -> Result<(Daemon, Ended), String> {
        let before = self.files()?;
        let name = self.new_name();
        let call = match phase {
            Phase::Edit => edit(&before, &name),
            _ => command(&name),
        };
        let decision = match phase {
            Phase::Approval if self.chance.below(4) == 0 => Some("deny"),
            Phase::Approval => Some("allow"),
            _ => None,
        };
        let work = Work::Turn(Turn {
            thread: thread.to_owned(),
            key: name.clone(),
            call,
            decision,
            thought: Duration::from_millis(self.chance.below(40)),
            approval: OnceLock::new(),
            is_decided: OnceLock::new(),
        });
        let (daemon, ended) = self.carry(daemon, phase, &work, |_| Ok(()))?;
        self.summary.turns += 1;
        let ended = ended.json()?;
        let outcome = outcome(&ended)?;
        let is_unknown = outcome == Outcome::Unknown;
        self.summary.unknown += u64::from(is_unknown);
        let checked = match phase {
            Phase::Edit => self.check_edit(&before, &name, outcome),
            _ => self.check_command(&name, outcome, decision),
        };
        checked.map_err(|what| format!("{name}: {what}: {ended:#}"))?;
        Ok((daemon, Ended { before, is_unknown }))
    }

    /// An edit is there or not, and nothing else is different.
    fn check_edit(&self, before: &Files, name: &str, outcome: Outcome) -> Result<(), String> {
        let mut after = before.clone();
        after.insert("notes".into(), edited(before, name).into_bytes());
        let now = self.files()?;
        let is_edited = now == after;
        match outcome {
            Outcome::Success if is_edited => Ok(()),
            Outcome::Unknown if is_edited || now == *before => Ok(()),
            _ => Err(format!("{outcome:?}, and the file is edited: {is_edited}")),
        }
    }

    /// A command ran at most once, and completed if the thread reports it.
    fn check_command(
        &self,
        name: &str,
        outcome: Outcome,
        decision: Option<&str>,
    ) -> Result<(), String> {
        let at = self.home.workspace.clone();
        let log = fs::read_to_string(at.join(EFFECTS).join("log")).unwrap_or_default();
        let begun = log.lines().filter(|line| *line == name).count();
        let result = fs::read_to_string(at.join("result")).unwrap_or_default();
        let is_done = result.trim_end() == name;
        match (outcome, decision) {
            (Outcome::Success, None | Some("allow")) if begun == 1 && is_done => Ok(()),
            (Outcome::Unknown, None | Some("allow")) if begun <= 1 => Ok(()),
            (Outcome::Failure, Some("deny")) if begun == 0 => Ok(()),
            _ => Err(format!(
                "{outcome:?} of {decision:?}, begun {begun} times, done: {is_done}"
            )),
        }
    }

    /// Goes back some turns, and checks what is there then.
    fn go_back(
        &mut self,
        mut daemon: Daemon,
        thread: &str,
        turns: &mut Vec<Ended>,
    ) -> Result<(Daemon, String), String> {
        let depth = self.chance.below(3.min(turns.len() as u64)) as usize;
        let left = turns.len() - 1 - depth;
        // The user writes a file that no turn changed.
        let theirs = self.home.workspace.join("theirs");
        let note = self.new_name();
        fs::write(&theirs, &note).map_err(|error| error.to_string())?;
        let mut wanted = turns[left].before.clone();
        wanted.insert("theirs".into(), note.into_bytes());
        if self.chance.below(3) == 0 {
            daemon = self.be_refused(daemon, thread, depth, &wanted)?;
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
            return Err(format!("it does not go back: {answer:?}"));
        }
        self.summary.undone += 1;
        same("going back", &self.files()?, &wanted)?;
        let fork = path_of(&answer.json()?["thread"])?;
        let detail = daemon.client.try_get(&fork)?;
        let kept = detail["turns"].as_array().map_or(0, Vec::len);
        if kept != left {
            return Err(format!("{kept} turns are left, and not {left}: {detail:#}"));
        }
        let made = self::threads(&daemon)?;
        let made: Vec<_> = made.difference(&threads).collect();
        if made.len() != 1 {
            return Err(format!("going back made {made:?}"));
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
        before: &Files,
        wanted: &Files,
    ) -> Result<(Daemon, ApiReply), String> {
        let work = Work::Undo(Undo {
            thread: thread.to_owned(),
            key: self.new_name(),
            body: body.clone(),
        });
        let workspace = self.home.workspace.clone();
        self.carry(daemon, Phase::Undo, &work, |daemon| {
            let mut now = Files::new();
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
    fn be_refused(
        &mut self,
        daemon: Daemon,
        thread: &str,
        depth: usize,
        wanted: &Files,
    ) -> Result<Daemon, String> {
        let now = self.files()?;
        let differs = |path: &&str| now.get(Path::new(path)) != wanted.get(Path::new(path));
        let Some(path) = ["notes", "result"].iter().find(|path| differs(path)) else {
            return Ok(daemon);
        };
        let at = self.home.workspace.join(path);
        let foreign = format!("by a person {}", self.new_name());
        fs::write(&at, &foreign).map_err(|error| error.to_string())?;
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
        before: &Files,
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
enum Outcome {
    Success,
    Failure,
    Unknown,
}

/// Finds out what became of the one call of a turn.
fn outcome(turn: &Value) -> Result<Outcome, String> {
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
        (Some("completed"), false) => Ok(Outcome::Success),
        (Some("failed"), true) | (Some("interrupted"), _) => Ok(Outcome::Unknown),
        (Some("failed"), false) => Ok(Outcome::Failure),
        _ => Err(format!("nobody can tell what became of {call:#}")),
    }
}

/// Every turn of a thread's own has one end on record.
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
            "not each turn of {thread} begins and ends once: {ends:?}"
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

fn first_line(files: &Files) -> String {
    let notes = files.get(Path::new("notes")).cloned().unwrap_or_default();
    let notes = String::from_utf8_lossy(&notes);
    notes.lines().next().unwrap_or_default().to_owned()
}

fn edited(files: &Files, name: &str) -> String {
    let notes = files.get(Path::new("notes")).cloned().unwrap_or_default();
    let notes = String::from_utf8_lossy(&notes);
    notes.replacen(&first_line(files), &format!("edited by {name}"), 1)
}

/// A call that changes the first line of a file.
fn edit(files: &Files, name: &str) -> Value {
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

fn read_below(root: &Path, below: &Path, files: &mut Files) -> std::io::Result<()> {
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

fn same(when: &str, now: &Files, wanted: &Files) -> Result<(), String> {
    let all: BTreeSet<_> = now.keys().chain(wanted.keys()).collect();
    let other: Vec<_> = all
        .into_iter()
        .filter(|path| now.get(*path) != wanted.get(*path))
        .collect();
    if other.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "after {when} these are not as they should be: {other:?}"
        ))
    }
}
