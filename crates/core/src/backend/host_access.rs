//! What a foreign agent may ask of the host's files and programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

/// The host's files and programs, as far as a turn's environment allows. Every path comes from the agent and is to be judged.
#[async_trait]
pub trait HostAccess: Send + Sync {
    /// Tells what may be asked at all.
    fn offers(&self) -> HostOffers;

    /// Reads a file of text, from a line (the first is 1) and so many lines.
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

    /// Returns what a terminal has printed so far.
    async fn terminal_output(&self, id: &str) -> Result<TerminalOutput, HostAccessError>;

    /// Waits until the program of a terminal has ended.
    async fn wait_for_terminal(&self, id: &str) -> Result<TerminalExit, HostAccessError>;

    /// Ends the program of a terminal; what it printed can still be read.
    async fn kill_terminal(&self, id: &str) -> Result<(), HostAccessError>;

    /// Ends the program of a terminal and forgets it.
    async fn release_terminal(&self, id: &str) -> Result<(), HostAccessError>;

    /// Ends the programs of all terminals and forgets them: the turn is over, or was interrupted.
    fn release_all(&self);
}

/// What may be asked of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostOffers {
    /// Reading files.
    pub read_text: bool,
    /// Writing files.
    pub write_text: bool,
    /// Running programs.
    pub terminals: bool,
}

/// A program that an agent wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalRequest {
    /// The program, or a line for a shell if there are no arguments.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables beside those that the host gives.
    pub variables: BTreeMap<String, String>,
    /// Where it starts; `None` is the turn's directory.
    pub cwd: Option<PathBuf>,
    /// How much of its output is to be kept.
    pub max_output_bytes: Option<u64>,
}

/// What a terminal has printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalOutput {
    /// The end of it, as much as is kept.
    pub text: String,
    /// Whether something before it is gone.
    pub is_cut: bool,
    /// How the program ended, if it has.
    pub exit: Option<TerminalExit>,
}

/// How the program of a terminal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalExit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The name of the signal that it died by.
    pub signal: Option<String>,
}

/// Why a host did not do what an agent asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostAccessError {
    /// It may not.
    #[error("not allowed: {0}")]
    NotAllowed(String),
    /// There is no such file or terminal.
    #[error("not found: {0}")]
    NotFound(String),
    /// It went wrong.
    #[error("failed: {0}")]
    Failed(String),
}
