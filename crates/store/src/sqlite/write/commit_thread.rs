//! The thread that writes groups.
//!
//! A sync to disk costs the same for one append as for a hundred. So the thread commits all waiting jobs together and syncs once; later jobs form the
//! next group. Longer work also runs here, after the replies of the group.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::committer::Committer;
use super::writer::{Writer, WriterMessage};

/// How many jobs may wait; a caller with another one waits for capacity.
const QUEUE: usize = 1024;
/// How many jobs go into one commit at most.
const MAX_GROUP: usize = 512;

/// The shared slot of the committer; empty when the store is closed.
pub(crate) struct CommitterSlot {
    committer: Mutex<Option<Committer>>,
    /// Whether the thread waits for it; the thread has priority.
    is_wanted: AtomicBool,
}

impl CommitterSlot {
    fn new(committer: Committer) -> Self {
        Self {
            committer: Mutex::new(Some(committer)),
            is_wanted: AtomicBool::new(false),
        }
    }

    /// Waits for the committer. If its previous owner panicked, half of a job may be left behind, so writing stops.
    fn take(&self) -> MutexGuard<'_, Option<Committer>> {
        self.is_wanted.store(true, Ordering::Relaxed);
        let committer = self.committer.lock().unwrap_or_else(|poisoned| {
            let committer = PoisonError::into_inner(poisoned);
            if let Some(committer) = committer.as_ref() {
                committer.give_up("a commit was broken off by a panic; open the store anew");
            }
            committer
        });
        self.is_wanted.store(false, Ordering::Relaxed);
        committer
    }

    /// Returns the committer if it is free and no thread waits for it.
    pub(crate) fn try_take(&self) -> Option<MutexGuard<'_, Option<Committer>>> {
        if self.is_wanted.load(Ordering::Relaxed) {
            None
        } else {
            self.committer.try_lock().ok()
        }
    }
}

/// Starts the thread.
pub(crate) fn start(committer: Committer) -> io::Result<Writer> {
    let (messages, queue) = mpsc::channel(QUEUE);
    let commits = committer.show_commits();
    let committer_slot = Arc::new(CommitterSlot::new(committer));
    let writer = Writer::new(messages, commits, Arc::clone(&committer_slot));
    std::thread::Builder::new()
        .name("windlass-sqlite".to_owned())
        .spawn(move || run(&committer_slot, queue))?;
    Ok(writer)
}

fn run(committer_slot: &CommitterSlot, mut queue: mpsc::Receiver<WriterMessage>) {
    let mut closing = None;
    // A job that needs a commit of its own and arrived after others.
    let mut left = None;
    while closing.is_none() {
        let Some(first) = left.take().or_else(|| queue.blocking_recv()) else {
            break;
        };
        let mut committer = committer_slot.take();
        let mut group = Vec::new();
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                WriterMessage::Do(job) if job.is_alone() => {
                    if group.is_empty() {
                        group.push(job)
                    } else {
                        left = Some(WriterMessage::Do(job))
                    }
                    break;
                }
                WriterMessage::Do(job) => group.push(job),
                WriterMessage::Close(done) => {
                    closing = Some(done);
                    break;
                }
            }
            next = (group.len() < MAX_GROUP)
                .then(|| queue.try_recv().ok())
                .flatten();
        }
        if let Some(committer) = committer.as_mut() {
            committer.commit(group);
            committer.tidy_up();
        }
    }
    // Waiting jobs fail now, so that they do not delay the shutdown.
    drop(queue);
    let committer = committer_slot.take().take();
    if let Some(committer) = committer {
        committer.finish();
    }
    if let Some(done) = closing {
        let _ = done.send(());
    }
}
