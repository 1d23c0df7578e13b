//! Calls that somebody allowed for good in a project, in a file of the data directory, which no tool can reach.
//!
//! They are not in the database, because they are forgotten beside a daemon that runs. The file is replaced as a whole, looked at when a turn
//! begins, and read when it is another one than before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_core::approval_rules::{RememberedCalls, call_digest};
use windlass_core::bounds::one_line;
use windlass_core::tools::ToolCall;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_tools::Environments;

use crate::whole_file::{FileVersion, open_private, read_own, replace};

const FILE: &str = "approvals.json";
const LOCK: &str = "approvals.lock";
const VERSION: u32 = 1;
/// How many calls are remembered in all; the oldest go first.
const MAX_CALLS: usize = 1000;
/// How many bytes the file may have.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How many letters of the arguments are shown.
const SHOWN: usize = 400;

/// Why remembered calls cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RememberedError {
    /// The file cannot be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file does not hold what it should.
    #[error("{} does not hold remembered approvals that this program can read: {why}; it was left as it is", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// A call that somebody allowed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RememberedCall {
    /// Names it.
    pub id: String,
    /// The root of the project.
    pub root: PathBuf,
    /// The directory in which the turn worked.
    pub cwd: PathBuf,
    /// The tool.
    pub tool: String,
    /// What people see of its arguments; the digest is what counts.
    pub arguments: String,
    /// When it was allowed.
    pub allowed_at: DateTime<Utc>,
    digest: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    calls: Vec<RememberedCall>,
}

/// The remembered calls of a data directory.
#[derive(Debug, Clone)]
pub struct RememberedBook {
    directory: PathBuf,
}

impl RememberedBook {
    /// Looks after the remembered calls of a directory, which must be there.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// Lists them, the oldest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn list(&self) -> Result<Vec<RememberedCall>, RememberedError> {
        let path = self.directory.join(FILE);
        let unreadable = |why: String| RememberedError::Unreadable {
            path: path.clone(),
            why,
        };
        let length = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => found.len(),
            Ok(_) => return Err(unreadable("it is no file".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(cannot("read", &path, source)),
        };
        if length > MAX_BYTES {
            return Err(unreadable(format!("it has {length} bytes")));
        }
        let text = read_own(&path).map_err(|source| cannot("read", &path, source))?;
        let Some(text) = text else {
            return Ok(Vec::new());
        };
        let contents: Contents =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        match contents.version {
            VERSION => Ok(contents.calls),
            version => Err(unreadable(format!("it has version {version}"))),
        }
    }

    /// Remembers a call in a project. One that is there already stays as it is.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn add(&self, root: &Path, cwd: &Path, call: &ToolCall) -> Result<(), RememberedError> {
        let random = Uuid::new_v4().simple().to_string();
        let arguments = call.arguments.to_string();
        let shown: String = one_line(&arguments).chars().take(SHOWN).collect();
        let remembered = RememberedCall {
            id: format!("rem_{}", &random[..12]),
            root: root.to_owned(),
            cwd: cwd.to_owned(),
            tool: call.name.clone(),
            arguments: shown,
            allowed_at: Utc::now(),
            digest: call_digest(call).to_string(),
        };
        self.change(|calls| {
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

    /// Forgets a call; tells whether it was there.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn forget(&self, id: &str) -> Result<bool, RememberedError> {
        self.change(|calls| {
            let before = calls.len();
            calls.retain(|call| call.id != id);
            calls.len() < before
        })
    }

    /// Lets a runtime know them, by the environments of its turns.
    #[must_use]
    pub fn in_environments(self, environments: Environments) -> RememberedInProjects {
        RememberedInProjects {
            book: self,
            environments,
            known: Mutex::default(),
        }
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<RememberedCall>) -> T,
    ) -> Result<T, RememberedError> {
        let lock = self.directory.join(LOCK);
        let held = open_private(&lock);
        let held = held.map_err(|source| cannot("open", &lock, source))?;
        held.lock()
            .map_err(|source| cannot("lock", &lock, source))?;
        let mut calls = self.list()?;
        let result = change(&mut calls);
        let contents = Contents {
            version: VERSION,
            calls,
        };
        let path = self.directory.join(FILE);
        let written = serde_json::to_vec_pretty(&contents)
            .map_err(io::Error::other)
            .and_then(|contents| replace(&path, &contents));
        written.map_err(|source| cannot("write", &path, source))?;
        Ok(result)
    }
}

/// The remembered calls, as a runtime asks for them.
#[derive(Debug)]
pub struct RememberedInProjects {
    book: RememberedBook,
    environments: Environments,
    /// What the file said, and which one it was.
    known: Mutex<(Option<FileVersion>, Vec<RememberedCall>)>,
}

impl RememberedCalls for RememberedInProjects {
    fn allowed_in(&self, environment: &TurnEnvironment) -> Vec<String> {
        let Ok(at) = self.environments.resolve(Some(environment)) else {
            return Vec::new();
        };
        let version = FileVersion::of(&self.book.directory.join(FILE));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != version {
            *known = match self.book.list() {
                Ok(calls) => (version, calls),
                // What could not be read counts for nothing, and is read again the next time.
                Err(error) => {
                    tracing::error!(%error, "remembered approvals do not count now");
                    (None, Vec::new())
                }
            };
        }
        let (root, cwd) = (at.root_path(), at.cwd());
        let here = known.1.iter();
        let here = here.filter(|call| call.root == root && call.cwd == cwd);
        here.map(|call| call.digest.clone()).collect()
    }
}

fn cannot(doing: &'static str, path: &Path, source: io::Error) -> RememberedError {
    RememberedError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
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
    fn a_call_is_remembered_once_until_it_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let book = RememberedBook::new(directory.path());
        assert_eq!(book.list().unwrap(), []);
        let at = Path::new("/project");
        book.add(at, at, &call("ls")).unwrap();
        book.add(at, at, &call("ls")).unwrap();
        book.add(at, Path::new("/project/docs"), &call("ls"))
            .unwrap();
        let calls = book.list().unwrap();
        assert_eq!(calls.len(), 2);
        assert!(book.forget(&calls[0].id).unwrap());
        assert!(!book.forget(&calls[0].id).unwrap());
        assert_eq!(book.list().unwrap(), calls[1..]);
    }

    #[test]
    fn the_oldest_go_first_and_what_cannot_be_read_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let book = RememberedBook::new(directory.path());
        let at = Path::new("/project");
        let made = |number: usize| RememberedCall {
            id: number.to_string(),
            root: at.to_owned(),
            cwd: at.to_owned(),
            tool: "shell".to_owned(),
            arguments: String::new(),
            allowed_at: Utc::now(),
            digest: number.to_string(),
        };
        book.change(|calls| calls.extend((0..MAX_CALLS).map(made)))
            .unwrap();
        book.add(at, at, &call(&"x".repeat(100_000))).unwrap();
        let calls = book.list().unwrap();
        assert_eq!((calls.len(), calls[0].id.as_str()), (MAX_CALLS, "1"));
        let file = directory.path().join(FILE);
        fs::write(&file, r#"{"version": 2, "calls": []}"#).unwrap();
        assert!(book.add(at, at, &call("ls")).is_err());
        assert!(fs::read_to_string(&file).unwrap().contains(": 2"));
    }
}
