//! `windlass threads list`.

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;
use windlass_core::bounds::one_line;
use windlass_protocol::operations::{ThreadSummariesQuery, UsageQuery};
use windlass_protocol::usage::GroupBy;
use windlass_protocol::{Call, RuntimeApi, Status, ThreadSummary};

use super::NONE_YET;
use crate::cli::note;
use crate::client::ids::short;
use crate::local_time;
use crate::terminal::{Listing, money};

/// Minimum width of a terminal for the column of the model.
const WIDE: usize = 100;

/// Lists the newest threads with their state and cost.
pub(super) async fn list(
    api: &dyn RuntimeApi,
    limit: usize,
    include_archived: bool,
    out: &mut impl Write,
) -> Result<()> {
    let threads = summaries(api, limit, include_archived).await?;
    if threads.is_empty() {
        note(NONE_YET);
        return Ok(());
    }
    let query = UsageQuery {
        group_by: Some(GroupBy::Thread),
        ..UsageQuery::default()
    };
    // A token without permission to read the usage lists the threads without their cost.
    let usage = api.get_usage(Call::new((), ()).with_query(query)).await;
    let buckets = usage.map(|usage| usage.buckets).unwrap_or_default();
    let buckets = buckets.into_iter().filter(|it| it.totals.priced_turns > 0);
    let costs = buckets.map(|bucket| (bucket.key, bucket.totals.cost_usd));
    write(&threads, &costs.collect(), Listing::for_stdout(), out)
}

/// Returns the newest threads.
pub(super) async fn summaries(
    api: &dyn RuntimeApi,
    limit: usize,
    include_archived: bool,
) -> Result<Vec<ThreadSummary>> {
    let query = ThreadSummariesQuery {
        limit: Some(limit as u64),
        include_archived: Some(include_archived),
        git: Some(false),
        ..ThreadSummariesQuery::default()
    };
    let call = Call::new((), ()).with_query(query);
    Ok(api.summarize_threads(call).await?.entries)
}

fn write(
    threads: &[ThreadSummary],
    costs: &HashMap<String, f64>,
    listing: Listing,
    out: &mut impl Write,
) -> Result<()> {
    let has_model = listing.width().is_none_or(|width| width >= WIDE);
    let directory = if has_model { 24 } else { 18 };
    let mut columns = vec![("ID", 8), ("CHANGED", 16), ("STATE", 8), ("COST", 7)];
    if listing.width().is_none() {
        // A program may not know the time zone.
        columns[1].1 = 23;
    }
    columns.push(("DIRECTORY", directory));
    if has_model {
        columns.push(("MODEL", 20));
    }
    columns.push(("TITLE", 0));
    let rows = threads.iter().map(|thread| {
        let changed = match listing.width() {
            Some(_) => local_time::minute_here(&thread.updated_at),
            None => local_time::minute(&thread.updated_at),
        };
        let cost = costs.get(&thread.id).copied().map(money);
        let mut row = vec![
            short(&thread.id).to_owned(),
            changed,
            state(thread).to_owned(),
            cost.unwrap_or_else(|| "-".to_owned()),
            listing.end_of(&one_line(&thread.workspace), directory),
        ];
        if has_model {
            row.push(thread.backend.as_ref().unwrap_or(&thread.model).clone());
        }
        row.push(thread.title.clone());
        row
    });
    Ok(listing.write(out, columns, rows)?)
}

/// Returns the state of a thread's newest turn.
fn state(thread: &ThreadSummary) -> &'static str {
    match thread.latest_turn_status {
        _ if thread.archived => "archived",
        None => "new",
        Some(Status::InProgress) => "open",
        Some(Status::Queued) => "queued",
        Some(Status::Completed) => "done",
        Some(Status::Failed) => "failed",
        Some(Status::Interrupted | Status::Canceled) => "stopped",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn title_is_visible_on_a_narrow_terminal() {
        let thread: ThreadSummary = serde_json::from_value(json!({
            "id": "thr_0123456789abcdef0123456789abcdef", "title": "Fix the test", "preview": "",
            "model": "a-model-with-a-long-name", "mode": "agent", "workspace": "/home/user/a/long/漢字/directory",
            "branch": null, "head": null, "dirty": false, "archived": false,
            "updated_at": "2026-11-19T00:00:00Z", "latest_turn_id": "turn_1", "latest_turn_status": "in_progress",
        }))
        .unwrap();
        let costs = HashMap::from([(thread.id.clone(), 0.0123)]);
        let threads = [thread];
        let table = |listing| {
            let mut out = Vec::new();
            write(&threads, &costs, listing, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let narrow = table(Listing::with_width(80));
        for part in ["89abcdef", "open", "$0.01", "directory", "Fix the test"] {
            assert!(narrow.contains(part), "{part}: {narrow}");
        }
        assert!(!narrow.contains("a-model"), "{narrow}");
        let title = |line: &str, text| crate::terminal::width_of(line.split(text).next().unwrap());
        let lines: Vec<_> = narrow.lines().collect();
        assert_eq!(title(lines[0], "TITLE"), title(lines[1], "Fix"));
        let piped = table(Listing::FOR_PIPE);
        assert!(
            piped.contains("/home/user/a/long/漢字/directory"),
            "{piped}"
        );
        assert!(piped.contains("a-model-with-a-long-name"), "{piped}");
    }
}
