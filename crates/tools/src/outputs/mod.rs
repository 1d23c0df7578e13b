//! Complete outputs that are too long to show, stored in a directory of the host by session.
//!
//! A model refers to one as `output:` followed by its ID, and reads it with `read` and `grep`; commands do not see it. An output belongs to its
//! session, survives a restart and is deleted with the session. Each output and the whole store are limited in size.

mod file;
mod record;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use cap_std::fs::File;
use windlass_core::bounds::shortened;
#[cfg(feature = "mcp")]
use windlass_core::bounds::{prefix, suffix};
use windlass_core::traits::SecretPlaces;
use windlass_core::typed_id::SessionId;

pub(crate) use file::{OutputExtent, StoredOutput, StoredOutputSink};
pub(crate) use record::{CommandEnd, CommandRecord};

use crate::workspace::{FileError, OpenFile};
use windlass_core::lock::lock;
use windlass_macros::Defaults;

/// Prefix of an ID in a model's path.
const PREFIX: &str = "output:";
/// Length of an ID in hexadecimal digits.
const ID_CHARS: usize = 12;
/// Extension of a record.
const RECORD: &str = ".json";

/// Limits of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Defaults)]
pub struct OutputLimits {
    /// Maximum size of one output in bytes. Of a longer one, this prefix and the end are stored.
    #[default(16 * 1024 * 1024)]
    pub bytes_each: u64,
    /// Maximum size of all outputs in bytes; the oldest are removed first.
    #[default(1024 * 1024 * 1024)]
    pub bytes_all: u64,
    /// Maximum number of outputs of one session; the oldest are removed first.
    #[default(200)]
    pub of_session: usize,
}

/// The store of outputs that are too long to show. A cheap handle.
#[derive(Debug, Clone)]
pub struct Outputs {
    shared: Arc<OutputStore>,
}

#[derive(Debug)]
struct OutputStore {
    directory: PathBuf,
    limits: OutputLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Total size of all files in bytes.
    bytes: u64,
    /// Files that are being written and therefore not removed.
    written: BTreeSet<PathBuf>,
}

/// A file of the store.
struct StoredFile {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

impl Outputs {
    /// Opens a store and creates its directory if missing. It must be hidden from tools, see [`Environments::hide`](crate::Environments::hide).
    pub fn open(directory: impl Into<PathBuf>, limits: OutputLimits) -> io::Result<Self> {
        let directory = directory.into();
        create_private(&directory)?;
        let stored = all_files(&directory)?;
        let state = State {
            bytes: stored.iter().map(|stored| stored.bytes).sum(),
            written: BTreeSet::new(),
        };
        Ok(Self {
            shared: Arc::new(OutputStore {
                directory,
                limits,
                state: Mutex::new(state),
            }),
        })
    }

    /// Removes all outputs of a session.
    pub fn forget(&self, session_id: SessionId) -> io::Result<()> {
        let directory = self.directory_of(session_id);
        let bytes = files_of_session(&directory)?
            .iter()
            .map(|it| it.bytes)
            .sum();
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut state = lock(&self.shared.state);
        state.bytes = state.bytes.saturating_sub(bytes);
        Ok(())
    }

    /// Begins an output of a session. Its file is created with its first byte.
    pub(crate) fn begin(
        &self,
        session_id: SessionId,
        places: Option<Arc<dyn SecretPlaces>>,
    ) -> StoredOutput {
        // The end of a UUIDv7 is random, its beginning is the time.
        let id = uuid::Uuid::now_v7().simple().to_string();
        let id = id[id.len() - ID_CHARS..].to_owned();
        StoredOutput::new(self.clone(), session_id, id, places)
    }

    /// Stores a text that is too long to show. Returns its beginning, its end and a reference to the stored text.
    #[cfg(feature = "mcp")]
    pub(crate) fn shortened(
        &self,
        session_id: SessionId,
        text: String,
        max_bytes: usize,
    ) -> String {
        if text.len() <= max_bytes {
            return text;
        }
        let output = self.begin(session_id, None);
        output.write(text.as_bytes());
        output.end();
        let remark = output.remark().unwrap_or_default();
        let (head, tail) = (prefix(&text, max_bytes / 2), suffix(&text, max_bytes / 2));
        let all = text.len();
        let left_out = all - head.len() - tail.len();
        format!("{head}\n[… {left_out} of {all} bytes left out; {remark} …]\n{tail}")
    }

    fn directory_of(&self, session_id: SessionId) -> PathBuf {
        let name = session_id.uuid().simple().to_string();
        self.shared.directory.join(name)
    }

    fn path_of(&self, session_id: SessionId, id: &str) -> PathBuf {
        self.directory_of(session_id).join(id)
    }

    /// Creates the file of an output and removes old outputs of the session if it has too many.
    fn create_file(&self, session_id: SessionId, id: &str) -> io::Result<OpenOutputFile> {
        use std::os::unix::fs::OpenOptionsExt;

        let directory = self.directory_of(session_id);
        create_private(&directory)?;
        let mut state = lock(&self.shared.state);
        let earlier = files_of_session(&directory)?;
        let outputs = earlier.iter().filter(|stored| !stored.is_record());
        let over = (outputs.count() + 1).saturating_sub(self.shared.limits.of_session);
        remove_oldest(&mut state, earlier, |removed, _| removed >= over);
        let path = directory.join(id);
        let mut options = fs::OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        let file = options.open(&path)?;
        state.written.insert(path.clone());
        let outputs = self.clone();
        Ok(OpenOutputFile {
            file,
            outputs,
            path,
        })
    }

    /// Returns whether `more` bytes may be written, after removing older outputs if necessary.
    fn reserve(&self, more: u64) -> bool {
        let mut state = lock(&self.shared.state);
        let limit = self.shared.limits.bytes_all;
        if state.bytes.saturating_add(more) > limit {
            let Ok(stored) = all_files(&self.shared.directory) else {
                return false;
            };
            state.bytes = stored.iter().map(|stored| stored.bytes).sum();
            // Frees more than needed, so that not every write scans all files.
            let target = (limit - limit / 8).saturating_sub(more);
            remove_oldest(&mut state, stored, |_, bytes| bytes <= target);
        }
        let reserve = state.bytes.saturating_add(more) <= limit;
        if reserve {
            state.bytes += more;
        }
        reserve
    }
}

/// A file that is being written. It is not removed until this is dropped.
#[derive(Debug)]
struct OpenOutputFile {
    file: fs::File,
    outputs: Outputs,
    path: PathBuf,
}

impl Drop for OpenOutputFile {
    fn drop(&mut self) {
        lock(&self.outputs.shared.state).written.remove(&self.path);
    }
}

impl StoredFile {
    fn is_record(&self) -> bool {
        self.path.to_string_lossy().ends_with(RECORD)
    }
}

/// The outputs of one session, for reading.
#[derive(Debug, Clone)]
pub(crate) struct SessionOutputs {
    pub(crate) outputs: Outputs,
    pub(crate) session_id: SessionId,
}

impl SessionOutputs {
    /// Opens the output that a path refers to; `None` if the path is not a reference to one.
    pub(crate) fn find(of: Option<&Self>, path: &str) -> Option<Result<OpenFile, FileError>> {
        let id = path.strip_prefix(PREFIX)?;
        let opened = of.and_then(|of| of.open(id));
        Some(opened.ok_or_else(|| FileError::NoSuchOutput {
            path: shortened(path, 100),
        }))
    }

    fn open(&self, id: &str) -> Option<OpenFile> {
        if !is_id(id) {
            return None;
        }
        let path = self.outputs.path_of(self.session_id, id);
        let file = File::from_std(fs::File::open(path).ok()?);
        let metadata = file.metadata().ok()?;
        metadata.is_file().then_some(OpenFile { file, metadata })
    }

    /// Returns the maximum size of an output in bytes.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.outputs.shared.limits.bytes_each + file::MAX_END_BYTES as u64 * 2
    }
}

/// Returns the reference to an output for the model.
pub(crate) fn output_path(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Returns whether a text has the form of an ID, so that it can name no other file.
pub(crate) fn is_id(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == ID_CHARS && text.bytes().all(is_digit)
}

fn create_private(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

fn all_files(directory: &Path) -> io::Result<Vec<StoredFile>> {
    let mut found = Vec::new();
    for session in fs::read_dir(directory)? {
        let session = session?;
        if session.file_type()?.is_dir() {
            found.extend(files_of_session(&session.path())?);
        }
    }
    Ok(found)
}

/// Lists the files of a session; empty if it has none.
fn files_of_session(directory: &Path) -> io::Result<Vec<StoredFile>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Files that disappear meanwhile are skipped.
        if let Ok(metadata) = entry.metadata() {
            found.push(StoredFile {
                path: entry.path(),
                bytes: metadata.len(),
                modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            });
        }
    }
    Ok(found)
}

/// Removes outputs with their records, oldest first, until the condition on the number removed and the bytes left is met.
fn remove_oldest(
    state: &mut State,
    mut stored: Vec<StoredFile>,
    is_enough: impl Fn(usize, u64) -> bool,
) {
    stored.sort_by_key(|stored| stored.modified);
    let mut removed = 0;
    for StoredFile { path, bytes, .. } in stored.iter().filter(|stored| !stored.is_record()) {
        if is_enough(removed, state.bytes) {
            return;
        }
        if state.written.contains(path) || fs::remove_file(path).is_err() {
            continue;
        }
        let _ = fs::remove_file(record::record_path(path));
        state.bytes = state.bytes.saturating_sub(*bytes);
        removed += 1;
    }
}
