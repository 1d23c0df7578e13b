//! The lines of tool calls and of the model's reasoning.

use std::io;
use std::time::Instant;

use windlass_core::bounds::{lines, one_line};
use windlass_protocol::{Item, ItemKind, Status};

use super::super::call_line::{CallLine, outcome_mark, thought_mark};
use super::super::call_result::{excerpt, is_cut_off, is_success, result_lines, summary};
use super::super::plan::checklist;
use super::super::proposal::StyledLine;
use super::super::units::{count, time};
use super::super::{Colour, ShownCall, columns, main_argument};
use super::Screen;

/// Maximum stored length of a call's main argument, in characters.
const MAX_SUMMARY: usize = 400;
/// Indent of the lines below a call.
const INDENT: &str = "    ";

pub(super) struct RunningCall {
    pub(super) item_id: String,
    pub(super) name: String,
    pub(super) argument: String,
    /// When it started; `None` while it waits for the user, and for a call that an earlier process started.
    pub(super) since: Option<Instant>,
    /// Whether the user was shown the call before it ran.
    pub(super) is_proposed: bool,
}

/// The model's reasoning before its next answer or call.
pub(super) struct Thought {
    pub(super) since: Instant,
    pub(super) text: String,
}

impl Screen {
    /// Starts or stops the timer of a call. The time that it waits for the user is not counted.
    pub(super) fn set_timer(&mut self, item: &str, since: Option<Instant>) {
        let mut running = self.running.iter_mut();
        if let Some(call) = running.find(|it| it.item_id == item) {
            call.since = since;
        }
    }

    /// Returns the current reasoning, and begins it if there is none.
    pub(super) fn thought(&mut self) -> &mut Thought {
        self.thought.get_or_insert_with(|| Thought {
            since: Instant::now(),
            text: String::new(),
        })
    }

    /// Replaces the current reasoning by one line.
    pub(super) fn end_thought(&mut self) -> io::Result<()> {
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

    /// Shows the last result completely.
    pub(crate) fn show_last_result(&mut self) -> io::Result<()> {
        let (last, style) = (
            self.details.as_ref().and_then(|it| it.get(None)),
            self.style,
        );
        for line in last.iter().flat_map(|detail| detail.format(style)) {
            self.write_message(&line)?;
        }
        Ok(())
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

    pub(super) fn end_call(&mut self, item: &Item) -> io::Result<()> {
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
        self.is_after_excerpt = !shown.is_empty();
        let (before, after) = if is_end { (fold, None) } else { (None, fold) };
        for (colour, line) in before.iter().chain(shown).chain(after.iter()) {
            let line = self.style.paint(*colour, &self.style.cut(line, width));
            self.write_message(&format!("{INDENT}{line}"))?;
        }
        Ok(())
    }

    /// Formats a call as one line, with its result or status at the end.
    pub(super) fn line(&self, call: &RunningCall, end: &str, number: Option<usize>) -> String {
        let line = CallLine {
            name: &call.name,
            argument: &call.argument,
            end,
            number,
        };
        // Two columns are for the mark, three for the `^C` that a terminal echoes, so that nothing wraps.
        line.format(self.style, columns().saturating_sub(5))
    }
}
