//! The live view of a turn: the answer on stdout, and on stderr a line for each call, the last one animated.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::events::DeltaKind;
use windlass_protocol::{EventPayload, Item, ItemKind, RuntimeEventEnvelope, Status, Turn};

use super::word_wrap::WordWrap;
use super::{Colour, ShownCall, Style, columns, main_argument, width_of, wrap_rows, wrap_words};
use crate::inert_json::{event_line, json_line};

/// Interval between redraws of the live line.
pub(crate) const FRAME: Duration = Duration::from_millis(100);
/// Shorter waits do not get a live line.
const LIVE_DELAY: Duration = Duration::from_millis(400);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Maximum stored length of a call's main argument, in characters.
const MAX_SUMMARY: usize = 400;
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
    wrap: WordWrap,
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
    /// Number of ended calls.
    pub(crate) calls: usize,
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
}

impl Screen {
    pub(crate) fn new(is_json: bool) -> Self {
        Self {
            style: Style::for_stderr(),
            is_json,
            is_result_only: false,
            out: io::stdout(),
            in_line: false,
            wrap: WordWrap::default(),
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
        if self.is_json || self.is_result_only {
            if let Some(item) = event.payload.ended_item() {
                self.note_result(item);
            }
        }
        if self.is_result_only {
            return Ok(());
        }
        if self.is_json {
            let line = event_line(event).map_err(io::Error::other)?;
            return self.write_line(&line);
        }
        if let EventPayload::ItemDelta(piece) = &event.payload {
            if piece.kind == DeltaKind::AgentMessage && !self.shows_value {
                self.write_answer(&piece.delta)?;
            }
            return Ok(());
        }
        self.write_held_back()?;
        match &event.payload {
            EventPayload::ItemStarted(started) => {
                if let Some(tool) = started.tool.clone() {
                    self.begin_call(&started.item.id, &tool.into(), Some(Instant::now()));
                }
            }
            EventPayload::ApprovalRequired(approval) => {
                self.set_timer(&approval.item_id, None);
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
        let is_terminal = self.out.is_terminal();
        // A pipe may still lead to the terminal with the questions, as with `| tee`.
        let mut shown = if is_terminal || io::stderr().is_terminal() {
            self.style.unmarked(&lines(text), &mut self.last)
        } else {
            text.to_owned()
        };
        if is_terminal {
            shown = self.wrap.add(&shown, columns());
        }
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
        self.clear()?;
        let answer = answer.trim_end();
        if self.out.is_terminal() || io::stderr().is_terminal() {
            let answer = self.style.unmarked(&lines(answer), &mut None);
            return self.write_line(&answer);
        }
        self.write_line(answer)
    }

    /// Writes the end of the answer that word wrapping held back.
    fn write_held_back(&mut self) -> io::Result<()> {
        let rest = self.wrap.finish(columns());
        if rest.is_empty() {
            return Ok(());
        }
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

    /// Shows a running call; `since` is `None` if an earlier process started it.
    pub(crate) fn begin_call(&mut self, item: &str, tool: &ShownCall, since: Option<Instant>) {
        self.running.push(RunningCall {
            item_id: item.to_owned(),
            name: one_line(&tool.name).into_owned(),
            // Every frame measures the text, and no line is wider.
            argument: main_argument(&tool.input)
                .chars()
                .take(MAX_SUMMARY)
                .collect(),
            since,
        });
    }

    fn end_call(&mut self, item: &Item) -> io::Result<()> {
        if item.kind == ItemKind::Status {
            return self.notify(Colour::Warning, item.detail.as_deref().unwrap_or_default());
        }
        let at = self.running.iter().position(|it| it.item_id == item.id);
        let Some(at) = at else {
            return Ok(());
        };
        let call = self.running.remove(at);
        self.calls += 1;
        self.silent_since = Some(Instant::now());
        // A command that completed with a failing exit code is not a success.
        let is_good = item.status == Status::Completed && exit_code(item).is_none();
        let (mark, colour) = match (is_good, self.style.has_unicode) {
            (true, true) => ("✓", Colour::Good),
            (true, false) => ("+", Colour::Good),
            (false, true) => ("✗", Colour::Bad),
            (false, false) => ("x", Colour::Bad),
        };
        let end = match call.since {
            Some(since) => format!("{}  {}", time(since.elapsed()), result(item)),
            // The duration is unknown. The complete message does not fit into the line.
            None if is_cut_off(item) => "cut off, its outcome is unknown".to_owned(),
            None => result(item),
        };
        let line = self.line(&call, &end);
        let mark = self.style.paint(colour, mark);
        self.write_message(&format!("{mark} {line}"))
    }

    /// Formats a call as one line, with its result or status at the end.
    fn line(&self, call: &RunningCall, end: &str) -> String {
        // Two columns are for the mark, three for the `^C` that a terminal echoes, so that nothing wraps.
        let width = columns().saturating_sub(5);
        let cut = |text: &str, width| self.style.cut(&self.style.unmarked(text, &mut None), width);
        let end = cut(end, width / 2);
        let name = cut(&call.name, width / 3);
        let used = width_of(&name) + width_of(&end) + 4;
        let argument = cut(&call.argument, width.saturating_sub(used));
        let end = self.style.paint(Colour::Dim, &end);
        if argument.is_empty() {
            format!("{name}  {end}")
        } else {
            format!("{name}  {argument}  {end}")
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
        self.wrap.begin_line();
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
                self.line(call, &format!("{took}{others}"))
            }
            (None, Some(waited)) if waited > LIVE_DELAY => {
                let text = format!("waiting for the model  {}", time(waited));
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
        let mark = self.style.paint(Colour::Warning, self.style.mark());
        let mut err = io::stderr();
        write!(err, "{mark} {}", self.style.paint(Colour::Bold, text))?;
        err.flush()
    }

    /// Records that the user has typed a line, which ends the line of the question.
    pub(super) fn answered(&mut self) {
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
        self.end_line()?;
        let mut parts = Vec::new();
        match self.calls {
            0 => {}
            1 => parts.push("1 call".to_owned()),
            many => parts.push(format!("{many} calls")),
        }
        parts.extend(spent(turn));
        let separator = if self.style.has_unicode { " · " } else { ", " };
        self.notify(Colour::Dim, &parts.join(separator))
    }
}

/// Formats the usage of a turn: tokens, cost and time.
pub(crate) fn spent(turn: &Turn) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(usage) = &turn.usage
        && usage.input_tokens + usage.output_tokens > 0
    {
        parts.push(format!(
            "{} tokens in, {} out",
            usage.input_tokens, usage.output_tokens
        ));
        parts.extend(usage.cost_usd.map(money));
    }
    parts.extend(
        turn.duration_ms
            .map(|took| time(Duration::from_millis(took))),
    );
    parts
}

/// Returns whether a call was running when its process was killed and was not repeated.
fn is_cut_off(item: &Item) -> bool {
    let detail = item.detail.as_deref().unwrap_or_default();
    item.status == Status::Failed && detail.contains("its outcome is unknown")
}

/// Returns the exit code of a failed command.
fn exit_code(item: &Item) -> Option<i64> {
    let code = item.metadata.as_ref()?.get("exit_code")?.as_i64();
    code.filter(|code| *code != 0)
}

/// Summarizes the result of a call.
fn result(item: &Item) -> String {
    let number = |name: &str| item.metadata.as_ref()?.get(name)?.as_i64();
    let detail = item.detail.as_deref().unwrap_or_default().trim_end();
    if item.status == Status::Interrupted {
        return "interrupted".to_owned();
    }
    if item.status == Status::Failed {
        return one_line(detail.lines().next().unwrap_or("failed")).into_owned();
    }
    if let (Some(added), Some(removed)) = (number("lines_added"), number("lines_removed")) {
        return format!("+{added} -{removed}");
    }
    if let Some(code) = exit_code(item) {
        return format!("exit {code}");
    }
    if let Some(count) = number("entry_count") {
        return match count {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        };
    }
    match (detail.lines().count(), number("line_count")) {
        (_, Some(1)) => "1 line".to_owned(),
        (_, Some(count)) => format!("{count} lines"),
        (0, _) => String::new(),
        (1, _) => one_line(detail).into_owned(),
        (count, _) => format!("{count} lines"),
    }
}

/// Formats a cost in dollars.
fn money(cost: f64) -> String {
    match cost {
        0.01.. => format!("${cost:.2}"),
        0.0001.. => format!("${cost:.4}"),
        _ => "less than $0.0001".to_owned(),
    }
}

/// Formats a duration for display.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=9 => format!("{:.1}s", time.as_secs_f64()),
        10..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
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

    #[test]
    fn durations_are_rounded_for_display() {
        let shown = [400, 12_000, 61_000, 3_720_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(shown, ["0.4s", "12s", "1m 01s", "1h 02m"]);
    }
}
