//! The record of a command, stored next to its output, so that a later process can report how it ended.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_core::bounds::shortened;
use windlass_core::typed_id::SessionId;

use super::{Outputs, RECORD, files_of_session, is_id};

const VERSION: u32 = 1;
/// Maximum size of a record in bytes.
const MAX_BYTES: u64 = 16 * 1024;
/// Maximum number of characters recorded of network refusals; with any escaping they fit into a record.
const MAX_NETWORK_CHARS: usize = 2_000;

/// How a background command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(crate) enum CommandEnd {
    /// The command exited on its own.
    Exited {
        exit_code: Option<i32>,
        signal: Option<i32>,
    },
    /// It was stopped by a call or by the host.
    Stopped,
    /// Its time limit expired.
    TimedOut,
    /// Unknown: it ended with the process that supervised it, or could not be supervised.
    Unknown,
}

/// The record of a command. The command line is not included: it is recorded with the call, where secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandRecord {
    version: u32,
    /// Start time in seconds since 1970.
    pub(crate) started: u64,
    /// `None` while the command runs, and permanently if the process died meanwhile.
    pub(crate) end: Option<CommandEnd>,
    /// A remark for the model about the command's network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<String>,
}

impl CommandRecord {
    pub(crate) fn new() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            version: VERSION,
            started: since.map_or(0, |since| since.as_secs()),
            end: None,
            network: None,
        }
    }

    /// Sets the end of the command and the remark about its network.
    pub(crate) fn set_end(&mut self, end: CommandEnd, network: Option<String>) {
        self.end = Some(end);
        self.network = network.map(|network| shortened(&network, MAX_NETWORK_CHARS));
    }
}

impl Outputs {
    /// Writes the record of a command whose output was begun. A record that was removed with its session is not created again.
    pub(crate) fn write_record(
        &self,
        session_id: SessionId,
        id: &str,
        record: &CommandRecord,
    ) -> io::Result<()> {
        use std::io::Write;

        let path = record_path(&self.path_of(session_id, id));
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.persist(path)?;
        Ok(())
    }

    /// Reads the record of a command; `None` if there is none. An unreadable record has an unknown end.
    pub(crate) fn record(&self, session_id: SessionId, id: &str) -> Option<CommandRecord> {
        use std::io::Read;

        if !is_id(id) {
            return None;
        }
        let file = std::fs::File::open(record_path(&self.path_of(session_id, id))).ok()?;
        let mut text = String::new();
        let read = file.take(MAX_BYTES).read_to_string(&mut text);
        let record = read.ok().and_then(|_| serde_json::from_str(&text).ok());
        let valid = record.filter(|record: &CommandRecord| record.version == VERSION);
        Some(valid.unwrap_or(CommandRecord {
            version: VERSION,
            started: 0,
            end: Some(CommandEnd::Unknown),
            network: None,
        }))
    }

    /// Lists the recorded commands of a session by start time.
    pub(crate) fn records(
        &self,
        session_id: SessionId,
    ) -> io::Result<Vec<(String, CommandRecord)>> {
        let stored = files_of_session(&self.directory_of(session_id))?;
        let names = stored
            .iter()
            .filter_map(|stored| stored.path.file_name()?.to_str());
        let ids = names.filter_map(|name| name.strip_suffix(RECORD));
        let mut records: Vec<_> = ids
            .filter_map(|id| Some((id.to_owned(), self.record(session_id, id)?)))
            .collect();
        records.sort_by(|a, b| (a.1.started, &a.0).cmp(&(b.1.started, &b.0)));
        Ok(records)
    }

    /// Removes the output and record of a command that did not start.
    pub(crate) fn forget_one(&self, session_id: SessionId, id: &str) {
        let path = self.path_of(session_id, id);
        let _ = std::fs::remove_file(record_path(&path));
        let _ = std::fs::remove_file(&path);
    }
}

/// Returns the path of an output's record.
pub(super) fn record_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(RECORD);
    PathBuf::from(name)
}
