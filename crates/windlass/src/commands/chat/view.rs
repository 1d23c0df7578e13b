//! The output of a chat around its turns: the status line, the last exchange, and opened results.

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};
use windlass_core::bounds::one_line;
use windlass_protocol::{Call, ItemKind};

use super::ChatLoop;
use crate::client::calls;
use crate::client::thread_status::status_line;
use crate::terminal::{Colour, Style, Transcript};

impl ChatLoop {
    /// Shows the model, context and cost of the thread above the prompt if they have changed.
    pub(super) async fn show_status(&mut self) -> io::Result<()> {
        if !io::stderr().is_terminal() {
            return Ok(());
        }
        let (api, style) = (self.daemon.api(), Style::for_stderr());
        let status = match (&self.session, &self.new_thread.model) {
            (Some(session), _) => status_line(&*api, &session.thread, style).await,
            (None, Some(model)) => model.clone(),
            (None, None) => match api.get_config(Call::new((), ())).await {
                Ok(config) => config.model,
                Err(_) => return Ok(()),
            },
        };
        if status == self.status {
            return Ok(());
        }
        let shown = style.unmarked(&one_line(&status), &mut None);
        self.status = status;
        writeln!(io::stderr(), "{}", style.paint(Colour::Dim, &shown))
    }

    /// Shows the last prompt of a resumed thread and its answer.
    pub(super) async fn show_last_exchange(&self, thread_id: &str) -> Result<()> {
        if !io::stderr().is_terminal() {
            return Ok(());
        }
        let detail = calls::newest_turns(&*self.daemon.api(), thread_id, 1).await?;
        let is_message = |kind| matches!(kind, ItemKind::UserMessage | ItemKind::AgentMessage);
        let (transcript, mut err) = (Transcript::for_stderr(), io::stderr().lock());
        for item in detail.items.iter().filter(|item| is_message(item.kind)) {
            transcript.write(item, &mut err)?;
        }
        Ok(())
    }

    /// Shows a complete result or thought: that with a number, or the last one.
    pub(super) fn show_detail(&self, number: &str) -> Result<()> {
        let number = match number.trim_start_matches('#') {
            "" => None,
            number => Some(number.parse().context("the number is invalid: /show 3")?),
        };
        let detail = self.details.get(number);
        let detail =
            detail.context("there is no such result; a number such as #3 follows each call")?;
        let mut err = io::stderr().lock();
        for line in detail.format(Style::for_stderr()) {
            writeln!(err, "{line}")?;
        }
        Ok(())
    }
}
