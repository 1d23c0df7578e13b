//! Turns in memory: CPU per turn, its growth, and memory per session.

use std::time::{Duration, Instant};

use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::tools::ToolCall;
use windlass_core::{AgentLoopError, SessionId};
use windlass_runtime::{
    AgentBuilder, HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, SessionBuilder,
};

use crate::machine;
use crate::report::{Bound, Report};

/// A question and a reply of about 105 characters, as in the published measurements of other runtimes.
pub const PROMPT: &str = "What is 6 * 7? Use the tools that you have and tell me the result.";
const REPLY: &str = "The result of the calculation is forty-two, which is the product of six and seven, just as you asked me.";

type Result<T> = std::result::Result<T, AgentLoopError>;

pub fn run(mut report: Report) -> Result<Report> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let tokio =
        tokio.map_err(|error| AgentLoopError::config(format!("no async runtime: {error}")))?;
    let measured = tokio.spawn(async move {
        // Memory is measured first, because memory freed by other parts would distort it.
        many_sessions(&mut report, 1_000).await?;
        removed_sessions(&mut report).await?;
        one_session(&mut report, Shape::Plain, 800).await?;
        one_session(&mut report, Shape::OneTool, 400).await?;
        Ok(report)
    });
    tokio
        .block_on(measured)
        .map_err(|error| AgentLoopError::config(error.to_string()))?
}

#[derive(Clone, Copy)]
pub enum Shape {
    Plain,
    OneTool,
    /// One call with a text argument of this many bytes.
    LargeArguments(usize),
}

impl Shape {
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::OneTool => "one-tool",
            Self::LargeArguments(_) => "large-arguments",
        }
    }

    pub fn script(self) -> LlmSimConfig {
        let with_call = |arguments| {
            let call = ToolCall {
                id: "call_multiply".into(),
                name: "multiply".into(),
                arguments,
            };
            LlmSimConfig::fixed(REPLY).with_tool_call_sequence(vec![vec![call], vec![]])
        };
        match self {
            Self::Plain => LlmSimConfig::fixed(REPLY),
            Self::OneTool => with_call(serde_json::json!({ "a": 6, "b": 7 })),
            Self::LargeArguments(bytes) => {
                with_call(serde_json::json!({ "a": 6, "b": 7, "note": "x".repeat(bytes) }))
            }
        }
    }

    /// Turns per CPU second, and maximum ratio of event bytes to message bytes.
    fn target(self) -> Bound {
        match self {
            Self::Plain => Bound::AtLeast(10_000.0),
            Self::OneTool | Self::LargeArguments(_) => Bound::AtLeast(5_000.0),
        }
    }
}

async fn runtime(shape: Shape) -> Result<(InProcessRuntime, SessionId)> {
    let runtime = InProcessRuntimeBuilder::new()
        .llm_sim(shape.script())
        .single_session(|session| {
            session
                .harness("math", "You are a math assistant.")
                .with_capability("test_math")
                .agent("a", "Use tools.")
        })
        .build()
        .await?;
    let session_id = runtime
        .default_session_id()
        .ok_or(AgentLoopError::NoMessages)?;
    Ok((runtime, session_id))
}

async fn one_session(report: &mut Report, shape: Shape, turns: usize) -> Result<()> {
    let name = shape.name();
    report.progress(&format!("{turns} {name} turns of one session"));
    // Warms up the caches of allocator and CPU.
    let (warm, warm_session) = runtime(shape).await?;
    for _ in 0..turns / 4 {
        warm.run_text_turn(warm_session, PROMPT).await?;
    }
    let (runtime, session_id) = runtime(shape).await?;
    let (started, cpu_before) = (Instant::now(), machine::cpu_time());
    let mut fifths = [Duration::ZERO; 5];
    for fifth in &mut fifths {
        let before = machine::cpu_time();
        for _ in 0..turns / 5 {
            let turn = runtime.run_text_turn(session_id, PROMPT).await?;
            if !turn.success {
                return Err(AgentLoopError::llm(turn.error.unwrap_or_default()));
            }
        }
        *fifth = machine::cpu_time() - before;
    }
    let (took, cpu) = (started.elapsed(), machine::cpu_time() - cpu_before);
    let count = turns as f64;
    let label = |what: &str| format!("{turns} {name} turns: {what}");
    report.figure(
        &label("turns per CPU second"),
        count / cpu.as_secs_f64(),
        "1/s",
        shape.target(),
    );
    report.figure(
        &label("turns per second"),
        count / took.as_secs_f64(),
        "1/s",
        Bound::None,
    );
    report.figure(
        &label("CPU per turn"),
        cpu.as_secs_f64() * 1e6 / count,
        "us",
        Bound::None,
    );
    let growth = fifths[4].as_secs_f64() / fifths[0].as_secs_f64();
    report.figure(
        &label("CPU, last fifth / first fifth"),
        growth,
        "ratio",
        Bound::AtMost(1.3),
    );
    weigh(report, &runtime, session_id, &label).await
}

async fn weigh(
    report: &mut Report,
    runtime: &InProcessRuntime,
    session_id: SessionId,
    label: &impl Fn(&str) -> String,
) -> Result<()> {
    let messages = json_bytes(&runtime.messages(session_id).await?);
    let events = runtime.events_for(session_id).await?;
    let halves: Vec<f64> = events
        .chunks(events.len().div_ceil(2))
        .map(|half| half.iter().map(|event| json_bytes(&**event)).sum())
        .collect();
    let total: f64 = halves.iter().sum();
    report.figure(&label("event JSON"), total / 1e6, "MB", Bound::AtMost(8.0));
    report.figure(
        &label("event JSON / message JSON"),
        total / messages,
        "ratio",
        Bound::AtMost(12.0),
    );
    report.figure(
        &label("event JSON, whole / first half"),
        total / halves[0],
        "ratio",
        Bound::AtMost(2.2),
    );
    let peak = machine::peak_resident_bytes() as f64 / 1e6;
    report.figure(
        &label("peak resident memory so far"),
        peak,
        "MB",
        Bound::AtMost(100.0),
    );
    Ok(())
}

/// Returns the size of a value as JSON.
fn json_bytes(value: &impl serde::Serialize) -> f64 {
    serde_json::to_vec(value).map_or(0, |json| json.len()) as f64
}

async fn many(count: usize) -> Result<(InProcessRuntime, Vec<SessionId>)> {
    let harness = HarnessBuilder::new("math", "You are a math assistant.")
        .capability("test_math")
        .build();
    let agent = AgentBuilder::new("a", "Use tools.").build();
    let (harness_id, agent_id) = (harness.id, agent.public_id);
    let mut builder = InProcessRuntimeBuilder::new()
        .llm_sim(Shape::Plain.script())
        .harness(harness)
        .agent(agent);
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        let session = SessionBuilder::new(harness_id).agent(agent_id).build();
        ids.push(session.id);
        builder = builder.session(session);
    }
    Ok((builder.build().await?, ids))
}

async fn turn_each(runtime: &InProcessRuntime, ids: &[SessionId]) -> Result<()> {
    let running: Vec<_> = ids
        .iter()
        .map(|id| {
            let (runtime, id) = (runtime.clone(), *id);
            tokio::spawn(async move { runtime.run_text_turn(id, PROMPT).await })
        })
        .collect();
    for turn in running {
        turn.await
            .map_err(|error| AgentLoopError::config(error.to_string()))??;
    }
    Ok(())
}

async fn many_sessions(report: &mut Report, count: usize) -> Result<()> {
    report.progress(&format!("{count} sessions with one turn each, at once"));
    let before = machine::resident_bytes();
    let started = Instant::now();
    let (runtime, ids) = many(count).await?;
    let built = started.elapsed();
    let (started, cpu_before) = (Instant::now(), machine::cpu_time());
    turn_each(&runtime, &ids).await?;
    let (took, cpu) = (started.elapsed(), machine::cpu_time() - cpu_before);
    let resident = machine::resident_bytes().saturating_sub(before);
    let sessions = count as f64;
    let label = |what: &str| format!("{count} sessions at once: {what}");
    report.figure(
        &label("resident memory per session"),
        resident as f64 / sessions / 1e3,
        "KB",
        Bound::AtMost(20.0),
    );
    report.figure(
        &label("turns per CPU second"),
        sessions / cpu.as_secs_f64(),
        "1/s",
        Bound::None,
    );
    report.figure(
        &label("turns per second"),
        sessions / took.as_secs_f64(),
        "1/s",
        Bound::None,
    );
    report.figure(
        &label("building the runtime"),
        built.as_secs_f64() * 1e3,
        "ms",
        Bound::None,
    );
    Ok(())
}

/// Memory after removed sessions: after ten rounds compared with after the second.
async fn removed_sessions(report: &mut Report) -> Result<()> {
    report.progress("10 rounds of 1,000 sessions that are removed again");
    let (runtime, _) = many(0).await?;
    let harness = HarnessBuilder::new("math", "You are a math assistant.")
        .capability("test_math")
        .build();
    let harness_id = harness.id;
    runtime.add_harness(harness).await?;
    let mut after_second = 0;
    for round in 1..=10 {
        let mut ids = Vec::new();
        for _ in 0..1_000 {
            let session = SessionBuilder::new(harness_id).build();
            ids.push(session.id);
            runtime.add_session(session).await?;
        }
        turn_each(&runtime, &ids).await?;
        for id in ids {
            runtime.remove_session(id).await?;
        }
        if round == 2 {
            after_second = machine::resident_bytes();
        }
    }
    let growth = machine::resident_bytes() as f64 / after_second as f64;
    report.figure(
        "removed sessions: memory, round 10 / round 2",
        growth,
        "ratio",
        Bound::AtMost(1.1),
    );
    Ok(())
}
