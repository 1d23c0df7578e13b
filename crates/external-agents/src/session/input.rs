//! The agent's standard input.

use std::collections::VecDeque;

use windlass_process::StdinWriter;

/// Lines that wait beyond the process's input buffer before the agent is no longer read.
const MAX_UNSENT: usize = 256;
const MAX_UNSENT_BYTES: usize = 1024 * 1024;

/// The agent's input. An agent that does not read it is not read either, once its unread replies reach a bound.
pub(super) struct Input {
    stdin_writer: StdinWriter,
    unsent: VecDeque<String>,
    unsent_bytes: usize,
}

impl Input {
    pub(super) fn new(stdin_writer: StdinWriter) -> Self {
        Self {
            stdin_writer,
            unsent: VecDeque::new(),
            unsent_bytes: 0,
        }
    }

    pub(super) fn send(&mut self, line: String) {
        self.unsent_bytes += line.len();
        self.unsent.push_back(line);
        self.flush();
    }

    /// Returns whether a line of any size can be sent without waiting.
    pub(super) fn has_room(&self) -> bool {
        self.unsent.is_empty() && self.stdin_writer.has_room()
    }

    /// Returns whether the agent may request more.
    pub(super) fn is_full(&self) -> bool {
        self.unsent.len() >= MAX_UNSENT || self.unsent_bytes >= MAX_UNSENT_BYTES
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Waits until the agent has read enough for the next line.
    pub(super) async fn room(&self) {
        self.stdin_writer.room().await;
    }

    pub(super) fn flush(&mut self) {
        while self.stdin_writer.has_room()
            && let Some(mut line) = self.unsent.pop_front()
        {
            self.unsent_bytes -= line.len();
            line.push('\n');
            // The end of the process reports a closed input.
            let _ = self.stdin_writer.push(line.into_bytes());
        }
    }
}
