//! What git is told to run instead of what it is asked for.

use super::given::{has_letter, is_option};
use super::reader::UNKNOWN;

/// Options that name a program, or a file that git obeys.
const PROGRAMS: &[&str] = &[
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--extcmd",
    "--open-files-in-pager",
];
const SETTINGS: &[&str] = &[
    "--config",
    "--config-env",
    "--exec-path",
    "--template",
    "--git-dir",
    "--output",
];
/// The same by one letter.
const LETTERS: &[(&str, &str)] = &[
    ("clone", "uc"),
    ("rebase", "x"),
    ("grep", "O"),
    ("difftool", "x"),
    ("archive", "o"),
];
/// Commands of git that run what they are told, or what is set.
const RUNNERS: &[&str] = &[
    "filter-branch",
    "difftool",
    "mergetool",
    "send-email",
    "instaweb",
    "daemon",
    "hook",
    "foreach",
];
/// Words behind which `git config` only tells something.
const TELLING: &[&str] = &[
    "get",
    "list",
    "-l",
    "--list",
    "--get",
    "--get-all",
    "--get-regexp",
    "--get-urlmatch",
];
const WHERE: &[&str] = &[
    "--global",
    "--local",
    "--system",
    "--worktree",
    "--show-origin",
    "--show-scope",
];

/// Tells whether a command of git has something behind its first words, which a rule that allows names, that makes it run another program.
pub(super) fn is_told_to_run(command: &[String], named: usize) -> bool {
    let rest = command.get(named..).unwrap_or_default();
    let has = |wanted: &str| command.iter().any(|word| word == wanted);
    let is_letter = |word: &str| {
        LETTERS
            .iter()
            .any(|(of, it)| has(of) && has_letter(word, it))
    };
    let is_told = |word: &String| {
        word == "-c"
            || is_option(word, PROGRAMS)
            || is_option(word, SETTINGS)
            || is_letter(word)
            || RUNNERS.contains(&word.as_str())
            || (word == "run" && has("bisect"))
            || word.contains("ext::")
            || word.to_ascii_lowercase().starts_with("alias.")
    };
    rest.iter().any(is_told) || is_setting(command, named)
}

/// Tells whether `git config` changes something that the rule does not name.
fn is_setting(command: &[String], named: usize) -> bool {
    let Some(place) = command.iter().position(|word| word == "config") else {
        return false;
    };
    let words = &command[place + 1..];
    let words = words
        .iter()
        .skip_while(|word| WHERE.contains(&word.as_str()));
    let words: Vec<_> = words.collect();
    let tells = match words.as_slice() {
        [] => true,
        [first, ..] if TELLING.contains(&first.as_str()) => true,
        [only] => !only.starts_with('-'),
        _ => false,
    };
    named <= place + 1 && !tells
}

/// Returns what git is told to run: by an alias, by a setting, or once for each of many things.
pub(super) fn lines_given(words: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    let each = ["foreach", "run", "-x", "--exec"];
    let each = words.iter().position(|word| each.contains(&word.as_str()));
    if let Some(each) = each {
        let words = &words[each + 1..];
        lines.push(words.join(" "));
        lines.extend(words.iter().filter(|word| word.contains(' ')).cloned());
    }
    for (place, word) in words.iter().enumerate() {
        if is_option(word, PROGRAMS) {
            let value = word.split_once('=').map(|(_, value)| value.to_owned());
            lines.extend(value.or_else(|| words.get(place + 1).cloned()));
        }
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
