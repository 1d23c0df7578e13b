//! Questions to the user, one at a time, while the turn waits.

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

use super::proposal::{StyledLine, heading, proposal};
use super::{Colour, Screen, ShownCall, columns, echo, rows, wrap_rows};

/// Interval at which the reading thread checks whether it is still needed.
const READ_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A question that waits for its [`QuestionAnswer`].
pub(crate) enum PendingQuestion {
    /// Whether a call may run.
    Approval { id: String, call: ShownCall },
    /// The questions of a tool.
    Input { id: String, request: Value },
}

impl PendingQuestion {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Approval { id, .. } | Self::Input { id, .. } => id,
        }
    }
}

/// The answer to the [`PendingQuestion`] of the same variant.
pub(crate) enum QuestionAnswer {
    Approval(DecideApproval),
    Input(UserInputAnswers),
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

    fn answer(&self, text: &str, skipped: bool) -> UserAnswer {
        UserAnswer {
            id: self.id.clone(),
            label: text.to_owned(),
            value: text.to_owned(),
            skipped,
        }
    }
}

/// Asks questions one after the other.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: VecDeque<PendingQuestion>,
    shown: Option<ShownQuestion>,
    reader: Option<LineReader>,
    /// Whether the user is in the middle of a line.
    is_typing: bool,
}

/// The question that the user sees.
struct ShownQuestion {
    question: PendingQuestion,
    /// Answers to the first questions of a tool.
    given: Vec<UserAnswer>,
    /// All lines of the call, if some of them were not shown yet; then a yes is not accepted.
    unseen: Option<Vec<StyledLine>>,
    /// The user was typing when the question appeared, so the next line is no answer.
    is_rest_of_line: bool,
}

/// A thread that waits for one line of standard input. Dropping it stops the thread before it consumes a line of the next reader.
struct LineReader {
    line: oneshot::Receiver<Option<String>>,
    is_wanted: Arc<AtomicBool>,
}

impl LineReader {
    fn start() -> Self {
        let (send, line) = oneshot::channel();
        let is_wanted = Arc::new(AtomicBool::new(true));
        let is_needed = Arc::clone(&is_wanted);
        std::thread::spawn(move || send.send(read_line(&is_needed)));
        Self { line, is_wanted }
    }
}

impl Drop for LineReader {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::SeqCst);
    }
}

/// Reads a line from the terminal without buffering: later input stays there and can be discarded before the next question.
fn read_line(is_needed: &AtomicBool) -> Option<String> {
    let mut line = Vec::new();
    while is_needed.load(Ordering::SeqCst) {
        // The question may have been settled elsewhere in the meantime.
        if !has_input().ok()? || !is_needed.load(Ordering::SeqCst) {
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

/// Waits up to [`READ_INTERVAL`] for input on standard input.
pub(super) fn has_input() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut polled, Some(&READ_INTERVAL)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Questions {
    pub(crate) fn push(&mut self, question: PendingQuestion) {
        self.waiting.push_back(question);
    }

    /// Records whether the user is in the middle of a line. The rest of it is no answer to the next question.
    pub(crate) fn expect_rest_of_line(&mut self, is_typing: bool) {
        self.is_typing |= is_typing;
    }

    /// Queues a question again whose answer was not accepted.
    pub(crate) fn put_back(&mut self, question: PendingQuestion) {
        self.waiting.push_front(question);
    }

    /// Removes the next question, to answer it without the user.
    pub(crate) fn take(&mut self) -> Option<PendingQuestion> {
        self.waiting.pop_front()
    }

    /// Removes a question that was settled elsewhere.
    pub(crate) fn forget(&mut self, id: &str, screen: &mut Screen) -> io::Result<()> {
        self.waiting.retain(|question| question.id() != id);
        if self
            .shown
            .as_ref()
            .is_some_and(|shown| shown.question.id() == id)
        {
            (self.shown, self.reader) = (None, None);
            echo::echo_off();
            screen.close_question()?;
            screen.notify(Colour::Dim, "(the question was settled elsewhere)")?;
        }
        Ok(())
    }

    /// Returns whether a question is shown or will be.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_asking() || !self.waiting.is_empty()
    }

    /// Returns whether a question is shown.
    pub(crate) fn is_asking(&self) -> bool {
        self.shown.is_some()
    }

    /// Shows the next question, unless one is shown already.
    pub(crate) fn ask(&mut self, screen: &mut Screen, cwd: &Path) -> io::Result<()> {
        if self.shown.is_some() {
            return Ok(());
        }
        let Some(question) = self.waiting.pop_front() else {
            return Ok(());
        };
        screen.end_line()?;
        let mut unseen = None;
        if let PendingQuestion::Approval { call, .. } = &question {
            let mut lines = vec![(Colour::Warning, heading(call))];
            let of_call = proposal(call, cwd, screen.style()).into_iter();
            lines.extend(of_call.map(|(colour, line)| (colour, format!("  {line}"))));
            let visible = visible_lines(&lines, rows(), columns());
            for (colour, line) in &lines[..visible] {
                screen.question(*colour, line)?;
            }
            unseen = (visible < lines.len()).then_some(lines);
        }
        self.shown = Some(ShownQuestion {
            question,
            given: Vec::new(),
            unseen,
            is_rest_of_line: std::mem::take(&mut self.is_typing),
        });
        self.prompt(screen)
    }

    /// Writes the prompt of the shown question. Earlier input is discarded: the user typed it before seeing the question.
    fn prompt(&self, screen: &mut Screen) -> io::Result<()> {
        let Some(shown) = &self.shown else {
            return Ok(());
        };
        let text = match (&shown.question, &shown.unseen) {
            (PendingQuestion::Approval { .. }, None) => {
                "Allow? [y]es, [n]o, [t]urn, [p]roject (this call), [a]lways (commands too): "
            }
            (PendingQuestion::Approval { .. }, Some(_)) => {
                "Not everything is shown. [s]how all, [n]o: "
            }
            (PendingQuestion::Input { request, .. }, _) => {
                let question = question_at(request, shown.given.len());
                let text = lines(question.question.as_deref().unwrap_or("?"));
                for line in text.lines() {
                    screen.question(Colour::Warning, line)?;
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
        echo::echo_on();
        // If standard input is not a terminal, there is nothing to discard.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        screen.prompt(text)
    }

    /// Waits for a line from the user; `None` at the end of input.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let reader = self.reader.get_or_insert_with(LineReader::start);
        let line = (&mut reader.line).await;
        self.reader = None;
        line.ok().flatten()
    }

    /// Processes a line as an answer; `None` if more answers are needed. The end of input means no.
    pub(crate) fn answer(
        &mut self,
        line: Option<String>,
        screen: &mut Screen,
    ) -> io::Result<Option<(PendingQuestion, QuestionAnswer)>> {
        let Some(mut shown) = self.shown.take() else {
            return Ok(None);
        };
        echo::echo_off();
        match &line {
            Some(_) => screen.answered(),
            None => screen.close_question()?,
        }
        if std::mem::take(&mut shown.is_rest_of_line) && line.is_some() {
            let text = "You were typing, so this line is not taken as an answer.";
            screen.question(Colour::Dim, text)?;
            self.shown = Some(shown);
            self.prompt(screen)?;
            return Ok(None);
        }
        let answer = match &shown.question {
            PendingQuestion::Approval { .. } => {
                decided(line.as_deref(), &mut shown.unseen, screen)?.map(QuestionAnswer::Approval)
            }
            PendingQuestion::Input { request, .. } => {
                let question = question_at(request, shown.given.len());
                match chosen(&question, line.as_deref()) {
                    Some(answer) => shown.given.push(answer),
                    None => screen.question(Colour::Bad, "Choose one of the options.")?,
                }
                let is_complete = shown.given.len() >= InputQuestion::all(request).len();
                is_complete.then(|| {
                    let answers = std::mem::take(&mut shown.given);
                    QuestionAnswer::Input(UserInputAnswers { answers })
                })
            }
        };
        if let Some(answer) = answer {
            return Ok(Some((shown.question, answer)));
        }
        self.shown = Some(shown);
        self.prompt(screen)?;
        Ok(None)
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
    let text = line.unwrap_or_default().trim();
    let number = text.parse::<usize>().ok();
    let option = number.and_then(|number| question.options.get(number.checked_sub(1)?));
    let text = option.map_or(text, |option| &option.label);
    if is_choice(&question.json, text) {
        return Some(question.answer(text, false));
    }
    line.is_none().then(|| question.answer("", true))
}

/// Parses the decision about a call; `None` if the line is not a decision. At the end of input, the call is denied. Text after a no is
/// the reason, which the model reads.
fn decided(
    line: Option<&str>,
    unseen: &mut Option<Vec<StyledLine>>,
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
        ("t" | "turn", None) => Some(DecideApproval {
            remember: true,
            remember_for: RememberFor::Turn,
            ..allowed
        }),
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
            let hint = match &still_unseen {
                None => "Type y, n, t, p or a, and Enter. Text after n is for the model.",
                Some(_) => "Type s or n, and Enter.",
            };
            screen.question(Colour::Bad, hint)?;
            *unseen = still_unseen;
            None
        }
    })
}

/// Returns how many lines, each with the mark, fit into `rows` rows of a terminal.
fn visible_lines(lines: &[StyledLine], rows: usize, columns: usize) -> usize {
    let mut used = 0;
    let fits = |(_, line): &&StyledLine| {
        used += wrap_rows(line, columns.saturating_sub(3)).len();
        used <= rows
    };
    lines.iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn approval(command: &str) -> PendingQuestion {
        let id = "1".to_owned();
        let call = ShownCall {
            name: "shell".to_owned(),
            input: json!({ "command": command }),
        };
        PendingQuestion::Approval { id, call }
    }

    /// Asks about a command and returns the decision for each line of input.
    fn decisions(command: &str, lines: &[&str]) -> Vec<Option<String>> {
        let (mut questions, mut screen) = (Questions::default(), Screen::new(false));
        questions.push(approval(command));
        questions.ask(&mut screen, Path::new("/")).unwrap();
        let answers = lines.iter().map(|line| {
            let answer = questions.answer(Some((*line).to_owned()), &mut screen);
            answer.unwrap().map(|(_, answer)| match answer {
                QuestionAnswer::Approval(request) => request.decision,
                QuestionAnswer::Input(_) => panic!("nothing else was asked"),
            })
        });
        answers.collect()
    }

    #[test]
    fn yes_is_accepted_after_the_complete_command_was_shown() {
        let (allow, deny) = (Some("allow".to_owned()), Some("deny".to_owned()));
        assert_eq!(decisions("ls", &["maybe", "y"]), [None, allow.clone()]);
        for long in ["x\n".repeat(100), "x".repeat(4_000)] {
            let decided = decisions(&long, &["y", "a", "s", "y"]);
            assert_eq!(decided, [None, None, None, allow.clone()]);
            assert_eq!(decisions(&long, &["n"]).last(), Some(&deny));
        }
    }

    #[test]
    fn rest_of_a_line_that_was_begun_before_the_question_is_no_answer() {
        let (mut questions, mut screen) = (Questions::default(), Screen::new(false));
        questions.push(approval("ls"));
        questions.expect_rest_of_line(true);
        questions.ask(&mut screen, Path::new("/")).unwrap();
        let mut answer = |line: &str| {
            questions
                .answer(Some(line.to_owned()), &mut screen)
                .unwrap()
        };
        assert!(answer("a").is_none());
        assert!(answer("y").is_some());
    }

    #[test]
    fn text_after_a_no_is_the_reason() {
        for (line, reason) in [
            ("n", None),
            ("  NO  ", None),
            ("no  Use make, not ls", Some("Use make, not ls")),
        ] {
            let (mut questions, mut screen) = (Questions::default(), Screen::new(false));
            questions.push(approval("ls"));
            questions.ask(&mut screen, Path::new("/")).unwrap();
            let answer = questions.answer(Some(line.to_owned()), &mut screen);
            let Some((_, QuestionAnswer::Approval(request))) = answer.unwrap() else {
                panic!("{line} is a decision");
            };
            assert_eq!(
                (&*request.decision, request.reason.as_deref()),
                ("deny", reason)
            );
        }
    }

    #[test]
    fn closed_question_is_repeated_until_an_option_is_chosen() {
        let (mut questions, mut screen) = (Questions::default(), Screen::new(false));
        let mut answer_with = |line: Option<&str>| {
            let options = json!([{ "label": "Red" }, { "label": "Blue" }]);
            let closed = json!({ "id": "q", "question": "Which?", "options": options, "allow_free_text": false });
            if questions.shown.is_none() {
                let (id, request) = ("1".to_owned(), json!({ "questions": [closed] }));
                questions.push(PendingQuestion::Input { id, request });
                questions.ask(&mut screen, Path::new("/")).unwrap();
            }
            let answer = questions.answer(line.map(str::to_owned), &mut screen);
            answer.unwrap().map(|(_, answer)| match answer {
                QuestionAnswer::Input(answers) => json!(answers.answers[0]),
                QuestionAnswer::Approval(_) => panic!("nothing else was asked"),
            })
        };
        assert_eq!(answer_with(Some("green")), None);
        assert_eq!(answer_with(Some("3")), None);
        assert_eq!(
            answer_with(Some("2")),
            Some(json!({ "id": "q", "label": "Blue", "value": "Blue" }))
        );
        assert_eq!(answer_with(None).unwrap()["skipped"], true);
    }

    #[test]
    fn wrapped_rows_are_counted() {
        let line = |width| (Colour::Plain, "x".repeat(width));
        assert_eq!(visible_lines(&[line(7), line(7), line(7)], 2, 10), 2);
        assert_eq!(visible_lines(&[line(8), line(7), line(7)], 2, 10), 1);
        assert_eq!(visible_lines(&[line(70)], 2, 10), 0);
    }

    #[test]
    fn question_with_a_rejected_answer_comes_first() {
        let mut questions = Questions::default();
        questions.push(approval("second"));
        questions.put_back(approval("first"));
        let Some(PendingQuestion::Approval { call, .. }) = questions.take() else {
            panic!("nothing waits");
        };
        assert_eq!(call.input["command"], "first");
    }
}
