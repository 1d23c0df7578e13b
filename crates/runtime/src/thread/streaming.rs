//! Text that a model call or an external agent streams, and the end of a model call.

use std::sync::Arc;

use windlass_core::error::Result;
use windlass_core::events::{Event, EventData};
use windlass_core::tools::ToolCall;
use windlass_core::typed_id::ExecId;
use windlass_turn::{Answer, Input, UnflushedText};

use super::actor::Actor;
use crate::errors::to_failure;
use crate::steps::backend::BackendRun;
use crate::steps::model::{ModelCall, Progress};
use crate::steps::stream_buffer::{StreamBuffer, StreamKind, pieces};
use crate::steps::tool;

/// Returns the running step whose text is shown, with its buffer.
fn streaming<'a>(
    model: &'a mut Option<ModelCall>,
    backend: &'a mut Option<BackendRun>,
) -> Option<(ExecId, &'a mut StreamBuffer)> {
    match (model, backend) {
        (Some(model), _) => Some((model.exec_id, model.buffer.as_mut()?)),
        (None, Some(run)) => Some((run.exec_id, &mut run.buffer)),
        (None, None) => None,
    }
}

impl Actor {
    fn streaming(&mut self) -> Option<(ExecId, &mut StreamBuffer)> {
        streaming(&mut self.model, &mut self.backend)
    }

    /// Returns the unrecorded text of the running step.
    pub(super) fn running_tail(&self) -> Option<&UnflushedText> {
        let buffer = match (&self.model, &self.backend) {
            (Some(model), _) => model.buffer.as_ref(),
            (None, run) => run.as_ref().map(|run| &run.buffer),
        };
        buffer.map(|buffer| &buffer.tail)
    }

    /// Buffers text of the model without recording it; `false` if there is no room for it.
    pub(super) fn buffer_text(&mut self, text: &str) -> bool {
        match streaming(&mut self.model, &mut self.backend) {
            Some((_, buffer)) if !buffer.fits(text) => false,
            Some((_, buffer)) => {
                buffer.push(StreamKind::Answer, text, &*self.inner.clock);
                true
            }
            None => true,
        }
    }

    /// Joins streamed text into chunks and records the full ones.
    pub(super) async fn stream(&mut self, kind: StreamKind, text: &str) -> Result<()> {
        for piece in pieces(text) {
            if (self.streaming()).is_some_and(|(_, buffer)| !buffer.fits(piece)) {
                self.flush_chunk().await?;
            }
            if let Some((_, buffer)) = streaming(&mut self.model, &mut self.backend) {
                buffer.push(kind, piece, &*self.inner.clock);
            }
        }
        if self.streaming().is_some_and(|(_, buffer)| buffer.is_full()) {
            self.flush_chunk().await
        } else {
            Ok(())
        }
    }

    pub(super) async fn model_progress(&mut self, progress: Progress) -> Result<()> {
        match progress {
            Progress::Text(text) => self.stream(StreamKind::Answer, &text).await,
            Progress::Thinking(text) => self.stream(StreamKind::Thinking, &text).await,
            Progress::ChunkDue => self.flush_chunk().await,
            Progress::Finished(answer, calls) => self.model_finished(*answer, calls).await,
            Progress::Failed(error, metadata) => {
                let Some(model) = self.model.take() else {
                    return Ok(());
                };
                self.inner
                    .provider_failures
                    .note(&error, self.inner.clock.now());
                let input = Input::ModelFailed {
                    exec_id: model.exec_id,
                    failure: to_failure(&error),
                    metadata,
                };
                let tail = model.buffer.map(|buffer| buffer.tail);
                self.end_step(input, tail).await
            }
        }
    }

    async fn model_finished(&mut self, mut answer: Answer, calls: Vec<ToolCall>) -> Result<()> {
        let Some((model, context)) = self.model.take().zip(self.context.as_ref()) else {
            return Ok(());
        };
        // An answer with calls is not the final one, and a summary is not an answer.
        if let Some(output) = &context.output
            && calls.is_empty()
            && model.buffer.is_some()
        {
            answer.mismatch = output.mismatch(&self.inner, &answer.text);
        }
        let check = |call| tool::preflight(&self.inner, context, call);
        answer.calls = calls.into_iter().map(check).collect();
        let input = Input::ModelFinished {
            exec_id: model.exec_id,
            answer: Box::new(answer),
        };
        let tail = model.buffer.map(|buffer| buffer.tail);
        self.end_step(input, tail).await
    }

    /// Records the streamed text so far.
    pub(super) async fn flush_chunk(&mut self) -> Result<()> {
        let Some((exec_id, buffer)) = self.streaming() else {
            return Ok(());
        };
        let StreamBuffer { tail, .. } = std::mem::take(buffer);
        // The end of the text may be the start of a secret, so it is recorded with the text that follows.
        let (shown, held) = match self.inner.secrets.mask(self.thread.session_id()) {
            Some(mask) => mask.split_tail(&tail),
            None => (tail, UnflushedText::default()),
        };
        let decided = {
            let ctx = self.decision_context(Some(&shown));
            self.thread.chunk(exec_id, &ctx)
        };
        if let Ok(decision) = decided {
            self.commit(decision).await?;
            if let Some((_, buffer)) = self.streaming() {
                buffer.tail = held;
            }
        }
        Ok(())
    }

    /// Text that a commit has recorded is no longer buffered.
    pub(super) fn clear_recorded_text(&mut self, events: &[Arc<Event>]) {
        let records_text = |event: &Arc<Event>| {
            matches!(
                event.data,
                EventData::OutputMessageDelta(_) | EventData::ReasonThinkingDelta(_)
            )
        };
        if events.iter().any(records_text)
            && let Some((_, buffer)) = self.streaming()
        {
            *buffer = StreamBuffer::default();
        }
    }
}
