//! Recorded items of a thread, shown like those of a running turn.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use windlass_core::bounds::{lines, one_line};
use windlass_protocol::{Item, ItemKind, Status};

use super::call_line::{CallLine, outcome_mark, thought_mark};
use super::call_result::{is_success, result_lines, summary};
use super::plan::checklist;
use super::tool_call::{ShownCall, main_argument};
use super::units::{count, time};
use super::{Colour, Markdown, Style, columns};
use crate::local_time;

/// Maximum number of lines that are shown of a call's result.
const RESULT_LINES: usize = 10;

/// Writes recorded items.
#[derive(Clone, Copy)]
pub(crate) struct Transcript {
    style: Style,
    /// `None` if the output is not a terminal.
    width: Option<usize>,
}

impl Transcript {
    /// For a program: plain text, and no line is shortened.
    pub(crate) const PLAIN: Self = Self {
        style: Style::PLAIN,
        width: None,
    };

    pub(crate) fn for_stdout() -> Self {
        Self::new(Style::for_stdout(), io::stdout().is_terminal())
    }

    pub(crate) fn for_stderr() -> Self {
        Self::new(Style::for_stderr(), io::stderr().is_terminal())
    }

    fn new(style: Style, is_terminal: bool) -> Self {
        let width = is_terminal.then(columns);
        Self { style, width }
    }

    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        self.style.paint(colour, text)
    }

    /// Writes an item.
    pub(crate) fn write(self, item: &Item, out: &mut impl Write) -> io::Result<()> {
        let text = item.detail.as_deref().unwrap_or_default();
        match item.kind {
            ItemKind::UserMessage => self.write_prompt(item, text, out),
            ItemKind::AgentMessage => self.write_answer(text, out),
            ItemKind::AgentReasoning => self.write_thought(text, out),
            ItemKind::ToolCall | ItemKind::FileChange | ItemKind::CommandExecution => {
                self.write_call(item, out)
            }
            ItemKind::Plan => self.write_plan(item, out),
            ItemKind::ContextCompaction => {
                self.write_notice(Colour::Dim, "the history was compacted", out)
            }
            ItemKind::Status => self.write_notice(Colour::Warning, text, out),
            ItemKind::Error => self.write_notice(Colour::Bad, text, out),
        }
    }

    fn inert(self, text: &str) -> String {
        self.style.unmarked(&lines(text), &mut None)
    }

    fn write_prompt(self, item: &Item, text: &str, out: &mut impl Write) -> io::Result<()> {
        if let Some(at) = &item.started_at {
            let at = local_time::minute(at);
            writeln!(out, "{}", self.paint(Colour::Dim, &one_line(&at)))?;
        }
        for (number, line) in self.inert(text).lines().enumerate() {
            let mark = if number == 0 { "> " } else { "  " };
            writeln!(
                out,
                "{}",
                self.paint(Colour::Bold, &format!("{mark}{line}"))
            )?;
        }
        Ok(())
    }

    fn write_answer(self, text: &str, out: &mut impl Write) -> io::Result<()> {
        match self.width {
            Some(width) => write!(out, "{}", Markdown::render(text, self.style, width)),
            None => writeln!(out, "{}", self.inert(text)),
        }
    }

    fn write_thought(self, text: &str, out: &mut impl Write) -> io::Result<()> {
        let text = text.trim();
        let Some(first) = text.lines().next() else {
            return Ok(());
        };
        let argument = one_line(first.trim_matches(['*', '#', ' ']));
        let line = CallLine {
            name: "thought",
            argument: &argument,
            end: &count(text.lines().count(), "line"),
            number: None,
        };
        let line = format!("{} {}", thought_mark(self.style), self.format(&line));
        writeln!(out, "{}", self.paint(Colour::Dim, &line))
    }

    fn write_plan(self, item: &Item, out: &mut impl Write) -> io::Result<()> {
        for (colour, line) in checklist(item, self.style) {
            writeln!(out, "{}", self.paint(colour, &line))?;
        }
        Ok(())
    }

    fn write_notice(self, colour: Colour, text: &str, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.paint(colour, &self.inert(text)))
    }

    fn write_call(self, item: &Item, out: &mut impl Write) -> io::Result<()> {
        let call = ShownCall::from_item(item);
        let name = call.as_ref().map_or("tool", |call| &call.name);
        let argument = call.as_ref().map(|call| main_argument(&call.input));
        let status = match item.status {
            Status::Completed => String::new(),
            status => format!("({})", status_name(status)),
        };
        let parts = [
            took(item).map(time).unwrap_or_default(),
            status,
            summary(item),
        ];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let line = CallLine {
            name: &one_line(name),
            argument: &argument.unwrap_or_default(),
            end: &parts.join("  "),
            number: None,
        };
        let mark = outcome_mark(is_success(item), self.style);
        writeln!(out, "{mark} {}", self.format(&line))?;
        let lines = result_lines(item, self.style);
        // The line of the call contains a result of one line.
        let shown = match lines.len() {
            1 => 0,
            all => all.min(RESULT_LINES),
        };
        let width = self
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(5));
        for (colour, line) in &lines[..shown] {
            let line = self.style.cut(line, width);
            writeln!(out, "    {}", self.paint(*colour, &line))?;
        }
        match lines.len() - shown {
            0 => Ok(()),
            _ if shown == 0 => Ok(()),
            folded => {
                let folded = count(folded, "more line");
                let folded = format!("{} {folded}", self.style.dots());
                writeln!(out, "    {}", self.paint(Colour::Dim, &folded))
            }
        }
    }

    fn format(self, line: &CallLine) -> String {
        // Two columns are for the mark.
        let width = self
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(3));
        line.format(self.style, width)
    }
}

fn status_name(status: Status) -> String {
    let name = serde_json::to_value(status).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

/// Returns how long a call ran. The time between its start and end may contain the wait for an approval.
fn took(item: &Item) -> Option<Duration> {
    let duration = item.metadata.as_ref()?.get("duration_ms")?.as_u64();
    duration.map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(items: &[Value], width: Option<usize>) -> String {
        let style = Style {
            has_unicode: true,
            ..Style::PLAIN
        };
        let transcript = Transcript { style, width };
        let mut out = Vec::new();
        for item in items {
            let mut item = item.clone();
            item["schema_version"] = 1.into();
            item["id"] = "item_1".into();
            item["turn_id"] = "turn_1".into();
            item["summary"] = "".into();
            let item: Item = serde_json::from_value(item).unwrap();
            transcript.write(&item, &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn items_are_written_like_those_of_a_turn() {
        let call = json!({ "name": "shell", "input": { "command": "ls -la" } });
        let output: String = (1..=12).map(|line| format!("file {line}\n")).collect();
        let items = [
            json!({ "kind": "user_message", "status": "completed", "detail": "one\ntwo" }),
            json!({ "kind": "agent_reasoning", "status": "completed", "detail": "**Think**\nmore" }),
            json!({
                "kind": "command_execution", "status": "completed", "detail": output,
                "metadata": { "tool": call, "duration_ms": 1_500 },
            }),
            json!({ "kind": "tool_call", "status": "failed", "detail": "\x1b[2J", "metadata": { "tool": call } }),
            json!({ "kind": "agent_message", "status": "completed", "detail": "- done" }),
        ];
        insta::assert_snapshot!(written(&items, Some(40)));
        let plain = written(&items, None);
        assert!(
            plain.contains("✗ shell  ls -la  (failed)  \\u{1b}[2J\n- done\n"),
            "{plain}"
        );
    }
}
