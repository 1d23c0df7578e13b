//! Automatic compaction: every request fits the model's window, calls stay with their results, and early messages stay in the summary.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError, Result};
use windlass_core::events::EventData;
use windlass_core::llm_driver_registry::{
    DriverRegistry, LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmMessage, LlmRequest,
    LlmResponseStream, LlmStreamEvent, ProviderType,
};
use windlass_core::message::{Message, MessageRole};
use windlass_core::tools::ToolExecutionResult;
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    CompactionSettings, InProcessRuntime, MemoryJournal, Replay, RuntimeBackends,
};

use crate::support::{Fixture, FnTool, Gate, ScriptedCall, Setup, call, soon, tool, types};

const WINDOW: usize = 4_000;

#[derive(Default)]
struct State {
    /// Sizes in bytes of the results that the model requests before it answers, round by round.
    rounds: VecDeque<Vec<usize>>,
    /// Facts of the conversation that must not be lost.
    facts: BTreeSet<String>,
    /// Blocks the next summary.
    hold: Option<Gate>,
    made: usize,
    summaries: usize,
    wrong: Vec<String>,
}

/// A model with a small window that checks every request.
#[derive(Clone, Default)]
struct Narrow(Arc<Mutex<State>>);

impl Narrow {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }
}

#[async_trait]
impl LlmDriver for Narrow {
    async fn chat_completion_stream(
        &self,
        _messages: Vec<LlmMessage>,
        _config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        unreachable!("the runtime shares its history")
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        let messages: Vec<_> = request
            .history
            .iter()
            .map(|it| Message::clone(it))
            .collect();
        let text = serde_json::to_string(&messages)
            .map_err(|error| AgentLoopError::llm(error.to_string()))?;
        let tokens = tokens_of(&request);
        let asks_for_summary = messages.last().and_then(|last| last.text());
        let asks_for_summary =
            asks_for_summary.is_some_and(|text| text.starts_with("Summarise this conversation"));
        let (events, hold) = self.with(|state| {
            state.made += 1;
            let n = state.made;
            if tokens > WINDOW {
                state.wrong.push(format!("request {n} has {tokens} tokens"));
            }
            if let Some(why) = orphan(&messages) {
                state.wrong.push(format!("request {n}: {why}"));
            }
            // The provider reports token counts only half of the time.
            let done = LlmStreamEvent::Done(Box::new(LlmCompletionMetadata {
                prompt_tokens: n.is_multiple_of(2).then(|| u32::try_from(tokens).unwrap()),
                completion_tokens: Some(5),
                ..LlmCompletionMetadata::default()
            }));
            if asks_for_summary {
                state.summaries += 1;
                let known = facts_in(&text).join(" ");
                let summary = LlmStreamEvent::TextDelta(format!("They said {known}"));
                return (vec![summary, done], state.hold.take());
            }
            let known: Vec<String> = facts_in(&text);
            for fact in &state.facts {
                if !known.contains(fact) {
                    state
                        .wrong
                        .push(format!("request {n} has forgotten {fact}"));
                }
            }
            let said = match state.rounds.pop_front() {
                Some(sizes) => {
                    let calls = sizes.iter().enumerate().map(|(at, bytes)| {
                        call(&format!("c{n}-{at}"), "read", json!({ "bytes": bytes }))
                    });
                    LlmStreamEvent::ToolCalls(calls.collect())
                }
                None => LlmStreamEvent::TextDelta(format!("answer {n} {}", "so ".repeat(80))),
            };
            (vec![said, done], None)
        });
        if let Some(gate) = hold {
            gate.pass().await;
        }
        Ok(Box::pin(EventsStream(events.into())))
    }
}

struct EventsStream(VecDeque<LlmStreamEvent>);

impl futures_core::Stream for EventsStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// Estimates the tokens of a request: three bytes per token.
fn tokens_of(request: &LlmRequest) -> usize {
    let messages = request.to_llm_messages();
    let words = messages.iter().map(|message| {
        let calls = message.tool_calls.iter().flatten();
        let calls: usize = calls.map(|call| call.arguments.to_string().len()).sum();
        message.content_as_text().len() + calls
    });
    let tools = serde_json::to_string(&request.config.tools).map_or(0, |json| json.len());
    (words.sum::<usize>() + tools) / 3
}

fn facts_in(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let facts: BTreeSet<_> = words.filter(|word| word.starts_with("fact")).collect();
    facts.into_iter().map(str::to_owned).collect()
}

/// Returns a call without a later result, or a result without an earlier call.
fn orphan(messages: &[Message]) -> Option<String> {
    let mut open: HashSet<String> = HashSet::new();
    for message in messages {
        match message.role {
            MessageRole::ToolResult => {
                let id = message.tool_call_id().unwrap_or_default();
                if !open.remove(id) {
                    return Some(format!("result {id} has no call"));
                }
            }
            _ if !open.is_empty() => return Some(format!("{open:?} have no result")),
            _ => open.extend(message.tool_calls().iter().map(|call| call.id.clone())),
        }
    }
    (!open.is_empty()).then(|| format!("{open:?} have no result"))
}

fn reader() -> FnTool {
    tool("read", |arguments, _| async move {
        let bytes = arguments["bytes"].as_u64().unwrap_or(0);
        let text = "x".repeat(usize::try_from(bytes).unwrap());
        ToolExecutionResult::success(json!(text))
    })
}

/// A new process on the journal. The previous one is not shut down, and its later writes are refused.
async fn life(journal: &Arc<MemoryJournal>, model: &Narrow) -> (InProcessRuntime, SessionId) {
    let mut drivers = DriverRegistry::new();
    let model = model.clone();
    drivers.register(ProviderType::LlmSim, move |_, _| Box::new(model.clone()));
    let session_id = SessionId::from_seed(7);
    let runtime = Setup::default()
        .tool(&reader())
        .settings(|settings| {
            settings.compaction = Some(CompactionSettings {
                window_tokens: Some(WINDOW as u64),
                reserve_tokens: Some(800),
                keep_recent_tokens: Some(500),
            });
        })
        .backends(RuntimeBackends::on_journal(Arc::clone(journal) as _))
        .session(move |session| session.session_id(session_id))
        .builder()
        .driver_registry(drivers)
        .build()
        .await
        .unwrap();
    (runtime, session_id)
}

#[tokio::test]
async fn five_hundred_turns_fit_a_small_window() {
    let (journal, model) = (Arc::new(MemoryJournal::new()), Narrow::default());
    let (mut runtime, session) = life(&journal, &model).await;
    let mut crashes = 0;
    for n in 0..500 {
        let rounds: Vec<Vec<usize>> = match n {
            n if n % 50 == 25 => vec![vec![60_000]],
            n if n % 7 == 3 => vec![vec![1_500]; 4],
            n if n % 11 == 5 => vec![vec![2_000, 2_000], vec![9_000]],
            _ => Vec::new(),
        };
        let fact = (n < 10).then(|| format!("fact{n}"));
        let gate = Gate::shut();
        model.with(|state| {
            state.rounds = rounds.into();
            state.facts.extend(fact.clone());
            // The process crashes twice during a summary.
            state.hold = (crashes < 2 && n > 200).then(|| gate.clone());
        });
        let text = format!("{} {n} {}", fact.unwrap_or_default(), "and on ".repeat(30));
        let (runner, said) = (runtime.clone(), text.clone());
        let turn = tokio::spawn(async move { runner.run_text_turn(session, said).await });
        let ended = tokio::select! {
            ended = turn => Some(ended.unwrap().unwrap()),
            () = gate.reached(1) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                crashes += 1;
                (runtime, _) = life(&journal, &model).await;
                let open = runtime.resume_open_turn(session).await.unwrap().unwrap();
                soon(open.wait()).await.unwrap()
            }
        };
        assert!(ended.success, "turn {n}: {:?}", ended.error);
    }
    let (wrong, summaries) = model.with(|state| (state.wrong.clone(), state.summaries));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(summaries > 50, "{summaries} summaries are few");
    assert_eq!(crashes, 2);

    let events = runtime.events_for(session).await.unwrap();
    let auto = events.iter().filter_map(|event| match &event.data {
        EventData::ContextCompacted(data) => data.summary.as_ref().and(data.auto),
        _ => None,
    });
    assert_eq!(auto.clone().count(), summaries - crashes);
    assert!(auto.clone().all(|auto| auto));
    let report = Replay::of(&runtime, session).run().await.unwrap();
    let divergence = report.divergence.as_ref().map(ToString::to_string);
    assert_eq!(divergence, None);
    assert_eq!(report.events, events.len());
    let whole = runtime.messages(session).await.unwrap();
    let longest = whole.iter().map(|message| format!("{message:?}").len());
    assert!(longest.max() > Some(60_000), "the journal keeps the whole");
}

fn said(bytes: usize) -> String {
    "word ".repeat(bytes / 5)
}

fn count(events: &[Arc<windlass_core::events::Event>], name: &str) -> usize {
    types(events).iter().filter(|it| **it == name).count()
}

async fn three_long_turns(setup: Setup) -> Fixture {
    let fixture = setup.build().await;
    // The provider reports no token counts, so all are estimated.
    let uncounted = || {
        let end = LlmStreamEvent::Done(Box::default());
        ScriptedCall::new().text("ok").say(end)
    };
    fixture.model.rewrite((0..5).map(|_| uncounted()));
    for _ in 0..3 {
        fixture.run(&said(3_000)).await;
    }
    fixture
}

fn small() -> CompactionSettings {
    CompactionSettings {
        window_tokens: Some(2_000),
        reserve_tokens: Some(200),
        keep_recent_tokens: None,
    }
}

#[tokio::test]
async fn session_can_override_disabled_compaction() {
    let off = three_long_turns(Setup::new([])).await;
    assert_eq!(count(&off.events().await, "context.compacting"), 0);
    let on = Setup::new([]).settings(|settings| settings.compaction = Some(small()));
    let on = three_long_turns(on).await;
    assert_eq!(count(&on.events().await, "context.compacted"), 2);

    let with = |config: serde_json::Value| {
        let capability = AgentCapabilityConfig::with_config("compaction", config);
        move |session: windlass_runtime::SingleSessionBuilder| session.with_capability(capability)
    };
    let own = json!({ "window_tokens": 2_000, "reserve_tokens": 200 });
    let own = three_long_turns(Setup::new([]).session(with(own))).await;
    assert_eq!(count(&own.events().await, "context.compacted"), 2);
    let never = Setup::new([])
        .settings(|settings| settings.compaction = Some(small()))
        .session(with(json!({ "enabled": false })));
    let never = three_long_turns(never).await;
    assert_eq!(count(&never.events().await, "context.compacting"), 0);
    let unknown = Setup::new([]).session(with(json!({ "windows": 1 })));
    let refused = unknown.try_build().await.err().map(|it| it.to_string());
    assert!(refused.is_some_and(|it| it.contains("`windows`")));
}

#[tokio::test]
async fn turn_that_cannot_be_compacted_enough_fails() {
    let refused = || {
        let error = ProviderError::new(ErrorKind::Auth, "no key");
        ScriptedCall::refused(AgentLoopError::provider(error))
    };
    let calls = [ScriptedCall::answer(&said(3_000)), refused(), refused()];
    let setup = Setup::new(calls).settings(|settings| {
        settings.compaction = Some(CompactionSettings {
            window_tokens: Some(1_500),
            ..small()
        });
    });
    let fixture = setup.build().await;
    fixture.run(&said(1_500)).await;
    let turn = fixture.run(&said(1_500)).await;
    assert!(!turn.success);
    assert_eq!(fixture.model.calls(), 3, "one further attempt");
    let events = fixture.events().await;
    let failed = events.iter().find_map(|event| match &event.data {
        EventData::TurnFailed(data) => Some(data.clone()),
        _ => None,
    });
    let failed = failed.unwrap();
    assert_eq!(failed.error_code.as_deref(), Some("context_full"));
    assert!(failed.error.contains("no key"), "{}", failed.error);
    let report = Replay::of(&fixture.runtime, fixture.session).run().await;
    assert_eq!(report.unwrap().divergence, None);
}

#[tokio::test]
async fn interrupted_summary_is_recorded_and_replayed() {
    let minute = std::time::Duration::from_secs(60);
    for is_stopped in [true, false] {
        let gate = Gate::shut();
        let summary = ScriptedCall::new().text("sum").wait(&gate);
        let setup =
            Setup::new([ScriptedCall::answer(&said(3_000)), summary]).settings(|settings| {
                settings.compaction = Some(CompactionSettings {
                    window_tokens: Some(1_500),
                    ..small()
                });
                settings.turn_timeout = Some(minute);
            });
        let fixture = setup.build().await;
        fixture.run(&said(1_500)).await;
        let turn = fixture.start(&said(1_500));
        gate.reached(1).await;
        if is_stopped {
            let stopped = fixture.runtime.interrupt(fixture.session, None, None);
            stopped.await.unwrap();
        } else {
            fixture.clock.advance(minute)
        }
        soon(turn).await.unwrap().unwrap();
        let events = fixture.events().await;
        let generation = events.iter().rev().find_map(|event| match &event.data {
            EventData::LlmGeneration(data) => Some(data.metadata.clone()),
            _ => None,
        });
        let generation = generation.unwrap();
        assert!(!generation.success && generation.provider.is_none());
        let report = Replay::of(&fixture.runtime, fixture.session).run().await;
        let divergence = report.unwrap().divergence.map(|it| it.to_string());
        assert_eq!(divergence, None, "{is_stopped}");
    }
}

/// A turn whose history is compacted before its answer; only the summary contains `SUMMARY`.
async fn shortened_before(answer: ScriptedCall) -> Fixture {
    let calls = [
        ScriptedCall::answer(&said(3_000)),
        ScriptedCall::answer("SUMMARY of it"),
        answer,
    ];
    let setup = Setup::new(calls).settings(|settings| {
        settings.compaction = Some(CompactionSettings {
            window_tokens: Some(1_500),
            ..small()
        });
    });
    let fixture = setup.build().await;
    fixture.run(&said(1_500)).await;
    fixture
}

#[tokio::test]
async fn summary_text_is_not_streamed_as_the_answer() {
    let fixture = shortened_before(ScriptedCall::answer("the answer")).await;
    let turn = fixture.run(&said(1_500)).await;
    assert_eq!(turn.response, "the answer");
    let events = fixture.events().await;
    assert_eq!(count(&events, "context.compacted"), 1);
    let mut deltas = events.iter().rev().filter_map(|event| match &event.data {
        EventData::OutputMessageDelta(data) => Some(data.delta.as_str()),
        _ => None,
    });
    assert_eq!(deltas.next(), Some("the answer"));
}

#[tokio::test]
async fn summary_text_is_not_part_of_an_interrupted_answer() {
    let gate = Gate::shut();
    let fixture = shortened_before(ScriptedCall::new().text("half an answer").wait(&gate)).await;
    let turn = fixture.start(&said(1_500));
    gate.reached(1).await;
    let stopped = fixture.runtime.interrupt(fixture.session, None, None);
    stopped.await.unwrap();
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!(turn.response, "half an answer");
    let messages = fixture.messages().await;
    let last = messages.last().and_then(|message| message.text());
    assert_eq!(last, Some("half an answer"));
}
