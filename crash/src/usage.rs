//! The resource usage of the process at a moment.

use std::path::Path;

/// Resource usage of the process; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// The resident set; 0 if the system does not report it.
    pub resident: u64,
    /// The write-ahead log.
    pub log: u64,
    /// All other files of the store.
    pub disk: u64,
    /// Open file descriptors; 0 if the system does not report them.
    pub descriptors: u64,
}

impl Usage {
    pub(crate) fn now(directory: &Path) -> Self {
        let mut usage = Self {
            resident: resident(),
            descriptors: std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64),
            ..Self::default()
        };
        let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
        for file in files {
            let bytes = file.metadata().map_or(0, |file| file.len());
            if file.file_name().to_string_lossy().ends_with("-wal") {
                usage.log = bytes
            } else {
                usage.disk += bytes
            }
        }
        usage
    }

    /// Returns the maximum of each metric.
    #[must_use]
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            resident: self.resident.max(other.resident),
            log: self.log.max(other.log),
            disk: self.disk.max(other.disk),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
