//! The threads that run reads.
//!
//! A record can have megabytes, and glibc retains freed memory per thread. Tokio's blocking pool would run one read after
//! the other on all its threads in turn. Here the next read runs on the thread that became idle last.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use windlass_core::lock::lock;

type ReadJob = Box<dyn FnOnce() + Send>;
type IdleThreads = Mutex<Vec<mpsc::Sender<ReadJob>>>;

/// A pool of threads. They end when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct ReadThreads(Arc<IdleThreads>);

impl ReadThreads {
    /// Runs a read on an idle thread, or on a new one. The receiver fails if the read panics. The permit is released once the
    /// thread is idle again, so there are as many threads as permits at most.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        permit: OwnedSemaphorePermit,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<oneshot::Receiver<T>> {
        let idle = lock(&self.0).pop();
        let thread = idle.map_or_else(start, Ok)?;
        let (done, result) = oneshot::channel();
        let (idle, own) = (Arc::clone(&self.0), thread.clone());
        let job = move || {
            let read = catch_unwind(AssertUnwindSafe(read));
            lock(&idle).push(own);
            drop(permit);
            if let Ok(read) = read {
                let _ = done.send(read);
            }
        };
        let ended = |_| io::Error::other("a reading thread has ended");
        thread.send(Box::new(job)).map_err(ended)?;
        Ok(result)
    }
}

fn start() -> io::Result<mpsc::Sender<ReadJob>> {
    let (sender, jobs) = mpsc::channel::<ReadJob>();
    std::thread::Builder::new()
        .name("windlass-read".to_owned())
        .spawn(move || jobs.into_iter().for_each(|job| job()))?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;

    use tokio::sync::Semaphore;

    use super::*;

    async fn thread_of_next_read(threads: &ReadThreads, permits: &Arc<Semaphore>) -> ThreadId {
        let permit = Arc::clone(permits).acquire_owned().await.unwrap();
        let read = threads.run(permit, || std::thread::current().id());
        read.unwrap().await.unwrap()
    }

    #[tokio::test]
    async fn panic_fails_the_read_and_leaves_the_thread_usable() {
        let (threads, permits) = (ReadThreads::default(), Arc::new(Semaphore::new(1)));
        let first = thread_of_next_read(&threads, &permits).await;
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        let read = threads.run(permit, || panic!("a read panics in this test"));
        assert!(read.unwrap().await.is_err());
        assert_eq!(thread_of_next_read(&threads, &permits).await, first);
    }
}
