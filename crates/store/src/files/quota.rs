//! Storage quota of a session.

use windlass_core::error::{AgentLoopError, QuotaExceeded, Result};
use windlass_core::typed_id::SessionId;

use super::path::MAX_DEPTH;

/// Limits for the files of each session; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileQuota {
    /// How many files there may be; of directories there may be [`MAX_DEPTH`] times as many.
    pub max_files: Option<u64>,
    /// How many bytes a file may have, decoded.
    pub max_file_bytes: Option<u64>,
    /// How many bytes all files may have together, decoded.
    pub max_total_bytes: Option<u64>,
}

/// The number and size of a session's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) bytes: u64,
}

impl FileQuota {
    /// Rejects a file that alone exceeds the maximum file size.
    pub(crate) fn check_file(&self, path: &str, bytes: u64) -> Result<()> {
        within(self.max_file_bytes, bytes, "bytes per file", || {
            path.to_owned()
        })
    }

    /// Rejects a change that exceeds the quota.
    ///
    /// Only growth is rejected: a session over its limit may still shrink.
    pub(crate) fn check(&self, session: SessionId, before: Usage, after: Usage) -> Result<()> {
        let subject = || session.to_string();
        let directories = self
            .max_files
            .map(|files| files.saturating_mul(MAX_DEPTH as u64));
        if after.files > before.files {
            within(self.max_files, after.files, "files", subject)?;
        }
        if after.directories > before.directories {
            within(directories, after.directories, "directories", subject)?;
        }
        if after.bytes > before.bytes {
            within(self.max_total_bytes, after.bytes, "bytes in all", subject)?;
        }
        Ok(())
    }
}

fn within(
    limit: Option<u64>,
    used: u64,
    what: &'static str,
    subject: impl Fn() -> String,
) -> Result<()> {
    match limit {
        Some(limit) if used > limit => Err(AgentLoopError::QuotaExceeded(QuotaExceeded {
            what,
            limit,
            subject: subject(),
        })),
        _ => Ok(()),
    }
}
