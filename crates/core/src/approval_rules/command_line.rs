//! The commands of a command line, as far as they can be told without a shell.

use serde_json::Value;

/// The commands of a line, each by its words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) commands: Vec<Vec<String>>,
    /// Whether nothing was met whose meaning only a shell knows.
    pub(super) is_understood: bool,
}

/// Words that stand before a command and are not its name.
const BEFORE: &[&str] = &[
    "if", "then", "elif", "else", "while", "until", "do", "time", "command", "builtin", "exec",
    "env", "nohup", "nice", "sudo", "xargs", "coproc",
];
/// How many commands are looked for in one line.
const MOST: usize = 1_000;

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

    /// Returns every command that the line may come to, for rules that keep something from running: without words before it and without
    /// its directory, and those inside of what another shell is given. `None` are too many to look at.
    pub(super) fn all_within(&self) -> Option<Vec<Vec<String>>> {
        let mut found = Vec::new();
        let mut open = self.commands.clone();
        while let Some(mut command) = open.pop() {
            if found.len() >= MOST {
                return None;
            }
            let mut words = command.iter();
            let before = words
                .position(|word| !is_before(word))
                .unwrap_or(command.len());
            if before > 0 {
                found.push(command.clone());
                // `sudo -n`, `env -i`.
                let flags = command[before..].iter();
                let flags = flags.take_while(|word| word.starts_with('-')).count();
                command.drain(..before + flags);
            }
            let Some(name) = command.first_mut() else {
                continue;
            };
            if let Some((_, last)) = name.rsplit_once('/') {
                *name = last.to_owned();
            }
            // `bash -lc LINE`, and `eval LINE`.
            let flag = command
                .iter()
                .position(|word| word.starts_with('-') && word.ends_with('c'));
            let inner = match (name_of(&command), flag) {
                ("eval", _) => Some(command[1..].join(" ")),
                (_, Some(flag)) => command.get(flag + 1).cloned(),
                _ => None,
            };
            open.extend(
                inner
                    .map(|line| Self::parse_loosely(&line).commands)
                    .into_iter()
                    .flatten(),
            );
            found.push(command);
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

fn name_of(command: &[String]) -> &str {
    command.first().map_or("", String::as_str)
}

fn is_before(word: &str) -> bool {
    let bare = word.rsplit('/').next().unwrap_or(word);
    BEFORE.contains(&bare) || is_variable(word)
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
