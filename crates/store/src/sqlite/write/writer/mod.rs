//! Handles to the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};
use windlass_macros::OpaqueDebug;

use super::commit_thread::CommitterSlot;
pub(crate) use super::committer::WriteContext;
use crate::sqlite::error::{DbError, DbResult};

/// The maximum number of bytes that a caller may write in place.
const MAX_IN_PLACE: usize = 64 * 1024;

/// Reports the result to the caller, once it is known whether the commit is durable.
pub(crate) type CommitReply = Box<dyn FnOnce(Result<(), &str>) + Send>;

/// A job of the writer.
pub(crate) trait WriterJob: Send {
    /// Runs the job; the reply waits for the commit. Returns `Err` if the job has replied and must be rolled back.
    fn run(self: Box<Self>, work: &mut WriteContext<'_>) -> Result<CommitReply, ()>;
    fn refuse(self: Box<Self>, why: &str);

    /// Returns whether the work fails only before its first change, so that it never needs a rollback.
    fn is_checked(&self) -> bool {
        false
    }

    /// Returns whether the work has a commit of its own, so that its failure affects no other work.
    fn is_alone(&self) -> bool {
        false
    }
}

/// How a job may share a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// It fails only before its first change.
    Checked,
    /// It can be rolled back alone.
    Undone,
    /// It has a commit of its own.
    Alone,
}

struct WriterTask<F, T> {
    work: F,
    sharing: Sharing,
    answer: oneshot::Sender<DbResult<T>>,
}

impl<F, T> WriterTask<F, T>
where
    F: FnOnce(&mut WriteContext<'_>) -> DbResult<T> + Send + 'static,
    T: Send + 'static,
{
    fn begin(work: F, sharing: Sharing) -> (Box<dyn WriterJob>, oneshot::Receiver<DbResult<T>>) {
        let (answer, answered) = oneshot::channel();
        let task = Self {
            work,
            sharing,
            answer,
        };
        (Box::new(task), answered)
    }
}

impl<F, T> WriterJob for WriterTask<F, T>
where
    F: FnOnce(&mut WriteContext<'_>) -> DbResult<T> + Send,
    T: Send + 'static,
{
    fn run(self: Box<Self>, work: &mut WriteContext<'_>) -> Result<CommitReply, ()> {
        let Self {
            work: task, answer, ..
        } = *self;
        match task(work) {
            Ok(value) => Ok(Box::new(move |committed| {
                // A caller that no longer waits ignores the result.
                let _ = answer.send(committed.map(|()| value).map_err(DbError::unavailable));
            })),
            Err(error) => {
                let _ = answer.send(Err(error));
                Err(())
            }
        }
    }

    fn refuse(self: Box<Self>, why: &str) {
        let _ = self.answer.send(Err(DbError::unavailable(why)));
    }

    fn is_checked(&self) -> bool {
        self.sharing == Sharing::Checked
    }

    fn is_alone(&self) -> bool {
        self.sharing == Sharing::Alone
    }
}

/// A message to the thread.
pub(crate) enum WriterMessage {
    Do(Box<dyn WriterJob>),
    Close(oneshot::Sender<()>),
}

/// A handle to the writer that does not hold the store open.
pub(crate) struct WeakWriter {
    messages: mpsc::WeakSender<WriterMessage>,
    commits: Arc<AtomicU64>,
    committer_slot: Arc<CommitterSlot>,
}

impl WeakWriter {
    /// Returns a handle, if the store is open.
    pub(crate) fn upgrade(&self) -> Option<Writer> {
        Some(Writer {
            messages: self.messages.upgrade()?,
            commits: Arc::clone(&self.commits),
            committer_slot: Arc::clone(&self.committer_slot),
        })
    }
}

/// A handle to the committer, and to the thread that usually owns it.
#[derive(OpaqueDebug, Clone)]
pub(crate) struct Writer {
    messages: mpsc::Sender<WriterMessage>,
    commits: Arc<AtomicU64>,
    committer_slot: Arc<CommitterSlot>,
}

impl Writer {
    pub(crate) fn new(
        messages: mpsc::Sender<WriterMessage>,
        commits: Arc<AtomicU64>,
        committer_slot: Arc<CommitterSlot>,
    ) -> Self {
        Self {
            messages,
            commits,
            committer_slot,
        }
    }

    pub(crate) fn downgrade(&self) -> WeakWriter {
        WeakWriter {
            messages: self.messages.downgrade(),
            commits: Arc::clone(&self.commits),
            committer_slot: Arc::clone(&self.committer_slot),
        }
    }

    /// Runs a job in a transaction and returns when it is durable.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriteContext<'_>) -> DbResult<T> + Send + 'static,
    ) -> DbResult<T> {
        let (job, answered) = WriterTask::begin(work, Sharing::Undone);
        self.hand_over(job).await?;
        answered.await.map_err(|_| closed())?
    }

    /// Like `write`, for work that fails before its first change or not at all. It runs on the calling thread if it is small and [no other writer is
    /// active](super::commit_times).
    pub(crate) async fn write_checked<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut WriteContext<'_>) -> DbResult<T> + Send + 'static,
    ) -> DbResult<T> {
        let (job, answered) = WriterTask::begin(work, Sharing::Checked);
        let left = if bytes <= MAX_IN_PLACE {
            self.write_in_place(job)
        } else {
            Some(job)
        };
        if let Some(job) = left {
            self.hand_over(job).await?;
        }
        answered.await.map_err(|_| closed())?
    }

    /// Runs a job if the committer is free and quick; otherwise returns the job.
    fn write_in_place(&self, job: Box<dyn WriterJob>) -> Option<Box<dyn WriterJob>> {
        let is_queue_empty = self.messages.capacity() == self.messages.max_capacity();
        let mut guard = is_queue_empty
            .then(|| self.committer_slot.try_take())
            .flatten();
        let committer = guard.as_mut().and_then(|committer| committer.as_mut());
        match committer.filter(|committer| committer.may_commit_in_place()) {
            Some(committer) => {
                committer.commit(vec![job]);
                None
            }
            None => Some(job),
        }
    }

    async fn hand_over(&self, job: Box<dyn WriterJob>) -> DbResult<()> {
        let sent = self.messages.send(WriterMessage::Do(job)).await;
        sent.map_err(|_| closed())
    }

    /// Like `write`, for a thread that may block.
    pub(crate) fn write_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriteContext<'_>) -> DbResult<T> + Send + 'static,
    ) -> DbResult<T> {
        self.hand_over_blocking(WriterTask::begin(work, Sharing::Undone))
    }

    /// Like `write`, in a commit of its own.
    pub(crate) fn write_alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriteContext<'_>) -> DbResult<T> + Send + 'static,
    ) -> DbResult<T> {
        self.hand_over_blocking(WriterTask::begin(work, Sharing::Alone))
    }

    fn hand_over_blocking<T>(
        &self,
        (job, answered): (Box<dyn WriterJob>, oneshot::Receiver<DbResult<T>>),
    ) -> DbResult<T> {
        let sent = self.messages.blocking_send(WriterMessage::Do(job));
        sent.map_err(|_| closed())?;
        answered.blocking_recv().map_err(|_| closed())?
    }

    /// Returns the number of the newest commit.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Ends the thread after all waiting jobs.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.messages.send(WriterMessage::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

fn closed() -> DbError {
    DbError::unavailable("it was closed")
}

#[cfg(test)]
mod tests;
