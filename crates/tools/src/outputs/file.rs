//! One output while it is written.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use windlass_core::traits::SecretPlaces;
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;
use windlass_process::OutputSink;

use super::{OpenOutputFile, Outputs, output_path};
use crate::secrets;
use windlass_core::lock::lock;

/// Retained size of the end of an output that exceeds its file's limit.
pub(super) const MAX_END_BYTES: usize = 64 * 1024;

/// One output of a session. Clones share it: the task that runs the command reads its progress, and the thread that reads from the command writes.
///
/// The file is never cut inside a secret. Bytes that may be the beginning of one are held back. The gap between the beginning and the end of a long
/// output includes the partial secrets on both sides.
#[derive(Debug, Clone)]
pub(crate) struct StoredOutput {
    outputs: Outputs,
    session_id: SessionId,
    id: String,
    places: OutputSecrets,
    /// Locked before `state`, and only by the writer, so that a slow disk does not block readers.
    file: Arc<Mutex<Option<OpenOutputFile>>>,
    state: Arc<Mutex<State>>,
    /// Number of bytes received, for tasks that wait for more.
    received: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of bytes in the file.
    stored: u64,
    /// Number of bytes received.
    total: u64,
    /// Whether the file takes no more bytes: it or the store is full, or a write failed.
    is_full: bool,
    /// The bytes after those in the file; once the file is full, the last of them.
    end: VecDeque<u8>,
    has_ended: bool,
}

/// The secrets of the session, for masking.
#[derive(OpaqueDebug, Clone)]
struct OutputSecrets(Option<Arc<dyn SecretPlaces>>);

/// The current extent of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputExtent {
    /// Number of bytes received.
    pub(crate) total: u64,
    /// Length of the prefix that is in the file.
    pub(crate) stored: u64,
    /// The last bytes of the remainder, unless they are in the file too.
    pub(crate) end: Vec<u8>,
}

impl StoredOutput {
    pub(super) fn new(
        outputs: Outputs,
        session_id: SessionId,
        id: String,
        places: Option<Arc<dyn SecretPlaces>>,
    ) -> Self {
        Self {
            outputs,
            session_id,
            id,
            places: OutputSecrets(places),
            file: Arc::default(),
            state: Arc::default(),
            received: Arc::default(),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    pub(crate) fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Creates the file before the first write, for concurrent readers.
    pub(crate) fn create_file(&self) -> std::io::Result<()> {
        let file = self.outputs.create_file(self.session_id, &self.id)?;
        *lock(&self.file) = Some(file);
        Ok(())
    }

    pub(crate) fn extent(&self) -> OutputExtent {
        let state = lock(&self.state);
        OutputExtent {
            total: state.total,
            stored: state.stored,
            end: state.end.iter().copied().collect(),
        }
    }

    /// Returns the number of bytes received.
    pub(crate) fn received(&self) -> u64 {
        *self.received.borrow()
    }

    /// Waits until more than `bytes` bytes were received.
    pub(crate) async fn received_more_than(&self, bytes: u64) {
        // `self` owns the sender, so the channel cannot be closed.
        let _ = self
            .received
            .subscribe()
            .wait_for(|received| *received > bytes)
            .await;
    }

    /// Returns a remark with the ID of the stored output, if anything is stored.
    pub(crate) fn remark(&self) -> Option<String> {
        let state = lock(&self.state);
        (state.stored > 0).then(|| remark(&self.id, state.stored, state.total))
    }

    /// Appends bytes to the file while they fit, and else to the retained end.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let mut file = lock(&self.file);
        let (stored, is_full, held) = {
            let state = lock(&self.state);
            let is_full = state.is_full || state.has_ended;
            let mut held = Vec::new();
            if !is_full {
                held.extend(&state.end);
            }
            (state.stored, is_full, held)
        };
        if file.is_none() && !is_full {
            *file = self.outputs.create_file(self.session_id, &self.id).ok();
        }
        let received = if held.is_empty() {
            Cow::Borrowed(bytes)
        } else {
            Cow::Owned([&held, bytes].concat())
        };
        let (fits, exceeds_limit) = self.fitting_bytes(&received, stored);
        let is_written = !is_full
            && file.as_mut().is_some_and(|open_file| {
                fits == 0
                    || (self.outputs.reserve(fits as u64)
                        && open_file.file.write_all(&received[..fits]).is_ok())
            });
        let written = if is_written { fits } else { 0 };
        let mut state = lock(&self.state);
        state.total += bytes.len() as u64;
        state.stored += written as u64;
        if !is_full {
            state.end.clear();
        }
        state.end.extend(&received[written..]);
        state.is_full = is_full || !is_written || exceeds_limit;
        if state.is_full {
            let over = state.end.len().saturating_sub(MAX_END_BYTES);
            state.end.drain(..over);
        }
        self.received.send_replace(state.total);
    }

    /// Returns how many bytes of `received` fit into a file of `stored` bytes, and whether it is full then.
    fn fitting_bytes(&self, received: &[u8], stored: u64) -> (usize, bool) {
        let limit = self.outputs.shared.limits.bytes_each;
        let left = usize::try_from(limit.saturating_sub(stored)).unwrap_or(usize::MAX);
        let Some(places) = self.places.0.as_deref() else {
            return (received.len().min(left), received.len() > left);
        };
        let settled = secrets::settled(places, received);
        if settled > left {
            (secrets::outside_before(places, received, left), true)
        } else {
            (settled, false)
        }
    }

    /// Marks the output as complete and appends the retained end to the file.
    pub(crate) fn end(&self) {
        let mut file = lock(&self.file);
        let (mut end, left_out) = {
            let mut state = lock(&self.state);
            if std::mem::replace(&mut state.has_ended, true) {
                return;
            }
            let end = Vec::from_iter(state.end.iter().copied());
            let left_out = state.total - state.stored - end.len() as u64;
            (end, left_out)
        };
        let mut last = Vec::new();
        if left_out > 0 {
            let places = self.places.0.as_deref();
            let partial = places.map_or(0, |places| secrets::partial_prefix(places, &end));
            end.drain(..partial);
            let left_out = left_out + partial as u64;
            last = format!("\n[… {left_out} bytes left out …]\n").into_bytes();
        }
        let is_whole = left_out == 0;
        last.extend_from_slice(&end);
        let is_written = match file.take() {
            Some(mut open_file) if !end.is_empty() => {
                self.outputs.reserve(last.len() as u64) && open_file.file.write_all(&last).is_ok()
            }
            _ => false,
        };
        let mut state = lock(&self.state);
        if is_whole && is_written {
            state.stored = state.total;
        }
        state.end.clear();
    }
}

fn remark(id: &str, stored: u64, total: u64) -> String {
    let path = output_path(id);
    if stored >= total {
        format!("the complete output is at `{path}`: read it with `read` or `grep`")
    } else {
        format!(
            "its first {stored} bytes and its end are at `{path}`: read it with `read` or `grep`"
        )
    }
}

/// Writes a program's output to a stored output, which ends when this is dropped.
pub(crate) struct StoredOutputSink(pub(crate) StoredOutput);

impl OutputSink for StoredOutputSink {
    fn take(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
}

impl Drop for StoredOutputSink {
    fn drop(&mut self) {
        self.0.end();
    }
}
