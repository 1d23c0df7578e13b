//! Parses the command line of a call.
//!
//! A line is *plain* if it consists of words and quoted strings joined by `&&`, `||`, `;`, `|` or newlines. Then the text shows exactly which commands
//! run. Any other syntax (expansion, substitution, globs, redirection to a file, control structures) needs a shell to interpret; nothing is inferred
//! from it.

use serde_json::Value;

/// The command line of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandLine {
    /// The words of each command; none if the call has no command line.
    Plain(Vec<Vec<String>>),
    /// All tokens of a line that is not plain, split at whitespace, quotes and operators.
    Tokens(Vec<String>),
}

/// Reserved words of the shell: a command that starts with one is not plain.
const KEYWORDS: &[&str] = &[
    "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while",
];

impl CommandLine {
    /// Reads the argument `command`: a shell command line, or the argument list of one command.
    pub(crate) fn from_argument(command: &Value) -> Self {
        match command {
            Value::Null => Self::Plain(Vec::new()),
            Value::String(line) => Self::parse(line),
            Value::Array(words) => {
                let texts: Option<Vec<_>> = words
                    .iter()
                    .map(|word| word.as_str().map(str::to_owned))
                    .collect();
                match texts {
                    Some(words) if !words.is_empty() => Self::Plain(vec![words]),
                    _ => Self::tokens(&command.to_string()),
                }
            }
            other => Self::tokens(&other.to_string()),
        }
    }

    pub(crate) fn parse(line: &str) -> Self {
        plain_commands(line).map_or_else(|| Self::tokens(line), Self::Plain)
    }

    fn tokens(line: &str) -> Self {
        let is_end = |letter: char| letter.is_whitespace() || "\"'`$(){}<>|&;,=\\".contains(letter);
        let tokens = line.split(is_end).filter(|token| !token.is_empty());
        Self::Tokens(tokens.map(str::to_owned).collect())
    }

    /// Returns whether the line may run the command of a `deny` or `ask` rule. In a plain line, one command must run that program, in any directory,
    /// and contain the other words in this order. In any other line, the words only need to occur in this order.
    pub(crate) fn may_run(&self, words: &[String]) -> bool {
        match self {
            Self::Plain(commands) => commands.iter().any(|command| {
                let is_program = |name: &String| file_name(name) == file_name(&words[0]);
                command.first().is_some_and(is_program) && contains(&command[1..], &words[1..])
            }),
            Self::Tokens(tokens) => {
                let mut starts = tokens.iter().enumerate();
                let start = starts.find(|(_, it)| file_name(it) == file_name(&words[0]));
                start.is_some_and(|(at, _)| contains(&tokens[at + 1..], &words[1..]))
            }
        }
    }

    /// Returns whether the line is plain and each of its commands begins with the words of one of the rules.
    pub(crate) fn is_allowed(&self, rules: &[Vec<String>]) -> bool {
        let Self::Plain(commands) = self else {
            return false;
        };
        let is_allowed =
            |command: &Vec<String>| rules.iter().any(|words| command.starts_with(words));
        !commands.is_empty() && commands.iter().all(is_allowed)
    }

    /// Returns whether a plain line contains a command that changes the working directory for later commands.
    pub(crate) fn changes_directory(&self) -> bool {
        let Self::Plain(commands) = self else {
            return false;
        };
        let mut programs = commands.iter().filter_map(|command| command.first());
        programs.any(|name| matches!(name.as_str(), "cd" | "pushd" | "popd"))
    }
}

/// Returns whether `words` is a subsequence of `list`.
fn contains(list: &[String], words: &[String]) -> bool {
    let mut list = list.iter();
    words.iter().all(|word| list.any(|other| other == word))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the commands of a plain line; `None` if it is not plain.
fn plain_commands(line: &str) -> Option<Vec<Vec<String>>> {
    let mut commands = Vec::new();
    let mut command = Vec::new();
    // Whether the line may end here: not after `&&`, `||` and `|`.
    let mut is_complete = true;
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        if let Some((after, joins)) = operator(rest) {
            let is_blank_line = command.is_empty() && is_complete && rest.starts_with('\n');
            if command.is_empty() && !is_blank_line {
                // A newline after `&&`, `||` or `|` continues the line.
                if !rest.starts_with('\n') {
                    return None;
                }
            } else {
                if !command.is_empty() {
                    commands.push(std::mem::take(&mut command));
                }
                is_complete = !joins;
            }
            rest = after;
        } else if let Some(after) = harmless_redirection(rest) {
            if command.is_empty() {
                return None;
            }
            rest = after;
        } else if rest.is_empty() {
            break;
        } else {
            let (word, after) = word(rest)?;
            if command.is_empty() && word.is_special() {
                return None;
            }
            is_complete = true;
            command.push(word.text);
            rest = after;
        }
    }
    if !command.is_empty() {
        commands.push(command);
    }
    (is_complete && !commands.is_empty()).then_some(commands)
}

/// Parses an operator between commands. Returns the rest of the text and whether another command must follow.
fn operator(text: &str) -> Option<(&str, bool)> {
    let operators = [("&&", true), ("||", true), (";", false), ("\n", false)];
    let found = operators
        .iter()
        .find_map(|(it, joins)| Some((text.strip_prefix(it)?, *joins)));
    let pipe = || Some((text.strip_prefix('|')?, true));
    let (after, joins) = found.or_else(pipe)?;
    // `;;` and `|&` are other operators.
    (!after.starts_with([';', '&']) || after.starts_with("&&")).then_some((after, joins))
}

/// Parses a redirection to another descriptor or to the null device. Returns the rest of the text.
fn harmless_redirection(text: &str) -> Option<&str> {
    let text = text.strip_prefix(['1', '2']).unwrap_or(text);
    let target = text.strip_prefix('>')?;
    let after = match target.strip_prefix('&') {
        Some(target) => target.strip_prefix(['1', '2'])?,
        None => target.trim_start_matches(' ').strip_prefix("/dev/null")?,
    };
    let is_end = |letter: char| letter.is_ascii_whitespace() || ";|&".contains(letter);
    (after.is_empty() || after.starts_with(is_end)).then_some(after)
}

/// A word of a plain line.
struct Word {
    text: String,
    /// Whether a part of it was quoted.
    is_quoted: bool,
    /// Whether it has an `=` outside of quotes.
    has_equals: bool,
}

impl Word {
    /// Returns whether the word cannot be a program name at the start of a command: it is a keyword or an assignment.
    fn is_special(&self) -> bool {
        self.has_equals || (!self.is_quoted && KEYWORDS.contains(&self.text.as_str()))
    }
}

/// Parses one word; `None` if part of it needs a shell to interpret.
fn word(text: &str) -> Option<(Word, &str)> {
    let mut word = Word {
        text: String::new(),
        is_quoted: false,
        has_equals: false,
    };
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        match letter {
            ' ' | '\t' | '\n' | ';' | '|' => break,
            '&' if after.starts_with('&') => break,
            '\'' | '"' => {
                let (quoted, after) = after.split_once(letter)?;
                if letter == '"' && quoted.contains(['$', '`', '\\', '!']) {
                    return None;
                }
                word.text.push_str(quoted);
                word.is_quoted = true;
                rest = after;
            }
            '#' | '~' if word.text.is_empty() && !word.is_quoted => return None,
            '$' | '`' | '\\' | '*' | '?' | '[' | ']' | '{' | '}' | '(' | ')' | '<' | '>' | '&'
            | '!' => return None,
            letter if letter.is_control() => return None,
            letter => {
                word.has_equals |= letter == '=';
                word.text.push(letter);
                rest = after;
            }
        }
    }
    (rest.len() < text.len()).then_some((word, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(line: &str) -> Option<Vec<String>> {
        let commands = plain_commands(line)?;
        Some(commands.iter().map(|words| words.join("·")).collect())
    }

    #[test]
    fn words_quotes_and_operators_are_plain() {
        for (line, commands) in [
            ("ls", &["ls"][..]),
            ("  ls\t-l  ", &["ls·-l"]),
            ("cargo test && ls -l", &["cargo·test", "ls·-l"]),
            ("a||b;c|d\ne", &["a", "b", "c", "d", "e"]),
            ("a;", &["a"]),
            ("\n\na\n\n", &["a"]),
            ("a &&\n b", &["a", "b"]),
            ("a |\n\nb", &["a", "b"]),
            ("echo 'a $b' \"c d\"e''", &["echo·a $b·c de"]),
            ("echo a#b c=d :", &["echo·a#b·c=d·:"]),
            ("'if' x", &["if·x"]),
            ("ls 2>&1 | cat", &["ls", "cat"]),
            ("ls >/dev/null 2>&1; x", &["ls", "x"]),
            ("echo 1 2", &["echo·1·2"]),
            ("größe ü", &["größe·ü"]),
        ] {
            let commands = commands.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(plain(line), Some(commands), "{line:?}");
        }
    }

    #[test]
    fn line_that_needs_a_shell_is_not_plain() {
        for line in [
            "",
            " ",
            "\n",
            "&&",
            "a &&",
            "a |",
            "a || ",
            "; a",
            "a ;; b",
            "a && && b",
            "a & b",
            "a &",
            "a |& b",
            "a & & b",
            "$x",
            "a $x",
            "a \"$x\"",
            "`a`",
            "a \"`b`\"",
            "$(a)",
            "a \\\n b",
            "a\\ b",
            "a \"b\\\"c\"",
            "a *",
            "a ?",
            "a [b]",
            "a {b,c}",
            "~/a",
            "a ~",
            "#a",
            "a #b",
            "! a",
            "a !b",
            "a \"!b\"",
            "(a)",
            "a > b",
            "a >> b",
            "a < b",
            "a <<E",
            "a <<< b",
            "a 2>b",
            "a &> b",
            "a >&3x",
            "a >/dev/nullx",
            ">/dev/null a",
            "if a; then b; fi",
            "while a; do b; done",
            "time a",
            "{ a; }",
            "[[ a ]]",
            "A=b c",
            "A='b' c",
            "A''=b",
            "A+=b",
            "a 'b",
            "a \"b",
            "a\rb",
            "a\0",
            "a\u{1}",
        ] {
            assert_eq!(plain(line), None, "{line:?}");
        }
    }
}
