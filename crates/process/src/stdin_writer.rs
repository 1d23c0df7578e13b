//! The input of a program. A thread writes it, so that a program that does not read blocks no caller.

use std::collections::VecDeque;
use std::io::{PipeWriter, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::sync::Notify;

use crate::error::ProcessError;
use crate::supervise::spawn_thread;

/// Maximum number of bytes that wait for the program to read them.
const MAX_WAITING_BYTES: usize = 1024 * 1024;
/// How often a blocked writer checks whether it should stop.
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Why bytes could not be sent to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StdinError {
    /// The input is closed, by the host, by the program, or because the program has ended.
    #[error("the program's input is closed")]
    Closed,
    /// The program does not read, and the buffer is full.
    #[error(
        "the program does not read its input, and {MAX_WAITING_BYTES} bytes are already queued"
    )]
    Full,
}

/// The input of a program. Dropping it writes the buffered bytes and then closes the input.
pub struct StdinWriter {
    queue: Arc<StdinQueue>,
}

struct StdinQueue {
    state: Mutex<State>,
    /// Wakes the thread that writes.
    data_ready: Condvar,
    /// Wakes callers that wait for free space.
    room: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// No more bytes are accepted; buffered bytes are still written.
    is_finished: bool,
    /// Nothing more is written.
    is_closed: bool,
}

impl StdinQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.waiting.clear();
        state.waiting_bytes = 0;
        drop(state);
        self.data_ready.notify_all();
        self.room.notify_waiters();
    }

    /// Waits for bytes to write; `None` at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(bytes) = state.waiting.pop_front() {
                return Some(bytes);
            }
            if state.is_finished {
                return None;
            }
            state = self
                .data_ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wrote(&self, bytes: usize) {
        let mut state = self.lock();
        state.waiting_bytes = state.waiting_bytes.saturating_sub(bytes);
        drop(state);
        self.room.notify_waiters();
    }
}

impl StdinWriter {
    /// Returns whether the buffer is below its limit. Always true for a closed input.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.queue.lock().waiting_bytes < MAX_WAITING_BYTES
    }

    /// Waits until [`has_room`](Self::has_room).
    pub async fn room(&self) {
        loop {
            let room = self.queue.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }

    /// Queues any number of bytes, even beyond the limit. The caller limits them with [`has_room`](Self::has_room).
    pub fn push(&self, bytes: Vec<u8>) -> Result<(), StdinError> {
        self.enqueue(self.queue.lock(), bytes)
    }

    /// Queues bytes if they fit. Into an empty buffer any number fits.
    pub fn try_send(&self, bytes: &[u8]) -> Result<(), StdinError> {
        let state = self.queue.lock();
        let is_open = !state.is_closed && !state.is_finished;
        let has_room =
            state.waiting_bytes == 0 || state.waiting_bytes + bytes.len() <= MAX_WAITING_BYTES;
        if is_open && !has_room {
            return Err(StdinError::Full);
        }
        self.enqueue(state, bytes.to_vec())
    }

    fn enqueue(&self, mut state: MutexGuard<'_, State>, bytes: Vec<u8>) -> Result<(), StdinError> {
        if state.is_closed || state.is_finished {
            return Err(StdinError::Closed);
        }
        state.waiting_bytes += bytes.len();
        state.waiting.push_back(bytes);
        drop(state);
        self.queue.data_ready.notify_all();
        Ok(())
    }

    /// Waits until the bytes fit and queues them. They are written later, so success does not mean that the program received them.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), StdinError> {
        loop {
            let room = self.queue.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            match self.try_send(bytes) {
                Err(StdinError::Full) => room.await,
                done => return done,
            }
        }
    }

    /// Closes the input after all queued bytes are written.
    pub fn finish(&self) {
        self.queue.lock().is_finished = true;
        self.queue.data_ready.notify_all();
    }
}

impl Drop for StdinWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Closes an input on behalf of the supervisor.
pub(crate) struct Closer(Arc<StdinQueue>);

impl Closer {
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Starts the writing thread.
pub(crate) fn start(writer: PipeWriter) -> Result<(StdinWriter, Closer), ProcessError> {
    let flags = fcntl_getfl(&writer).and_then(|old| fcntl_setfl(&writer, old | OFlags::NONBLOCK));
    flags.map_err(|error| ProcessError::io("prepare a pipe")(error.into()))?;
    let queue = Arc::new(StdinQueue {
        state: Mutex::default(),
        data_ready: Condvar::new(),
        room: Notify::new(),
    });
    let own = Arc::clone(&queue);
    spawn_thread("windlass-stdin", move || {
        let mut writer = writer;
        while let Some(bytes) = own.next() {
            if !write_all(&own, &mut writer, &bytes) {
                break;
            }
            own.wrote(bytes.len());
        }
        own.close();
    })?;
    Ok((
        StdinWriter {
            queue: Arc::clone(&queue),
        },
        Closer(queue),
    ))
}

/// Writes at the pace of the program; stops when either end closes the input.
fn write_all(queue: &StdinQueue, writer: &mut PipeWriter, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match writer.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if queue.lock().is_closed {
                    return false;
                }
                let pause = Timespec::try_from(CLOSE_CHECK_INTERVAL).ok();
                let _ = poll(&mut [PollFd::new(&*writer, PollFlags::OUT)], pause.as_ref());
            }
            Err(_) => return false,
        }
    }
    true
}
