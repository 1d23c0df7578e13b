//! The feed over all streams.

use std::collections::HashMap;

use serde_json::json;
use tokio::task::JoinSet;
use windlass_core::typed_id::SessionId;

use super::forking::{child, forked};
use super::subject::{JournalRef, StreamFixture, event};
use crate::conformance::check::{CheckOutcome, Violation, forged};
use crate::cursor::CursorError;
use crate::journal::{Batch, FeedEntry, JournalError, all_events};

const WRITERS: u64 = 8;
const APPENDS: u64 = 40;

/// Reads from a cursor to the end, a few records at a time; returns the last cursor.
async fn read_on(
    store: &JournalRef,
    mut after: Option<String>,
    mut take: impl FnMut(FeedEntry),
) -> Result<String, JournalError> {
    loop {
        let page = store.read_after(after.as_deref(), 3).await?;
        page.entries.into_iter().for_each(&mut take);
        if page.is_end {
            return Ok(page.next);
        }
        after = Some(page.next);
    }
}

pub(super) async fn feed_follows_the_order_of_appends(store: JournalRef) -> CheckOutcome {
    let one = StreamFixture::new(store.clone(), "one").await?;
    let two = StreamFixture::new(store.clone(), "two").await?;
    let mut expected = Vec::new();
    for seq in 1..=5 {
        for stream in [&two, &one] {
            let record = event(seq, json!(stream.key.as_str()));
            expected.push(record.id);
            let batch = Batch {
                first_seq: seq,
                records: vec![record],
                ..Batch::default()
            };
            stream.store.append(&stream.claim, batch).await?;
        }
    }
    let all: Vec<_> = all_events(&*store).await?.iter().map(|e| e.id).collect();
    require!(all == expected, "the order of all records is another");
    Ok(())
}

pub(super) async fn shared_records_are_delivered_once(store: JournalRef) -> CheckOutcome {
    let parent = StreamFixture::new(store.clone(), "parent").await?;
    parent.append(1, 2).await?;
    store.fork(&parent.key, 2, &child(), forked(2)).await?;
    parent.append(3, 1).await?;
    let all = all_events(&*store).await?;
    let all: Vec<_> = all.iter().map(|it| (it.session_id, it.seq())).collect();
    let (ours, theirs) = (SessionId::from_seed(7), SessionId::from_seed(8));
    let expected = [(ours, 1), (ours, 2), (theirs, 3), (ours, 3)];
    require_eq!(all, expected, "everything");
    Ok(())
}

pub(super) async fn removed_records_are_not_delivered(store: JournalRef) -> CheckOutcome {
    let gone = StreamFixture::new(store.clone(), "gone").await?;
    gone.append(1, 5).await?;
    let remaining = StreamFixture::new(store.clone(), "remaining").await?;
    remaining.append(1, 1).await?;
    let page = store.read_after(None, 2).await?;
    require_eq!(page.entries.len(), 2, "the first page");
    store.remove(&gone.key).await?;
    let mut left = Vec::new();
    read_on(&store, Some(page.next), |entry| left.push(entry.stream)).await?;
    require_eq!(left, [remaining.key], "the remaining records");
    Ok(())
}

/// Each record is delivered once, and those of a stream in its order, even during writes.
pub(super) async fn feed_reader_continues_during_writes(store: JournalRef) -> CheckOutcome {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            let stream = StreamFixture::new(store, &format!("s{writer}")).await?;
            for seq in 1..=APPENDS {
                stream.append(seq, 1).await?;
                tokio::task::yield_now().await;
            }
            Ok::<_, Violation>(())
        });
    }
    let (mut heads, mut after, mut wrong) = (HashMap::new(), None, None);
    let mut is_over = false;
    loop {
        let next = read_on(&store, after, |entry| {
            let head = heads.entry(entry.stream.clone()).or_insert(0);
            *head += 1;
            if *head != entry.seq {
                wrong.get_or_insert(entry);
            }
        });
        after = Some(next.await?);
        if is_over {
            break;
        }
        is_over = writers.is_empty();
        if let Some(Ok(written)) = writers.try_join_next() {
            written?;
        }
        tokio::task::yield_now().await;
    }
    require!(
        wrong.is_none(),
        "a record came twice or out of order: {wrong:?}"
    );
    let count: u64 = heads.values().sum();
    require_eq!(count, WRITERS * APPENDS, "delivered records");
    Ok(())
}

pub(super) async fn invalid_cursor_is_refused(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store.clone(), "s").await?;
    stream.append(1, 2).await?;
    let cursor = store.read_after(None, 1).await?.next;
    let mut wrong: Vec<String> = (0..cursor.len()).map(|end| cursor[..end].into()).collect();
    wrong.extend(["1".into(), format!("{cursor}0"), cursor.replace('f', "t")]);
    for wrong in wrong {
        let answer = store.read_after(Some(&wrong), 9).await;
        let is_refused = matches!(answer, Err(JournalError::Cursor(CursorError::Bad { .. })));
        require!(is_refused, "{wrong} is a cursor: {answer:?}");
    }
    let page = store.read_after(Some(&cursor), 9).await?;
    require_eq!(page.entries.len(), 1, "after the first record");
    Ok(())
}

pub(super) async fn forged_cursor_is_only_a_position(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store.clone(), "s").await?;
    stream.append(1, 2).await?;
    let cursor = store.read_after(None, 1).await?.next;
    for (position, expected) in [(0, 2), (u64::MAX, 0), (i64::MAX as u64, 0)] {
        let forged = forged(&cursor, u64::MAX, position);
        let page = store.read_after(Some(&forged), 9).await?;
        require_eq!(page.entries.len(), expected, "after {position}");
    }
    Ok(())
}

pub(super) async fn watch_all_sees_an_append(store: JournalRef) -> CheckOutcome {
    let mut watch = store.watch_all();
    watch.borrow_and_update();
    for name in ["a", "b"] {
        let stream = StreamFixture::new(store.clone(), name).await?;
        stream.append(1, 1).await?;
        let changed = watch.changed().await;
        require!(changed.is_ok(), "the watch ended");
        watch.borrow_and_update();
    }
    Ok(())
}
