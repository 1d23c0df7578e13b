//! The way to the thread that writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};

use super::error::Fault;
pub(crate) use super::thread::Work;

/// What is told to whoever waits, once it is known whether the commit is durable.
pub(super) type Reply = Box<dyn FnOnce(Result<(), &str>) + Send>;

/// A piece of work for the thread.
pub(super) trait Job: Send {
    /// Does the work; the reply waits for the commit. `Err` when the work has been answered and must be undone.
    fn run(self: Box<Self>, work: &mut Work<'_>) -> Result<Reply, ()>;
    fn refuse(self: Box<Self>, why: &str);

    /// Tells whether the work refuses before its first change or not at all, so that there is nothing of it to undo.
    fn is_checked(&self) -> bool {
        false
    }
}

struct Task<F, T> {
    work: F,
    is_checked: bool,
    answer: oneshot::Sender<Result<T, Fault>>,
}

impl<F, T> Job for Task<F, T>
where
    F: FnOnce(&mut Work<'_>) -> Result<T, Fault> + Send,
    T: Send + 'static,
{
    fn run(self: Box<Self>, work: &mut Work<'_>) -> Result<Reply, ()> {
        let Self {
            work: task, answer, ..
        } = *self;
        match task(work) {
            Ok(value) => Ok(Box::new(move |committed| {
                // Whoever no longer waits does not want to know.
                let _ = answer.send(committed.map(|()| value).map_err(Fault::unavailable));
            })),
            Err(fault) => {
                let _ = answer.send(Err(fault));
                Err(())
            }
        }
    }

    fn refuse(self: Box<Self>, why: &str) {
        let _ = self.answer.send(Err(Fault::unavailable(why)));
    }

    fn is_checked(&self) -> bool {
        self.is_checked
    }
}

/// What the thread is asked to do.
pub(super) enum Order {
    Do(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

/// The way to the thread that writes.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) commits: Arc<AtomicU64>,
}

impl Writer {
    /// Does some work in a transaction and returns when it is durable.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.ask(work, false).await
    }

    /// The same, for work that refuses before its first change or not at all.
    pub(crate) async fn write_checked<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.ask(work, true).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
        is_checked: bool,
    ) -> Result<T, Fault> {
        let (answer, answered) = oneshot::channel();
        let closed = || Fault::unavailable("it was closed");
        let task = Task {
            work,
            is_checked,
            answer,
        };
        self.orders
            .send(Order::Do(Box::new(task)))
            .await
            .map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }

    /// The same, for a thread that may block.
    pub(crate) fn write_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (answer, answered) = oneshot::channel();
        let closed = || Fault::unavailable("it was closed");
        self.orders
            .blocking_send(Order::Do(Box::new(Task {
                work,
                is_checked: false,
                answer,
            })))
            .map_err(|_| closed())?;
        answered.blocking_recv().map_err(|_| closed())?
    }

    /// Returns the number of the newest commit.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Ends the thread when what waits is done.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.orders.send(Order::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }
}
