//! One output while it is written.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::typed_id::SessionId;
use windlass_process::WholeOutput;

use super::{Outputs, Writing, shown};

/// How much of the end is kept of an output that is longer than its file may be.
pub(super) const MAX_END_BYTES: usize = 64 * 1024;

/// One output of a session. All clones are the same one: who runs the command looks at it, and who reads from the command writes.
#[derive(Debug, Clone)]
pub(crate) struct KeptOutput {
    outputs: Outputs,
    session_id: SessionId,
    id: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<Writing>,
    /// How many bytes are in the file.
    stored: u64,
    /// How many bytes came.
    total: u64,
    /// Whether the file takes no more: it is full, the store is, or it could not be written.
    is_full: bool,
    /// The last bytes of those that came since.
    end: VecDeque<u8>,
    has_ended: bool,
}

/// How much of an output there is by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptSoFar {
    /// How many bytes came.
    pub(crate) total: u64,
    /// How many of them are in the file, from the first on.
    pub(crate) stored: u64,
    /// The last of the others, as long as they are not in the file too.
    pub(crate) end: Vec<u8>,
}

impl KeptOutput {
    pub(super) fn new(outputs: Outputs, session_id: SessionId, id: String) -> Self {
        Self {
            outputs,
            session_id,
            id,
            state: Arc::default(),
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

    /// Makes the file before anything was written, for who reads while it is.
    pub(crate) fn make(&self) -> std::io::Result<()> {
        let file = self.outputs.make(self.session_id, &self.id)?;
        self.lock().file = Some(file);
        Ok(())
    }

    pub(crate) fn so_far(&self) -> KeptSoFar {
        let state = self.lock();
        KeptSoFar {
            total: state.total,
            stored: state.stored,
            end: state.end.iter().copied().collect(),
        }
    }

    /// Says where the whole is, if it is anywhere.
    pub(crate) fn remark(&self) -> Option<String> {
        let state = self.lock();
        (state.stored > 0).then(|| remark(&self.id, state.stored, state.total))
    }

    /// Takes what comes.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if state.file.is_none() && !state.is_full && !state.has_ended {
            state.file = self.outputs.make(self.session_id, &self.id).ok();
            state.is_full = state.file.is_none();
        }
        state.total += bytes.len() as u64;
        let limit = self.outputs.shared.limits.bytes_each;
        let room = usize::try_from(limit - state.stored).unwrap_or(usize::MAX);
        let (fits, over) = bytes.split_at(bytes.len().min(room));
        let mut left = over;
        if !state.is_full && !fits.is_empty() {
            let is_written = self.outputs.has_room(fits.len() as u64)
                && state
                    .file
                    .as_mut()
                    .is_some_and(|writing| writing.file.write_all(fits).is_ok());
            match is_written {
                true => state.stored += fits.len() as u64,
                false => left = bytes,
            }
        } else if state.is_full {
            left = bytes;
        }
        if !left.is_empty() {
            state.is_full = true;
            state.end.extend(left);
            let over = state.end.len().saturating_sub(MAX_END_BYTES);
            state.end.drain(..over);
        }
    }

    /// Says that nothing more comes: the end of what did not fit goes behind what did.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.has_ended, true) {
            return;
        }
        let end = std::mem::take(&mut state.end);
        if let Some(mut writing) = state.file.take() {
            let left_out = state.total - state.stored - end.len() as u64;
            if !end.is_empty() {
                let mut last = match left_out {
                    0 => Vec::new(),
                    _ => format!("\n[… {left_out} bytes left out …]\n").into_bytes(),
                };
                last.extend(end);
                let _ = self.outputs.has_room(last.len() as u64)
                    && writing.file.write_all(&last).is_ok();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remark(id: &str, stored: u64, total: u64) -> String {
    let path = shown(id);
    match stored < total {
        false => format!("the whole is at `{path}`: look into it with `read` or `grep`"),
        true => format!(
            "its first {stored} bytes and its end are at `{path}`: look into it with `read` or `grep`"
        ),
    }
}

/// Hands what a program says over to an output, which ends when this is dropped.
pub(crate) struct Taker(pub(crate) KeptOutput);

impl WholeOutput for Taker {
    fn take(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.0.end();
    }
}
