//! One line per thread.

use axum::extract::State;
use windlass_protocol::{Thread, ThreadSummary};

use super::{Answer, ok};
use crate::app::Shared;
use crate::http::query::Query;
use crate::threads::Entry;
use crate::view;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1_000;
const TITLE_CHARS: usize = 72;
const UNTITLED: &str = "New Thread";

pub(super) async fn summary(State(app): State<Shared>, query: Query) -> Answer {
    let limit = query.get::<usize>("limit")?.unwrap_or(DEFAULT_LIMIT);
    let search = query.text("search").map(str::to_lowercase);
    let threads = app.listed(&query).await?;
    let lines = threads
        .into_iter()
        .map(|(thread, entry)| line(thread, &entry))
        .filter(|line| search.as_ref().is_none_or(|search| has(line, search)))
        .take(limit.clamp(1, MAX_LIMIT));
    let lines: Vec<ThreadSummary> = lines.collect();
    let mut workspaces: Vec<&str> = lines.iter().map(|line| line.workspace.as_str()).collect();
    workspaces.sort_unstable();
    workspaces.dedup();
    app.git.meet(&workspaces).await;
    let lines: Vec<ThreadSummary> = lines
        .into_iter()
        .map(|line| {
            let git = app.git.glance(&line.workspace);
            ThreadSummary {
                branch: git.branch,
                head: git.head,
                dirty: git.dirty,
                git_unknown: git.git_unknown,
                ..line
            }
        })
        .collect();
    ok(&lines)
}

fn line(thread: Thread, entry: &Entry) -> ThreadSummary {
    let digest = entry.digest();
    let latest = digest.latest.as_ref();
    let said = latest.map(|latest| latest.input_summary.chars().take(TITLE_CHARS).collect());
    let title = thread
        .title
        .or(said)
        .filter(|title: &String| !title.is_empty());
    ThreadSummary {
        id: thread.id,
        title: title.unwrap_or_else(|| UNTITLED.to_owned()),
        preview: digest.preview.clone(),
        model: thread.model,
        mode: thread.mode,
        workspace: thread.workspace,
        branch: None,
        head: None,
        dirty: false,
        git_unknown: None,
        archived: thread.archived,
        updated_at: thread.updated_at,
        latest_turn_id: thread.latest_turn_id,
        latest_turn_status: latest.map(|latest| view::status(latest.status)),
    }
}

fn has(line: &ThreadSummary, search: &str) -> bool {
    [&line.id, &line.title, &line.preview, &line.model]
        .iter()
        .any(|text| text.to_lowercase().contains(search))
}
