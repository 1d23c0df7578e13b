//! One line per thread.

use windlass_protocol::ThreadSummary;
use windlass_store::queries::ThreadQuery;

use super::list::Page;
use crate::app::App;
use crate::error::ApiError;
use crate::threads::FoundThread;
use crate::tokens::Caller;
use crate::view;

const TITLE_CHARS: usize = 72;
const UNTITLED: &str = "New Thread";

impl App {
    /// Lists threads, one line each, with what git says of their directories.
    pub(crate) async fn summarize_threads(
        &self,
        caller: &Caller,
        query: ThreadQuery,
    ) -> Result<Page<ThreadSummary>, ApiError> {
        let lines = self.listed(caller, query).await?.map(line);
        let entries = lines.entries.iter();
        let mut workspaces: Vec<&str> = entries.map(|line| line.workspace.as_str()).collect();
        workspaces.sort_unstable();
        workspaces.dedup();
        self.git.meet(&workspaces).await;
        Ok(lines.map(|line| {
            let git = self.git.glance(&line.workspace);
            ThreadSummary {
                branch: git.branch,
                head: git.head,
                dirty: git.dirty,
                git_unknown: git.git_unknown,
                ..line
            }
        }))
    }
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
