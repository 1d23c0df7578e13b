//! Permanently approved calls of a project, in a file of the data directory that no tool can access.
//!
//! They are not in the database, because other processes revoke them while a daemon runs. The file is replaced atomically, checked at the start of
//! each turn, and read again if it changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_core::bounds::one_line;
use windlass_core::remembered_calls::{RememberedCalls, call_digest};
use windlass_core::tools::ToolCall;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_macros::Defaults;
use windlass_tools::Environments;

use crate::json_file::{FileState, JsonContents, JsonFile, JsonFileError};

const FILE: &str = "approvals.json";
/// Maximum number of stored calls; the oldest are removed first.
const MAX_CALLS: usize = 1000;
/// Maximum length of displayed arguments, in characters.
const SHOWN_CHARS: usize = 400;

/// A permanently approved call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RememberedCall {
    /// ID of the approval.
    pub id: String,
    /// The root of the project.
    pub root: PathBuf,
    /// Working directory of the turn.
    pub cwd: PathBuf,
    /// Name of the tool.
    pub tool: String,
    /// The arguments for display; matching uses the digest.
    pub arguments: String,
    /// When it was allowed.
    pub allowed_at: DateTime<Utc>,
    digest: String,
}

#[derive(Debug, Serialize, Deserialize, Defaults)]
#[serde(deny_unknown_fields)]
struct StoredApprovals {
    #[default(Self::VERSION)]
    version: u32,
    calls: Vec<RememberedCall>,
}

impl JsonContents for StoredApprovals {
    const VERSION: u32 = 1;
    const WHAT: &'static str = "remembered approvals";

    fn version(&self) -> u32 {
        self.version
    }
}

/// The approved calls of a data directory.
#[derive(Debug, Clone)]
pub struct ProjectApprovals {
    file: Arc<JsonFile<StoredApprovals>>,
}

impl ProjectApprovals {
    /// Uses the file of a directory, which must exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            file: Arc::new(JsonFile::new(directory.into().join(FILE))),
        }
    }

    /// Lists the approved calls, oldest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn list(&self) -> Result<Vec<RememberedCall>, JsonFileError> {
        let contents = self.file.try_read()?;
        Ok(contents.unwrap_or_default().calls)
    }

    /// Approves a call permanently in a project. An existing approval is left unchanged.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn add(&self, root: &Path, cwd: &Path, call: &ToolCall) -> Result<(), JsonFileError> {
        let random = Uuid::new_v4().simple().to_string();
        let arguments = call.arguments.to_string();
        let shown: String = one_line(&arguments).chars().take(SHOWN_CHARS).collect();
        let remembered = RememberedCall {
            id: format!("rem_{}", &random[..12]),
            root: root.to_owned(),
            cwd: cwd.to_owned(),
            tool: call.name.clone(),
            arguments: shown,
            allowed_at: Utc::now(),
            digest: call_digest(call).to_string(),
        };
        self.file.update(|StoredApprovals { calls, .. }| {
            let is_same = |it: &RememberedCall| {
                it.digest == remembered.digest && it.root == root && it.cwd == cwd
            };
            if calls.iter().any(is_same) {
                return;
            }
            let excess = (calls.len() + 1).saturating_sub(MAX_CALLS);
            calls.drain(..excess);
            calls.push(remembered);
        })
    }

    /// Revokes an approval; returns whether it existed.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn forget(&self, id: &str) -> Result<bool, JsonFileError> {
        self.file.update(|StoredApprovals { calls, .. }| {
            let before = calls.len();
            calls.retain(|call| call.id != id);
            calls.len() < before
        })
    }

    /// Returns the approvals as a runtime queries them, by the environments of its turns.
    #[must_use]
    pub fn in_environments(self, environments: Environments) -> RememberedInProjects {
        RememberedInProjects {
            approvals: self,
            environments,
        }
    }
}

/// The approved calls, as a runtime queries them.
#[derive(Debug)]
pub struct RememberedInProjects {
    approvals: ProjectApprovals,
    environments: Environments,
}

impl RememberedCalls for RememberedInProjects {
    fn allowed_in(&self, environment: &TurnEnvironment) -> Vec<String> {
        let Ok(at) = self.environments.resolve(Some(environment)) else {
            return Vec::new();
        };
        let (root, cwd) = (at.root_path(), at.cwd());
        let current = self.approvals.file.current();
        let FileState::Present(contents) = &*current else {
            return Vec::new();
        };
        let calls = contents.calls.iter();
        let calls = calls.filter(|call| call.root == root && call.cwd == cwd);
        calls.map(|call| call.digest.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn call(command: &str) -> ToolCall {
        ToolCall {
            id: "c".to_owned(),
            name: "shell".to_owned(),
            arguments: json!({ "command": command }),
        }
    }

    #[test]
    fn call_is_stored_once_until_it_is_revoked() {
        let directory = tempfile::tempdir().unwrap();
        let approvals = ProjectApprovals::new(directory.path());
        assert_eq!(approvals.list().unwrap(), []);
        let at = Path::new("/project");
        approvals.add(at, at, &call("ls")).unwrap();
        approvals.add(at, at, &call("ls")).unwrap();
        approvals
            .add(at, Path::new("/project/docs"), &call("ls"))
            .unwrap();
        let calls = approvals.list().unwrap();
        assert_eq!(calls.len(), 2);
        assert!(approvals.forget(&calls[0].id).unwrap());
        assert!(!approvals.forget(&calls[0].id).unwrap());
        assert_eq!(approvals.list().unwrap(), calls[1..]);
    }

    #[test]
    fn oldest_calls_are_removed_and_an_unreadable_file_is_left_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let approvals = ProjectApprovals::new(directory.path());
        let at = Path::new("/project");
        let approval = |number: usize| RememberedCall {
            id: number.to_string(),
            root: at.to_owned(),
            cwd: at.to_owned(),
            tool: "shell".to_owned(),
            arguments: String::new(),
            allowed_at: Utc::now(),
            digest: number.to_string(),
        };
        approvals
            .file
            .update(|contents| contents.calls.extend((0..MAX_CALLS).map(approval)))
            .unwrap();
        approvals.add(at, at, &call(&"x".repeat(100_000))).unwrap();
        let calls = approvals.list().unwrap();
        assert_eq!((calls.len(), calls[0].id.as_str()), (MAX_CALLS, "1"));
        let file = directory.path().join(FILE);
        fs::write(&file, r#"{"version": 2, "calls": []}"#).unwrap();
        assert!(approvals.add(at, at, &call("ls")).is_err());
        assert!(fs::read_to_string(&file).unwrap().contains(": 2"));
    }
}
