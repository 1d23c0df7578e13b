//! Tools over the session's files.

mod delete;
mod edit;
mod grep;
mod list;
mod read;
mod stat;
mod write;

use super::session_tool::boxed;
use crate::capabilities::{Capability, RiskLevel};
use crate::tools::Tool;

/// Calls that change files run one after the other.
const WRITERS: &str = "session_files";

/// Reads, writes, edits, lists, searches and deletes the session's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionFileSystemCapability;

impl Capability for SessionFileSystemCapability {
    constants!(
        "session_file_system",
        "File System",
        "Reads and changes the files of the session.",
        "Files"
    );
    fn features(&self) -> Vec<&'static str> {
        vec!["file_system"]
    }
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::Medium
    }
    fn system_prompt_addition(&self) -> Option<&str> {
        Some(
            "You have a file system. Paths begin with `/`. Read a file before you edit it; prefer edit_file for small changes and write_file for new files.",
        )
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![
            boxed(read::ReadFile),
            boxed(write::WriteFile),
            boxed(edit::EditFile),
            boxed(list::ListDirectory),
            boxed(grep::GrepFiles),
            boxed(delete::DeleteFile),
            boxed(stat::StatFile),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, odd_arguments};
    use super::*;
    use crate::capabilities::builtin::testing::FakeFiles;
    use crate::tools::SideEffectClass::{AtMostOnce, Idempotent, Pure};
    use crate::traits::ToolContext;
    use crate::typed_id::SessionId;
    use serde_json::json;

    #[test]
    fn side_effects_of_the_tools() {
        let actual: Vec<_> = SessionFileSystemCapability
            .tools()
            .iter()
            .map(|tool| {
                let hints = tool.hints();
                let class = hints.concurrency_class.is_some();
                (tool.name().to_owned(), hints.side_effects(), class)
            })
            .collect();
        let expected = [
            ("read_file", Pure, false),
            ("write_file", Idempotent, true),
            ("edit_file", AtMostOnce, true),
            ("list_directory", Pure, false),
            ("grep_files", Pure, false),
            ("delete_file", Idempotent, true),
            ("stat_file", Pure, false),
        ];
        assert_eq!(actual, expected.map(|(n, s, c)| (n.to_owned(), s, c)));
    }

    #[tokio::test]
    async fn odd_arguments_are_refused_without_a_panic() {
        odd_arguments(&SessionFileSystemCapability).await;
    }

    #[tokio::test]
    async fn path_traversal_is_refused_and_host_failures_are_internal() {
        let ctx = ToolContext::with_file_store(SessionId::new(), FakeFiles::new(&[]));
        let capability = &SessionFileSystemCapability;
        let error = call(capability, "read_file", json!({"path": "/a/../b"}), &ctx).await;
        assert_eq!(error.unwrap_err(), "path traversal rejected: /a/../b");
        let args = json!({"path": "/readonly.txt", "content": "x"});
        let error = call(capability, "write_file", args, &ctx).await;
        assert_eq!(error.unwrap_err(), "file is read-only: /readonly.txt");
        let args = json!({"path": "/broken.txt", "content": "x"});
        let error = call(capability, "write_file", args, &ctx)
            .await
            .unwrap_err();
        assert!(error.starts_with("InternalError"), "{error}");
        let none = ToolContext::new(SessionId::new());
        let error = call(capability, "stat_file", json!({"path": "/"}), &none).await;
        assert_eq!(error.unwrap_err(), "this host offers no session files");
    }
}
