//! `windlass store compact`.

use std::process::ExitCode;

use serde_json::json;

use super::StoreCommand;
use super::progress::Progress;

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store compact\n\nIt needs the data directory for itself: stop the \
daemon first. While it runs, it needs as much free space as the stored data in the data directory and in the directory for \
temporary files (TMPDIR). A crash leaves the database unchanged.";

pub(super) async fn run(command: &StoreCommand) -> anyhow::Result<ExitCode> {
    command.has_store()?;
    let store = command.open_to_write().await?;
    let progress = Progress::of("compacting pages:");
    let state = progress.state();
    let compacted = store.compact(move |at| state.set(at.done, at.total)).await;
    drop(progress);
    store.close().await;
    let report = compacted?;
    let words = format!(
        "the database had {} bytes and has {}",
        report.before, report.after
    );
    let json = json!({"bytes_before": report.before, "bytes_after": report.after});
    command.tell(&json, &words)?;
    Ok(ExitCode::SUCCESS)
}
