//! What a command is told to run: lines for a shell, and options that name a program.

use super::command_line::bare;
use super::program;
use super::reader::UNKNOWN;

/// Programs that give their words to a shell.
const LINE_RUNNERS: &[&str] = &["watch", "parallel", "entr", "hyperfine", "script"];
/// Those that have options by which they run a line, in a word of its own or behind `=`.
const LINE_TAKERS: &[&str] = &[
    "tar", "gtar", "bsdtar", "split", "gsplit", "ssh", "scp", "sftp", "rsync", "make", "gmake",
];
/// Variables whose value is run by a shell or by git, now or later.
const RUN_LATER: &[&str] = &[
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT_COMMAND",
    "BASH_ENV",
    "ENV",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "LESSOPEN",
    "SSH_ASKPASS",
    "RSYNC_RSH",
    "TAR_OPTIONS",
];

/// Tells whether what is assigned to a variable may be run.
pub(super) fn is_run_later(name: &str) -> bool {
    let name = name.strip_suffix('+').unwrap_or(name);
    RUN_LATER.contains(&name) || name.starts_with("GIT_")
}

/// Options by which a program runs another one: its name, those that are written out, and the letters of short ones.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "tar",
        &[
            "--checkpoint-action",
            "--to-command",
            "--use-compress-program",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
        ],
        "IF",
    ),
    ("split", &["--filter"], ""),
    ("ssh", &[], "oF"),
    ("scp", &[], "oFS"),
    ("sftp", &[], "oFS"),
    ("rsync", &["--rsh", "--rsync-path"], "e"),
    ("make", &["--eval"], "E"),
];

/// Tells whether a word is one of some options, also where it is shortened or has a value.
pub(super) fn is_option(word: &str, options: &[&str]) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    name.len() > 2 && options.iter().any(|option| option.starts_with(name))
}

/// Tells whether a word holds a short option, also among others.
pub(super) fn has_letter(word: &str, letters: &str) -> bool {
    let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    short.is_some_and(|short| short.contains(|it| letters.contains(it)))
}

/// Tells whether a command has something behind the first words, which a rule that allows names, that makes its program run another one.
pub(super) fn is_told_to_run(name: &str, command: &[String], named: usize) -> bool {
    let rest = command.get(named..).unwrap_or_default();
    if name == "git" {
        return super::git::is_told_to_run(command, named);
    }
    let family = name.trim_start_matches("bsd").trim_start_matches('g');
    let options = OPTIONS.iter().find(|(it, ..)| *it == family || *it == name);
    let is_one = |word: &String| {
        options.is_some_and(|(_, long, short)| is_option(word, long) || has_letter(word, short))
    };
    match family {
        "sed" => !run_by_sed(rest).is_empty(),
        _ => rest.iter().any(is_one) || program::is_make_that_reads(command),
    }
}

/// Returns the lines that a command gives to a shell: `bash -lc LINE`, `bash -c -e LINE`, `bash -c -o NAME LINE`, `watch LINE`, `eval LINE`, and what
/// is said to programs that run lines later.
pub(super) fn lines_within(command: &[String], is_runner: bool) -> Vec<String> {
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
    let values = command.iter().filter_map(|word| word.split_once('='));
    let later = values.filter(|(name, _)| is_run_later(name));
    lines.extend(later.map(|(_, value)| value.to_owned()));
    let behind = |name: &str| {
        let place = command.iter().position(|word| bare(word) == name);
        let place = place.filter(|place| is_runner || *place == 0)?;
        Some(&command[place + 1..])
    };
    lines.extend(behind("env").and_then(split_by_env));
    lines.extend(behind("git").into_iter().flat_map(super::git::lines_given));
    lines.extend(behind("trap").into_iter().flatten().cloned());
    let aliases = behind("alias").into_iter().flatten();
    let aliases = aliases.filter_map(|word| word.split_once('='));
    lines.extend(aliases.map(|(_, value)| value.to_owned()));
    for sed in ["sed", "gsed"] {
        lines.extend(behind(sed).into_iter().flat_map(run_by_sed));
    }
    for called_back in ["mapfile", "readarray", "compgen", "complete"] {
        let words = behind(called_back).unwrap_or_default();
        let has_option = words.iter().any(|word| has_letter(word, "C"));
        lines.extend(words.iter().filter(|_| has_option).cloned());
    }
    for taker in LINE_TAKERS {
        lines.extend(
            behind(taker)
                .into_iter()
                .flatten()
                .flat_map(|word| values_of(word)),
        );
    }
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
    let line = format!("{line} {}", words[place + 1..].join(" "));
    // It has spellings of its own for spaces, and for the end.
    let line = line.split("\\c").next().unwrap_or_default();
    let spaces = ["\\_", "\\t", "\\n", "\\v", "\\f", "\\r"];
    let spaced = spaces
        .iter()
        .fold(line.to_owned(), |line, it| line.replace(it, " "));
    Some(spaced)
}

/// Returns what may be a line in a word such as `--to-command=LINE`, `-oProxyCommand=LINE` or `ProxyCommand LINE`.
fn values_of(word: &str) -> Vec<String> {
    let behind = |at: Option<usize>| at.and_then(|at| word.get(at + 1..)).map(str::to_owned);
    let values = [
        behind(word.find('=')),
        behind(word.rfind('=')),
        behind(word.find(' ')),
    ];
    let short = word
        .strip_prefix('-')
        .and_then(|word| word.get(1..))
        .map(str::to_owned);
    let whole = Some(word.to_owned());
    values.into_iter().chain([short, whole]).flatten().collect()
}

/// Returns what sed is told to run by its command `e`, or by that flag of `s`.
fn run_by_sed(words: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for word in words {
        let script = word
            .strip_prefix("--expression=")
            .or_else(|| word.strip_prefix("-e"));
        let script = script.unwrap_or(word);
        let pieces = script.split([';', '\n', '{', '}']);
        for piece in pieces.chain([script]) {
            let flags = piece
                .rsplit(|it: char| !it.is_ascii_alphanumeric())
                .next()
                .unwrap_or_default();
            let is_flags = flags.chars().all(|it| "gpiImMe0123456789".contains(it));
            if is_flags && flags.contains('e') && piece.len() > flags.len() {
                lines.push(UNKNOWN.to_string());
            }
            // Behind the lines for which it holds: `1,$`, `/x/`, `!`.
            let mut rest =
                piece.trim_start_matches(|it: char| it.is_ascii_digit() || " ,$!~+".contains(it));
            while let Some(behind) = rest.strip_prefix('/') {
                let Some((_, behind)) = behind.split_once('/') else {
                    break;
                };
                rest = behind
                    .trim_start_matches(|it: char| it.is_ascii_digit() || " ,$!~+I".contains(it));
            }
            match rest.strip_prefix('e') {
                Some("") => lines.push(UNKNOWN.to_string()),
                Some(line) if line.starts_with(char::is_whitespace) => lines.push(line.to_owned()),
                _ => {}
            }
        }
    }
    lines
}
