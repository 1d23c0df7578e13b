//! Questions to the person at the terminal, one at a time, while the turn waits.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use windlass_core::bounds::{lines, one_line};
use windlass_core::questions::is_choice;

use super::proposal::{Line, heading, proposal};
use super::{Colour, Screen, ToolCall, columns, hush, rows, wrapped};

/// How often the thread that reads looks whether it is still wanted.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A question that waits for an answer.
pub(crate) enum Asked {
    /// May this call run?
    Approval { id: String, tool: ToolCall },
    /// What a tool wants to know.
    Input { id: String, request: Value },
}

/// What was answered, and to what.
pub(crate) struct Answer {
    pub(crate) asked: Asked,
    pub(crate) body: Value,
}

/// Asks one question after the other.
pub(crate) struct Questions {
    waiting: VecDeque<Asked>,
    /// The one that is asked.
    now: Option<Open>,
    reader: Option<Reader>,
}

/// A question that somebody looks at.
struct Open {
    asked: Asked,
    /// What was answered to its parts.
    given: Vec<Value>,
    /// All that is to be seen before a yes counts, where it was not all shown.
    unseen: Option<Vec<Line>>,
}

/// A thread that waits for one line of standard input. Dropping it ends the thread before it takes a line that is meant for somebody else.
struct Reader {
    line: oneshot::Receiver<Option<String>>,
    is_wanted: Arc<AtomicBool>,
}

impl Reader {
    fn start() -> Self {
        let (send, line) = oneshot::channel();
        let is_wanted = Arc::new(AtomicBool::new(true));
        let wanted = Arc::clone(&is_wanted);
        std::thread::spawn(move || send.send(read_line(&wanted)));
        Self { line, is_wanted }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::SeqCst);
    }
}

/// Reads a line from the terminal itself: what follows it stays there, so that it can be thrown away before the next question.
fn read_line(wanted: &AtomicBool) -> Option<String> {
    let mut line = Vec::new();
    while wanted.load(Ordering::SeqCst) {
        // While it waited, the question may have been settled in another way.
        if !has_input().ok()? || !wanted.load(Ordering::SeqCst) {
            continue;
        }
        let mut piece = [0; 1024];
        let count = match rustix::io::read(io::stdin(), &mut piece) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(_) => return None,
        };
        let end = piece[..count].iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&piece[..end.unwrap_or(count)]);
        if end.is_some() || (count == 0 && !line.is_empty()) {
            return Some(String::from_utf8_lossy(&line).into_owned());
        }
        if count == 0 {
            return None;
        }
    }
    None
}

/// Waits a while for something to read on standard input.
fn has_input() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut polled, Some(&PATIENCE)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Questions {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            now: None,
            reader: None,
        }
    }

    pub(crate) fn push(&mut self, asked: Asked) {
        self.waiting.push_back(asked);
    }

    /// Asks once more what was answered in vain.
    pub(crate) fn put_back(&mut self, asked: Asked) {
        self.waiting.push_front(asked);
    }

    /// Takes the next question away, where nobody is there to be asked.
    pub(crate) fn take(&mut self) -> Option<Asked> {
        self.waiting.pop_front()
    }

    /// Forgets a question that is settled in another way.
    pub(crate) fn forget(&mut self, id: &str, screen: &mut Screen) -> io::Result<()> {
        let is_it = |asked: &Asked| match asked {
            Asked::Approval { id: asked, .. } | Asked::Input { id: asked, .. } => asked == id,
        };
        self.waiting.retain(|asked| !is_it(asked));
        if self.now.as_ref().is_some_and(|open| is_it(&open.asked)) {
            (self.now, self.reader) = (None, None);
            hush::hidden();
            screen.close_question()?;
            screen.tell(Colour::Dim, "(the question is closed)")?;
        }
        Ok(())
    }

    /// Tells whether somebody is being asked.
    pub(crate) fn is_asking(&self) -> bool {
        self.now.is_some()
    }

    /// Asks the next question, unless one is asked already.
    pub(crate) fn ask(&mut self, screen: &mut Screen, cwd: &Path) -> io::Result<()> {
        if self.now.is_some() {
            return Ok(());
        }
        let Some(asked) = self.waiting.pop_front() else {
            return Ok(());
        };
        screen.rest()?;
        let mut unseen = None;
        if let Asked::Approval { tool, .. } = &asked {
            let mut lines = vec![(Colour::Asked, heading(tool))];
            let of_call = proposal(tool, cwd, screen.style()).into_iter();
            lines.extend(of_call.map(|(colour, line)| (colour, format!("  {line}"))));
            let shown = that_fit(&lines, rows(), columns());
            for (colour, line) in &lines[..shown] {
                screen.question(*colour, line)?;
            }
            unseen = (shown < lines.len()).then_some(lines);
        }
        self.now = Some(Open {
            asked,
            given: Vec::new(),
            unseen,
        });
        self.prompt(screen)
    }

    /// Writes what is to be answered now. What was typed before is no answer to it: nobody has seen the question.
    fn prompt(&self, screen: &mut Screen) -> io::Result<()> {
        let Some(open) = &self.now else {
            return Ok(());
        };
        let text = match (&open.asked, &open.unseen) {
            (Asked::Approval { .. }, None) => {
                "Allow? [y]es, [n]o, [p]roject (this call), [a]lways (all, commands too): "
            }
            (Asked::Approval { .. }, Some(_)) => "There is more of it. [s]how all, [n]o: ",
            (Asked::Input { request, .. }, _) => {
                let question = &request["questions"][open.given.len()];
                let asked = lines(question["question"].as_str().unwrap_or("?"));
                for line in asked.lines() {
                    screen.question(Colour::Asked, line)?;
                }
                let options = question["options"].as_array();
                for (number, option) in options.into_iter().flatten().enumerate() {
                    let of = |name: &str| {
                        one_line(option[name].as_str().unwrap_or_default()).into_owned()
                    };
                    let (label, description) = (of("label"), of("description"));
                    let line = format!("  {}. {label}  {description}", number + 1);
                    screen.question(Colour::Plain, &line)?;
                }
                "Answer: "
            }
        };
        hush::shown();
        // A standard input that is no terminal has nothing to throw away.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        screen.prompt(text)
    }

    /// Waits for a line that somebody types; `None` when nobody will.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let reader = self.reader.get_or_insert_with(Reader::start);
        let line = (&mut reader.line).await;
        self.reader = None;
        line.ok().flatten()
    }

    /// Takes a line as an answer; `None` where more is to be answered. Whoever went away says no.
    pub(crate) fn answer(
        &mut self,
        line: Option<String>,
        screen: &mut Screen,
    ) -> io::Result<Option<Answer>> {
        let Some(mut open) = self.now.take() else {
            return Ok(None);
        };
        hush::hidden();
        match &line {
            Some(_) => screen.answered(),
            None => screen.close_question()?,
        }
        let body = match &open.asked {
            Asked::Approval { .. } => {
                let said = line.as_deref().map(str::trim).map(str::to_lowercase);
                match (said.as_deref(), open.unseen.take()) {
                    (Some("n" | "no") | None, _) => Some(json!({ "decision": "deny" })),
                    (Some("y" | "yes"), None) => Some(json!({ "decision": "allow" })),
                    (Some("p" | "project"), None) => Some(
                        json!({ "decision": "allow", "remember": true, "remember_for": "project" }),
                    ),
                    (Some("a" | "always"), None) => {
                        Some(json!({ "decision": "allow", "remember": true }))
                    }
                    (Some("s" | "show"), Some(lines)) => {
                        for (colour, line) in &lines {
                            screen.question(*colour, line)?;
                        }
                        None
                    }
                    (Some(_), unseen) => {
                        let told = match &unseen {
                            None => "Type y, n, p or a, and Enter.",
                            Some(_) => "Type s or n, and Enter.",
                        };
                        screen.question(Colour::Bad, told)?;
                        open.unseen = unseen;
                        None
                    }
                }
            }
            Asked::Input { request, .. } => {
                let question = &request["questions"][open.given.len()];
                let is_gone = line.is_none();
                let said = line.unwrap_or_default();
                let said = said.trim();
                let chosen = said.parse::<usize>().ok().and_then(|number| {
                    let option = &question["options"][number.checked_sub(1)?];
                    option["label"].as_str()
                });
                let said = chosen.unwrap_or(said);
                let answer = json!({ "id": question["id"], "label": said, "value": said });
                match is_choice(question, said) {
                    true => open.given.push(answer),
                    false if is_gone => open.given.push(
                        json!({ "id": question["id"], "label": "", "value": "", "skipped": true }),
                    ),
                    false => screen.question(Colour::Bad, "Choose one of the options.")?,
                }
                let count = request["questions"].as_array().map_or(0, Vec::len);
                (open.given.len() >= count).then(|| json!({ "answers": open.given }))
            }
        };
        match body {
            Some(body) => Ok(Some(Answer {
                asked: open.asked,
                body,
            })),
            None => {
                self.now = Some(open);
                self.prompt(screen)?;
                Ok(None)
            }
        }
    }
}

/// Returns how many lines fit into some rows of a terminal, each with the mark before it.
fn that_fit(lines: &[Line], rows: usize, columns: usize) -> usize {
    let mut taken = 0;
    let fits = |(_, line): &&Line| {
        taken += wrapped(line, columns.saturating_sub(3)).len();
        taken <= rows
    };
    lines.iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval(command: &str) -> Asked {
        let id = "1".to_owned();
        let tool = ToolCall {
            name: "shell".to_owned(),
            input: json!({ "command": command }),
        };
        Asked::Approval { id, tool }
    }

    /// Asks about a command, and returns what each line of somebody's decides.
    fn decided(command: &str, lines: &[&str]) -> Vec<Option<Value>> {
        let (mut questions, mut screen) = (Questions::new(), Screen::new(false));
        questions.push(approval(command));
        questions.ask(&mut screen, Path::new("/")).unwrap();
        let answers = lines.iter().map(|line| {
            let answer = questions.answer(Some((*line).to_owned()), &mut screen);
            answer
                .unwrap()
                .map(|answer| answer.body["decision"].clone())
        });
        answers.collect()
    }

    #[test]
    fn a_yes_counts_once_the_whole_command_was_shown() {
        let (allow, deny) = (Some(json!("allow")), Some(json!("deny")));
        assert_eq!(decided("ls", &["maybe", "y"]), [None, allow.clone()]);
        for long in ["x\n".repeat(100), "x".repeat(4_000)] {
            let told = decided(&long, &["y", "a", "s", "y"]);
            assert_eq!(told, [None, None, None, allow.clone()]);
            assert_eq!(decided(&long, &["n"]).last(), Some(&deny));
        }
    }

    #[test]
    fn a_question_that_takes_its_options_alone_is_asked_until_one_is_chosen() {
        let (mut questions, mut screen) = (Questions::new(), Screen::new(false));
        let mut said = |line: Option<&str>| {
            let options = json!([{ "label": "Red" }, { "label": "Blue" }]);
            let closed = json!({ "id": "q", "question": "Which?", "options": options, "allow_free_text": false });
            if questions.now.is_none() {
                let (id, request) = ("1".to_owned(), json!({ "questions": [closed] }));
                questions.push(Asked::Input { id, request });
                questions.ask(&mut screen, Path::new("/")).unwrap();
            }
            let answer = questions.answer(line.map(str::to_owned), &mut screen);
            answer
                .unwrap()
                .map(|answer| answer.body["answers"][0].clone())
        };
        assert_eq!(said(Some("green")), None);
        assert_eq!(said(Some("3")), None);
        assert_eq!(
            said(Some("2")),
            Some(json!({ "id": "q", "label": "Blue", "value": "Blue" }))
        );
        assert_eq!(said(None).unwrap()["skipped"], true);
    }

    #[test]
    fn rows_are_counted_as_they_are_wrapped() {
        let line = |width| (Colour::Plain, "x".repeat(width));
        assert_eq!(that_fit(&[line(7), line(7), line(7)], 2, 10), 2);
        assert_eq!(that_fit(&[line(8), line(7), line(7)], 2, 10), 1);
        assert_eq!(that_fit(&[line(70)], 2, 10), 0);
    }

    #[test]
    fn what_was_answered_in_vain_is_asked_first() {
        let mut questions = Questions::new();
        questions.push(approval("second"));
        questions.put_back(approval("first"));
        let Some(Asked::Approval { tool, .. }) = questions.take() else {
            panic!("nothing waits");
        };
        assert_eq!(tool.input["command"], "first");
    }
}
