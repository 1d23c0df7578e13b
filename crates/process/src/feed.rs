//! What a program reads. A thread writes it, so that a program that reads nothing keeps nobody waiting.

use std::collections::VecDeque;
use std::io::{PipeWriter, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::sync::Notify;

use crate::error::ProcessError;
use crate::supervise::spawn_thread;

/// How many bytes may wait for a program to read them.
const MAX_WAITING_BYTES: usize = 1024 * 1024;
/// How often a writer that cannot write sees whether it still should.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Why a program was not given something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// Its input is closed: by us, by itself, or because it has ended.
    #[error("the program's input is closed")]
    Closed,
    /// It does not read, and as much waits for it as may.
    #[error(
        "the program does not read its input, and {MAX_WAITING_BYTES} bytes wait for it already"
    )]
    Full,
}

/// The input of a program. When it is dropped, what waits is still written, and then the input is closed.
pub struct Feed {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the thread that writes.
    fed: Condvar,
    /// Wakes those who wait for room.
    room: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// Nothing more comes; what waits is written.
    is_finished: bool,
    /// Nothing more is written.
    is_closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.waiting.clear();
        state.waiting_bytes = 0;
        drop(state);
        self.fed.notify_all();
        self.room.notify_waiters();
    }

    /// Waits for something to write; `None` when nothing more is to be written.
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
            state = self.fed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wrote(&self, bytes: usize) {
        let mut state = self.lock();
        state.waiting_bytes = state.waiting_bytes.saturating_sub(bytes);
        drop(state);
        self.room.notify_waiters();
    }
}

impl Feed {
    /// Returns whether fewer bytes wait than may. A closed input has room: nothing waits for it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.shared.lock().waiting_bytes < MAX_WAITING_BYTES
    }

    /// Waits until [`has_room`](Self::has_room).
    pub async fn room(&self) {
        loop {
            let room = self.shared.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }

    /// Hands over bytes of any number, also beyond the limit. The caller bounds them by [`has_room`](Self::has_room).
    pub fn push(&self, bytes: Vec<u8>) -> Result<(), FeedError> {
        self.hand_over(self.shared.lock(), bytes)
    }

    /// Hands over bytes if there is room for them. A first piece of any size has room.
    pub fn try_send(&self, bytes: &[u8]) -> Result<(), FeedError> {
        let state = self.shared.lock();
        let is_open = !state.is_closed && !state.is_finished;
        let has_room =
            state.waiting_bytes == 0 || state.waiting_bytes + bytes.len() <= MAX_WAITING_BYTES;
        if is_open && !has_room {
            return Err(FeedError::Full);
        }
        self.hand_over(state, bytes.to_vec())
    }

    fn hand_over(&self, mut state: MutexGuard<'_, State>, bytes: Vec<u8>) -> Result<(), FeedError> {
        if state.is_closed || state.is_finished {
            return Err(FeedError::Closed);
        }
        state.waiting_bytes += bytes.len();
        state.waiting.push_back(bytes);
        drop(state);
        self.shared.fed.notify_all();
        Ok(())
    }

    /// Hands over bytes when there is room for them. They are written later: that it returns says nothing of the program.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), FeedError> {
        loop {
            let room = self.shared.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            match self.try_send(bytes) {
                Err(FeedError::Full) => room.await,
                done => return done,
            }
        }
    }

    /// Closes the input when all that waits is written.
    pub fn finish(&self) {
        self.shared.lock().is_finished = true;
        self.shared.fed.notify_all();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Closes an input from the side of who looks after the program.
pub(crate) struct Closer(Arc<Shared>);

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

/// Starts the thread that writes.
pub(crate) fn start(writer: PipeWriter) -> Result<(Feed, Closer), ProcessError> {
    let flags = fcntl_getfl(&writer).and_then(|old| fcntl_setfl(&writer, old | OFlags::NONBLOCK));
    flags.map_err(|error| ProcessError::io("prepare a pipe")(error.into()))?;
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        fed: Condvar::new(),
        room: Notify::new(),
    });
    let own = Arc::clone(&shared);
    spawn_thread("windlass-feed", move || {
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
        Feed {
            shared: Arc::clone(&shared),
        },
        Closer(shared),
    ))
}

/// Writes as the program reads; gives up when the input is closed, from either end.
fn write_all(shared: &Shared, writer: &mut PipeWriter, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match writer.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if shared.lock().is_closed {
                    return false;
                }
                let pause = Timespec::try_from(LOOK_PAUSE).ok();
                let _ = poll(&mut [PollFd::new(&*writer, PollFlags::OUT)], pause.as_ref());
            }
            Err(_) => return false,
        }
    }
    true
}
