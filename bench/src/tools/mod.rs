//! The agent's tools, each compared with the equivalent program.

mod deferred;
mod mcp;
mod sandbox;
mod search;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::capabilities::Capability;
use windlass_core::tools::{Tool, ToolExecutionResult};
use windlass_tools::{
    CheckpointLimits, Checkpoints, Environment, Environments, Policy, Unconfined,
};

use crate::report::{Bound, Report};

pub use mcp::{CHILD, live_as_child};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const FILES: usize = 20_000;
const PER_DIRECTORY: usize = 100;
/// Number of repetitions, of which the best counts.
const TRIES: usize = 7;

pub fn run(mut report: Report) -> Result<Report> {
    let tokio = tokio::runtime::Builder::new_multi_thread();
    let tokio = { tokio }.worker_threads(2).enable_all().build()?;
    tokio.block_on(measure(&mut report))?;
    Ok(report)
}

async fn measure(report: &mut Report) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let root = directory.path().join("root");
    report.progress(&format!("{FILES} files"));
    make_tree(&root)?;
    let local = Environment::new("local", &root, policy())?;
    let environments = Environments::with_default(local);
    search::measure(report, &environments, &root).await?;
    look(report, &environments, &directory.path().join("checkpoints"))?;
    sandbox::measure(report, &environments, &root).await?;
    mcp::measure(report, &environments).await?;
    deferred::measure(report).await
}

fn policy() -> Policy {
    Policy {
        unconfined: Unconfined::Allow,
        ..Policy::default()
    }
}

/// Creates files of about two kilobytes, one in a hundred of which contains the needle.
fn make_tree(root: &Path) -> std::io::Result<()> {
    for n in 0..FILES {
        let directory = root.join(format!("d{}", n / PER_DIRECTORY));
        if n % PER_DIRECTORY == 0 {
            std::fs::create_dir_all(&directory)?;
        }
        let hit = if n % 100 == 0 { "needle" } else { "straw" };
        let mut text = String::new();
        for line in 0..40 {
            text.push_str(&format!(
                "line {line} of file {n}: some words of a usual length\n"
            ));
        }
        text.push_str(&format!("the last line with {hit}\n"));
        std::fs::write(directory.join(format!("f{n}.txt")), text)?;
    }
    Ok(())
}

/// Measures a checkpoint of unchanged files.
fn look(report: &mut Report, environments: &Environments, path: &Path) -> Result<()> {
    report.progress("checkpoints");
    let limits = CheckpointLimits::default();
    let checkpoints = Checkpoints::open(path, limits)?;
    let at = environments.resolve(None)?;
    let started = Instant::now();
    let first = checkpoints.take(&at)?;
    let whole = millis(started.elapsed());
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        let started = Instant::now();
        if checkpoints.take(&at)? != first {
            return Err("the checkpoint of unchanged files is another one".into());
        }
        best = best.min(millis(started.elapsed()));
    }
    report.figure("first checkpoint of 20,000 files", whole, "ms", Bound::None);
    report.figure(
        "checkpoint of 20,000 unchanged files",
        best,
        "ms",
        Bound::None,
    );
    Ok(())
}

/// Finds a tool of a capability, with approvals disabled.
fn tool_of(capability: &dyn Capability, name: &str) -> Result<Arc<dyn Tool>> {
    let never = serde_json::json!({ "approval": "never" });
    let mut tools = capability.tools_with_config(&never).into_iter();
    let found = tools.find(|tool| tool.name() == name);
    Ok(Arc::from(found.ok_or("there is no such tool")?))
}

fn value_of(result: ToolExecutionResult) -> Result<serde_json::Value> {
    match result {
        ToolExecutionResult::Success(value) => Ok(value),
        other => Err(format!("a tool failed: {other:?}").into()),
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the median.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
