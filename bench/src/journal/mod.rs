//! The journal on disk, compared where possible with bare SQLite in the same run: one table, one row per event, the same groups and bytes, WAL,
//! `synchronous=FULL`, other settings at SQLite's defaults.

mod appends;
mod bare;
mod forks;
mod idle;
mod reading;
mod tapped;
mod turns;
mod workload;

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use windlass_core::AgentLoopError;

pub use forks::end_open_turns;
pub use idle::{CHILD, live_as_child};
pub use reading::{LONG, PAGE};
pub use workload::{batches, open, record};

use crate::report::Report;

type Result<T> = std::result::Result<T, AgentLoopError>;

/// A part that can be measured separately.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum JournalPart {
    Appends,
    Turns,
    Reading,
    Forks,
    Idle,
}

impl JournalPart {
    const ALL: [Self; 5] = [
        Self::Appends,
        Self::Turns,
        Self::Reading,
        Self::Forks,
        Self::Idle,
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Appends => "appends",
            Self::Turns => "turns",
            Self::Reading => "reading",
            Self::Forks => "forks",
            Self::Idle => "idle",
        }
    }
}

/// Measures one part, or all.
pub fn run(mut report: Report, only: Option<JournalPart>) -> Result<Report> {
    let executor = executor()?;
    let measuring = executor.spawn(async move {
        let parts = JournalPart::ALL.into_iter();
        for part in parts.filter(|part| only.is_none_or(|only| only == *part)) {
            match part {
                JournalPart::Appends => appends::measure(&mut report).await?,
                JournalPart::Turns => turns::measure(&mut report).await?,
                JournalPart::Reading => reading::measure(&mut report).await?,
                JournalPart::Forks => forks::measure(&mut report).await?,
                JournalPart::Idle => idle::measure(&mut report).await?,
            }
        }
        Ok(report)
    });
    executor.block_on(measuring).map_err(broke)?
}

fn executor() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(broke)
}

fn broke(error: impl Display) -> AgentLoopError {
    AgentLoopError::store(error.to_string())
}

fn directory() -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("windlass-bench-")
        .tempdir()
        .map_err(broke)
}

fn bare(directory: &Path) -> Result<bare::Bare> {
    bare::Bare::open(directory).map_err(broke)
}

/// The best of several measurements, because of other load on the machine.
fn best(spans: &[Duration]) -> Duration {
    spans.iter().min().copied().unwrap_or_default()
}
