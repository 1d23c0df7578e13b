//! The live view of a turn: the answer on stdout, and on stderr a line for each call, the last one animated.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_core::bounds::{lines, one_line, prefix};
use windlass_protocol::events::DeltaKind;
use windlass_protocol::{EventPayload, Item, ItemKind, RuntimeEventEnvelope, Status, Turn};

use super::call_line::{CallLine, outcome_mark, thought_mark};
use super::call_result::{excerpt, is_cut_off, is_success, result_lines, summary};
use super::details::Details;
use super::plan::checklist;
use super::proposal::StyledLine;
use super::units::{count, spent, time};
use super::{
    Colour, Markdown, SIMULATOR, ShownCall, Style, columns, is_for_screen_reader, main_argument,
    notification, width_of, wrap_rows, wrap_words,
};
use crate::inert_json::{event_line, json_line};

/// Interval between redraws of the live line.
pub(crate) const FRAME: Duration = Duration::from_millis(100);
/// Shorter waits do not get a live line.
const LIVE_DELAY: Duration = Duration::from_millis(400);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Maximum stored length of a call's main argument, in characters.
const MAX_SUMMARY: usize = 400;
/// Indent of the lines below a call.
const INDENT: &str = "    ";
const PLAIN_SPINNER: [&str; 4] = ["|", "/", "-", "\\"];
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

struct RunningCall {
    item_id: String,
    name: String,
    argument: String,
    /// When it started; `None` while it waits for the user, and for a call that an earlier process started.
    since: Option<Instant>,
    /// Whether the user was shown the call before it ran.
    is_proposed: bool,
}

/// The model's reasoning before its next answer or call.
struct Thought {
    since: Instant,
    text: String,
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

    /// Shows nothing but the result: the answer, or one JSON object.
    #[must_use]
    pub(crate) fn only_result(self) -> Self {
        Self {
            is_result_only: true,
            ..self
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

    /// Starts or stops the timer of a call. The time that it waits for the user is not counted.
    fn set_timer(&mut self, item: &str, since: Option<Instant>) {
        let mut running = self.running.iter_mut();
        if let Some(call) = running.find(|it| it.item_id == item) {
            call.since = since;
        }
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

    /// Returns the current reasoning, and begins it if there is none.
    fn thought(&mut self) -> &mut Thought {
        self.thought.get_or_insert_with(|| Thought {
            since: Instant::now(),
            text: String::new(),
        })
    }

    /// Replaces the current reasoning by one line.
    fn end_thought(&mut self) -> io::Result<()> {
        let Some(Thought { since, text }) = self.thought.take() else {
            return Ok(());
        };
        let text = text.trim();
        if text.is_empty() || !self.shows_excerpts {
            return Ok(());
        }
        let inert = |line| (Colour::Dim, self.style.unmarked(&lines(line), &mut None));
        let inert: Vec<StyledLine> = text.lines().map(inert).collect();
        let first = text.lines().next().unwrap_or_default();
        let mut end = time(since.elapsed());
        if inert.len() > 1 {
            end = format!("{end}  {}", count(inert.len(), "line"));
        }
        let line = CallLine {
            name: "thought",
            argument: &one_line(first.trim_matches(['*', '#', ' '])),
            end: &end,
            number: self.store("thought", inert),
        };
        let line = line.format(self.style, columns().saturating_sub(5));
        let line = format!("{} {line}", thought_mark(self.style));
        self.write_message(&self.style.paint(Colour::Dim, &line))
    }

    /// Stores the lines of a result, so that the user can open them by the returned number.
    fn store(&self, heading: &str, lines: Vec<StyledLine>) -> Option<usize> {
        let details = self.details.as_ref().filter(|_| !lines.is_empty())?;
        Some(details.add(heading.to_owned(), lines))
    }

    /// Shows a running call; `since` is `None` if an earlier process started it.
    pub(crate) fn begin_call(
        &mut self,
        item: &str,
        tool: &ShownCall,
        since: Option<Instant>,
    ) -> io::Result<()> {
        let call = RunningCall {
            is_proposed: false,
            item_id: item.to_owned(),
            name: one_line(&tool.name).into_owned(),
            // Every frame measures the text, and no line is wider.
            argument: main_argument(&tool.input)
                .chars()
                .take(MAX_SUMMARY)
                .collect(),
            since,
        };
        if self.announces_calls {
            let line = self.line(&call, "running", None);
            self.write_message(&line)?;
        }
        self.running.push(call);
        Ok(())
    }

    fn end_call(&mut self, item: &Item) -> io::Result<()> {
        match item.kind {
            ItemKind::Status => {
                let text = item.detail.as_deref().unwrap_or_default();
                return self.notify(Colour::Warning, text);
            }
            ItemKind::AgentReasoning => {
                if let Some(thought) = &mut self.thought
                    && thought.text.is_empty()
                {
                    thought.text = item.detail.clone().unwrap_or_default();
                }
                return self.end_thought();
            }
            ItemKind::AgentMessage => self.markdown.end_message(),
            _ => {}
        }
        let at = self.running.iter().position(|it| it.item_id == item.id);
        let Some(at) = at else {
            return Ok(());
        };
        let call = self.running.remove(at);
        self.calls += 1;
        self.silent_since = Some(Instant::now());
        if item.kind == ItemKind::Plan && item.status == Status::Completed {
            for (colour, line) in checklist(item, self.style) {
                let line = self.style.cut(&line, columns().saturating_sub(1));
                self.write_message(&self.style.paint(colour, &line))?;
            }
            return Ok(());
        }
        let mark = outcome_mark(is_success(item), self.style);
        let end = match call.since {
            Some(since) => format!("{}  {}", time(since.elapsed()), summary(item)),
            // The duration is unknown. The complete message does not fit into the line.
            None if is_cut_off(item) => "cut off, its outcome is unknown".to_owned(),
            None => summary(item),
        };
        if !self.shows_excerpts {
            let line = self.line(&call, &end, None);
            return self.write_message(&format!("{mark} {line}"));
        }
        let lines = result_lines(item, self.style);
        let shown = excerpt(item, &lines, call.is_proposed);
        let (is_end, shown) = (shown.is_end, shown.lines.to_vec());
        let folded = lines.len() - shown.len();
        let heading = format!("{}  {}", call.name, call.argument);
        let number = self.store(&heading, lines);
        let line = self.line(&call, end.trim_end(), number);
        self.write_message(&format!("{mark} {line}"))?;
        self.write_excerpt(&shown, is_end, folded)
    }

    /// Writes the shown lines of a result. `folded` is the number of lines that are not shown.
    fn write_excerpt(
        &mut self,
        shown: &[StyledLine],
        is_end: bool,
        folded: usize,
    ) -> io::Result<()> {
        let width = columns().saturating_sub(INDENT.len() + 1);
        let fold = match (folded, shown.len()) {
            (0, _) | (_, 0) => None,
            (folded, _) => Some((
                Colour::Dim,
                format!("{} {}", self.style.dots(), count(folded, "more line")),
            )),
        };
        let (before, after) = if is_end { (fold, None) } else { (None, fold) };
        for (colour, line) in before.iter().chain(shown).chain(after.iter()) {
            let line = self.style.paint(*colour, &self.style.cut(line, width));
            self.write_message(&format!("{INDENT}{line}"))?;
        }
        Ok(())
    }

    /// Formats a call as one line, with its result or status at the end.
    fn line(&self, call: &RunningCall, end: &str, number: Option<usize>) -> String {
        let line = CallLine {
            name: &call.name,
            argument: &call.argument,
            end,
            number,
        };
        // Two columns are for the mark, three for the `^C` that a terminal echoes, so that nothing wraps.
        line.format(self.style, columns().saturating_sub(5))
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

    /// Redraws the live line with the next frame of the spinner.
    pub(crate) fn tick(&mut self) -> io::Result<()> {
        self.frame += 1;
        self.draw()
    }

    /// Shows the line that the user types.
    pub(crate) fn set_typed(&mut self, text: &str) -> io::Result<()> {
        self.typed = one_line(text).into_owned();
        self.draw()
    }

    fn draw(&mut self) -> io::Result<()> {
        // A live line would overwrite the question.
        let is_hidden = self.is_json || self.is_result_only;
        if !self.style.is_live || is_hidden || self.question_state != QuestionState::Closed {
            return Ok(());
        }
        if self.in_line {
            if !self.is_answer_over() {
                return Ok(());
            }
            self.finish_line()?;
        }
        if !self.typed.is_empty() {
            // The end of the line is where the user types.
            let width = columns().saturating_sub(5);
            let mut shown = self.typed.as_str();
            while width_of(shown) > width {
                let mut rest = shown.chars();
                rest.next();
                shown = rest.as_str();
            }
            self.is_drawn = true;
            let shown = self.style.unmarked(shown, &mut None);
            let mut err = io::stderr();
            write!(err, "{CLEAR}> {shown}")?;
            return err.flush();
        }
        let waited = self.silent_since.map(|since| since.elapsed());
        let text = match (self.running.first(), waited) {
            (Some(call), _) => {
                let others = match self.running.len() {
                    1 => String::new(),
                    many => format!(" (+{})", many - 1),
                };
                let took = call.since.map(|since| time(since.elapsed()));
                let took = took.unwrap_or_else(|| "waiting".to_owned());
                self.line(call, &format!("{took}{others}"), None)
            }
            (None, Some(waited)) if waited > LIVE_DELAY => {
                let text = self.progress(waited);
                let text = self.style.cut(&text, columns().saturating_sub(5));
                self.style.paint(Colour::Dim, &text)
            }
            _ => return self.clear(),
        };
        let spinner: &[&str] = if self.style.has_unicode {
            &SPINNER
        } else {
            &PLAIN_SPINNER
        };
        let spinner = spinner[self.frame % spinner.len()];
        self.is_drawn = true;
        let mut err = io::stderr();
        write!(err, "{CLEAR}{spinner} {text}")?;
        err.flush()
    }

    /// Formats what the model does while it sends no text.
    fn progress(&self, waited: Duration) -> String {
        if let Some(thought) = &self.thought {
            let last = thought.text.trim_end().rsplit('\n').next();
            let last = one_line(prefix(last.unwrap_or_default(), MAX_SUMMARY));
            let last = self.style.unmarked(&last, &mut None);
            return format!("thinking  {}  {last}", time(thought.since.elapsed()));
        }
        let model = self.model.as_deref().unwrap_or("the model");
        let model = self.style.unmarked(&one_line(model), &mut None);
        format!("waiting for {model}  {}", time(waited))
    }

    /// Returns whether the answer's last line can be ended, because a call is running and no more text comes. Only a terminal shows it: elsewhere the
    /// line break would become part of the answer.
    fn is_answer_over(&self) -> bool {
        let since = self.silent_since;
        since.is_none_or(|since| since.elapsed() > LIVE_DELAY)
            && !self.running.is_empty()
            && self.out.is_terminal()
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
        if self.is_result_only {
            // A value was shown already.
            return match self.answer.take().filter(|_| !self.shows_value) {
                Some(answer) => self.write_result(&answer),
                None => Ok(()),
            };
        }
        self.end_thought()?;
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
