//! The commands of a command line, as far as they can be told without a shell.

/// The commands of a line, each by its words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) commands: Vec<Vec<String>>,
    /// Whether nothing was met whose meaning only a shell knows.
    pub(super) is_understood: bool,
}

impl CommandLine {
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
        let name = word.split_once('=').map(|(name, _)| name);
        let is_variable =
            name.is_some_and(|name| name.chars().all(|it| it == '_' || it.is_alphanumeric()));
        match self.words.is_empty() && is_variable {
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
