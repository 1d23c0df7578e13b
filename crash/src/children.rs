//! Kills a process while twenty agents of one turn work under a shared budget.
//!
//! A model starts twenty agents at once, each of which would work forever; together they may spend one dollar. The process is killed with SIGKILL
//! once or twice, and then continues until the budget allows no further call. Usage exceeds the limit by at most the reservation of one call, both in
//! the journals and in the model's own log of its calls, and all sums agree.

use std::collections::{BTreeSet, VecDeque};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::budget::{Budget, Reserve, cost, micro_usd};
use windlass_core::capabilities::Capability;
use windlass_core::error::{AgentLoopError, Result as LoopResult};
use windlass_core::events::EventData;
use windlass_core::llm_driver_registry::{
    DriverRegistry, LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmMessage, LlmMessageRole,
    LlmResponseStream, LlmStreamEvent, ProviderType,
};
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::tools::{SideEffectClass, Tool, ToolCall, ToolExecutionResult, ToolHints};
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, RuntimeBackends, RuntimeSettings,
    SessionBuilder, SubagentSettings,
};
use windlass_store::Journal;
use windlass_store::queries::{Queries, UsageBy, UsageQuery};
use windlass_store::sqlite::{OpenCheck, SqliteOptions, SqliteStore};

use crate::child::{DONE, harness_id, say};
use crate::harness::{ChildGuard, KillPlan};
use crate::model::stream_slowly;
use crate::random::Random;

/// Number of agents that work at the same time.
pub const AGENTS: usize = 20;
/// Shared budget of the turn and its agents, in millionths of a dollar.
const LIMIT: u64 = 1_000_000;
/// Reservation for a call without known usage.
const RESERVE: u64 = 30_000;
/// Price of a call: slightly above the first reservation.
const PRICE: u64 = 31_000;
/// How often one tree of agents is orphaned. A turn that crashes the process three times in a row fails.
const MAX_KILLS_PER_TREE: u64 = 2;
/// The process is killed at one of its first calls, up to this number.
const MAX_CALLS_BEFORE_KILL: u64 = 28;
/// A process without output for this long is stuck, which is a failure.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The session that the user talks to.
const ROOT: SessionId = SessionId::from_seed(0xc41d);
/// Printed by the child when it calls the model.
const CALLING: &str = "calling";
/// The file to which the model logs its calls.
const CALL_LOG: &str = "calls";

/// Results of the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildrenSummary {
    /// How often the process was killed while agents worked.
    pub kills: u64,
    /// How often all work was done before the kill.
    pub late_kills: u64,
    /// Number of agent trees.
    pub trees: u64,
    /// Model calls that ended, and calls that were interrupted.
    pub calls: u64,
    /// See `calls`.
    pub cut_off: u64,
    /// The highest usage of one tree, in millionths of a dollar.
    pub most_used: u64,
}

/// Runs a plan. The error names the violated invariant.
pub fn run(plan: &KillPlan, mut progress: impl FnMut(u64)) -> Result<ChildrenSummary, String> {
    let tokio = tokio::runtime::Builder::new_current_thread();
    let tokio = { tokio }.enable_all().build();
    let tokio = tokio.map_err(|error| error.to_string())?;
    let mut random = Random::new(plan.seed);
    let mut summary = ChildrenSummary::default();
    while summary.kills < plan.kills {
        let context =
            |what: String| format!("seed {}, after {} kills: {what}", plan.seed, summary.kills);
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let kill_count = (1 + random.below(MAX_KILLS_PER_TREE)).min(plan.kills - summary.kills);
        let mut kills = 0;
        for _ in 0..kill_count {
            let at = 1 + random.below(MAX_CALLS_BEFORE_KILL);
            let later = Duration::from_micros(random.below(4_000));
            match run_child(plan, home.path(), Some((at, later))).map_err(context)? {
                ChildExit::Killed => kills += 1,
                ChildExit::Done => {
                    summary.late_kills += 1;
                    break;
                }
            }
            // The limit also applies to the state before the process continues.
            let tree = tokio
                .block_on(AgentTree::read(home.path()))
                .map_err(context)?;
            tree.check_limit(home.path()).map_err(context)?;
        }
        run_child(plan, home.path(), None).map_err(context)?;
        let tree = tokio
            .block_on(AgentTree::read(home.path()))
            .map_err(context)?;
        tree.check_limit(home.path()).map_err(context)?;
        tree.check_end().map_err(context)?;
        summary.kills += kills;
        summary.trees += 1;
        summary.calls += tree.calls;
        summary.cut_off += tree.cut_off;
        summary.most_used = summary.most_used.max(tree.used);
        progress(summary.kills);
    }
    Ok(summary)
}

/// How a process ended.
enum ChildExit {
    Killed,
    Done,
}

/// Starts the child, and kills it shortly after this many calls, or waits until it is done.
fn run_child(
    plan: &KillPlan,
    directory: &Path,
    kill_at: Option<(u64, Duration)>,
) -> Result<ChildExit, String> {
    let mut command = Command::new(&plan.program);
    command.arg("with-children").arg("--data").arg(directory);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child =
        ChildGuard(child.map_err(|error| format!("the child does not start: {error}"))?);
    let lines = listen(&mut child);
    let ended = wait_for_calls(&lines, kill_at);
    child.kill()?;
    ended
}

fn wait_for_calls(
    lines: &Receiver<String>,
    kill_at: Option<(u64, Duration)>,
) -> Result<ChildExit, String> {
    let mut calls = 0;
    let end = Instant::now() + TIMEOUT;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) if line == DONE => return Ok(ChildExit::Done),
            Ok(line) if line == CALLING => calls += 1,
            Ok(other) => return Err(format!("the child printed `{other}`")),
            Err(RecvTimeoutError::Timeout) => return Err("the child is stuck".to_owned()),
            Err(RecvTimeoutError::Disconnected) => {
                return Err("the child exited before it was done".to_owned());
            }
        }
        if let Some((at, later)) = kill_at
            && calls == at
        {
            std::thread::sleep(later);
            return Ok(ChildExit::Killed);
        }
    }
}

fn listen(child: &mut ChildGuard) -> Receiver<String> {
    let (sender, receiver) = channel();
    let stdout = child.0.stdout.take();
    std::thread::spawn(move || {
        let lines = stdout.into_iter().flat_map(|it| BufReader::new(it).lines());
        for line in lines.map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The journals of a turn and its agents, summarized.
#[derive(Debug, Default)]
struct AgentTree {
    calls: u64,
    used: u64,
    cut_off: u64,
    agents: BTreeSet<SessionId>,
    /// How the root turn ended, once for each recorded end.
    ends: Vec<Option<String>>,
    /// Started and ended turns of agents.
    begun_agents: u64,
    ended_agents: u64,
    /// Usage of ended turns in the read model.
    reported_usage: u64,
}

impl AgentTree {
    async fn read(directory: &Path) -> Result<Self, String> {
        let store = SqliteStore::open(options(directory)).await;
        let store = store.map_err(|error| error.to_string())?;
        let mut tree = Self::default();
        let mut next = vec![ROOT];
        while let Some(session) = next.pop() {
            let page = store.journal().read(&session.into(), 0, usize::MAX).await;
            let page = page.map_err(|error| error.to_string())?;
            for event in &page.events {
                if let EventData::SubagentStarted(data) = &event.data
                    && tree.agents.insert(data.child_session_id)
                {
                    next.push(data.child_session_id);
                }
                tree.take(session, &event.data)?;
            }
        }
        let queries = store.queries();
        let usage = queries.usage(UsageQuery {
            since: None,
            until: None,
            by: UsageBy::Thread,
        });
        let usage = usage.await.map_err(|error| error.to_string())?;
        tree.reported_usage = micro_usd(usage.total.cost_usd);
        store.close().await;
        Ok(tree)
    }

    fn take(&mut self, session: SessionId, data: &EventData) -> Result<(), String> {
        let is_root = session == ROOT;
        match data {
            EventData::LlmGeneration(data) => match &data.metadata.usage {
                Some(usage) => {
                    self.calls += 1;
                    self.used += cost(usage).ok_or("a call has no price")?;
                }
                None => self.cut_off += u64::from(data.metadata.provider.is_none()),
            },
            EventData::TurnStarted(_) if !is_root => self.begun_agents += 1,
            EventData::TurnFailed(data) if is_root => self.ends.push(data.error_code.clone()),
            data if data.ends_turn() => {
                if is_root {
                    self.ends.push(None)
                } else {
                    self.ended_agents += 1
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the invariant that must hold at any moment.
    fn check_limit(&self, directory: &Path) -> Result<(), String> {
        if self.used != self.calls * PRICE {
            return Err(format!("the sums do not agree: {self:?}"));
        }
        // For an interrupted call, the journal does not show whether the model received it; the model's own log does.
        let (begun, finished) = call_log(directory)?;
        let cut_off = begun.saturating_sub(self.calls);
        let is_more = self.used + cut_off * RESERVE > LIMIT + RESERVE;
        if is_more || begun > self.calls + self.cut_off + AGENTS as u64 || finished > begun {
            return Err(format!(
                "the limit is exceeded: the model started {begun} calls and finished {finished}, the journals contain {self:?}"
            ));
        }
        Ok(())
    }

    /// Checks the invariants of the final state.
    fn check_end(&self) -> Result<(), String> {
        // The read model does not contain the usage of an open turn.
        if self.reported_usage != self.used {
            return Err(format!("the sums do not agree: {self:?}"));
        }
        let is_over = |end: &Option<String>| end.as_deref() == Some("budget_exceeded");
        if self.ends.len() != 1 || !self.ends.iter().all(is_over) {
            return Err(format!("the turn did not end once at its budget: {self:?}"));
        }
        let (agents, begun) = (self.agents.len(), self.begun_agents);
        if agents != AGENTS || begun != AGENTS as u64 || self.ended_agents != begun {
            return Err(format!("not every agent started and ended once: {self:?}"));
        }
        if self.used + self.cut_off * PRICE + 2 * PRICE <= LIMIT {
            return Err(format!("they ended before the budget was used: {self:?}"));
        }
        Ok(())
    }
}

/// Returns the calls that the model started and finished, from its own log.
fn call_log(directory: &Path) -> Result<(u64, u64), String> {
    let text =
        std::fs::read_to_string(directory.join(CALL_LOG)).map_err(|error| error.to_string())?;
    let count = |word: &str| text.lines().filter(|line| *line == word).count() as u64;
    Ok((count("begun"), count("finished")))
}

fn options(directory: &Path) -> SqliteOptions {
    SqliteOptions::new(directory.join("store")).with_check(OpenCheck::Nothing)
}

/// Runs as the process to be killed: starts or resumes the turn and completes it.
pub async fn work(directory: PathBuf) -> LoopResult<()> {
    let store = SqliteStore::open(options(&directory)).await;
    let store = store.map_err(|error| AgentLoopError::StoreUnavailable(error.to_string()))?;
    let runtime = runtime(&store, directory.join(CALL_LOG)).await?;
    let mut turns = runtime.resume_open_turns().await?;
    if runtime.events_for(ROOT).await?.is_empty() {
        turns.push(runtime.submit(ROOT, "go").await?);
    }
    for turn in turns {
        turn.wait().await?;
    }
    say(DONE);
    // The harness kills it.
    std::future::pending().await
}

async fn runtime(store: &SqliteStore, call_log: PathBuf) -> LoopResult<InProcessRuntime> {
    let mut drivers = DriverRegistry::new();
    drivers.register(ProviderType::LlmSim, move |_, _| {
        Box::new(PricedModel {
            call_log: call_log.clone(),
        })
    });
    let mut settings = RuntimeSettings::default().reserve(Reserve {
        tokens: 0,
        micro_usd: RESERVE,
    });
    settings.budgets.turn = Budget {
        micro_usd: Some(LIMIT),
        ..Budget::default()
    };
    let harness = HarnessBuilder::new("children", "You start agents.")
        .id(harness_id())
        .capability("subagents")
        .capability("work");
    let session = SessionBuilder::new(harness_id()).id(ROOT);
    InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(store))
        .driver_registry(drivers)
        .settings(settings)
        .subagents(SubagentSettings {
            at_once: AGENTS,
            per_turn: AGENTS,
            ..SubagentSettings::default()
        })
        .capability(IdleTool)
        .default_model(ModelWithProvider {
            model: "dear".to_owned(),
            provider_type: LlmProviderType::LlmSim,
            api_key: None,
            base_url: None,
        })
        .harness(harness.build())
        .session(session.build())
        .build()
        .await
}

/// A model that starts agents if the prompt is `go`, and calls a tool otherwise. It logs the calls that it charges for.
struct PricedModel {
    call_log: PathBuf,
}

impl PricedModel {
    /// One line per write, so that a kill leaves complete lines.
    fn note(&self, line: &str) -> std::io::Result<()> {
        let mut call_log = OpenOptions::new();
        let mut call_log = call_log.create(true).append(true).open(&self.call_log)?;
        call_log.write_all(format!("{line}\n").as_bytes())
    }
}

#[async_trait]
impl LlmDriver for PricedModel {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        _config: &LlmCallConfig,
    ) -> LoopResult<LlmResponseStream> {
        let failed = |error: std::io::Error| AgentLoopError::config(error.to_string());
        self.note("begun").map_err(failed)?;
        say(CALLING);
        let asked = messages.iter().find(|m| m.role == LlmMessageRole::User);
        let is_root = asked.is_some_and(|message| message.content_as_text() == "go");
        let made = messages.len();
        let calls = if is_root {
            (0..AGENTS)
                .map(|n| {
                    call(
                        format!("agent_{n}"),
                        "spawn_agent",
                        json!({ "prompt": format!("agent {n}") }),
                    )
                })
                .collect()
        } else {
            vec![call(format!("work_{made}"), "work", json!({}))]
        };
        let mut pieces: VecDeque<_> = "I call the tool that I must call."
            .split_inclusive(' ')
            .map(|word| LlmStreamEvent::TextDelta(word.to_owned()))
            .collect();
        pieces.push_back(LlmStreamEvent::ToolCalls(calls));
        pieces.push_back(LlmStreamEvent::Done(Box::new(LlmCompletionMetadata {
            prompt_tokens: Some(10),
            completion_tokens: Some(5),
            estimated_cost_usd: Some(PRICE as f64 / 1e6),
            ..LlmCompletionMetadata::default()
        })));
        let call_log = Self {
            call_log: self.call_log.clone(),
        };
        Ok(stream_slowly(pieces, move || {
            let _ = call_log.note("finished");
        }))
    }
}

fn call(id: String, name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id,
        name: name.to_owned(),
        arguments,
    }
}

/// A capability with a tool that does nothing.
struct IdleTool;

impl Capability for IdleTool {
    fn id(&self) -> &str {
        "work"
    }
    fn name(&self) -> &str {
        "Work"
    }
    fn description(&self) -> &str {
        "A tool that does nothing."
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![Box::new(Self)]
    }
}

#[async_trait]
impl Tool for IdleTool {
    fn name(&self) -> &str {
        "work"
    }
    fn description(&self) -> &str {
        "Does nothing."
    }
    fn parameters_schema(&self) -> Value {
        json!({ "type": "object" })
    }
    fn hints(&self) -> ToolHints {
        ToolHints::default().with_side_effect_class(SideEffectClass::Pure)
    }
    async fn execute(&self, _arguments: Value) -> ToolExecutionResult {
        ToolExecutionResult::success("done")
    }
}
