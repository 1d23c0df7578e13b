//! The commands of a command line, as far as they can be told without a shell.

use serde_json::Value;

use super::given::{is_told_to_run, lines_within};
use super::path;
use super::program::{self, Interpreter};
use super::reader::{self, GLOB, UNKNOWN, UNKNOWN_IN_WORD};

/// The commands of a line, each by its words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) commands: Vec<Vec<String>>,
    /// What commands of the line are given to read.
    texts: Vec<String>,
    /// Whether nothing was met whose meaning only a shell knows.
    pub(super) is_understood: bool,
    /// Whether there was too much to look through.
    is_too_much: bool,
}

/// A command that a line may come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Within {
    words: Vec<String>,
    /// Whether its first word runs another command, of which nobody knows where among its words it begins.
    is_runner: bool,
}

impl Within {
    /// Tells whether it may be what a rule names, in whatever directory its program lies and whatever options stand between the words.
    pub(super) fn is(&self, named: &[String]) -> bool {
        let Some((name, rest)) = named.split_first() else {
            return false;
        };
        // What is named as a file may be given to a shell.
        let first = self.words.first().map_or("", String::as_str);
        let is_script = name.contains('/')
            && (program::is_interpreter(first) || matches!(first, "." | "source"));
        let starts = match self.is_runner || is_script {
            false => 0..self.words.len().min(1),
            true => 0..self.words.len(),
        };
        let is = |from: usize| self.begins(&self.words[from..], name, rest);
        let is_given = |from: usize| program::is_given(&self.words[from..], named);
        starts.clone().any(is) || { starts }.any(is_given)
    }

    fn begins(&self, words: &[String], name: &str, rest: &[String]) -> bool {
        let Some((first, after)) = words.split_first() else {
            return false;
        };
        let is_named = match name.contains('/') {
            true => may_be_file(first, name),
            false => may_be(bare(first), name),
        };
        if !is_named {
            return false;
        }
        let mut after = after.iter();
        let mut is_open = bare(first).contains([UNKNOWN, GLOB]);
        let mut skipped = 0;
        for wanted in rest {
            let mut may_be_value = false;
            loop {
                if is_open || skipped > MOST_SKIPPED {
                    return true;
                }
                let Some(word) = after.next() else {
                    // What such programs read from others stands behind their words.
                    return self
                        .words
                        .first()
                        .is_some_and(|it| ADDERS.contains(&bare(it)));
                };
                is_open = word.contains([UNKNOWN, GLOB]) && may_be(word, wanted);
                if may_be(word, wanted) {
                    break;
                }
                let is_option = word.starts_with('-');
                if !is_option && !may_be_value {
                    return false;
                }
                may_be_value = is_option;
                skipped += 1;
            }
        }
        true
    }
}

/// Tells whether a program that is named as a file may be another one: where one of them is not absolute, it depends on where it is started.
fn may_be_file(word: &str, wanted: &str) -> bool {
    match word.starts_with('/') && wanted.starts_with('/') && !word.contains("/../") {
        true => may_be(&path::normal(word), &path::normal(wanted)),
        false => may_be(bare(word), bare(wanted)),
    }
}

/// Tells whether a word may be another one, when a shell has put in what only it knows.
pub(super) fn may_be(word: &str, wanted: &str) -> bool {
    let word = word.strip_suffix('\r').unwrap_or(word);
    let is_unknown = |letter: char| matches!(letter, UNKNOWN | UNKNOWN_IN_WORD | GLOB);
    let Some(first) = word.find(is_unknown) else {
        return word == wanted;
    };
    let has_glob = word.contains(GLOB);
    let end = match word.contains(UNKNOWN) || word.contains("\u{2}[") || word.contains("\u{2}(") {
        // It may be several words, or nobody knows where it ends.
        true => "",
        false => {
            let end = word.rsplit(is_unknown).next().unwrap_or_default();
            end.strip_prefix(['*', '?'])
                .filter(|_| has_glob)
                .unwrap_or(end)
        }
    };
    let known = first + end.len();
    known <= wanted.len() && wanted.starts_with(&word[..first]) && wanted.ends_with(end)
}

/// Words of a shell behind which a command begins.
const KEYWORDS: &[&str] = &["if", "then", "elif", "else", "while", "until", "do"];

pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Programs that run another one, which stands somewhere among their words.
const RUNNERS: &[&str] = &[
    "time",
    "command",
    "builtin",
    "exec",
    "env",
    "nohup",
    "nice",
    "sudo",
    "doas",
    "xargs",
    "coproc",
    "timeout",
    "setsid",
    "stdbuf",
    "ionice",
    "chrt",
    "busybox",
    "find",
    "watch",
    "flock",
    "strace",
    "ltrace",
    "chroot",
    "parallel",
    "unshare",
    "nsenter",
    "taskset",
    "prlimit",
    "runuser",
    "systemd-run",
    "su",
    "runcon",
    "setpriv",
    "pkexec",
    "script",
    "unbuffer",
    "fakeroot",
    "bwrap",
    "firejail",
    "entr",
    "hyperfine",
    "valgrind",
    "direnv",
    "uv",
    "poetry",
    "pipenv",
    "npx",
    "setarch",
    "linux32",
    "linux64",
    "i386",
    "x86_64",
    "numactl",
    "eatmydata",
    "dbus-run-session",
    "xvfb-run",
    "rlwrap",
    "chronic",
    "sg",
    "cgexec",
    "perf",
];

/// Tells whether a program runs another one; what loads programs does so too, and what has a name that only a shell knows may.
fn is_runner(name: &str) -> bool {
    let name = bare(name);
    let is_loader =
        name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld.so");
    RUNNERS.contains(&name) || is_loader || has_unknown(name)
}

/// Tells whether a word has something in it that only a shell knows.
pub(super) fn has_unknown(word: &str) -> bool {
    word.contains([UNKNOWN, UNKNOWN_IN_WORD, GLOB])
}
/// Those that add words of their own behind those of the command.
const ADDERS: &[&str] = &["xargs", "parallel", "find"];
/// How many commands are looked for in one line, how many words are looked at, and how many bytes of lines within lines are read.
const MOST: usize = 1_000;
const MOST_WORDS: usize = 20_000;
/// How many options and their values may stand between the words that a rule names; behind more of them, anything may stand.
const MOST_SKIPPED: usize = 50;
const MOST_BYTES: usize = 1024 * 1024;

impl CommandLine {
    /// Reads what a call says of its command: a line, or a list of words, which no shell reads.
    pub(super) fn of_argument(argument: &Value) -> Self {
        match argument {
            Value::String(line) => Self::parse_loosely(line),
            Value::Array(words) => {
                let texts = words.iter().filter_map(Value::as_str).map(str::to_owned);
                let texts: Vec<_> = texts.collect();
                Self {
                    is_understood: texts.len() == words.len(),
                    commands: vec![texts],
                    ..Self::default()
                }
            }
            _ => Self::default(),
        }
    }

    /// Returns every command that the line may come to, for rules that keep something from running: without words before it, and those inside of
    /// what another shell is given. `None` where that cannot be told: it is too much to look at, or a shell reads what it runs from elsewhere.
    pub(super) fn all_within(&self) -> Option<Vec<Within>> {
        let mut found = Vec::new();
        let mut open = self.commands.clone();
        let mut texts = self.texts.clone();
        let (mut words, mut bytes) = (0, 0);
        let mut is_lost = self.is_too_much;
        while let Some(mut command) = open.pop() {
            words += command.len();
            if is_lost || found.len() >= MOST || words > MOST_WORDS {
                return None;
            }
            let before = command.iter();
            let before = before
                .take_while(|word| is_keyword(bare(word)) || is_variable(word) || *word == "!");
            let before = before.count();
            if before > 0 {
                found.push(Within {
                    words: command.clone(),
                    is_runner: false,
                });
                command.drain(..before);
            }
            let Some(name) = command.first() else {
                continue;
            };
            let is_runner = is_runner(name);
            for line in lines_within(&command, is_runner) {
                bytes += line.len();
                if bytes > MOST_BYTES {
                    return None;
                }
                // What was one word for the shell before may be several for this one.
                let line = line.replace([UNKNOWN_IN_WORD, GLOB], &UNKNOWN.to_string());
                let mut read = Self::parse_loosely(&line);
                is_lost |= read.is_too_much;
                open.append(&mut read.commands);
                texts.append(&mut read.texts);
            }
            found.push(Within {
                words: command,
                is_runner,
            });
        }
        for command in &mut found {
            let programs = match command.is_runner {
                false => 0..command.words.len().min(1),
                true => 0..command.words.len(),
            };
            let reader = programs.into_iter();
            let mut reader = reader.filter_map(|from| program::reads(&command.words[from..]));
            match reader.next() {
                // What it reads stands in the line, and can be looked through.
                Some(Interpreter::Other) if !texts.is_empty() => {
                    command.words.extend(texts.iter().cloned());
                }
                Some(_) => return None,
                None => {}
            }
        }
        Some(found).filter(|_| !is_lost)
    }

    /// Reads a line in which everything is understood.
    pub(super) fn parse(line: &str) -> Option<Self> {
        Some(Self::parse_loosely(line)).filter(|line| line.is_understood)
    }

    /// Reads a line as far as that goes. What begins a command of its own, such as a substitution, is read as one too.
    pub(super) fn parse_loosely(line: &str) -> Self {
        let read = reader::read(line);
        Self {
            commands: read.commands,
            texts: read.texts,
            is_understood: !read.is_odd && !read.is_too_much,
            is_too_much: read.is_too_much,
        }
    }

    /// Tells whether commands of the line run in another directory than the first.
    pub(super) fn changes_directory(&self) -> bool {
        let name = |command: &Vec<String>| command.first().cloned().unwrap_or_default();
        let mut names = self.commands.iter().map(name);
        names.any(|name| matches!(name.as_str(), "cd" | "pushd" | "popd"))
    }

    /// Tells whether words name a script by a relative path, as `./build.sh` and `sh build.sh` do.
    pub(super) fn names_script(words: &[String]) -> bool {
        let is_relative = |word: &String| !word.starts_with(['-', '/']);
        let of_script = words
            .iter()
            .position(|it| program::is_interpreter(it) || it == "source" || it == ".");
        let behind = of_script.map_or(&[][..], |place| &words[place + 1..]);
        let is_path = |word: &String| is_relative(word) && word.contains('/');
        behind.iter().any(is_relative) || words.iter().any(is_path)
    }

    /// Tells whether a rule that allows means a command: it begins with the words of the rule, and these say which program it comes to.
    pub(super) fn is_allowed(command: &[String], words: &[String]) -> bool {
        if words.is_empty() || !command.starts_with(words) {
            return false;
        }
        let rest = &command[words.len()..];
        let is_plain = |word: &String| {
            let is_number = word.starts_with(|it: char| it.is_ascii_digit());
            !word.starts_with('-') && !is_variable(word) && !is_number
        };
        match bare(&words[0]) {
            "find" => !rest
                .iter()
                .any(|word| word.starts_with("-exec") || word.starts_with("-ok")),
            name if is_told_to_run(name, command, words.len()) => false,
            name if RUNNERS.contains(&name) => {
                let runs_more =
                    |word: &String| RUNNERS.contains(&bare(word)) || program::is_interpreter(word);
                let is_program = |word: &String| is_plain(word) && !RUNNERS.contains(&bare(word));
                let is_named = words[1..].iter().any(is_program);
                rest.is_empty() || (is_named && !rest.iter().any(runs_more))
            }
            _ => true,
        }
    }
}

/// Returns the name of a program without its directory.
pub(super) fn bare(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Tells whether a word is one such as `A=b`, `A+=b` or `A[1]=b`.
pub(super) fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    let name = name.map(|name| name.strip_suffix('+').unwrap_or(name));
    let name = name.and_then(|name| name.split(['[', UNKNOWN_IN_WORD, GLOB]).next());
    name.is_some_and(|name| name.chars().all(|it| it == '_' || it.is_alphanumeric()))
}
