//! The commands of a command line, as far as they can be told without a shell.

use serde_json::Value;

/// The commands of a line, each by its words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) commands: Vec<Vec<String>>,
    /// Whether nothing was met whose meaning only a shell knows.
    pub(super) is_understood: bool,
}

/// A command that a line may come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Within {
    words: Vec<String>,
    /// Whether its first word runs another command, of which nobody knows where among its words it begins.
    is_runner: bool,
}

impl Within {
    /// Tells whether it is what a rule names, in whatever directory its program lies.
    pub(super) fn is(&self, named: &[String]) -> bool {
        let Some((name, rest)) = named.split_first() else {
            return false;
        };
        let begins = |words: &[String]| {
            words.split_first().is_some_and(|(first, after)| {
                (first == name || bare(first) == name) && after.starts_with(rest)
            })
        };
        match self.is_runner {
            false => begins(&self.words),
            true => (0..self.words.len()).any(|from| begins(&self.words[from..])),
        }
    }
}

/// Words of a shell behind which a command begins.
const KEYWORDS: &[&str] = &["if", "then", "elif", "else", "while", "until", "do"];
/// Programs that run another one, which stands somewhere among their words.
const RUNNERS: &[&str] = &[
    "time", "command", "builtin", "exec", "env", "nohup", "nice", "sudo", "doas", "xargs",
    "coproc", "timeout", "setsid", "stdbuf", "ionice", "chrt", "busybox",
];
/// How many commands are looked for in one line, how many words are looked at, and how many bytes of lines within lines are read.
const MOST: usize = 1_000;
const MOST_WORDS: usize = 20_000;
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
                }
            }
            _ => Self::default(),
        }
    }

    /// Returns every command that the line may come to, for rules that keep something from running: without words before it, and those inside of
    /// what another shell is given. `None` are too many to look at.
    pub(super) fn all_within(&self) -> Option<Vec<Within>> {
        let mut found = Vec::new();
        let mut open = self.commands.clone();
        let (mut words, mut bytes) = (0, 0);
        while let Some(mut command) = open.pop() {
            words += command.len();
            if found.len() >= MOST || words > MOST_WORDS {
                return None;
            }
            let before = command
                .iter()
                .take_while(|word| KEYWORDS.contains(&bare(word)) || is_variable(word));
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
                open.extend(Self::parse_loosely(&line).commands);
            }
            found.push(Within {
                words: command,
                is_runner,
            });
        }
        Some(found)
    }

    /// Reads a line in which everything is understood.
    pub(super) fn parse(line: &str) -> Option<Self> {
        Some(Self::parse_loosely(line)).filter(|line| line.is_understood)
    }

    /// Reads a line as far as that goes. What begins a command of its own, such as a substitution, is read as one too.
    pub(super) fn parse_loosely(line: &str) -> Self {
        let mut reader = Reader::default();
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                ' ' | '\t' => reader.end_word(),
                '&' | '|' => {
                    // `a & b` runs on in the background, and `a |& b` is another thing than `a | b`.
                    let is_double = letters.next_if_eq(&letter).is_some();
                    reader.is_odd |= letter == '&' && !is_double;
                    reader.is_odd |= letters.peek() == Some(&'&') && letter == '|';
                    reader.end_command();
                }
                ';' => reader.end_command(),
                '\n' | '\r' | '(' | ')' | '{' | '}' | '`' | '<' | '>' | '$' | '#' | '!' => {
                    reader.is_odd = true;
                    reader.end_command();
                }
                '\\' => match letters.next() {
                    Some('\n') | None => reader.is_odd = true,
                    Some(letter) => reader.push(letter),
                },
                '\'' => {
                    reader.open_word();
                    loop {
                        match letters.next() {
                            Some('\'') => break,
                            Some(letter) => reader.push(letter),
                            None => {
                                reader.is_odd = true;
                                break;
                            }
                        }
                    }
                }
                '"' => {
                    reader.open_word();
                    loop {
                        match letters.next() {
                            Some('"') => break,
                            Some('\\') => reader.push(letters.next().unwrap_or('\\')),
                            Some('$' | '`' | '(') => {
                                reader.is_odd = true;
                                reader.end_command();
                            }
                            Some(letter) => reader.push(letter),
                            None => {
                                reader.is_odd = true;
                                break;
                            }
                        }
                    }
                }
                letter => reader.push(letter),
            }
        }
        reader.end_command();
        Self {
            commands: reader.commands,
            is_understood: !reader.is_odd,
        }
    }
}

/// Returns the lines that a command gives to a shell: `bash -lc LINE`, `bash -c -e LINE`, and `eval LINE`.
fn lines_within(command: &[String], is_runner: bool) -> Vec<String> {
    let place = command.iter().position(|word| word == "eval");
    let eval = place.filter(|place| is_runner || *place == 0);
    let eval = eval.map(|place| command[place + 1..].join(" "));
    let mut lines: Vec<String> = eval.into_iter().collect();
    let mut is_line_next = false;
    for word in command {
        match word.starts_with('-') {
            true => is_line_next |= word.contains('c'),
            false if std::mem::take(&mut is_line_next) => lines.push(word.clone()),
            false => {}
        }
    }
    lines
}

/// Returns the name of a program without its directory.
fn bare(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Tells whether a word is one such as `A=b`.
fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| name.chars().all(|it| it == '_' || it.is_alphanumeric()))
}

#[derive(Default)]
struct Reader {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    is_odd: bool,
}

impl Reader {
    fn open_word(&mut self) {
        self.word.get_or_insert_default();
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    /// Words such as `A=b` before a command change what it does, and are not its name.
    fn end_word(&mut self) {
        let Some(word) = self.word.take() else {
            return;
        };
        match self.words.is_empty() && is_variable(&word) {
            true => self.is_odd = true,
            false => self.words.push(word),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        if !self.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.words));
        }
    }
}
