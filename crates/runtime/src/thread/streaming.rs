//! Text that a model call or an external agent streams, and the end of a model call.

use std::sync::Arc;

use windlass_core::error::Result;
use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::ExecId;
use windlass_turn::{Answer, Input, Moment, Tail};

use super::actor::Actor;
use crate::errors::to_failure;
use crate::steps::backend::BackendRun;
use crate::steps::model::{ModelCall, ModelReply, Progress};
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

    /// Returns the text of the running step that is not recorded yet.
    pub(super) fn running_tail(&self) -> Option<&Tail> {
        let buffer = match (&self.model, &self.backend) {
            (Some(model), _) => model.buffer.as_ref(),
            (None, run) => run.as_ref().map(|run| &run.buffer),
        };
        buffer.map(|buffer| &buffer.tail)
    }

    /// Takes text of the model without recording any; `false` if there is no room for it.
    pub(super) fn buffer_text(&mut self, text: &str) -> bool {
        match streaming(&mut self.model, &mut self.backend) {
            Some((_, buffer)) if !buffer.has_room_for(text) => false,
            Some((_, buffer)) => {
                buffer.push(StreamKind::Answer, text, &*self.inner.world);
                true
            }
            None => true,
        }
    }

    /// Joins streamed text into chunks and records those that are full.
    pub(super) async fn stream(&mut self, kind: StreamKind, text: &str) -> Result<()> {
        for piece in pieces(text) {
            if (self.streaming()).is_some_and(|(_, buffer)| !buffer.has_room_for(piece)) {
                self.flush_chunk().await?;
            }
            if let Some((_, buffer)) = streaming(&mut self.model, &mut self.backend) {
                buffer.push(kind, piece, &*self.inner.world);
            }
        }
        match self.streaming().is_some_and(|(_, buffer)| buffer.is_full()) {
            true => self.flush_chunk().await,
            false => Ok(()),
        }
    }

    pub(super) async fn model_progress(&mut self, progress: Progress) -> Result<()> {
        match progress {
            Progress::Text(text) => self.stream(StreamKind::Answer, &text).await,
            Progress::Thinking(text) => self.stream(StreamKind::Thinking, &text).await,
            Progress::ChunkDue => self.flush_chunk().await,
            Progress::Finished(reply) => self.model_finished(*reply).await,
            Progress::Failed(error, metadata) => {
                let Some(model) = self.model.take() else {
                    return Ok(());
                };
                self.inner.trouble.note(&error, self.inner.world.now());
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

    async fn model_finished(&mut self, reply: ModelReply) -> Result<()> {
        let Some((model, context)) = self.model.take().zip(self.context.as_ref()) else {
            return Ok(());
        };
        let check = |call| tool::preflight(&self.inner, context, call);
        let answer = Answer {
            text: reply.text,
            thinking: reply.thinking,
            thinking_signature: reply.thinking_signature,
            reasoning_items: reply.reasoning_items,
            calls: reply.calls.into_iter().map(check).collect(),
            phase: reply.phase,
            metadata: reply.metadata,
            prompt: reply.prompt,
        };
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
        // The end of the text may be the beginning of a secret: it is recorded with what follows.
        let (shown, held) = match self.inner.secrets.mask(self.thread.session_id()) {
            Some(mask) => mask.split_tail(&tail),
            None => (tail, Tail::default()),
        };
        let decided = {
            let moment = Moment {
                now: self.inner.world.now(),
                uuid: self.inner.world.uuid(),
                plan: self
                    .context
                    .as_ref()
                    .map_or(&self.idle_plan, |context| &context.plan),
                tail: Some(&shown),
                mask: None,
            };
            self.thread.chunk(exec_id, &moment)
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
