//! `windlass store rebuild`.

use std::process::ExitCode;

use serde_json::json;

use super::progress::ProgressReporter;
use super::{StoreContext, as_json, report_findings};

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store rebuild\n\nIt needs exclusive access to the data directory: stop the \
daemon first. Records do not change; the rows of an unreadable stream remain as they are.";

pub(super) async fn run(context: &StoreContext) -> anyhow::Result<ExitCode> {
    context.has_store()?;
    let store = context.open_to_write().await?;
    let progress = ProgressReporter::start("rebuilding streams:");
    let state = progress.state();
    let rebuilt = store.rebuild(|at| state.set(at.done, at.total)).await;
    drop(progress);
    store.close().await;
    let rebuilt = rebuilt?;
    let report = json!({"streams": rebuilt.streams, "findings": as_json(&rebuilt.findings)});
    context.print(
        &report,
        &format!("{} streams were rebuilt", rebuilt.streams),
    )?;
    Ok(report_findings(
        &rebuilt.findings,
        "these streams were not changed; save readable records with `windlass store export FILE`",
    ))
}
