//! The line that is redrawn while a turn runs.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use windlass_core::bounds::{one_line, prefix, suffix};

use super::super::units::time;
use super::super::{Colour, columns, width_of};
use super::{CLEAR, QuestionState, Screen};

/// Shorter waits do not get a live line.
const LIVE_DELAY: Duration = Duration::from_millis(400);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const PLAIN_SPINNER: [&str; 4] = ["|", "/", "-", "\\"];
/// Maximum size of the reasoning in the line, in bytes.
const MAX_THOUGHT: usize = 400;

impl Screen {
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

    pub(super) fn draw(&mut self) -> io::Result<()> {
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
            let mut shown = suffix(&self.typed, 4 * width);
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
            let last = one_line(prefix(last.unwrap_or_default(), MAX_THOUGHT));
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
}
