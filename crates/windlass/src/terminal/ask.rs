//! Questions to the user at the terminal, one at a time, while the turn waits.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;
use windlass_core::bounds::{lines, one_line};
use windlass_core::questions::is_choice;
use windlass_protocol::{
    ApprovalDecision, DecideApproval, RememberFor, UserAnswer, UserInputAnswers,
};

use super::proposal::{Line, heading, proposal};
use super::{Colour, Screen, ToolCall, columns, hush, rows, wrapped};

/// Interval at which the reading thread checks whether it is still needed.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A question without an answer.
pub(crate) enum Asked {
    /// Whether a call may run.
    Approval { id: String, tool: ToolCall },
    /// The questions of a tool.
    Input { id: String, request: Value },
}

/// A question with its answer.
pub(crate) enum Answer {
    Approval {
        id: String,
        tool: ToolCall,
        request: DecideApproval,
    },
    Input {
        id: String,
        request: Value,
        answers: UserInputAnswers,
    },
}

impl From<Answer> for Asked {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Approval { id, tool, .. } => Self::Approval { id, tool },
            Answer::Input { id, request, .. } => Self::Input { id, request },
        }
    }
}

/// Returns a decision that applies to one call only.
pub(crate) fn decision(decision: ApprovalDecision) -> DecideApproval {
    let decision = match decision {
        ApprovalDecision::Allow => "allow",
        ApprovalDecision::Deny => "deny",
    };
    DecideApproval {
        decision: decision.to_owned(),
        remember: false,
        remember_for: RememberFor::default(),
        reason: None,
    }
}

/// One question of a tool. A host's tool may use another form; missing fields are empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InputQuestion {
    pub(crate) id: String,
    question: Option<String>,
    options: Vec<QuestionOption>,
    /// The complete question, for validating the answer.
    #[serde(skip)]
    json: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct QuestionOption {
    label: String,
    description: String,
}

impl InputQuestion {
    /// Parses the questions of a request.
    pub(crate) fn all(request: &Value) -> Vec<Self> {
        let questions = request.get("questions").and_then(Value::as_array);
        let questions = questions.into_iter().flatten();
        let questions = questions.map(|json| Self {
            json: json.clone(),
            ..Self::deserialize(json).unwrap_or_default()
        });
        questions.collect()
    }

    fn answer(&self, said: &str, skipped: bool) -> UserAnswer {
        UserAnswer {
            id: self.id.clone(),
            label: said.to_owned(),
            value: said.to_owned(),
            skipped,
        }
    }
}

/// Asks questions one after the other.
pub(crate) struct Questions {
    waiting: VecDeque<Asked>,
    /// The current question.
    now: Option<Open>,
    reader: Option<Reader>,
}

/// A question that is shown to the user.
struct Open {
    asked: Asked,
    /// The answers so far.
    given: Vec<UserAnswer>,
    /// The lines that must be shown before a yes is accepted, if not all of them were shown.
    unseen: Option<Vec<Line>>,
}

/// A thread that waits for one line of standard input. Dropping it stops the thread before it consumes a line that is meant for another reader.
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

/// Reads a line from the terminal without buffering: later input stays there and can be discarded before the next question.
fn read_line(wanted: &AtomicBool) -> Option<String> {
    let mut line = Vec::new();
    while wanted.load(Ordering::SeqCst) {
        // The question may have been settled elsewhere in the meantime.
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

/// Waits up to [`PATIENCE`] for input on standard input.
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

    /// Queues a question again whose answer was not accepted.
    pub(crate) fn put_back(&mut self, asked: Asked) {
        self.waiting.push_front(asked);
    }

    /// Removes the next question if there is no user to answer it.
    pub(crate) fn take(&mut self) -> Option<Asked> {
        self.waiting.pop_front()
    }

    /// Removes a question that was settled elsewhere.
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

    /// Returns whether a question is shown.
    pub(crate) fn is_asking(&self) -> bool {
        self.now.is_some()
    }

    /// Shows the next question, unless one is shown already.
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

    /// Writes the prompt of the current question. Earlier input is discarded: the user typed it before seeing the question.
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
                let question = question_at(request, open.given.len());
                let asked = lines(question.question.as_deref().unwrap_or("?"));
                for line in asked.lines() {
                    screen.question(Colour::Asked, line)?;
                }
                for (number, option) in question.options.iter().enumerate() {
                    let (label, description) =
                        (one_line(&option.label), one_line(&option.description));
                    let line = format!("  {}. {label}  {description}", number + 1);
                    screen.question(Colour::Plain, &line)?;
                }
                "Answer: "
            }
        };
        hush::shown();
        // If standard input is not a terminal, there is nothing to discard.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        screen.prompt(text)
    }

    /// Waits for a line from the user; `None` at the end of input.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let reader = self.reader.get_or_insert_with(Reader::start);
        let line = (&mut reader.line).await;
        self.reader = None;
        line.ok().flatten()
    }

    /// Processes a line as an answer; `None` if more answers are needed. The end of input means no.
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
        let answer = match open.asked {
            Asked::Approval { id, tool } => {
                match decided(line.as_deref(), &mut open.unseen, screen)? {
                    Some(request) => Ok(Answer::Approval { id, tool, request }),
                    None => Err(Asked::Approval { id, tool }),
                }
            }
            Asked::Input { id, request } => {
                let questions = InputQuestion::all(&request);
                let question = question_at(&request, open.given.len());
                match chosen(&question, line.as_deref()) {
                    Some(answer) => open.given.push(answer),
                    None => screen.question(Colour::Bad, "Choose one of the options.")?,
                }
                if open.given.len() >= questions.len() {
                    let answers = std::mem::take(&mut open.given);
                    let answers = UserInputAnswers { answers };
                    Ok(Answer::Input {
                        id,
                        request,
                        answers,
                    })
                } else {
                    Err(Asked::Input { id, request })
                }
            }
        };
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(asked) => {
                self.now = Some(Open { asked, ..open });
                self.prompt(screen)?;
                Ok(None)
            }
        }
    }
}

/// Returns a question of a request; an empty one if the request has another form.
fn question_at(request: &Value, index: usize) -> InputQuestion {
    let mut questions = InputQuestion::all(request).into_iter();
    questions.nth(index).unwrap_or_default()
}

/// Parses the answer to a question, with options given by number or label; `None` if the question does not allow the answer. At the end of input, the
/// question is skipped.
fn chosen(question: &InputQuestion, line: Option<&str>) -> Option<UserAnswer> {
    let said = line.unwrap_or_default().trim();
    let number = said.parse::<usize>().ok();
    let option = number.and_then(|number| question.options.get(number.checked_sub(1)?));
    let said = option.map_or(said, |option| &option.label);
    if is_choice(&question.json, said) {
        return Some(question.answer(said, false));
    }
    line.is_none().then(|| question.answer("", true))
}

/// Parses the decision about a call; `None` if the line is not a decision. At the end of input, the call is denied. Text after a no is
/// the reason, which the model reads.
fn decided(
    line: Option<&str>,
    unseen: &mut Option<Vec<Line>>,
    screen: &mut Screen,
) -> io::Result<Option<DecideApproval>> {
    let Some(line) = line.map(str::trim) else {
        return Ok(Some(decision(ApprovalDecision::Deny)));
    };
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if ["n", "no"].contains(&&*word.to_lowercase()) {
        let reason = rest.trim();
        return Ok(Some(DecideApproval {
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
            ..decision(ApprovalDecision::Deny)
        }));
    }
    let allowed = decision(ApprovalDecision::Allow);
    Ok(match (&*line.to_lowercase(), unseen.take()) {
        ("y" | "yes", None) => Some(allowed),
        ("p" | "project", None) => Some(DecideApproval {
            remember: true,
            remember_for: RememberFor::Project,
            ..allowed
        }),
        ("a" | "always", None) => Some(DecideApproval {
            remember: true,
            ..allowed
        }),
        ("s" | "show", Some(lines)) => {
            for (colour, line) in &lines {
                screen.question(*colour, line)?;
            }
            None
        }
        (_, still_unseen) => {
            let told = match &still_unseen {
                None => "Type y, n, p or a, and Enter. After n you can give the model a reason.",
                Some(_) => "Type s or n, and Enter.",
            };
            screen.question(Colour::Bad, told)?;
            *unseen = still_unseen;
            None
        }
    })
}

/// Returns how many lines, each with the mark, fit into `rows` rows of a terminal.
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
    use serde_json::json;

    use super::*;

    fn approval(command: &str) -> Asked {
        let id = "1".to_owned();
        let tool = ToolCall {
            name: "shell".to_owned(),
            input: json!({ "command": command }),
        };
        Asked::Approval { id, tool }
    }

    /// Asks about a command and returns the decision for each line of input.
    fn decisions(command: &str, lines: &[&str]) -> Vec<Option<String>> {
        let (mut questions, mut screen) = (Questions::new(), Screen::new(false));
        questions.push(approval(command));
        questions.ask(&mut screen, Path::new("/")).unwrap();
        let answers = lines.iter().map(|line| {
            let answer = questions.answer(Some((*line).to_owned()), &mut screen);
            answer.unwrap().map(|answer| match answer {
                Answer::Approval { request, .. } => request.decision,
                Answer::Input { .. } => panic!("nothing else was asked"),
            })
        });
        answers.collect()
    }

    #[test]
    fn a_yes_counts_once_the_whole_command_was_shown() {
        let (allow, deny) = (Some("allow".to_owned()), Some("deny".to_owned()));
        assert_eq!(decisions("ls", &["maybe", "y"]), [None, allow.clone()]);
        for long in ["x\n".repeat(100), "x".repeat(4_000)] {
            let told = decisions(&long, &["y", "a", "s", "y"]);
            assert_eq!(told, [None, None, None, allow.clone()]);
            assert_eq!(decisions(&long, &["n"]).last(), Some(&deny));
        }
    }

    #[test]
    fn text_after_a_no_is_the_reason() {
        for (line, reason) in [
            ("n", None),
            ("  NO  ", None),
            ("no  Use make, not ls", Some("Use make, not ls")),
        ] {
            let (mut questions, mut screen) = (Questions::new(), Screen::new(false));
            questions.push(approval("ls"));
            questions.ask(&mut screen, Path::new("/")).unwrap();
            let answer = questions.answer(Some(line.to_owned()), &mut screen);
            let Some(Answer::Approval { request, .. }) = answer.unwrap() else {
                panic!("{line} is a decision");
            };
            assert_eq!(
                (&*request.decision, request.reason.as_deref()),
                ("deny", reason)
            );
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
            answer.unwrap().map(|answer| match answer {
                Answer::Input { answers, .. } => json!(answers.answers[0]),
                Answer::Approval { .. } => panic!("nothing else was asked"),
            })
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
