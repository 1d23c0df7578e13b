//! Output of an agent's calls while they run: joined into chunks like text, with a limit per call.

use std::collections::BTreeMap;

use windlass_core::backend::BackendEvent;
use windlass_core::bounds::prefix;
use windlass_core::error::Result;
use windlass_core::typed_id::ExecId;
use windlass_turn::UnflushedText;

use super::actor::Actor;
use crate::secrets::Mask;
use crate::steps::stream_buffer::{CHUNK_BYTES, CHUNK_SPAN, pieces};

/// Maximum bytes of one call's output that are shown while it runs. A program may print without end.
const MAX_PRINTED_BYTES: usize = 256 * 1024;
const NO_MORE_SHOWN: &str = "\n[more output is not shown while the call runs]\n";

/// Whether a call may print more output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputEnd {
    Open,
    Final,
}

/// Output of a run's open calls, by the agent's IDs.
#[derive(Default)]
pub(crate) struct CallOutputBuffer(BTreeMap<String, CallOutput>);

#[derive(Default)]
struct CallOutput {
    /// Output that is not recorded yet.
    waiting: String,
    bytes: usize,
}

impl CallOutputBuffer {
    /// Returns how many more bytes of a call are shown.
    fn remaining(&self, call_id: &str) -> usize {
        let shown = self.0.get(call_id).map_or(0, |output| output.bytes);
        MAX_PRINTED_BYTES.saturating_sub(shown)
    }

    /// Adds a piece; returns whether the buffered output must be recorded now.
    fn add(&mut self, call_id: &str, text: &str) -> bool {
        let output = self.0.entry(call_id.to_owned()).or_default();
        let remaining = MAX_PRINTED_BYTES.saturating_sub(output.bytes);
        let was_within = output.bytes <= MAX_PRINTED_BYTES;
        output.bytes = output.bytes.saturating_add(text.len());
        output.waiting.push_str(prefix(text, remaining));
        if was_within && output.bytes > MAX_PRINTED_BYTES {
            output.waiting.push_str(NO_MORE_SHOWN);
        }
        output.waiting.len() >= CHUNK_BYTES
    }

    /// Removes the output of a call that may be shown. An end that may be the start of a secret waits for the output that follows.
    fn take(&mut self, call_id: &str, mask: Option<&Mask>, end: OutputEnd) -> String {
        let Some(output) = self.0.get_mut(call_id) else {
            return String::new();
        };
        let text = std::mem::take(&mut output.waiting);
        let shown = match (mask, end) {
            (Some(mask), OutputEnd::Open) => {
                let thinking = String::new();
                let (shown, held) = mask.split_tail(&UnflushedText { text, thinking });
                output.waiting = held.text;
                shown.text
            }
            // Complete text is masked together with the other events of the agent.
            (_, _) => text,
        };
        if end == OutputEnd::Final {
            self.0.remove(call_id);
        }
        shown
    }
}

impl Actor {
    /// Buffers output of a call. Output of a call that is not open is dropped.
    pub(super) async fn buffer_call_output(
        &mut self,
        exec_id: ExecId,
        call_id: &str,
        text: &str,
    ) -> Result<()> {
        let calls = self.thread.turn().and_then(|turn| turn.run());
        let mut calls = calls.into_iter().flat_map(|run| &run.calls);
        let is_open = calls.any(|call| call.call.id == call_id && !call.state.is_done());
        let Some(run) = self.backend.as_mut().filter(|_| is_open) else {
            tracing::debug!(call_id, "output without an open call is not recorded");
            return Ok(());
        };
        if !run.admits_bytes(run.call_output.remaining(call_id).min(text.len())) {
            return Ok(());
        }
        if run.call_output.add(call_id, text) {
            return self
                .record_call_output(exec_id, call_id, OutputEnd::Open)
                .await;
        }
        if run.call_output_due.is_none() {
            run.call_output_due = Some(self.inner.clock.sleep(CHUNK_SPAN));
        }
        Ok(())
    }

    /// Records the output of a call so far.
    pub(super) async fn record_call_output(
        &mut self,
        exec_id: ExecId,
        call_id: &str,
        end: OutputEnd,
    ) -> Result<()> {
        let mask = self.inner.secrets.mask(self.thread.session_id());
        let shown = match &mut self.backend {
            Some(run) => run.call_output.take(call_id, mask.as_ref(), end),
            None => return Ok(()),
        };
        for piece in pieces(&shown) {
            let event = BackendEvent::ToolOutput {
                call_id: call_id.to_owned(),
                text: piece.to_owned(),
            };
            self.record_backend_event(exec_id, event).await?;
        }
        Ok(())
    }

    /// Records the buffered output before a run may be stopped.
    pub(super) async fn record_buffered_call_output(&mut self) -> Result<()> {
        match self.backend.as_ref().map(|run| run.exec_id) {
            Some(exec_id) => self.record_all_call_output(exec_id, OutputEnd::Open).await,
            None => Ok(()),
        }
    }

    /// Records the output of all calls so far.
    pub(super) async fn record_all_call_output(
        &mut self,
        exec_id: ExecId,
        end: OutputEnd,
    ) -> Result<()> {
        let call_output = self.backend.as_ref().map(|run| &run.call_output.0);
        let calls: Vec<String> = call_output
            .into_iter()
            .flatten()
            .map(|(id, _)| id.clone())
            .collect();
        for call_id in calls {
            self.record_call_output(exec_id, &call_id, end).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::secrets::Secret;

    #[test]
    fn secret_in_two_pieces_is_masked_and_the_held_end_is_flushed() {
        let mask = Mask::new(vec![Arc::new(Secret::new("key", "sk-0123456789"))]).unwrap();
        let mut call_output = CallOutputBuffer::default();
        let mut shown = String::new();
        for piece in ["it is sk-01", "2345", "6789. sk-0"] {
            call_output.add("a", piece);
            shown += &call_output.take("a", Some(&mask), OutputEnd::Open);
        }
        assert_eq!(shown, "it is [secret:key]. ");
        assert_eq!(call_output.take("a", Some(&mask), OutputEnd::Final), "sk-0");
        assert!(call_output.0.is_empty());
    }

    #[test]
    fn output_of_a_call_is_limited() {
        let mut call_output = CallOutputBuffer::default();
        let mut shown = String::new();
        for _ in 0..MAX_PRINTED_BYTES {
            call_output.add("a", "é!");
            shown += &call_output.take("a", None, OutputEnd::Open);
        }
        assert!(shown.ends_with(NO_MORE_SHOWN), "a note marks the limit");
        assert!(shown.len() <= MAX_PRINTED_BYTES + NO_MORE_SHOWN.len());
        call_output.add("b", "other");
        assert_eq!(call_output.take("b", None, OutputEnd::Final), "other");
    }

    #[test]
    fn truncation_note_follows_output_that_fills_the_limit_exactly() {
        let piece = "x".repeat(8 * 1024);
        let mut call_output = CallOutputBuffer::default();
        for _ in 0..MAX_PRINTED_BYTES / piece.len() {
            call_output.add("a", &piece);
        }
        let shown = call_output.take("a", None, OutputEnd::Open);
        assert_eq!(shown.len(), MAX_PRINTED_BYTES, "everything is shown");
        for _ in 0..3 {
            call_output.add("a", &piece);
        }
        assert_eq!(call_output.take("a", None, OutputEnd::Open), NO_MORE_SHOWN);
    }
}
