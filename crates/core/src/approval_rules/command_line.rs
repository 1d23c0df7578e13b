//! The commands of a command line, as far as they can be told without a shell.

use serde_json::Value;

use super::program::{self, Interpreter};
use super::reader::{self, UNKNOWN, UNKNOWN_IN_WORD};

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
        let starts = match self.is_runner {
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
            true => may_be(first, name),
            false => may_be(bare(first), name),
        };
        if !is_named {
            return false;
        }
        let mut after = after.iter();
        let mut is_open = bare(first).contains(UNKNOWN);
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
                is_open = word.contains(UNKNOWN) && may_be(word, wanted);
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

/// Tells whether a word may be another one, when a shell has put in what only it knows.
fn may_be(word: &str, wanted: &str) -> bool {
    let is_unknown = |letter: char| letter == UNKNOWN || letter == UNKNOWN_IN_WORD;
    let Some(first) = word.find(is_unknown) else {
        return word == wanted;
    };
    let end = match word.contains(UNKNOWN) {
        // It may be several words.
        true => "",
        false => word.rsplit(is_unknown).next().unwrap_or_default(),
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
];
/// Those of them that give their words to a shell.
const LINE_RUNNERS: &[&str] = &["watch", "parallel", "entr", "hyperfine", "script"];
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
            let before = before.take_while(|word| is_keyword(bare(word)) || is_variable(word));
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
            let is_runner = RUNNERS.contains(&bare(name));
            for line in lines_within(&command, is_runner) {
                bytes += line.len();
                if bytes > MOST_BYTES {
                    return None;
                }
                // What was one word for the shell before may be several for this one.
                let line = line.replace(UNKNOWN_IN_WORD, &UNKNOWN.to_string());
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
            "git" => !rest.iter().any(|word| is_git_setting(word)),
            "find" => !rest
                .iter()
                .any(|word| word.starts_with("-exec") || word.starts_with("-ok")),
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

/// Tells whether a word may say what git runs instead of what it is asked for.
fn is_git_setting(word: &str) -> bool {
    let options = ["-c", "--config-env", "--exec-path", "--exec"];
    let is_option = |option: &&str| word == *option || word.starts_with(&format!("{option}="));
    options.iter().any(is_option) || word.to_ascii_lowercase().starts_with("alias.")
}

/// Returns the lines that a command gives to a shell: `bash -lc LINE`, `bash -c -e LINE`, `bash -c -o NAME LINE`, `watch LINE`, `eval LINE`, and what
/// is said to programs that run lines later.
fn lines_within(command: &[String], is_runner: bool) -> Vec<String> {
    let place = command.iter().position(|word| word == "eval");
    let eval = place.filter(|place| is_runner || *place == 0);
    let eval = eval.map(|place| command[place + 1..].join(" "));
    let mut lines: Vec<String> = eval.into_iter().collect();
    let (mut is_line_next, mut has_value) = (false, false);
    let is_told = is_runner
        || command
            .first()
            .is_some_and(|name| program::is_interpreter(name));
    for word in command {
        // What may be the value of an option, or one itself, is looked at too, and the line may still come.
        let is_value = std::mem::replace(&mut has_value, word.ends_with(['o', 'O']));
        match word.starts_with('-') {
            true => is_line_next |= word.contains('c'),
            false => {
                has_value &= word.starts_with('+');
                if is_line_next {
                    is_line_next = is_value || word.starts_with('+');
                    // The name of an interpreter behind an option of some other program, as in `grep -c bash`, is no line.
                    if is_told || !program::is_interpreter(word) {
                        lines.push(word.clone());
                    }
                }
            }
        }
    }
    let name = command.first().map_or("", |name| bare(name));
    let has_space = |word: &&String| word.contains(char::is_whitespace);
    if LINE_RUNNERS.contains(&name) {
        lines.extend(command[1..].iter().filter(has_space).cloned());
    }
    match name {
        "trap" => lines.extend(command.get(1).cloned()),
        "alias" => {
            let values = command[1..].iter().filter_map(|word| word.split_once('='));
            lines.extend(values.map(|(_, value)| value.to_owned()));
        }
        _ => {}
    }
    let behind = |name: &str| {
        let place = command.iter().position(|word| bare(word) == name);
        let place = place.filter(|place| is_runner || *place == 0)?;
        Some(&command[place + 1..])
    };
    lines.extend(behind("env").and_then(split_by_env));
    lines.extend(behind("git").into_iter().flat_map(given_to_git));
    lines
}

/// Returns what `env -S LINE` runs.
fn split_by_env(words: &[String]) -> Option<String> {
    let is_split = |word: &String| {
        word.starts_with("--s")
            || (!word.starts_with("--") && word.starts_with('-') && word.contains('S'))
    };
    let place = words.iter().position(is_split)?;
    let (_, line) = words[place].split_once(['S', '=']).unwrap_or_default();
    Some(format!("{line} {}", words[place + 1..].join(" ")))
}

/// Returns what git is told to run: by an alias, by a setting, or once for each of many things.
fn given_to_git(words: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    let each = ["foreach", "run", "-x", "--exec"];
    let each = words.iter().position(|word| each.contains(&word.as_str()));
    if let Some(each) = each {
        let words = &words[each + 1..];
        lines.push(words.join(" "));
        lines.extend(words.iter().filter(|word| word.contains(' ')).cloned());
    }
    for (place, word) in words.iter().enumerate() {
        let is_setting = place > 0 && words[place - 1] == "-c";
        let key = word.split_once('=').map_or(word.as_str(), |(key, _)| key);
        let is_alias = key.to_ascii_lowercase().starts_with("alias.");
        let value = match word.split_once('=') {
            Some((_, value)) => Some(value),
            None => words.get(place + 1).map(String::as_str),
        };
        match value.map(|value| (value, value.strip_prefix('!'))) {
            Some((_, Some(line))) if is_setting || is_alias => lines.push(line.to_owned()),
            Some((value, None)) if is_alias => lines.push(format!("git {value}")),
            Some((value, None)) if is_setting => lines.push(value.to_owned()),
            _ => {}
        }
        if word.starts_with("--config-env") || word.starts_with("--exec-path=") {
            lines.push(UNKNOWN.to_string());
        }
    }
    lines
}

/// Returns the name of a program without its directory.
pub(super) fn bare(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Tells whether a word is one such as `A=b`, `A+=b` or `A[1]=b`.
pub(super) fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    let name = name.map(|name| name.strip_suffix('+').unwrap_or(name));
    let name = name.and_then(|name| name.split(['[', UNKNOWN_IN_WORD]).next());
    name.is_some_and(|name| name.chars().all(|it| it == '_' || it.is_alphanumeric()))
}
