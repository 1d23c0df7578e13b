//! The thread that writes groups.
//!
//! A sync to disk costs the same for one append as for a hundred. So the thread takes all jobs that wait, makes one commit
//! of them and syncs once; what arrives meanwhile forms the next group. What takes longer is done here too, once those
//! who wait have their answers.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::pen::{Hand, Pen};
use super::writer::{Order, Writer};

/// How many jobs may wait; whoever brings another waits for room.
const QUEUE: usize = 1024;
/// How many jobs go into one commit at most.
const MAX_GROUP: usize = 512;

/// The pen, where a writer finds it; it is gone when the store is closed.
pub(crate) type Stand = Mutex<Option<Pen>>;

/// Starts the thread.
pub(crate) fn start(pen: Pen) -> io::Result<Writer> {
    let (orders, queue) = mpsc::channel(QUEUE);
    let commits = pen.show_commits();
    let stand = Arc::new(Mutex::new(Some(pen)));
    let writer = Writer::new(orders, commits, Arc::clone(&stand));
    std::thread::Builder::new()
        .name("windlass-sqlite".to_owned())
        .spawn(move || run(&stand, queue))?;
    Ok(writer)
}

fn run(stand: &Stand, mut queue: mpsc::Receiver<Order>) {
    let mut closing = None;
    while closing.is_none() {
        let Some(first) = queue.blocking_recv() else {
            break;
        };
        let mut pen = take(stand);
        let mut group = Vec::new();
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
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
            pen.commit(group, Hand::Thread);
            pen.tidy_up();
        }
    }
    let pen = take(stand).take();
    if let Some(pen) = pen {
        pen.finish();
    }
    if let Some(done) = closing {
        let _ = done.send(());
    }
}

/// Takes the pen from its stand. Whoever panicked with it may have left half of a job behind, so nothing is written any more.
fn take(stand: &Stand) -> MutexGuard<'_, Option<Pen>> {
    stand.lock().unwrap_or_else(|poisoned| {
        let pen = PoisonError::into_inner(poisoned);
        if let Some(pen) = pen.as_ref() {
            pen.give_up("a commit was broken off by a panic; open the store anew");
        }
        pen
    })
}
