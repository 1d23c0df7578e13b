//! `windlass store compact`.

use std::process::ExitCode;

use serde_json::json;

use super::StoreContext;
use super::progress::ProgressReporter;

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store compact\n\nIt needs exclusive access to the data directory: stop the \
daemon first. While it runs, it needs as much free space as the stored data in the data directory and in the directory for \
temporary files (TMPDIR). A crash leaves the database unchanged.";

pub(super) async fn run(context: &StoreContext) -> anyhow::Result<ExitCode> {
    context.has_store()?;
    let store = context.open_to_write().await?;
    let progress = ProgressReporter::start("compacting pages:");
    let state = progress.state();
    let compacted = store.compact(move |at| state.set(at.done, at.total)).await;
    drop(progress);
    store.close().await;
    let report = compacted?;
    let text = format!(
        "the database had {} bytes and now has {}",
        report.before, report.after
    );
    let json = json!({"bytes_before": report.before, "bytes_after": report.after});
    context.print(&json, &text)?;
    Ok(ExitCode::SUCCESS)
}
