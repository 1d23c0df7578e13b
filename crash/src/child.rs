//! The program to be killed: a runtime on disk that works on a few sessions until it must stop.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::{HarnessId, MessageId, SessionId};
use windlass_runtime::{
    ForkAt, ForkOptions, HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder,
    RuntimeBackends, SessionBuilder,
};
use windlass_store::conformance::HookedJournal;
use windlass_store::sqlite::{OpenCheck, SqliteOptions, SqliteStore};

use crate::faults::{self, JournalPoints};
use crate::model::ScriptedToolModel;
use crate::random::Random;
use crate::tools::{Effects, TOOLS};

/// Sessions that the child works on concurrently.
pub const SESSIONS: u128 = 4;
/// Turns after which a session is forked.
const FORK_AFTER: usize = 3;
/// Printed by the child when an input is acknowledged.
pub const ACKNOWLEDGED: &str = "acknowledged";
/// Printed by the child when no work is left.
pub const DONE: &str = "done";
/// The file in the data directory to which tools append their effects.
pub const EFFECTS: &str = "effects.log";

/// Parameters of one process of the child.
#[derive(Debug, Clone)]
pub struct ChildOptions {
    /// The data directory.
    pub directory: PathBuf,
    /// Seed for the inputs.
    pub seed: u64,
    /// Inputs per session in total; 0 only completes open turns.
    pub inputs: usize,
}

/// The id of one of the sessions.
#[must_use]
pub fn session_id(n: u128) -> SessionId {
    SessionId::from_seed(0x5e55 + n)
}

/// Runs one process: resumes open turns, then submits the inputs of every session.
pub async fn run(options: ChildOptions) -> Result<()> {
    let runtime = Arc::new(open(&options).await?);
    runtime.resume_open_turns().await?;
    let workers = (0..SESSIONS).map(|n| {
        let (runtime, options) = (Arc::clone(&runtime), options.clone());
        tokio::spawn(async move { work(&runtime, session_id(n), n, &options).await })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker
            .await
            .map_err(|error| AgentLoopError::config(error.to_string()))??;
    }
    say(DONE);
    Ok(())
}

async fn open(options: &ChildOptions) -> Result<InProcessRuntime> {
    let store = options.directory.join("store");
    // Checking every page at each of hundreds of starts would only measure the disk.
    let store_options = SqliteOptions::new(store).with_check(OpenCheck::Nothing);
    let store = SqliteStore::open(store_options).await;
    let store = store.map_err(|error| AgentLoopError::StoreUnavailable(error.to_string()))?;
    let journal = HookedJournal::with_hooks(Arc::new(store.journal()), JournalPoints);
    let backends = RuntimeBackends::on_journal(Arc::new(journal));
    let backends = backends.with_queries(Arc::new(store.queries()));
    let mut builder = runtime_with(backends, options.directory.join(EFFECTS));
    for n in 0..SESSIONS {
        builder = builder.session(SessionBuilder::new(harness_id()).id(session_id(n)).build());
    }
    builder.build().await
}

pub(crate) fn harness_id() -> HarnessId {
    HarnessId::from_seed(1)
}

/// Builds a runtime with the model, the tools and the harness, and no session.
pub(crate) fn runtime_with(backends: RuntimeBackends, log: PathBuf) -> InProcessRuntimeBuilder {
    let mut drivers = DriverRegistry::new();
    drivers.register(ProviderType::LlmSim, |_, _| Box::new(ScriptedToolModel));
    let harness = HarnessBuilder::new("crash", "You are killed often.")
        .id(harness_id())
        .capability("effects");
    InProcessRuntimeBuilder::new()
        .backends(backends)
        .driver_registry(drivers)
        .capability(Effects { log })
        .default_model(ModelWithProvider {
            model: "telling".to_owned(),
            provider_type: LlmProviderType::LlmSim,
            api_key: None,
            base_url: None,
        })
        .harness(harness.build())
}

/// A worker's state of its session.
#[derive(Default)]
struct WorkerProgress {
    accepted: HashSet<MessageId>,
    ended: usize,
}

async fn work(
    runtime: &InProcessRuntime,
    id: SessionId,
    n: u128,
    options: &ChildOptions,
) -> Result<()> {
    let mut progress = WorkerProgress::default();
    let mut head = 0;
    for event in runtime.events_for(id).await? {
        head = event.seq();
        follow(runtime, id, &event, &mut progress).await;
    }
    let mut events = runtime.subscribe_after(id, head).await?;
    loop {
        if progress.ended == progress.accepted.len() {
            if progress.accepted.len() >= options.inputs {
                return Ok(());
            }
            let submitted = progress.accepted.len();
            if submitted > 0 && submitted.is_multiple_of(FORK_AFTER) {
                fork(runtime, id, submitted).await?;
            }
            let text = input(options.seed, n, submitted);
            let turn = runtime.submit(id, text.as_str()).await?;
            progress.accepted.extend(turn.message_id());
            faults::pass("input.before-acknowledged");
            say(&format!("{ACKNOWLEDGED} {n} {text}"));
        }
        let Some(event) = events.next().await else {
            return Err(AgentLoopError::event("the events of a session broke off"));
        };
        follow(runtime, id, &event, &mut progress).await;
    }
}

/// Forks an idle session. Every other fork is removed at once, so that both operations are interrupted.
async fn fork(runtime: &InProcessRuntime, id: SessionId, submitted: usize) -> Result<()> {
    let options = ForkOptions::new();
    let fork = runtime.fork_session(id, ForkAt::Latest, options).await?;
    if submitted.is_multiple_of(2 * FORK_AFTER) {
        runtime.remove_session(fork).await?;
    }
    Ok(())
}

/// Counts inputs and ends, and answers waiting calls.
async fn follow(
    runtime: &InProcessRuntime,
    id: SessionId,
    event: &Event,
    progress: &mut WorkerProgress,
) {
    match &event.data {
        EventData::InputMessage(data) => drop(progress.accepted.insert(data.message.id)),
        data if data.ends_turn() => progress.ended += 1,
        _ => answer(runtime, id, event).await,
    }
}

/// Answers a waiting call. An answer given before a kill is repeated, which has no effect.
pub(crate) async fn answer(runtime: &InProcessRuntime, id: SessionId, event: &Event) {
    let step = event
        .context
        .exec_id
        .map(|step| step.to_string())
        .unwrap_or_default();
    match &event.data {
        EventData::ToolCallRequested(_) => {
            let answer = ToolResult::success(step, json!({ "from": "outside" }));
            let _ = runtime.submit_tool_results(id, vec![answer]).await;
        }
        EventData::ApprovalRequired(_) => drop(runtime.decide_tool_call(id, step, true).await),
        _ => {}
    }
}

/// The input of a session with a number: the tools that the model must call.
fn input(seed: u64, session: u128, number: usize) -> String {
    let low = u64::try_from(session).unwrap_or(0);
    let mut random = Random::new(seed ^ (low << 32) ^ number as u64);
    with_tools(&mut random, number.to_string())
}

/// Appends the tools that the model must call to a text: none to three.
pub(crate) fn with_tools(random: &mut Random, mut text: String) -> String {
    let count = random.below(4);
    for _ in 0..count {
        let tool = usize::try_from(random.below(TOOLS.len() as u64)).unwrap_or(0);
        text = format!("{text} {}", TOOLS[tool]);
    }
    text
}

pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
