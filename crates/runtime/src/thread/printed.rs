//! Output of an agent's calls while they run: joined into chunks like text, with a limit per call.

use std::collections::BTreeMap;

use windlass_core::backend::BackendEvent;
use windlass_core::error::Result;
use windlass_core::typed_id::ExecId;
use windlass_turn::UnflushedText;

use super::actor::Actor;
use crate::secrets::Mask;
use crate::steps::stream_buffer::{CHUNK_BYTES, CHUNK_SPAN, pieces};

/// Maximum bytes of one call's output that are shown while it runs. A program may print without end.
const MAX_PRINTED_BYTES: usize = 256 * 1024;
const NO_MORE_SHOWN: &str = "\n[more output is not shown while the call runs]\n";

/// Whether a call may print more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    May,
    Cannot,
}

/// Output of a run's open calls, by the agent's IDs.
#[derive(Default)]
pub(crate) struct Printed(BTreeMap<String, Print>);

#[derive(Default)]
struct Print {
    /// Output that is not recorded yet.
    waiting: String,
    bytes: usize,
}

impl Printed {
    /// Returns how many more bytes of a call are shown.
    fn room(&self, call_id: &str) -> usize {
        let printed = self.0.get(call_id).map_or(0, |print| print.bytes);
        MAX_PRINTED_BYTES.saturating_sub(printed)
    }

    /// Adds a piece; returns whether the buffered output must be recorded now.
    fn add(&mut self, call_id: &str, text: &str) -> bool {
        let print = self.0.entry(call_id.to_owned()).or_default();
        let room = MAX_PRINTED_BYTES.saturating_sub(print.bytes);
        let was_within = print.bytes <= MAX_PRINTED_BYTES;
        print.bytes = print.bytes.saturating_add(text.len());
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        print.waiting.push_str(&text[..end]);
        if was_within && print.bytes > MAX_PRINTED_BYTES {
            print.waiting.push_str(NO_MORE_SHOWN);
        }
        print.waiting.len() >= CHUNK_BYTES
    }

    /// Removes the output of a call that may be shown. An end that may be the start of a secret waits for the output that follows.
    fn take(&mut self, call_id: &str, mask: Option<&Mask>, rest: Rest) -> String {
        let Some(print) = self.0.get_mut(call_id) else {
            return String::new();
        };
        let text = std::mem::take(&mut print.waiting);
        let shown = match (mask, rest) {
            (Some(mask), Rest::May) => {
                let thinking = String::new();
                let (shown, held) = mask.split_tail(&UnflushedText { text, thinking });
                print.waiting = held.text;
                shown.text
            }
            // What is whole is masked where all is that the agent tells.
            (_, _) => text,
        };
        if rest == Rest::Cannot {
            self.0.remove(call_id);
        }
        shown
    }
}

impl Actor {
    /// Buffers output of a call. Output of a call that is not open is dropped.
    pub(super) async fn call_printed(
        &mut self,
        exec_id: ExecId,
        call_id: &str,
        text: &str,
    ) -> Result<()> {
        let calls = self.thread.turn().and_then(|turn| turn.run());
        let mut calls = calls.into_iter().flat_map(|run| &run.calls);
        let is_open = calls.any(|call| call.call.id == call_id && !call.state.is_done());
        let Some(run) = self.backend.as_mut().filter(|_| is_open) else {
            tracing::debug!(call_id, "what no open call prints is not recorded");
            return Ok(());
        };
        if !run.admits_bytes(run.printed.room(call_id).min(text.len())) {
            return Ok(());
        }
        if run.printed.add(call_id, text) {
            return self.show_printed(exec_id, call_id, Rest::May).await;
        }
        if run.printed_due.is_none() {
            run.printed_due = Some(self.inner.clock.sleep(CHUNK_SPAN));
        }
        Ok(())
    }

    /// Records the output of a call so far.
    pub(super) async fn show_printed(
        &mut self,
        exec_id: ExecId,
        call_id: &str,
        rest: Rest,
    ) -> Result<()> {
        let mask = self.inner.secrets.mask(self.thread.session_id());
        let shown = match &mut self.backend {
            Some(run) => run.printed.take(call_id, mask.as_ref(), rest),
            None => return Ok(()),
        };
        for piece in pieces(&shown) {
            let event = BackendEvent::ToolOutput {
                call_id: call_id.to_owned(),
                text: piece.to_owned(),
            };
            self.tell(exec_id, event).await?;
        }
        Ok(())
    }

    /// Records the buffered output before a run may be stopped.
    pub(super) async fn keep_printed(&mut self) -> Result<()> {
        match self.backend.as_ref().map(|run| run.exec_id) {
            Some(exec_id) => self.show_all_printed(exec_id, Rest::May).await,
            None => Ok(()),
        }
    }

    /// Records the output of all calls so far.
    pub(super) async fn show_all_printed(&mut self, exec_id: ExecId, rest: Rest) -> Result<()> {
        let printed = self.backend.as_ref().map(|run| &run.printed.0);
        let calls: Vec<String> = printed
            .into_iter()
            .flatten()
            .map(|(id, _)| id.clone())
            .collect();
        for call_id in calls {
            self.show_printed(exec_id, &call_id, rest).await?;
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
    fn a_secret_in_two_pieces_is_masked_and_an_end_without_one_comes_at_last() {
        let mask = Mask::of(vec![Arc::new(Secret::new("key", "sk-0123456789"))]).unwrap();
        let mut printed = Printed::default();
        let mut shown = String::new();
        for piece in ["it is sk-01", "2345", "6789. sk-0"] {
            printed.add("a", piece);
            shown += &printed.take("a", Some(&mask), Rest::May);
        }
        assert_eq!(shown, "it is [secret:key]. ");
        assert_eq!(printed.take("a", Some(&mask), Rest::Cannot), "sk-0");
        assert!(printed.0.is_empty());
    }

    #[test]
    fn only_so_much_of_a_call_is_shown() {
        let mut printed = Printed::default();
        let mut shown = String::new();
        for _ in 0..MAX_PRINTED_BYTES {
            printed.add("a", "é!");
            shown += &printed.take("a", None, Rest::May);
        }
        assert!(shown.ends_with(NO_MORE_SHOWN), "and it says so");
        assert!(shown.len() <= MAX_PRINTED_BYTES + NO_MORE_SHOWN.len());
        printed.add("b", "other");
        assert_eq!(printed.take("b", None, Rest::Cannot), "other");
    }

    #[test]
    fn pieces_that_fill_the_room_exactly_lose_no_word_about_the_rest() {
        let piece = "x".repeat(8 * 1024);
        let mut printed = Printed::default();
        for _ in 0..MAX_PRINTED_BYTES / piece.len() {
            printed.add("a", &piece);
        }
        let shown = printed.take("a", None, Rest::May);
        assert_eq!(shown.len(), MAX_PRINTED_BYTES, "so far all is shown");
        for _ in 0..3 {
            printed.add("a", &piece);
        }
        assert_eq!(printed.take("a", None, Rest::May), NO_MORE_SHOWN);
    }
}
