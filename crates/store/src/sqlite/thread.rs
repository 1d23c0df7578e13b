//! The thread that writes groups.
//!
//! A sync to disk costs the same for one append as for a hundred. So the thread takes all jobs that wait, makes one commit
//! of them and syncs once; what arrives meanwhile forms the next group. What takes longer is done here too, once those
//! who wait have their answers.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::pen::Pen;
use super::writer::{Order, Writer};

/// How many jobs may wait; whoever brings another waits for room.
const QUEUE: usize = 1024;
/// How many jobs go into one commit at most.
const MAX_GROUP: usize = 512;

/// Where a writer finds the pen; it is gone when the store is closed.
pub(crate) struct Stand {
    pen: Mutex<Option<Pen>>,
    /// Whether the thread waits for it, and goes before all others.
    is_wanted: AtomicBool,
}

impl Stand {
    fn new(pen: Pen) -> Self {
        Self {
            pen: Mutex::new(Some(pen)),
            is_wanted: AtomicBool::new(false),
        }
    }

    /// Waits for the pen. Whoever panicked with it may have left half of a job behind, so then nothing is written any
    /// more.
    fn take(&self) -> MutexGuard<'_, Option<Pen>> {
        self.is_wanted.store(true, Ordering::Relaxed);
        let pen = self.pen.lock().unwrap_or_else(|poisoned| {
            let pen = PoisonError::into_inner(poisoned);
            if let Some(pen) = pen.as_ref() {
                pen.give_up("a commit was broken off by a panic; open the store anew");
            }
            pen
        });
        self.is_wanted.store(false, Ordering::Relaxed);
        pen
    }

    /// Returns the pen if it is free and nobody waits for it.
    pub(crate) fn try_take(&self) -> Option<MutexGuard<'_, Option<Pen>>> {
        match self.is_wanted.load(Ordering::Relaxed) {
            true => None,
            false => self.pen.try_lock().ok(),
        }
    }
}

/// Starts the thread.
pub(crate) fn start(pen: Pen) -> io::Result<Writer> {
    let (orders, queue) = mpsc::channel(QUEUE);
    let commits = pen.show_commits();
    let stand = Arc::new(Stand::new(pen));
    let writer = Writer::new(orders, commits, Arc::clone(&stand));
    std::thread::Builder::new()
        .name("windlass-sqlite".to_owned())
        .spawn(move || run(&stand, queue))?;
    Ok(writer)
}

fn run(stand: &Stand, mut queue: mpsc::Receiver<Order>) {
    let mut closing = None;
    // What must have a commit of its own, and came behind others.
    let mut left = None;
    while closing.is_none() {
        let Some(first) = left.take().or_else(|| queue.blocking_recv()) else {
            break;
        };
        let mut pen = stand.take();
        let mut group = Vec::new();
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Do(job) if job.is_alone() => {
                    match group.is_empty() {
                        true => group.push(job),
                        false => left = Some(Order::Do(job)),
                    }
                    break;
                }
                Order::Do(job) => group.push(job),
                Order::Close(done) => {
                    closing = Some(done);
                    break;
                }
            }
            next = (group.len() < MAX_GROUP)
                .then(|| queue.try_recv().ok())
                .flatten();
        }
        if let Some(pen) = pen.as_mut() {
            pen.commit(group);
            pen.tidy_up();
        }
    }
    // Whoever waits in vain is told, so that nobody holds up the end.
    drop(queue);
    let pen = stand.take().take();
    if let Some(pen) = pen {
        pen.finish();
    }
    if let Some(done) = closing {
        let _ = done.send(());
    }
}
