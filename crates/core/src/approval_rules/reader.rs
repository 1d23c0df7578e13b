//! Reads a command line as a shell does, as far as that goes without one.

use super::command_line::{is_keyword, is_variable};
use super::given::is_run_later;

/// Stands in a word for what only a shell knows, and what may be several words.
pub(super) const UNKNOWN: char = '\0';
/// The same where it is a part of one word.
pub(super) const UNKNOWN_IN_WORD: char = '\u{1}';
/// Stands before a letter by which a shell looks for names of files: what comes of it are several words that begin and end as this one.
pub(super) const GLOB: char = '\u{2}';

/// How deep substitutions are followed, and how often the letters of a line are looked at, on average and of a short one: what stands inside of
/// something else is looked at again.
const MAX_DEPTH: usize = 50;
const MAX_LOOKS: usize = 8;
const MAX_LOOKS_OF_SHORT: usize = 4 * 1024;
/// How far the end of a calculation is looked for.
const MAX_ARITHMETIC: usize = 1_000;

/// What was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    /// Each by its words, those inside of substitutions too.
    pub(super) commands: Vec<Vec<String>>,
    /// What commands are given to read by `<<`.
    pub(super) texts: Vec<String>,
    /// Whether something was met whose meaning only a shell knows.
    pub(super) is_odd: bool,
    /// Whether there was too much to look through.
    pub(super) is_too_much: bool,
}

pub(super) fn read(line: &str) -> Read {
    let left = line.len().saturating_mul(MAX_LOOKS) + MAX_LOOKS_OF_SHORT;
    let mut reader = Reader::new(line, MAX_DEPTH, left);
    reader.list(None);
    reader.read.is_odd |= line.contains([UNKNOWN, UNKNOWN_IN_WORD, GLOB]);
    reader.read
}

/// Returns words as they are written, for rules that compare letters.
pub(super) fn as_written(mut words: Vec<String>) -> Vec<String> {
    for word in &mut words {
        word.retain(|letter| letter != GLOB);
    }
    words
}

struct Reader {
    letters: Vec<char>,
    at: usize,
    read: Read,
    /// How much deeper and further it may go.
    depth: usize,
    left: usize,
    /// Texts that begin with the next line.
    awaited: Vec<Awaited>,
}

/// What stands behind `<<`.
struct Awaited {
    end: String,
    is_quoted: bool,
    is_indented: bool,
}

/// The command that is being read.
#[derive(Default)]
struct Open {
    words: Vec<String>,
    word: Option<String>,
    /// Whether the next word is where output goes, or input comes from.
    is_target: bool,
    /// Whether that word is a text to read, as behind `<<<`.
    is_text: bool,
    /// How many braces are open in the word, of which nobody knows what it becomes.
    braces: usize,
    /// How many `case` are open, in which `)` closes nothing.
    cases: usize,
}

impl Open {
    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn is_name(&self) -> bool {
        self.words.is_empty() && !self.is_target
    }
}

impl Reader {
    fn new(text: &str, depth: usize, left: usize) -> Self {
        Self {
            letters: text.chars().collect(),
            at: 0,
            read: Read::default(),
            depth,
            left,
            awaited: Vec::new(),
        }
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        let Some(left) = self.left.checked_sub(1) else {
            return self.give_up();
        };
        self.left = left;
        self.at += 1;
        Some(letter)
    }

    fn next_if(&mut self, letter: char) -> bool {
        self.peek() == Some(letter) && self.next().is_some()
    }

    fn give_up(&mut self) -> Option<char> {
        self.read.is_too_much = true;
        self.at = self.letters.len();
        None
    }

    /// Reads commands up to a letter that closes them, or to the end.
    fn list(&mut self, until: Option<char>) {
        let Some(depth) = self.depth.checked_sub(1) else {
            self.give_up();
            return;
        };
        self.depth = depth;
        let mut open = Open::default();
        while let Some(letter) = self.next() {
            if Some(letter) == until {
                self.end_word(&mut open);
                if open.cases == 0 {
                    break;
                }
            }
            self.letter(letter, &mut open);
        }
        self.end_command(&mut open);
        self.depth += 1;
    }

    fn letter(&mut self, letter: char, open: &mut Open) {
        match letter {
            ' ' | '\t' => self.end_word(open),
            '&' if self.peek() == Some('>') => self.redirection(letter, open),
            '&' | '|' => {
                // `a & b` runs on in the background, and `a |& b` is another thing than `a | b`.
                let is_double = self.next_if(letter);
                self.read.is_odd |= letter == '&' && !is_double;
                self.read.is_odd |= letter == '|' && self.next_if('&');
                self.end_command(open);
            }
            ';' => self.end_command(open),
            '\n' | ')' => {
                self.read.is_odd = true;
                self.end_command(open);
                if letter == '\n' {
                    self.awaited_texts();
                }
            }
            // No shell takes it for the end of anything.
            '\r' => {
                self.read.is_odd = true;
                open.push(letter);
            }
            '(' => self.parenthesis(open),
            '<' | '>' => self.redirection(letter, open),
            '{' | '}' => self.brace(letter, open),
            '$' | '`' => self.expansion(letter, open, UNKNOWN),
            '#' => {
                self.read.is_odd = true;
                match open.word {
                    Some(_) => open.push('#'),
                    None => {
                        while self.peek().is_some_and(|it| it != '\n') && self.next().is_some() {}
                    }
                }
            }
            '!' => {
                self.read.is_odd = true;
                let is_first = open.words.last().is_none_or(|word| is_keyword(word));
                let is_alone = self.peek().is_none_or(char::is_whitespace);
                if open.word.is_some() || !is_first || !is_alone {
                    open.push('!');
                }
            }
            '\\' => match self.next() {
                None | Some('\n') => self.read.is_odd = true,
                Some(letter) => open.push(letter),
            },
            '\'' => {
                open.word.get_or_insert_default();
                self.single(open);
            }
            '"' => {
                open.word.get_or_insert_default();
                self.double(open, Some('"'));
            }
            // What a file is called, instead of what is written: no matter to rules that allow, but for the name of a program. `[` itself is one.
            '*' | '?' | '[' if !(open.is_name() && self.is_test(letter, open)) => {
                self.read.is_odd |= open.is_name();
                open.push(GLOB);
                open.push(letter);
            }
            letter => open.push(letter),
        }
    }

    /// Tells whether a letter is the program `[`, or the word `[[`.
    fn is_test(&self, letter: char, open: &Open) -> bool {
        let ends = |letter: Option<char>| letter.is_none_or(|it| it.is_whitespace() || it == '[');
        letter == '[' && open.word.as_deref().is_none_or(|word| word == "[") && ends(self.peek())
    }

    fn single(&mut self, open: &mut Open) {
        loop {
            match self.next() {
                Some('\'') => return,
                Some(letter) => open.push(letter),
                None => {
                    self.read.is_odd = true;
                    return;
                }
            }
        }
    }

    /// Reads what is quoted by `"`, and what else is expanded in the same way.
    fn double(&mut self, open: &mut Open, until: Option<char>) {
        loop {
            match self.next() {
                letter if letter.is_some() && letter == until => return,
                // Before other letters it stands for itself.
                Some('\\') => match self.next() {
                    Some('\n') => {}
                    Some(letter @ ('$' | '`' | '"' | '\\')) => open.push(letter),
                    letter => {
                        open.push('\\');
                        letter.into_iter().for_each(|letter| open.push(letter));
                    }
                },
                Some(letter @ ('$' | '`')) => self.expansion(letter, open, UNKNOWN_IN_WORD),
                Some(letter) => open.push(letter),
                None => {
                    self.read.is_odd |= until.is_some();
                    return;
                }
            }
        }
    }

    /// Reads `$NAME`, `${…}`, `$(…)`, `$'…'` and what stands between backticks.
    fn expansion(&mut self, letter: char, open: &mut Open, unknown: char) {
        self.read.is_odd = true;
        match (letter, self.peek()) {
            ('`', _) => self.backticks(),
            (_, Some('(')) => {
                self.next();
                if !self.arithmetic('(', ')') {
                    self.list(Some(')'));
                }
            }
            (_, Some('[')) => {
                self.next();
                if !self.arithmetic('[', ']') {
                    self.give_up();
                }
            }
            (_, Some('{')) => {
                self.next();
                let from = self.at;
                self.parameter(unknown == UNKNOWN_IN_WORD);
                let said = &self.letters[from..self.at];
                // `"${a[@]}"` is several words, and `${a@P}` runs what is in it.
                let (is_several, is_run) = (said.contains(&'@'), said.ends_with(&['@', 'P', '}']));
                if is_run {
                    self.read.commands.push(vec![UNKNOWN.to_string()]);
                }
                if is_several {
                    open.push(UNKNOWN);
                    return;
                }
            }
            (_, Some('@')) => {
                self.next();
                open.push(UNKNOWN);
                return;
            }
            (_, Some('\'')) if unknown == UNKNOWN => {
                self.next();
                let mut quoted = Open::default();
                self.escaped(&mut quoted);
                let quoted = quoted.word.unwrap_or_default();
                open.word.get_or_insert_default().push_str(&quoted);
                return;
            }
            (_, Some('"')) if unknown == UNKNOWN => return,
            (_, Some(name)) if name == '_' || name.is_alphanumeric() => {
                let is_name = |letter: char| letter == '_' || letter.is_alphanumeric();
                while self.peek().is_some_and(is_name) && self.next().is_some() {}
            }
            (_, Some('*' | '#' | '?' | '-' | '$' | '!')) => drop(self.next()),
            _ => {
                open.push(letter);
                return;
            }
        }
        open.push(unknown);
    }

    /// Reads `${…}` behind its brace.
    fn parameter(&mut self, is_quoted: bool) {
        let mut dropped = Open::default();
        loop {
            match self.next() {
                Some('}') => return,
                Some('\\') => drop(self.next()),
                Some('"') => self.double(&mut dropped, Some('"')),
                // Whether it quotes here depends on what is done with the variable.
                Some('\'') if is_quoted => drop(self.give_up()),
                Some('\'') => self.single(&mut dropped),
                Some(letter @ ('$' | '`')) => self.expansion(letter, &mut dropped, UNKNOWN_IN_WORD),
                Some(_) => {}
                None => {
                    self.read.is_odd = true;
                    return;
                }
            }
        }
    }

    /// Reads `$((…))`, `((…))` and `$[…]` from behind what opens them, in which `#` begins no comment; tells whether it was one. What is in it is
    /// read as commands too: not every shell knows all of these.
    fn arithmetic(&mut self, opens: char, closes: char) -> bool {
        let is_double = opens == '(';
        if is_double && self.peek() != Some('(') {
            return false;
        }
        let (mut depth, mut has_hash, mut is_plain) = (1_usize, false, true);
        let (mut end, mut looked) = (None, 0);
        let near = self.letters.iter().enumerate().skip(self.at);
        for (at, letter) in near.take(MAX_ARITHMETIC) {
            looked += 1;
            match *letter {
                it if it == opens => depth += 1,
                it if it == closes => depth -= 1,
                '#' => has_hash = true,
                '\'' | '"' | '\\' | '`' => is_plain = false,
                _ => {}
            }
            // Both must close at once; else it is a command in parentheses.
            if is_double && depth == 1 && self.letters.get(at + 1) != Some(&')') {
                break;
            }
            if depth == 0 {
                end = Some(at);
                break;
            }
        }
        let Some(left) = self.left.checked_sub(looked) else {
            self.give_up();
            return false;
        };
        self.left = left;
        let Some(end) = end.filter(|_| is_plain) else {
            // Where quotes are in it, shells differ in where it ends.
            if has_hash {
                self.give_up();
            }
            return false;
        };
        let inner: String = self.letters[self.at..end].iter().collect();
        self.at = end + 1;
        self.within(&inner, |reader| reader.double(&mut Open::default(), None));
        self.within(&inner, |reader| reader.list(None));
        true
    }

    /// Reads `(…)`, which holds commands, `((…))`, and `@(…)`, which stands for names of files.
    fn parenthesis(&mut self, open: &mut Open) {
        self.read.is_odd = true;
        let word = open
            .word
            .as_mut()
            .filter(|it| it.ends_with(['@', '+', '!', '?', '*']));
        if let Some(word) = word {
            word.pop();
            word.push(GLOB);
            word.push('(');
            self.list(Some(')'));
            return;
        }
        if !self.arithmetic('(', ')') {
            self.list(Some(')'));
        }
    }

    /// Reads what stands between `$'` and `'`. Letters that are written in another way are not known, nor is how many belong to them.
    fn escaped(&mut self, open: &mut Open) {
        let mut is_known = true;
        loop {
            match self.next() {
                Some('\'') | None => return,
                Some('\\') => {
                    self.next();
                    is_known = false;
                    open.push(UNKNOWN_IN_WORD);
                }
                Some(letter) if is_known => open.push(letter),
                Some(_) => {}
            }
        }
    }

    fn backticks(&mut self) {
        let mut inner = String::new();
        loop {
            match self.next() {
                Some('`') | None => break,
                Some('\\') => inner.extend(self.next()),
                Some(letter) => inner.push(letter),
            }
        }
        self.within(&inner, |reader| reader.list(None));
    }

    /// Reads another text, and adds what is in it.
    fn within(&mut self, text: &str, how: impl FnOnce(&mut Self)) {
        let Some(depth) = self.depth.checked_sub(1) else {
            self.give_up();
            return;
        };
        let mut reader = Self::new(text, depth, self.left);
        how(&mut reader);
        self.left = reader.left;
        self.read.is_too_much |= reader.read.is_too_much;
        self.read.commands.append(&mut reader.read.commands);
        self.read.texts.append(&mut reader.read.texts);
    }

    fn redirection(&mut self, letter: char, open: &mut Open) {
        self.read.is_odd = true;
        // `2>` names a stream.
        let is_stream = |word: &String| word.chars().all(|it| it.is_ascii_digit());
        open.word = open.word.take().filter(|word| !is_stream(word));
        self.end_word(open);
        if self.next_if('(') {
            self.list(Some(')'));
            open.push(UNKNOWN);
            return;
        }
        if letter == '<' && self.next_if('<') {
            match self.next_if('<') {
                // What a shell reads from `<<< WORD` is a line, as what `eval` gets.
                true => (open.is_target, open.is_text) = (true, true),
                false => self.await_text(),
            }
            return;
        }
        while self.peek().is_some_and(|it| matches!(it, '>' | '&' | '|')) && self.next().is_some() {
        }
        open.is_target = true;
    }

    /// Reads which word ends the text that begins with the next line.
    fn await_text(&mut self) {
        let is_indented = self.next_if('-');
        while self.next_if(' ') || self.next_if('\t') {}
        let (mut end, mut is_quoted, mut is_plain) = (String::new(), false, true);
        let goes_on = |letter: char| !" \t\n;&|<>()".contains(letter);
        while let Some(letter) = self.peek().filter(|letter| goes_on(*letter)) {
            self.next();
            match letter {
                '\'' | '"' => {
                    is_quoted = true;
                    let mut is_closed = false;
                    while let Some(inner) = self.next() {
                        if inner == letter {
                            is_closed = true;
                            break;
                        }
                        is_plain &= !"\\$`\n\r".contains(inner);
                        end.push(inner);
                    }
                    is_plain &= is_closed;
                }
                '\\' => {
                    is_quoted = true;
                    let escaped = self.next();
                    is_plain &= escaped.is_some_and(|it| !it.is_whitespace());
                    end.extend(escaped);
                }
                letter => {
                    is_plain &= !"$`\r".contains(letter);
                    end.push(letter);
                }
            }
        }
        if !is_plain {
            // Nobody knows where the text ends, and so what behind it is run.
            self.give_up();
            return;
        }
        self.awaited.push(Awaited {
            end,
            is_quoted,
            is_indented,
        });
    }

    /// Reads the texts that were announced by `<<`. Whatever they are for, they may be commands.
    fn awaited_texts(&mut self) {
        for awaited in std::mem::take(&mut self.awaited) {
            let mut text = String::new();
            while self.peek().is_some() {
                let mut line = String::new();
                while let Some(letter) = self.next().filter(|letter| *letter != '\n') {
                    line.push(letter);
                }
                let shown = match awaited.is_indented {
                    true => line.trim_start_matches('\t'),
                    false => &line,
                };
                if shown == awaited.end {
                    break;
                }
                text.push_str(shown);
                text.push('\n');
            }
            self.within(&text, |reader| reader.list(None));
            if !awaited.is_quoted {
                self.within(&text, |reader| reader.double(&mut Open::default(), None));
            }
            self.read.texts.push(text);
        }
    }

    /// `{ a; }` holds commands, and `{a,b}` is several words.
    fn brace(&mut self, letter: char, open: &mut Open) {
        self.read.is_odd = true;
        let is_alone =
            open.word.is_none() && self.peek().is_none_or(|it| it.is_whitespace() || it == ';');
        if is_alone {
            return self.end_command(open);
        }
        let rest = &self.letters[self.at..];
        let word = rest.iter().take(1_000).take_while(|it| !it.is_whitespace());
        let mut word = word.take_while(|it| !"$`'\"()".contains(**it));
        let closed = word.position(|it| *it == '}');
        match (letter, closed) {
            // Programs that run others put something in its place.
            ('{', Some(0)) if !open.is_name() => {
                self.next();
                open.push('{');
                open.push('}');
            }
            ('{', Some(end)) => {
                self.at += end + 1;
                open.push(UNKNOWN);
            }
            // Quotes and substitutions are in it.
            ('{', None) => {
                open.push(UNKNOWN);
                open.braces += 1;
            }
            _ if open.braces > 0 => open.braces -= 1,
            _ => {
                self.end_command(open);
                open.word.get_or_insert_default();
            }
        }
    }

    /// Words such as `A=b` before a command change what it does, and are not its name.
    fn end_word(&mut self, open: &mut Open) {
        let Some(word) = open.word.take() else {
            return;
        };
        open.braces = 0;
        let is_text = std::mem::take(&mut open.is_text);
        if std::mem::take(&mut open.is_target) {
            if is_text {
                self.read.commands.push(vec!["eval".to_owned(), word]);
            }
            return;
        }
        let is_first = open.words.last().is_none_or(|word| is_keyword(word));
        match word.as_str() {
            "case" if is_first => open.cases += 1,
            "esac" if is_first => open.cases = open.cases.saturating_sub(1),
            _ => {}
        }
        match open.words.is_empty() && is_variable(&word) {
            true => {
                self.read.is_odd = true;
                if let Some((_, value)) = word.split_once('=').filter(|it| is_run_later(it.0)) {
                    let line = vec!["eval".to_owned(), value.to_owned()];
                    self.read.commands.push(line);
                }
            }
            false => open.words.push(word),
        }
    }

    fn end_command(&mut self, open: &mut Open) {
        self.end_word(open);
        (open.is_target, open.is_text) = (false, false);
        if !open.words.is_empty() {
            self.read.commands.push(std::mem::take(&mut open.words));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_a_line_is_it_is_read(line in "[a-c \\t\\n'\"`$(){}<>|&;#!=*\\[\\]\\\\E-]{0,80}") {
            read(&line);
            read(&format!("{line}\n").repeat(20));
        }

        #[test]
        fn what_comes_behind_whole_lines_is_read_too(words in prop::collection::vec("[a-z]{1,5}", 1..5)) {
            for before in ["a 'b\n' \"c $(d 'e')\" `f`", "a <<E\nit's\nE", "# don't", "a > b 2>&1", "(a; { b; })"] {
                let read = read(&format!("{before}\nx {}", words.join(" ")));
                let last = read.commands.last().unwrap();
                prop_assert_eq!(&last[1..], &words[..]);
            }
        }
    }

    #[test]
    fn what_would_be_looked_at_again_and_again_is_given_up() {
        let mut line = "a".to_owned();
        for _ in 0..40 {
            line = format!("a <<E\n$({line}\n)\nE");
        }
        assert!(read(&line).is_too_much);
        assert!(read(&"(".repeat(1_000)).is_too_much);
        assert!(read(&"a $((\" ) ) \" ".repeat(10_000)).is_too_much);
        assert!(!read(&"a".repeat(100_000)).is_too_much);
    }
}
