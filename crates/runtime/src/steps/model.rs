//! A model call: connecting, streaming, retrying.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use chrono::{DateTime, Utc};
use windlass_core::atoms::{
    OutputGuardrail, OutputGuardrailContext, OutputGuardrailRun, OutputGuardrailVerdict,
};
use windlass_core::bounds::json_bytes;
use windlass_core::error::{AgentLoopError, AskedModel, ErrorKind, ProviderError, Result};
use windlass_core::events::{LlmGenerationMetadata, PromptRef, RetryMetadata};
use windlass_core::llm_driver_registry::{
    LlmCompletionMetadata, LlmDriver, LlmRequest, LlmResponseStream, LlmStreamEvent,
};
use windlass_core::message::Message;
use windlass_core::tools::ToolCall;
use windlass_core::typed_id::ExecId;
use windlass_core::{Clock, Sleep};
use windlass_turn::Answer;

use super::prompt_view;
use super::side_call::silent;
use super::stream_buffer::StreamBuffer;
use crate::panics::catch_panic;
use crate::settings::RetryPolicy;
use crate::spending::StepReservation;
use crate::thread::StepScope;

/// The prompt for a summary, sent when the history becomes too long.
const SUMMARISE: &str = "Summarise this conversation so that it can continue from the summary alone: what the user wants, what was \
decided and why, what was done and found out (with exact names, paths, commands and values), what is still open, and what comes \
next. Write only the summary, in the language of the conversation.";

/// Progress of a model call.
pub(crate) enum Progress {
    /// The next piece of text.
    Text(String),
    /// The next piece of thinking.
    Thinking(String),
    /// Buffered text is to be recorded.
    ChunkDue,
    /// The complete answer without its calls, and the requested calls; it is the last progress.
    Finished(Box<Answer>, Vec<ToolCall>),
    /// The call ended without an answer.
    Failed(AgentLoopError, Box<LlmGenerationMetadata>),
}

type Connecting = Pin<Box<dyn Future<Output = Result<LlmResponseStream>> + Send>>;

enum State {
    Connecting(Connecting),
    Streaming(LlmResponseStream),
    Pausing(Sleep),
    Ended,
}

/// Why polling a call returned.
enum CallPoll {
    Event(Option<LlmStreamEvent>),
    ChunkDue,
}

/// A running model call. Its thread polls it, and dropping it ends the call.
pub(crate) struct ModelCall {
    pub(crate) exec_id: ExecId,
    /// Text that is shown as it arrives; `None` for a summary, which is recorded only when it is complete.
    pub(crate) buffer: Option<StreamBuffer>,
    clock: Arc<dyn Clock>,
    driver: Arc<dyn LlmDriver>,
    request: LlmRequest,
    provider: String,
    policy: RetryPolicy,
    max_silence: Option<Duration>,
    silence: Option<Sleep>,
    state: State,
    retry: RetryMetadata,
    started_at: DateTime<Utc>,
    first_piece_at: Option<DateTime<Utc>>,
    guardrails: Vec<Box<dyn OutputGuardrailRun>>,
    /// The budget reservation of the call.
    reservation: Option<StepReservation>,
    /// The answer so far, without its calls.
    answer: Answer,
    calls: Vec<ToolCall>,
    /// Number of bytes received.
    bytes: usize,
    max_bytes: usize,
    max_calls: usize,
}

impl ModelCall {
    pub(crate) fn start(scope: &StepScope<'_>, exec_id: ExecId, iteration: usize) -> Self {
        let (context, thread) = (scope.context, scope.thread);
        let turn_id = thread.turn().map(|turn| turn.id);
        let (history, prompt) = prompt_view::build(scope, iteration);
        // The preview of a request uses the same messages with the same IDs.
        let history = match thread.compaction_plan(&context.plan) {
            Some(plan) => plan.cut(&history),
            None => history,
        };
        let request = LlmRequest {
            session_id: thread.session_id(),
            turn_id,
            exec_id: Some(exec_id),
            system_prompt: Arc::clone(&context.system_prompt),
            history,
            config: context.call_config(thread),
        };
        let armed = turn_id.map(|turn_id| OutputGuardrailContext {
            session_id: thread.session_id(),
            turn_id,
            system_prompt: &context.system_prompt,
        });
        let rails = &context.contributions.guardrails;
        let guardrails = armed.map_or(Ok(Vec::new()), |armed| arm(rails, &armed));
        // Without a working guardrail the answer is not requested.
        let (guardrails, connecting) = match guardrails {
            Ok(guardrails) => (guardrails, connect(&context.driver, &request)),
            Err(error) => (Vec::new(), Box::pin(async { Err(error) }) as Connecting),
        };
        Self {
            guardrails,
            ..Self::with(scope, exec_id, request, prompt, connecting)
        }
    }

    /// Requests a summary, without tools, of the part of the history that is not retained whole.
    pub(crate) fn summary(scope: &StepScope<'_>, exec_id: ExecId) -> Self {
        let (context, thread) = (scope.context, scope.thread);
        let mut history = thread.to_summarise(context.plan.compaction.as_ref());
        let prompt = PromptRef {
            message_count: history.len() + 1,
            ..prompt_view::reference(&history)
        };
        history.push(Arc::new(Message::user(SUMMARISE)));
        let request = LlmRequest {
            session_id: thread.session_id(),
            turn_id: thread.turn().map(|turn| turn.id),
            exec_id: Some(exec_id),
            system_prompt: Arc::clone(context.plain_prompt()),
            history,
            config: Arc::new(context.offer.config_without_tools()),
        };
        let connecting = connect(&context.driver, &request);
        Self {
            buffer: None,
            ..Self::with(scope, exec_id, request, Some(prompt), connecting)
        }
    }

    fn with(
        scope: &StepScope<'_>,
        exec_id: ExecId,
        request: LlmRequest,
        prompt: Option<PromptRef>,
        connecting: Connecting,
    ) -> Self {
        let StepScope { inner, context, .. } = scope;
        let reservation = StepReservation::for_call(scope, exec_id);
        let connecting = match &reservation {
            Some(reservation) => reserved(reservation, connecting),
            None => connecting,
        };
        Self {
            reservation,
            exec_id,
            buffer: Some(StreamBuffer::default()),
            clock: Arc::clone(&inner.clock),
            state: State::Connecting(connecting),
            driver: Arc::clone(&context.driver),
            request,
            provider: context.model.provider_type.to_string(),
            policy: inner.settings.retry,
            max_silence: inner.settings.model_silence,
            silence: None,
            retry: RetryMetadata::default(),
            started_at: inner.clock.now(),
            first_piece_at: None,
            guardrails: Vec::new(),
            answer: Answer {
                prompt,
                ..Answer::default()
            },
            calls: Vec::new(),
            bytes: 0,
            max_bytes: inner.settings.max_answer_bytes,
            max_calls: inner.settings.max_answer_calls,
        }
    }

    /// Waits for the next progress. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Progress {
        loop {
            // A stream that is always ready must not starve the executor or delay an interrupt.
            tokio::task::coop::consume_budget().await;
            match poll_fn(|cx| self.poll_next(cx)).await {
                Ok(CallPoll::ChunkDue) => return Progress::ChunkDue,
                Ok(CallPoll::Event(None)) => {}
                Ok(CallPoll::Event(Some(event))) => {
                    if let Some(progress) = self.process(event) {
                        return progress;
                    }
                }
                Err(error) => {
                    if let Some(progress) = self.fail_or_retry(error) {
                        return progress;
                    }
                }
            }
        }
    }

    /// Buffered text that is due comes first, because a model can stream without a pause.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<CallPoll>> {
        if let Some(buffer) = &mut self.buffer
            && buffer.poll_due(cx).is_ready()
        {
            return Poll::Ready(Ok(CallPoll::ChunkDue));
        }
        self.poll_state(cx).map_ok(CallPoll::Event)
    }

    /// Advances the call. A driver that panics fails the call, not the thread.
    fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<LlmStreamEvent>>> {
        let polled = catch_panic(|| match &mut self.state {
            State::Connecting(connecting) => connecting.as_mut().poll(cx).map(|stream| {
                self.state = State::Streaming(stream?);
                Ok(None)
            }),
            State::Streaming(stream) => stream.as_mut().poll_next(cx).map(|event| match event {
                Some(event) => event.map(Some),
                None => Err(AgentLoopError::provider(ProviderError::new(
                    ErrorKind::Server,
                    "the model's answer broke off before its end",
                ))),
            }),
            State::Pausing(pause) => pause.as_mut().poll(cx).map(|()| {
                self.state = State::Connecting(connect(&self.driver, &self.request));
                Ok(None)
            }),
            State::Ended => Poll::Pending,
        });
        match polled {
            Some(Poll::Ready(result)) => {
                self.silence = None;
                Poll::Ready(result)
            }
            Some(Poll::Pending) => self.poll_silence(cx),
            None => Poll::Ready(Err(AgentLoopError::llm("the model driver panicked"))),
        }
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<LlmStreamEvent>>> {
        let Some(limit) = self.max_silence else {
            return Poll::Pending;
        };
        if matches!(self.state, State::Pausing(_) | State::Ended) {
            return Poll::Pending;
        }
        let silence = self.silence.get_or_insert_with(|| self.clock.sleep(limit));
        silence.as_mut().poll(cx).map(|()| Err(silent(limit)))
    }

    fn process(&mut self, event: LlmStreamEvent) -> Option<Progress> {
        self.first_piece_at.get_or_insert_with(|| self.clock.now());
        if let Err(error) = self.check_size(&event) {
            return Some(self.fail(error));
        }
        match event {
            LlmStreamEvent::TextDelta(delta) if delta.is_empty() => None,
            LlmStreamEvent::TextDelta(delta) => self.process_text(delta),
            LlmStreamEvent::ThinkingDelta(delta) => {
                self.answer
                    .thinking
                    .get_or_insert_default()
                    .push_str(&delta);
                Some(Progress::Thinking(delta))
            }
            LlmStreamEvent::ThinkingSignature(signature) => {
                self.answer.thinking_signature = Some(signature);
                None
            }
            LlmStreamEvent::ReasonItem { payload, .. } => {
                self.answer.reasoning_items.push(payload);
                None
            }
            LlmStreamEvent::ToolCalls(calls) => {
                self.calls.extend(calls);
                None
            }
            LlmStreamEvent::Done(metadata) => Some(self.finish(*metadata)),
            LlmStreamEvent::Error(message) => self.fail_or_retry(AgentLoopError::Llm(message)),
        }
    }

    /// The model's output stays in memory until it has ended, and is then stored for good.
    fn check_size(&mut self, event: &LlmStreamEvent) -> Result<()> {
        let (bytes, calls) = match event {
            LlmStreamEvent::TextDelta(text)
            | LlmStreamEvent::ThinkingDelta(text)
            | LlmStreamEvent::ThinkingSignature(text) => (text.len(), 0),
            LlmStreamEvent::ReasonItem { payload, .. } => (json_bytes(payload), 0),
            LlmStreamEvent::ToolCalls(calls) => {
                let bytes = calls.iter().map(|call| json_bytes(&call.arguments)).sum();
                (bytes, calls.len())
            }
            LlmStreamEvent::Done(_) | LlmStreamEvent::Error(_) => (0, 0),
        };
        self.bytes = self.bytes.saturating_add(bytes);
        let too_large = if self.bytes > self.max_bytes {
            format!("more than {} bytes", self.max_bytes)
        } else if self.calls.len() + calls > self.max_calls {
            format!("more than {} tool calls", self.max_calls)
        } else {
            return Ok(());
        };
        Err(AgentLoopError::provider(ProviderError::new(
            ErrorKind::Other,
            format!("the model's answer has {too_large}, and is refused"),
        )))
    }

    /// Text is shown after every guardrail has passed it.
    fn process_text(&mut self, delta: String) -> Option<Progress> {
        self.answer.text.push_str(&delta);
        let text = &self.answer.text;
        let mut rails = self.guardrails.iter_mut();
        let first_objection = || {
            rails.find_map(|rail| match rail.check(text, &delta) {
                OutputGuardrailVerdict::Pass => None,
                OutputGuardrailVerdict::Replace { text, reason } => Some((text, reason)),
            })
        };
        match catch_panic(first_objection) {
            Some(None) => Some(Progress::Text(delta)),
            Some(Some((text, reason))) => {
                self.answer.text = text;
                self.calls.clear();
                self.answer.reasoning_items.clear();
                let finish_reason = Some(format!("guardrail: {reason}"));
                Some(self.finish(LlmCompletionMetadata {
                    finish_reason,
                    ..LlmCompletionMetadata::default()
                }))
            }
            None => self.fail_or_retry(AgentLoopError::config(
                "an output guardrail panicked over the answer",
            )),
        }
    }

    fn finish(&mut self, done: LlmCompletionMetadata) -> Progress {
        self.state = State::Ended;
        let retry = done.retry_metadata.clone();
        let usage = done.usage();
        if let Some(reservation) = &mut self.reservation {
            reservation.finished(usage.as_ref());
        }
        let metadata = LlmGenerationMetadata {
            usage,
            success: true,
            model: done
                .model
                .unwrap_or_else(|| self.request.config.model.clone()),
            finish_reasons: done.finish_reason.map(|reason| vec![reason]),
            response_id: done.response_id,
            retry: retry.or_else(|| self.retries()),
            ..self.timing()
        };
        let answer = Answer {
            phase: done.phase,
            metadata,
            ..std::mem::take(&mut self.answer)
        };
        Progress::Finished(Box::new(answer), std::mem::take(&mut self.calls))
    }

    /// Output that is already visible cannot be withdrawn, so only an attempt without visible output is retried.
    fn fail_or_retry(&mut self, error: AgentLoopError) -> Option<Progress> {
        let nothing_shown = self.answer.text.is_empty() && self.answer.thinking.is_none();
        if error.kind().is_transient()
            && nothing_shown
            && self.retry.retries < self.policy.max_retries
        {
            let pause = self.pause_before_retry(&error);
            self.retry.retries += 1;
            self.retry.last_error = Some(error.kind().to_string());
            self.retry.waited_ms += u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            self.calls.clear();
            self.answer.reasoning_items.clear();
            self.bytes = 0;
            self.state = State::Pausing(self.clock.sleep(pause));
            return None;
        }
        Some(self.fail(error))
    }

    fn fail(&mut self, error: AgentLoopError) -> Progress {
        self.state = State::Ended;
        let error = error.of_model(|| AskedModel {
            provider: self.provider.clone(),
            model: Some(self.request.config.model.clone()),
            host: None,
        });
        // The provider bills for the output so far.
        if self.first_piece_at.is_none() {
            self.reservation
                .iter_mut()
                .for_each(StepReservation::failed);
        }
        let metadata = LlmGenerationMetadata {
            model: self.request.config.model.clone(),
            success: false,
            error: Some(error.to_string()),
            retry: self.retries(),
            ..self.timing()
        };
        Progress::Failed(error, Box::new(metadata))
    }

    /// The provider's requested pause, or exponential backoff with up to half of it random, so that many callers spread out.
    fn pause_before_retry(&self, error: &AgentLoopError) -> Duration {
        let wait = match error.retry_after() {
            Some(wait) => wait,
            None => {
                let full = self
                    .policy
                    .base_delay
                    .saturating_mul(1 << self.retry.retries.min(16));
                let chance = self.clock.uuid().as_u128() % 1000;
                full / 2 + (full / 2).mul_f64(chance as f64 / 1000.0)
            }
        };
        wait.min(self.policy.max_delay)
    }

    fn retries(&self) -> Option<RetryMetadata> {
        (self.retry.retries > 0).then(|| self.retry.clone())
    }

    fn timing(&self) -> LlmGenerationMetadata {
        let since_start = |at: DateTime<Utc>| {
            u64::try_from((at - self.started_at).num_milliseconds()).unwrap_or(0)
        };
        LlmGenerationMetadata {
            provider: Some(self.provider.clone()),
            duration_ms: Some(since_start(self.clock.now())),
            time_to_first_token_ms: self.first_piece_at.map(since_start),
            ..LlmGenerationMetadata::default()
        }
    }
}

fn arm(
    rails: &[Arc<dyn OutputGuardrail>],
    context: &OutputGuardrailContext<'_>,
) -> Result<Vec<Box<dyn OutputGuardrailRun>>> {
    let mut armed = Vec::with_capacity(rails.len());
    for rail in rails {
        let run = catch_panic(|| rail.arm(context));
        armed.extend(run.ok_or_else(|| {
            AgentLoopError::config(format!("output guardrail `{}` panicked", rail.id()))
        })?);
    }
    Ok(armed)
}

fn connect(driver: &Arc<dyn LlmDriver>, request: &LlmRequest) -> Connecting {
    let (driver, request) = (Arc::clone(driver), request.clone());
    Box::pin(async move { driver.stream(request).await })
}

/// Connects after the call's budget is reserved.
fn reserved(reservation: &StepReservation, connecting: Connecting) -> Connecting {
    let reserving = reservation.reserve();
    Box::pin(async move {
        reserving.await?;
        connecting.await
    })
}
