//! Programs that run what they are told, and where they are told it.

use super::command_line::{bare, has_unknown, may_be};
use super::reader::{GLOB, UNKNOWN, UNKNOWN_IN_WORD};

const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "pwsh",
];
/// Others, of which only the words that they are given can be looked at. Those of one version, such as `python3.12`, too.
const INTERPRETERS: &[&str] = &[
    "python",
    "pypy",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "expect",
    "guile",
    "awk",
    "gawk",
    "mawk",
    "osascript",
    "Rscript",
    "sqlite3",
];
/// Those of them that read a program where none is named.
const READERS: &[&str] = &[
    "python", "pypy", "perl", "ruby", "node", "nodejs", "php", "lua", "luajit", "tclsh",
];

/// Who runs what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interpreter {
    Shell,
    Other,
}

/// Tells whether a word is the name of a program that runs what it is told.
pub(super) fn is_interpreter(word: &str) -> bool {
    SHELLS.contains(&bare(word)) || is_of(INTERPRETERS, bare(word))
}

/// Tells who of a command reads what it runs: from another command, a file or a text, and neither from its words nor from a file that they name.
pub(super) fn reads(command: &[String]) -> Option<Interpreter> {
    let (first, words) = command.split_first()?;
    match bare(first) {
        "." | "source" => {
            let reads = words.first().is_some_and(|word| is_elsewhere(word));
            reads.then_some(Interpreter::Shell)
        }
        shell if SHELLS.contains(&shell) => shell_reads(words).then_some(Interpreter::Shell),
        name if has_unknown(name) && SHELLS.iter().any(|shell| may_be(name, shell)) => {
            shell_reads(words).then_some(Interpreter::Shell)
        }
        _ if is_make_that_reads(command) => Some(Interpreter::Shell),
        other if is_of(READERS, other) => other_reads(words).then_some(Interpreter::Other),
        _ => None,
    }
}

/// Tells whether a shell reads what it runs: it is given neither a line nor the name of a script.
fn shell_reads(words: &[String]) -> bool {
    let (mut has_line, mut is_value) = (false, false);
    for word in words {
        let is_option = word.starts_with(['-', '+']) && word.len() > 1;
        match (is_option, is_value) {
            (true, _) if matches!(word.as_str(), "--version" | "--help") => return false,
            (true, _) => {
                let is_long = word.starts_with("--");
                has_line |= word.starts_with('-') && !is_long && word.contains('c');
                if !is_long && word.starts_with('-') && word.contains('s') && !has_line {
                    return true;
                }
                is_value = word.ends_with(['o', 'O'])
                    || matches!(word.as_str(), "--rcfile" | "--init-file");
            }
            (false, true) => is_value = false,
            (false, false) => return !has_line && is_elsewhere(word),
        }
    }
    true
}

/// Tells whether another interpreter does. Which of its options take a program is not known to the letter: any may.
fn other_reads(words: &[String]) -> bool {
    match words
        .iter()
        .find(|word| !word.starts_with('-') || *word == "-")
    {
        Some(word) => is_elsewhere(word) && words.first() == Some(word),
        None => {
            let is_told = |word: &String| {
                word.starts_with("--") || word.contains(['c', 'e', 'm', 'V', 'h', 'r', 'v'])
            };
            !words.iter().any(is_told)
        }
    }
}

/// Tells whether what a word names is not in a file with a name.
fn is_elsewhere(word: &str) -> bool {
    let is_unknown = word.contains([UNKNOWN, UNKNOWN_IN_WORD]);
    let may_be_device = word.starts_with('/') && word.contains(GLOB);
    let is_device = word.starts_with("/dev/") || word.starts_with("/proc/");
    word == "-" || is_device || may_be_device || is_unknown
}

/// Tells whether a command is `make` that reads what it makes, as by `make -f -`.
pub(super) fn is_make_that_reads(command: &[String]) -> bool {
    let Some((first, words)) = command.split_first() else {
        return false;
    };
    let mut is_next = false;
    let mut reads = |word: &String| {
        let long = ["--file=", "--makefile=", "-f"];
        let value = long.iter().find_map(|it| word.strip_prefix(it));
        let is_value = std::mem::replace(
            &mut is_next,
            matches!(word.as_str(), "-f" | "--file" | "--makefile"),
        );
        value.is_some_and(is_elsewhere) || (is_value && is_elsewhere(word))
    };
    matches!(bare(first), "make" | "gmake") && words.iter().any(&mut reads)
}

/// Tells whether a command is an interpreter that is given a text in which all words of another command stand.
pub(super) fn is_given(command: &[String], named: &[String]) -> bool {
    let Some((first, texts)) = command.split_first() else {
        return false;
    };
    let is_letter = |letter: char| letter.is_alphanumeric() || "-_.+/".contains(letter);
    let says = |text: &String, wanted: &String| {
        let mut words = text.split(|letter| !is_letter(letter));
        words.any(|word| word == wanted || bare(word) == wanted)
    };
    let says_all = |text: &String| named.iter().all(|wanted| says(text, wanted));
    is_of(INTERPRETERS, bare(first)) && texts.iter().any(says_all)
}

fn is_of(names: &[&str], name: &str) -> bool {
    let family = name
        .trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.' || letter == '-');
    names.contains(&name) || names.contains(&family)
}
