use std::sync::MutexGuard;
use std::thread::{self, ThreadId};

use crate::journal::{Journal, StreamKey};
use crate::sqlite::error::{DbResult, SqliteError};
use crate::sqlite::options::{OpenCheck, SqliteOptions};
use crate::sqlite::write::commit_times::CommitTimes;
use crate::sqlite::write::committer::Committer;
use crate::sqlite::write::writer::*;
use crate::sqlite::{Inner, SqliteStore};

/// Opens a store on a disk that is known to be quick.
async fn quick_store(directory: &std::path::Path) -> SqliteStore {
    let options = SqliteOptions::new(directory).with_check(OpenCheck::Nothing);
    let store = SqliteStore::open(options).await.unwrap();
    writer(&store).be_quick();
    store
}

fn writer(store: &SqliteStore) -> &Writer {
    let inner: &Inner = &store.inner;
    inner.writer().unwrap()
}

/// Locks the committer as soon as the thread releases it.
fn lock_committer(committer_slot: &CommitterSlot) -> MutexGuard<'_, Option<Committer>> {
    loop {
        match committer_slot.try_take() {
            Some(committer) => return committer,
            None => thread::yield_now(),
        }
    }
}

impl Writer {
    fn be_quick(&self) {
        let mut committer = lock_committer(&self.committer_slot);
        committer.as_mut().unwrap().commit_times = CommitTimes::quick();
    }

    /// Makes a commit; returns the name of the thread that made it.
    async fn commit(&self, name: &str, bytes: usize) -> DbResult<ThreadId> {
        let name = name.to_owned();
        self.write_checked(bytes, move |work| {
            let change = "INSERT INTO streams (key, epoch) VALUES (?1, 0)";
            work.db.execute(change, [name])?;
            Ok(thread::current().id())
        })
        .await
    }
}

#[tokio::test]
async fn lone_caller_commits_small_writes_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let store = quick_store(directory.path()).await;
    let here = thread::current().id();
    let commits = store.commits();
    assert_eq!(writer(&store).commit("a", 100).await.unwrap(), here);
    writer(&store).be_quick();
    let made_by = writer(&store).commit("b", MAX_IN_PLACE + 1).await.unwrap();
    assert_ne!(made_by, here, "it is much");
    assert_eq!(store.commits(), commits + 2);

    store.close().await;
    let options = SqliteOptions::new(directory.path());
    let again = SqliteStore::open(options).await.unwrap();
    let streams = again.journal().streams().await.unwrap();
    assert_eq!(streams.len(), 2, "both are durable");
}

#[tokio::test]
async fn caller_uses_the_thread_while_the_committer_is_busy() {
    let directory = tempfile::tempdir().unwrap();
    let store = quick_store(directory.path()).await;
    let here = thread::current().id();
    let (writer, committer_slot) = (
        writer(&store).clone(),
        Arc::clone(&writer(&store).committer_slot),
    );
    let (locked, is_locked) = std::sync::mpsc::channel();
    let (release, may_release) = std::sync::mpsc::channel::<()>();
    let holder = thread::spawn(move || {
        let _committer = lock_committer(&committer_slot);
        locked.send(()).unwrap();
        may_release.recv().unwrap();
    });
    is_locked.recv().unwrap();
    let commit = tokio::spawn(async move { writer.commit("a", 100).await });
    // The caller has sent its job and gets no result yet.
    tokio::task::yield_now().await;
    assert!(!commit.is_finished());
    release.send(()).unwrap();
    holder.join().unwrap();
    assert_ne!(commit.await.unwrap().unwrap(), here);
}

#[tokio::test]
async fn refusal_in_place_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = quick_store(directory.path()).await;
    let commits = store.commits();
    let refused: DbResult<()> = writer(&store)
        .write_checked(0, |_| Err(DbError::unavailable("not today")))
        .await;
    assert!(refused.is_err());
    assert_eq!(store.commits(), commits);
    writer(&store).commit("a", 0).await.unwrap();
}

#[tokio::test]
async fn panic_in_place_stops_writes_but_not_reads() {
    let directory = tempfile::tempdir().unwrap();
    let store = quick_store(directory.path()).await;
    store
        .journal()
        .claim(&StreamKey::new("existing"))
        .await
        .unwrap();
    writer(&store).be_quick();
    let panicking = writer(&store).clone();
    let broken_off = tokio::spawn(async move {
        let job = |work: &mut WriteContext<'_>| -> DbResult<()> {
            work.db.execute("DELETE FROM streams", [])?;
            panic!("a job that panics");
        };
        panicking.write_checked(0, job).await
    });
    assert!(broken_off.await.unwrap_err().is_panic());

    let error = writer(&store).commit("a", 0).await.unwrap_err();
    let error = SqliteError::from(error).to_string();
    assert!(error.contains("panic"), "{error}");
    assert_eq!(store.journal().streams().await.unwrap().len(), 1);
    store.close().await;
    let again = SqliteStore::open(SqliteOptions::new(directory.path())).await;
    let streams = again.unwrap().journal().streams().await.unwrap();
    assert_eq!(streams.len(), 1, "the incomplete job is rolled back");
}
