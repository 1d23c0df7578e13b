//! The live view of a turn: the answer on stdout, and on stderr a line for each call, the last one animated.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::events::DeltaKind;
use windlass_protocol::{EventPayload, Item, ItemKind, RuntimeEventEnvelope, Status, Turn};

use super::fold::Fold;
use super::{Colour, Style, ToolCall, about, columns, folded, width_of, wrapped};
use crate::inert_json::{event_line, json_line};

/// Redraw interval of the live line.
pub(crate) const FRAME: Duration = Duration::from_millis(100);
/// Shorter waits do not get a live line.
const PATIENCE: Duration = Duration::from_millis(400);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Maximum stored length of a call's description, in characters.
const ABOUT: usize = 400;
const PLAIN_SPINNER: [&str; 4] = ["|", "/", "-", "\\"];
/// Moves to the beginning of the line and clears it.
const CLEAR: &str = "\r\x1b[2K";

pub(crate) struct Screen {
    style: Style,
    is_json: bool,
    out: io::Stdout,
    /// Whether the cursor of stdout is in the middle of a line.
    in_line: bool,
    fold: Fold,
    /// The last character of the answer, to detect a mark that is split between pieces.
    last: Option<char>,
    /// Whether the live line is drawn.
    is_drawn: bool,
    asking: Asking,
    frame: usize,
    /// Running calls, oldest first.
    running: Vec<Running>,
    /// Since when the model has sent nothing.
    silent_since: Option<Instant>,
    /// Number of ended calls.
    pub(crate) calls: usize,
    /// The agent's last message, for the final JSON line.
    answer: Option<String>,
    /// Whether the answer is shown as the JSON value at the end of the turn.
    shows_value: bool,
    /// That value, for the result that ends the lines of JSON.
    value: Option<Value>,
}

/// Where a question is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    Nobody,
    /// In the line of the cursor.
    Here,
    /// In a line above, because other output followed it.
    Above,
}

struct Running {
    item_id: String,
    name: String,
    about: String,
    /// When it started; `None` while it waits for the user, and for a call that an earlier process started.
    since: Option<Instant>,
}

impl Screen {
    pub(crate) fn new(is_json: bool) -> Self {
        Self {
            style: Style::of_stderr(),
            is_json,
            out: io::stdout(),
            in_line: false,
            fold: Fold::default(),
            last: None,
            is_drawn: false,
            asking: Asking::Nobody,
            frame: 0,
            running: Vec::new(),
            silent_since: Some(Instant::now()),
            calls: 0,
            answer: None,
            shows_value: false,
            value: None,
        }
    }

    /// Makes a screen that shows the answer as a JSON value, once it is known to match its schema.
    pub(crate) fn of_value(is_json: bool) -> Self {
        Self {
            shows_value: true,
            ..Self::new(is_json)
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
        if self.is_json {
            let ended = event.payload.ended_item();
            if let Some(item) = ended.filter(|item| item.kind == ItemKind::AgentMessage) {
                self.answer.clone_from(&item.detail);
            }
            let line = event_line(event).map_err(io::Error::other)?;
            return self.write_line(&line);
        }
        if let EventPayload::ItemDelta(piece) = &event.payload {
            if piece.kind == DeltaKind::AgentMessage && !self.shows_value {
                self.say(&piece.delta)?;
            }
            return Ok(());
        }
        self.say_rest()?;
        match &event.payload {
            EventPayload::ItemStarted(started) => {
                if let Some(tool) = started.tool.clone() {
                    self.begin(&started.item.id, &tool.into(), Some(Instant::now()));
                }
            }
            EventPayload::ApprovalRequired(approval) => {
                self.count(Some(&approval.item_id), None);
            }
            EventPayload::ApprovalDecided(decided) => {
                self.count(Some(&decided.item_id), Some(Instant::now()));
            }
            payload => {
                if let Some(item) = payload.ended_item() {
                    self.end(item)?;
                }
            }
        }
        self.draw()
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
    fn say(&mut self, text: &str) -> io::Result<()> {
        self.clear()?;
        let shown = match self.out.is_terminal() {
            true => {
                let shown = self.style.unmarked(&lines(text), &mut self.last);
                self.fold.add(&shown, columns())
            }
            // The answer may still reach the terminal, as with `| tee`, where questions are shown too.
            false if io::stderr().is_terminal() => {
                self.style.unmarked(&lines(text), &mut self.last)
            }
            false => text.to_owned(),
        };
        self.out.write_all(shown.as_bytes())?;
        self.out.flush()?;
        if !text.is_empty() {
            self.in_line = !text.ends_with('\n');
            self.silent_since = Some(Instant::now());
        }
        Ok(())
    }

    /// Writes the held-back end of the answer.
    fn say_rest(&mut self) -> io::Result<()> {
        let rest = self.fold.rest(columns());
        if rest.is_empty() {
            return Ok(());
        }
        self.clear()?;
        self.out.write_all(rest.as_bytes())?;
        self.out.flush()
    }

    /// Adds a call that an earlier process started, so that its end is shown.
    pub(crate) fn take_up(&mut self, item: &str, tool: &ToolCall) {
        self.begin(item, tool, None);
    }

    /// Starts or stops the timer of a call. The time that it waits for the user is not counted.
    fn count(&mut self, item: Option<&str>, since: Option<Instant>) {
        let mut running = self.running.iter_mut();
        if let Some(call) = running.find(|it| Some(it.item_id.as_str()) == item) {
            call.since = since;
        }
    }

    fn begin(&mut self, item: &str, tool: &ToolCall, since: Option<Instant>) {
        self.running.push(Running {
            item_id: item.to_owned(),
            name: one_line(&tool.name).into_owned(),
            // No line is wider, and the text is measured for every frame.
            about: about(&tool.input).chars().take(ABOUT).collect(),
            since,
        });
    }

    fn end(&mut self, item: &Item) -> io::Result<()> {
        if item.kind == ItemKind::Status {
            return self.tell(Colour::Asked, item.detail.as_deref().unwrap_or_default());
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
        self.put(&format!("{mark} {line}"))
    }

    /// Formats a call as one line, with its result or status at the end.
    fn line(&self, call: &Running, end: &str) -> String {
        // Two columns for the mark, and some for the `^C` that a terminal echoes, so that nothing wraps.
        let room = columns().saturating_sub(5);
        let cut = |text: &str, room| self.style.cut(&self.style.unmarked(text, &mut None), room);
        let end = cut(end, room / 2);
        let name = cut(&call.name, room / 3);
        let taken = width_of(&name) + width_of(&end) + 4;
        let about = cut(&call.about, room.saturating_sub(taken));
        let end = self.style.paint(Colour::Dim, &end);
        if about.is_empty() {
            format!("{name}  {end}")
        } else {
            format!("{name}  {about}  {end}")
        }
    }

    /// Writes a message that is not part of the answer.
    pub(crate) fn tell(&mut self, colour: Colour, text: &str) -> io::Result<()> {
        let text = self.style.unmarked(&lines(text), &mut None);
        let width = if io::stderr().is_terminal() {
            columns()
        } else {
            usize::MAX
        };
        for row in folded(&text, width) {
            let row = self.style.paint(colour, &row);
            self.put(&row)?;
        }
        Ok(())
    }

    /// Writes a line of a question, in rows that all start with the reserved mark.
    pub(crate) fn question(&mut self, colour: Colour, line: &str) -> io::Result<()> {
        let mark = self.style.paint(Colour::Asked, self.style.mark());
        let room = columns().saturating_sub(width_of(self.style.mark()) + 1);
        for row in wrapped(line, room) {
            let row = self.style.paint(colour, &row);
            self.put(format!("{mark} {row}").trim_end())?;
        }
        Ok(())
    }

    /// Writes a line to stderr, below the current output.
    fn put(&mut self, line: &str) -> io::Result<()> {
        self.clear()?;
        self.finish_line()?;
        writeln!(io::stderr(), "{line}")
    }

    /// Starts a new line if the answer is in the middle of one.
    fn finish_line(&mut self) -> io::Result<()> {
        self.say_rest()?;
        self.fold.begin_line();
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

    fn draw(&mut self) -> io::Result<()> {
        // A live line would overwrite the question.
        if !self.style.is_live || self.is_json || self.asking != Asking::Nobody {
            return Ok(());
        }
        if self.in_line {
            if !self.is_answer_over() {
                return Ok(());
            }
            self.finish_line()?;
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
            (None, Some(waited)) if waited > PATIENCE => {
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
        let is_silent = self
            .silent_since
            .is_none_or(|since| since.elapsed() > PATIENCE);
        is_silent && !self.running.is_empty() && self.out.is_terminal()
    }

    /// Writes the prompt of a question and leaves the cursor after it.
    pub(super) fn prompt(&mut self, text: &str) -> io::Result<()> {
        self.asking = Asking::Here;
        let mark = self.style.paint(Colour::Asked, self.style.mark());
        let mut err = io::stderr();
        write!(err, "{mark} {}", self.style.paint(Colour::Bold, text))?;
        err.flush()
    }

    /// Records that the user has typed a line, which also ended the line of the question.
    pub(super) fn answered(&mut self) {
        self.asking = Asking::Nobody;
    }

    /// Records that the question no longer needs an answer.
    pub(super) fn close_question(&mut self) -> io::Result<()> {
        self.clear()?;
        self.asking = Asking::Nobody;
        Ok(())
    }

    /// Removes the live line, and moves below the line of a question.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if self.asking == Asking::Here {
            self.asking = Asking::Above;
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

    /// Prepares the terminal for a question below the output.
    pub(crate) fn rest(&mut self) -> io::Result<()> {
        self.clear()?;
        self.finish_line()
    }

    /// Shows how the turn ended.
    pub(crate) fn sum_up(&mut self, turn: &Turn) -> io::Result<()> {
        self.silent_since = None;
        if self.is_json {
            let answer = self.answer.take();
            let mut result = json!({
                "event": "result", "thread_id": turn.thread_id, "turn_id": turn.id, "status": turn.status,
                "answer": answer, "usage": turn.usage, "duration_ms": turn.duration_ms,
                "error": turn.error, "error_code": turn.error_code,
            });
            if let Some(value) = self.value.take() {
                result["output"] = value;
            }
            return self.write_json(&result);
        }
        self.rest()?;
        let mut parts = Vec::new();
        match self.calls {
            0 => {}
            1 => parts.push("1 call".to_owned()),
            many => parts.push(format!("{many} calls")),
        }
        parts.extend(spent(turn));
        let separator = if self.style.has_unicode { " · " } else { ", " };
        self.tell(Colour::Dim, &parts.join(separator))
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
    let figure = |name: &str| item.metadata.as_ref().and_then(|it| it.get(name)).cloned();
    let number = |name: &str| figure(name).as_ref().and_then(Value::as_i64);
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
    fn the_time_of_a_call_is_not_that_of_who_was_asked() {
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
    fn no_live_line_is_drawn_where_somebody_is_asked() {
        let mut screen = Screen::new(false);
        screen.style.is_live = true;
        screen.prompt("Allow? ").unwrap();
        screen.show(&call_started()).unwrap();
        screen.tell(Colour::Dim, "something else").unwrap();
        screen.tick().unwrap();
        assert!(!screen.is_drawn);
        screen.answered();
        screen.tick().unwrap();
        assert!(screen.is_drawn);
    }

    #[test]
    fn times_are_written_as_people_read_them() {
        let shown = [400, 12_000, 61_000, 3_720_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(shown, ["0.4s", "12s", "1m 01s", "1h 02m"]);
    }
}
