//! `windlass store rebuild`.

use std::process::ExitCode;

use serde_json::json;

use super::progress::Progress;
use super::{StoreCommand, as_json, named};

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store rebuild\n\nIt needs the data directory for itself: stop the \
daemon first. Records are not changed; a stream that cannot be read keeps the rows that it has.";

pub(super) async fn run(place: &StoreCommand) -> anyhow::Result<ExitCode> {
    place.has_store()?;
    let store = place.open_to_write().await?;
    let progress = Progress::of("rebuilding streams:");
    let state = progress.state();
    let rebuilt = store.rebuild(|at| state.set(at.done, at.total)).await;
    drop(progress);
    store.close().await;
    let rebuilt = rebuilt?;
    let report = json!({"streams": rebuilt.streams, "findings": as_json(&rebuilt.findings)});
    place.tell(
        &report,
        &format!("{} streams were rebuilt", rebuilt.streams),
    )?;
    Ok(named(
        &rebuilt.findings,
        "these streams were left as they are; save what can be read with `windlass store export FILE`",
    ))
}
