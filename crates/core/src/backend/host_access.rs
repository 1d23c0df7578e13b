//! Access of an external agent to the host's files and programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

/// The host's files and programs, within the turn's environment. Every path comes from the agent and is untrusted.
#[async_trait]
pub trait HostAccess: Send + Sync {
    /// Returns the operations that the host supports.
    fn offers(&self) -> HostOffers;

    /// Reads up to `limit` lines of a text file, starting at `line` (from 1).
    async fn read_text(
        &self,
        path: &Path,
        line: Option<u64>,
        limit: Option<u64>,
    ) -> Result<String, HostAccessError>;

    /// Writes a file of text.
    async fn write_text(&self, path: &Path, text: &str) -> Result<(), HostAccessError>;

    /// Starts a program and returns the id of its terminal.
    async fn start_terminal(&self, request: TerminalRequest) -> Result<String, HostAccessError>;

    /// Returns the output of a terminal so far.
    async fn terminal_output(&self, id: &str) -> Result<TerminalOutput, HostAccessError>;

    /// Waits until the program of a terminal has ended.
    async fn wait_for_terminal(&self, id: &str) -> Result<TerminalExit, HostAccessError>;

    /// Ends the program of a terminal. Its output remains readable.
    async fn kill_terminal(&self, id: &str) -> Result<(), HostAccessError>;

    /// Ends the program of a terminal and frees the terminal.
    async fn release_terminal(&self, id: &str) -> Result<(), HostAccessError>;

    /// Ends the programs of all terminals and frees the terminals, at the end of the turn.
    fn release_all(&self);
}

/// The operations that a host supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostOffers {
    pub read_text: bool,
    pub write_text: bool,
    pub terminals: bool,
}

/// A program that an agent wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalRequest {
    /// The program, or a line for a shell if there are no arguments.
    pub command: String,
    pub arguments: Vec<String>,
    /// Variables in addition to those of the host.
    pub variables: BTreeMap<String, String>,
    /// The working directory; `None` is the turn's directory.
    pub cwd: Option<PathBuf>,
    /// Limit on the retained output, in bytes.
    pub max_output_bytes: Option<u64>,
}

/// The output of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalOutput {
    /// The end of the output, up to the retention limit.
    pub text: String,
    /// Whether earlier output was dropped.
    pub is_cut: bool,
    /// How the program ended, if it has.
    pub exit: Option<TerminalExit>,
}

/// How the program of a terminal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalExit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The name of the signal that ended it.
    pub signal: Option<String>,
}

/// Why a host rejected or failed an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostAccessError {
    /// The environment denies the operation.
    #[error("not allowed: {0}")]
    NotAllowed(String),
    /// There is no such file or terminal.
    #[error("not found: {0}")]
    NotFound(String),
    /// The operation failed.
    #[error("failed: {0}")]
    Failed(String),
}
