//! Concurrent writers and readers.

use tokio::task::JoinSet;

use super::subject::{JournalRef, StreamFixture};
use crate::conformance::check::{CheckOutcome, Violation};
use crate::journal::{JournalError, all_events};

const WRITERS: u64 = 16;
const APPENDS: u64 = 10;

/// Each writer claims the stream from the others and continues from the head that it finds.
pub(super) async fn concurrent_claims_write_one_at_a_time(store: JournalRef) -> CheckOutcome {
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            let mut acknowledged = 0;
            for _ in 0..APPENDS {
                let stream = StreamFixture::new(store.clone(), "s").await?;
                match stream.append(stream.claim.head + 1, 2).await {
                    Ok(()) => acknowledged += 2,
                    Err(JournalError::Fenced { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok::<u64, Violation>(acknowledged)
        });
    }
    let mut acknowledged = 0;
    for written in writers.join_all().await {
        acknowledged += written?;
    }
    let stream = StreamFixture::new(store, "s").await?;
    let numbers = stream.numbers(0, usize::MAX).await?;
    let expected: Vec<_> = (1..=acknowledged).collect();
    require!(acknowledged > 0, "no append succeeded");
    require_eq!(numbers, expected, "the {acknowledged} acknowledged records");
    Ok(())
}

pub(super) async fn streams_are_written_concurrently(store: JournalRef) -> CheckOutcome {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            let stream = StreamFixture::new(store, &format!("s{writer}")).await?;
            for seq in 1..=APPENDS {
                stream.append(seq, 1).await?;
            }
            Ok::<_, Violation>(stream)
        });
    }
    for stream in writers.join_all().await {
        let stream = stream?;
        let expected: Vec<_> = (1..=APPENDS).collect();
        let numbers = stream.numbers(0, usize::MAX).await?;
        require_eq!(numbers, expected, "stream {}", stream.key);
    }
    let all = all_events(&*store).await?;
    require_eq!(all.len() as u64, WRITERS * APPENDS, "number of all events");
    Ok(())
}

/// Every read is numbered without gaps and never ends within a batch.
pub(super) async fn readers_see_only_whole_batches(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store, "s").await?;
    let writer = stream.clone();
    let writing = tokio::spawn(async move {
        for batch in 0..APPENDS {
            writer.append(batch * 3 + 1, 3).await?;
        }
        Ok::<_, JournalError>(())
    });
    loop {
        let is_done = writing.is_finished();
        let numbers = stream.numbers(0, usize::MAX).await?;
        let expected: Vec<_> = (1..=numbers.len() as u64).collect();
        require_eq!(numbers, expected, "numbers during writes");
        require!(numbers.len() % 3 == 0, "half a batch is seen");
        if is_done {
            break;
        }
        tokio::task::yield_now().await;
    }
    match writing.await {
        Ok(written) => Ok(written?),
        Err(error) => Err(Violation(error.to_string())),
    }
}
