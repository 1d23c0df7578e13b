//! The live view of a turn: the answer on stdout, and on stderr a line for each call, the last one animated.

mod calls;
mod live_line;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::events::DeltaKind;
use windlass_protocol::{EventPayload, Item, ItemKind, RuntimeEventEnvelope, Status, Turn};

use super::details::Details;
use super::units::{count, spent};
use super::{
    Colour, Markdown, SIMULATOR, Style, columns, is_for_screen_reader, notification, width_of,
    wrap_rows, wrap_words,
};
use crate::inert_json::{event_line, json_line};
use calls::{RunningCall, Thought};

/// Interval between redraws of the live line.
pub(crate) const FRAME: Duration = Duration::from_millis(100);
/// Moves to the beginning of the line and clears it.
const CLEAR: &str = "\r\x1b[2K";

pub(crate) struct Screen {
    style: Style,
    is_json: bool,
    /// Whether only the result of the turn is shown.
    is_result_only: bool,
    out: io::Stdout,
    /// Whether the cursor of stdout is in the middle of a line.
    in_line: bool,
    /// Renders the answer on a terminal.
    markdown: Markdown,
    /// The last character of the answer: the mark of questions may be split between pieces.
    last: Option<char>,
    /// Whether a blank line separates the next text of the answer from the lines of a result.
    is_after_excerpt: bool,
    /// Whether the live line is drawn.
    is_drawn: bool,
    question_state: QuestionState,
    frame: usize,
    /// The line that the user types, which takes the place of the live line.
    typed: String,
    /// Running calls, oldest first.
    running: Vec<RunningCall>,
    /// Since when the model has sent nothing.
    silent_since: Option<Instant>,
    /// The model's current reasoning.
    thought: Option<Thought>,
    /// Whether excerpts of results and reasoning are shown.
    shows_excerpts: bool,
    /// Whether the start of a call is shown as a line, because there is no live line.
    announces_calls: bool,
    /// Whether the model is named at the start of the turn.
    names_model: bool,
    /// The model of the turn.
    model: Option<String>,
    /// Where the complete results are stored, if the user can open them.
    details: Option<Details>,
    /// Since when the user waits for the turn.
    waiting_since: Instant,
    /// Number of ended calls.
    calls: usize,
    /// The agent's last message, for the result.
    answer: Option<String>,
    /// Files that its tools have changed, for the result.
    files: BTreeSet<String>,
    /// Whether the answer is shown as the JSON value at the end of the turn.
    shows_value: bool,
    /// That value, for the last line of JSON.
    value: Option<Value>,
}

/// The position of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionState {
    Closed,
    /// The cursor is in its line.
    InLine,
    /// Other output followed it.
    Above,
}

impl Screen {
    pub(crate) fn new(is_json: bool) -> Self {
        let has_terminal = io::stderr().is_terminal();
        Self {
            style: Style::for_stderr(),
            thought: None,
            shows_excerpts: has_terminal,
            announces_calls: has_terminal && is_for_screen_reader(),
            names_model: false,
            model: None,
            details: None,
            waiting_since: Instant::now(),
            is_json,
            is_result_only: false,
            out: io::stdout(),
            in_line: false,
            markdown: Markdown::new(Style::for_stdout()),
            last: None,
            is_after_excerpt: false,
            is_drawn: false,
            question_state: QuestionState::Closed,
            frame: 0,
            typed: String::new(),
            running: Vec::new(),
            silent_since: Some(Instant::now()),
            calls: 0,
            answer: None,
            files: BTreeSet::new(),
            shows_value: false,
            value: None,
        }
    }

    /// Creates a screen that shows the answer as a JSON value at the end, when it is known to match its schema.
    pub(crate) fn for_value(is_json: bool) -> Self {
        Self {
            shows_value: true,
            ..Self::new(is_json)
        }
    }

    /// Creates the screen of a chat, where the user can open the results.
    pub(crate) fn for_chat(details: &Details) -> Self {
        Self {
            details: Some(details.clone()),
            ..Self::new(false)
        }
    }

    /// Names the model at the start of the turn.
    pub(crate) fn name_model(&mut self) {
        self.names_model = true;
    }

    /// Shows nothing but the result: the answer, or one JSON object.
    #[must_use]
    pub(crate) fn only_result(self) -> Self {
        Self {
            is_result_only: true,
            ..self
        }
    }

    /// Shows the value of the answer.
    pub(crate) fn show_value(&mut self, value: Option<Value>) -> io::Result<()> {
        match (value, self.is_json) {
            (value, true) => self.value = value,
            (Some(value), false) => {
                self.clear()?;
                self.write_json(&value)?;
            }
            (None, false) => {}
        }
        Ok(())
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    pub(crate) fn show(&mut self, event: &RuntimeEventEnvelope) -> io::Result<()> {
        if (self.is_json || self.is_result_only)
            && let Some(item) = event.payload.ended_item()
        {
            self.note_result(item);
        }
        if self.is_result_only {
            return Ok(());
        }
        if self.is_json {
            let line = event_line(event).map_err(io::Error::other)?;
            return self.write_line(&line);
        }
        if let EventPayload::ItemDelta(piece) = &event.payload {
            match piece.kind {
                DeltaKind::AgentMessage if !self.shows_value => {
                    self.end_thought()?;
                    self.write_answer(&piece.delta)?;
                }
                DeltaKind::AgentReasoning => self.thought().text.push_str(&piece.delta),
                DeltaKind::AgentMessage | DeltaKind::ToolCall => {}
            }
            return Ok(());
        }
        self.write_held_back()?;
        match &event.payload {
            EventPayload::TurnStarted(started) => self.begin_turn(&started.turn)?,
            EventPayload::ItemStarted(started) if started.item.kind == ItemKind::AgentReasoning => {
                self.thought();
            }
            EventPayload::ItemStarted(started) => {
                if let Some(tool) = started.tool.clone() {
                    self.end_thought()?;
                    self.begin_call(&started.item.id, &tool.into(), Some(Instant::now()))?;
                }
            }
            EventPayload::ApprovalRequired(approval) => {
                self.set_timer(&approval.item_id, None);
                let mut running = self.running.iter_mut();
                if let Some(call) = running.find(|it| it.item_id == approval.item_id) {
                    call.is_proposed = true;
                }
            }
            EventPayload::ApprovalDecided(decided) => {
                self.set_timer(&decided.item_id, Some(Instant::now()));
            }
            payload => {
                if let Some(item) = payload.ended_item() {
                    self.end_call(item)?;
                }
            }
        }
        self.draw()
    }

    /// Collects the parts of the result.
    fn note_result(&mut self, item: &Item) {
        if item.kind == ItemKind::AgentMessage {
            self.answer.clone_from(&item.detail);
        }
        let is_change = item.kind == ItemKind::FileChange && item.status == Status::Completed;
        let changed = item.metadata.as_ref().filter(|_| is_change);
        let path = changed.and_then(|fields| fields.get("path")?.as_str());
        self.files.extend(path.map(str::to_owned));
    }

    fn write_json(&mut self, line: &impl Serialize) -> io::Result<()> {
        let line = json_line(line).map_err(io::Error::other)?;
        self.write_line(&line)
    }

    fn write_line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    /// Writes a piece of the answer.
    fn write_answer(&mut self, text: &str) -> io::Result<()> {
        self.clear()?;
        if std::mem::take(&mut self.is_after_excerpt) && !text.starts_with('\n') {
            writeln!(io::stderr())?;
        }
        let shown = if self.out.is_terminal() {
            self.markdown.add(text, columns())
        } else if io::stderr().is_terminal() {
            // The pipe may still lead to the terminal with the questions, as with `| tee`.
            self.style.unmarked(&lines(text), &mut self.last)
        } else {
            text.to_owned()
        };
        self.out.write_all(shown.as_bytes())?;
        self.out.flush()?;
        if !text.is_empty() {
            self.in_line = !text.ends_with('\n');
            self.silent_since = Some(Instant::now());
        }
        Ok(())
    }

    /// Writes the complete answer, with a line end.
    fn write_result(&mut self, answer: &str) -> io::Result<()> {
        self.write_answer(answer.trim_end())?;
        self.end_line()
    }

    /// Writes the text that the renderer held back.
    fn write_held_back(&mut self) -> io::Result<()> {
        let rest = self.markdown.flush(columns());
        if rest.is_empty() {
            return Ok(());
        }
        self.in_line = true;
        self.clear()?;
        self.out.write_all(rest.as_bytes())?;
        self.out.flush()
    }

    fn begin_turn(&mut self, turn: &Turn) -> io::Result<()> {
        self.model = model_of(turn);
        match &self.model {
            Some(model) if self.names_model => {
                let text = format!("model {}", one_line(model));
                self.notify(Colour::Dim, &text)
            }
            _ => Ok(()),
        }
    }

    /// Writes a message that is not part of the answer.
    pub(crate) fn notify(&mut self, colour: Colour, text: &str) -> io::Result<()> {
        if self.is_result_only && matches!(colour, Colour::Plain | Colour::Dim) {
            return Ok(());
        }
        let text = self.style.unmarked(&lines(text), &mut None);
        let width = if io::stderr().is_terminal() {
            columns()
        } else {
            usize::MAX
        };
        for row in wrap_words(&text, width) {
            let row = self.style.paint(colour, &row);
            self.write_message(&row)?;
        }
        Ok(())
    }

    /// Writes a line of a question, in rows that all start with the reserved mark.
    pub(crate) fn question(&mut self, colour: Colour, line: &str) -> io::Result<()> {
        let mark = self.style.paint(Colour::Warning, self.style.mark());
        let width = columns().saturating_sub(width_of(self.style.mark()) + 1);
        for row in wrap_rows(line, width) {
            let row = self.style.paint(colour, &row);
            self.write_message(format!("{mark} {row}").trim_end())?;
        }
        Ok(())
    }

    /// Writes a line to stderr, below the current output.
    fn write_message(&mut self, line: &str) -> io::Result<()> {
        self.clear()?;
        self.finish_line()?;
        writeln!(io::stderr(), "{line}")
    }

    /// Starts a new line if the answer is in the middle of one.
    fn finish_line(&mut self) -> io::Result<()> {
        self.write_held_back()?;
        self.markdown.begin_line();
        if std::mem::take(&mut self.in_line) {
            writeln!(self.out)?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Writes the prompt of a question and leaves the cursor after it.
    pub(super) fn prompt(&mut self, text: &str) -> io::Result<()> {
        self.question_state = QuestionState::InLine;
        self.notify_user("a question waits for you")?;
        let mark = self.style.paint(Colour::Warning, self.style.mark());
        let mut err = io::stderr();
        write!(err, "{mark} {}", self.style.paint(Colour::Bold, text))?;
        err.flush()
    }

    /// Notifies a user who may have left the terminal.
    fn notify_user(&self, text: &str) -> io::Result<()> {
        if self.style.is_live || self.announces_calls {
            notification::notify(self.waiting_since.elapsed(), text)?;
        }
        Ok(())
    }

    /// Records that the user has typed a line, which ends the line of the question.
    pub(super) fn answered(&mut self) {
        self.waiting_since = Instant::now();
        self.question_state = QuestionState::Closed;
    }

    /// Records that the question no longer needs an answer.
    pub(super) fn close_question(&mut self) -> io::Result<()> {
        self.clear()?;
        self.question_state = QuestionState::Closed;
        Ok(())
    }

    /// Removes the live line, and moves below the line of a question.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if self.question_state == QuestionState::InLine {
            self.question_state = QuestionState::Above;
            writeln!(io::stderr())?;
        }
        if std::mem::take(&mut self.is_drawn) {
            let mut err = io::stderr();
            write!(err, "{CLEAR}")?;
            err.flush()?;
        }
        Ok(())
    }

    /// Returns an error if standard output is a pipe without a reader, before anything is written to it.
    pub(crate) fn check_reader(&self) -> io::Result<()> {
        let mut out = [PollFd::new(&self.out, PollFlags::empty())];
        let is_polled = poll(&mut out, Some(&Timespec::default())).is_ok();
        if is_polled && out[0].revents().contains(PollFlags::ERR) {
            Err(io::ErrorKind::BrokenPipe.into())
        } else {
            Ok(())
        }
    }

    /// Ends the current line, so that other output can follow.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        self.clear()?;
        self.finish_line()
    }

    /// Shows how the turn ended.
    pub(crate) fn summarize(&mut self, turn: &Turn) -> io::Result<()> {
        self.silent_since = None;
        if self.is_json {
            let answer = self.answer.take();
            let mut result = json!({
                "event": "result", "thread_id": turn.thread_id, "turn_id": turn.id, "status": turn.status,
                "answer": answer, "usage": turn.usage, "duration_ms": turn.duration_ms,
                "files": self.files, "error": turn.error, "error_code": turn.error_code,
            });
            if let Some(value) = self.value.take() {
                result["output"] = value;
            }
            return self.write_json(&result);
        }
        self.end_thought()?;
        if self.is_result_only {
            // A value was shown already.
            return match self.answer.take().filter(|_| !self.shows_value) {
                Some(answer) => self.write_result(&answer),
                None => Ok(()),
            };
        }
        self.end_line()?;
        self.notify_user("the turn has ended")?;
        let mut parts = Vec::new();
        if self.calls > 0 {
            parts.push(count(self.calls, "call"));
        }
        parts.extend(spent(turn));
        self.notify(Colour::Dim, &parts.join(self.style.separator()))
    }
}

/// Returns the model of a turn, as the user names it.
fn model_of(turn: &Turn) -> Option<String> {
    let model = turn.effective_model.clone()?;
    let provider = turn.effective_provider_id.as_ref();
    match provider.or(turn.effective_provider.as_ref()) {
        Some(provider) if provider != SIMULATOR => Some(format!("{provider}/{model}")),
        _ => Some(model),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, payload: &Value) -> RuntimeEventEnvelope {
        serde_json::from_value(json!({
            "schema_version": 1, "seq": 1, "timestamp": "2026-11-18T00:00:00Z",
            "thread_id": "thr_1", "turn_id": "turn_1", "item_id": "item_1",
            "event": name, "kind": name, "payload": payload,
        }))
        .unwrap()
    }

    fn call_started() -> RuntimeEventEnvelope {
        let item = json!({
            "schema_version": 1, "id": "item_1", "turn_id": "turn_1", "kind": "command_execution",
            "status": "in_progress", "summary": "shell",
        });
        let tool = json!({ "id": "call_1", "name": "shell", "input": {} });
        event("item.started", &json!({ "item": item, "tool": tool }))
    }

    #[test]
    fn time_of_a_call_excludes_the_wait_for_an_approval() {
        let mut screen = Screen::new(false);
        screen.show(&call_started()).unwrap();
        let begun = screen.running[0].since.unwrap();
        let asked = json!({
            "id": "apr_1", "approval_id": "apr_1", "turn_id": "turn_1", "item_id": "item_1", "call_id": "call_1",
            "tool_name": "shell", "description": "shell {}", "summary": "shell {}", "intent_summary": null,
        });
        let asked = event("approval.required", &asked);
        screen.show(&asked).unwrap();
        assert!(screen.running[0].since.is_none());
        let decided = json!({
            "approval_id": "apr_1", "item_id": "item_1", "decision": "allow", "remember": false,
        });
        let decided = event("approval.decided", &decided);
        screen.show(&decided).unwrap();
        assert!(screen.running[0].since.unwrap() >= begun);
    }

    #[test]
    fn open_question_suppresses_the_live_line() {
        let mut screen = Screen::new(false);
        screen.style.is_live = true;
        screen.prompt("Allow? ").unwrap();
        screen.show(&call_started()).unwrap();
        screen.notify(Colour::Dim, "something else").unwrap();
        screen.tick().unwrap();
        assert!(!screen.is_drawn);
        screen.answered();
        screen.tick().unwrap();
        assert!(screen.is_drawn);
    }
}
