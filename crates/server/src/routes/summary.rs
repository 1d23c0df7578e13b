//! One line per thread.

use axum::extract::State;
use windlass_protocol::ThreadSummary;

use super::Answer;
use super::list::page;
use crate::app::Shared;
use crate::http::query::Query;
use crate::threads::FoundThread;
use crate::view;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1_000;
const TITLE_CHARS: usize = 72;
const UNTITLED: &str = "New Thread";

pub(super) async fn summary(State(app): State<Shared>, query: Query) -> Answer {
    let limit = query.get::<usize>("limit")?.unwrap_or(DEFAULT_LIMIT);
    let search = query.text("search").map(str::to_owned);
    let limit = limit.clamp(1, MAX_LIMIT);
    let (threads, next) = app.listed(&query, limit, search).await?;
    let lines: Vec<ThreadSummary> = threads.into_iter().map(line).collect();
    let mut workspaces: Vec<&str> = lines.iter().map(|line| line.workspace.as_str()).collect();
    workspaces.sort_unstable();
    workspaces.dedup();
    app.git.meet(&workspaces).await;
    let lines = lines.into_iter().map(|line| {
        let git = app.git.glance(&line.workspace);
        ThreadSummary {
            branch: git.branch,
            head: git.head,
            dirty: git.dirty,
            git_unknown: git.git_unknown,
            ..line
        }
    });
    page(&lines.collect::<Vec<_>>(), next)
}

fn line(FoundThread { row, thread, .. }: FoundThread) -> ThreadSummary {
    let latest = row.latest.as_ref();
    let said = latest.map(|latest| latest.input_summary.chars().take(TITLE_CHARS).collect());
    let title = thread
        .title
        .or(said)
        .filter(|title: &String| !title.is_empty());
    ThreadSummary {
        id: thread.id,
        title: title.unwrap_or_else(|| UNTITLED.to_owned()),
        preview: row.preview,
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
