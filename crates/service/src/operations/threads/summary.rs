//! Lists threads with one line each.

use windlass_protocol::api::Page;
use windlass_protocol::{ThreadSummary, WorkspaceStatus};
use windlass_store::queries::{Listed, ThreadQuery, ThreadRow};

use crate::ids;
use crate::operations::prelude::*;
use crate::operations::threads::list::{included, states};
use crate::threads::FoundThread;
use crate::view;

/// Default and maximum number of lines.
const DEFAULT_LINES: usize = 50;
const MAX_LINES: usize = 1_000;
const TITLE_CHARS: usize = 72;
const UNTITLED: &str = "New Thread";

/// Lists threads, one line each, optionally with the git status of their directories.
impl Handle<op::SummarizeThreads> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::SummarizeThreads>,
    ) -> Result<Page<ThreadSummary>> {
        let query = call.query;
        let with_git = query.git.unwrap_or(true);
        let query = ThreadQuery {
            include: included(query.include_archived, query.archived_only),
            states: states(query.state),
            after: query.cursor,
            search: query.search.as_deref().map(ids::session_text),
            ..ThreadQuery::first(limit(query.limit, DEFAULT_LINES, MAX_LINES))
        };
        let Listed { entries, next } = self.listed(ctx, query).await?;
        if with_git {
            let workspaces = entries.iter().map(|found| found.thread.workspace.as_str());
            let mut workspaces: Vec<&str> = workspaces.collect();
            workspaces.sort_unstable();
            workspaces.dedup();
            self.git.warm_up(&workspaces).await;
        }
        let entries = entries.into_iter().map(|found| {
            let git = if with_git {
                self.git.cached_status(&found.thread.workspace)
            } else {
                WorkspaceStatus {
                    git_unknown: Some("the request excluded it".to_owned()),
                    ..WorkspaceStatus::default()
                }
            };
            line(found, git)
        });
        let entries = entries.collect();
        Ok(Page { entries, next })
    }
}

/// Returns the title for display: the thread's own, else the beginning of its newest input.
pub(crate) fn title_of(row: &ThreadRow, title: Option<String>) -> String {
    let latest = row.latest.as_ref();
    let input = latest.map(|latest| latest.input_summary.chars().take(TITLE_CHARS).collect());
    let title = title.or(input).filter(|title: &String| !title.is_empty());
    title.unwrap_or_else(|| UNTITLED.to_owned())
}

fn line(FoundThread { row, thread, .. }: FoundThread, git: WorkspaceStatus) -> ThreadSummary {
    let latest = row.latest.as_ref();
    ThreadSummary {
        title: title_of(&row, thread.title),
        id: thread.id,
        preview: row.preview,
        model: thread.model,
        backend: thread.backend,
        mode: thread.mode,
        workspace: thread.workspace,
        branch: git.branch,
        head: git.head,
        dirty: git.dirty,
        git_unknown: git.git_unknown,
        archived: thread.archived,
        updated_at: thread.updated_at,
        latest_turn_id: thread.latest_turn_id,
        latest_turn_status: latest.map(|latest| view::status(latest.status)),
    }
}
