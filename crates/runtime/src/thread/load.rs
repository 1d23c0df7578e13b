//! Loads a thread from its journal.

use windlass_core::error::Result;
use windlass_store::{Journal, JournalError, StreamKey};
use windlass_turn::{InvalidEvent, Thread};

use super::actor::IdleThread;
use super::slot::Slot;
use crate::errors::from_journal;
use crate::inner::Inner;

/// Number of events folded at a time.
const PAGE: usize = 1024;

/// Claims the stream of a session and folds it. Existing events are read while the claim becomes durable.
pub(super) async fn load(inner: &Inner, slot: &Slot) -> Result<IdleThread> {
    let journal = &*inner.backends.journal;
    let key = StreamKey::from(slot.session_id);
    let mut thread = slot.take_read_thread().await;
    let (claim, ()) = tokio::try_join!(journal.claim(&key), follow(journal, &key, &mut thread))
        .map_err(from_journal)?;
    // The stream was removed meanwhile and has begun again.
    if thread.head() > claim.head {
        thread = Thread::new(slot.session_id);
    }
    if thread.head() < claim.head {
        let reading = follow(journal, &key, &mut thread);
        reading.await.map_err(from_journal)?;
    }
    Ok(IdleThread { thread, claim })
}

/// Updates a loaded thread without a claim.
pub(super) async fn catch_up(
    journal: &dyn Journal,
    thread: &mut Thread,
) -> std::result::Result<(), JournalError> {
    let key = StreamKey::from(thread.session_id());
    let head = journal.read(&key, u64::MAX, 0).await?.head;
    // The stream was removed meanwhile, and may have begun again.
    if head < thread.head() {
        *thread = Thread::new(thread.session_id());
    }
    follow(journal, &key, thread).await
}

/// A record that does not follow from those before it: this stream is unchanged, and other streams continue.
fn damaged(key: &StreamKey, invalid: &InvalidEvent) -> JournalError {
    JournalError::Damaged {
        stream: key.to_string(),
        seq: invalid.seq,
        what: format!("it does not fit the records before it: {}", invalid.why),
    }
}

/// Folds a stream up to its end.
async fn follow(
    journal: &dyn Journal,
    key: &StreamKey,
    thread: &mut Thread,
) -> std::result::Result<(), JournalError> {
    loop {
        let page = journal.read(key, thread.head(), PAGE).await?;
        for event in &page.events {
            thread
                .evolve(event)
                .map_err(|invalid| damaged(key, &invalid))?;
        }
        if page.events.is_empty() || thread.head() >= page.head {
            return Ok(());
        }
    }
}
