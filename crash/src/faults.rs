//! Named points at which the child stops and waits for its death.
//!
//! They sit in wrappers around the runtime's seams (journal, driver, tools), so that nothing of them is in any other
//! program.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_store::{
    Batch, Claim, FeedPage, Journal, JournalError, Page, StreamKey, StreamStatus,
};

/// Every point, by name.
pub const POINTS: &[&str] = &[
    "journal.before-claim",
    "journal.before-append",
    "journal.after-append",
    "journal.before-fork",
    "journal.after-fork",
    "model.before-answer",
    "model.in-answer",
    "tool.before-effect",
    "tool.after-effect",
    "input.before-acknowledged",
];

/// What the child says when it stands at its point.
pub const REACHED: &str = "reached";

struct Armed {
    point: String,
    passes_left: AtomicU64,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Arms one point: the child stops when it passes it for the `nth` time, counted from 1.
pub fn arm(point: &str, nth: u64) {
    let _ = ARMED.set(Armed {
        point: point.to_owned(),
        passes_left: AtomicU64::new(nth.max(1)),
    });
}

/// Passes a point. At the armed one the child says so and does no more until it is killed.
pub fn pass(point: &str) {
    let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else {
        return;
    };
    if armed.passes_left.fetch_sub(1, Ordering::SeqCst) == 1 {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{REACHED} {point}");
        let _ = out.flush();
        drop(out);
        loop {
            std::thread::park();
        }
    }
}

/// A journal with points around what it does.
pub struct FaultyJournal<J>(pub Arc<J>);

#[async_trait]
impl<J: Journal> Journal for FaultyJournal<J> {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        pass("journal.before-claim");
        self.0.claim(stream).await
    }
    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        pass("journal.before-append");
        self.0.append(claim, batch).await?;
        pass("journal.after-append");
        Ok(())
    }
    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError> {
        self.0.read(stream, after, limit).await
    }
    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        self.0.read_after(cursor, limit).await
    }
    fn watch_all(&self) -> watch::Receiver<u64> {
        self.0.watch_all()
    }
    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        self.0.watch(stream).await
    }
    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError> {
        self.0.open(after, limit).await
    }
    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        self.0.remove(stream).await
    }
    async fn standing(&self, stream: &StreamKey) -> Result<StreamStatus, JournalError> {
        self.0.standing(stream).await
    }
    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        pass("journal.before-fork");
        let head = self.0.fork(parent, at_seq, child, forked).await?;
        pass("journal.after-fork");
        Ok(head)
    }
}
