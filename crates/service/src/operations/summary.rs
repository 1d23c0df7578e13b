//! One line per thread.

use windlass_protocol::{ThreadSummary, WorkspaceStatus};
use windlass_store::queries::{Listed, ThreadQuery};

use super::Asked;
use crate::error::Result;
use crate::threads::FoundThread;
use crate::view;

const TITLE_CHARS: usize = 72;
const UNTITLED: &str = "New Thread";

impl Asked {
    /// Lists threads, one line each, with what git says of their directories where that is wanted.
    pub async fn summarize_threads(
        &self,
        query: ThreadQuery,
        with_git: bool,
    ) -> Result<Listed<ThreadSummary>> {
        let Listed { entries, next } = self.listed(query).await?;
        if with_git {
            let workspaces = entries.iter().map(|found| found.thread.workspace.as_str());
            let mut workspaces: Vec<&str> = workspaces.collect();
            workspaces.sort_unstable();
            workspaces.dedup();
            self.git.meet(&workspaces).await;
        }
        let entries = entries.into_iter().map(|found| {
            let git = match with_git {
                true => self.git.glance(&found.thread.workspace),
                false => WorkspaceStatus {
                    git_unknown: Some("nobody asked".to_owned()),
                    ..WorkspaceStatus::default()
                },
            };
            line(found, git)
        });
        let entries = entries.collect();
        Ok(Listed { entries, next })
    }
}

fn line(FoundThread { row, thread, .. }: FoundThread, git: WorkspaceStatus) -> ThreadSummary {
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
