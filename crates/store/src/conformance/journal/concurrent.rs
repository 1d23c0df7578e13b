//! Many at once.

use tokio::task::JoinSet;

use super::subject::{Store, Subject};
use crate::conformance::check::{Outcome, Violation};
use crate::journal::{JournalError, all_events};

const WRITERS: u64 = 16;
const APPENDS: u64 = 10;

/// Each writer claims the stream from the others and continues from the head that it finds.
pub(super) async fn of_many_claims_one_writes_at_a_time(store: Store) -> Outcome {
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            let mut acknowledged = 0;
            for _ in 0..APPENDS {
                let stream = Subject::new(store.clone(), "s").await?;
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
    let stream = Subject::new(store, "s").await?;
    let numbers = stream.numbers(0, usize::MAX).await?;
    let expected: Vec<_> = (1..=acknowledged).collect();
    require!(acknowledged > 0, "nobody could write");
    require_eq!(
        numbers,
        expected,
        "what {acknowledged} acknowledged records became"
    );
    Ok(())
}

pub(super) async fn many_streams_are_written_at_once(store: Store) -> Outcome {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            let stream = Subject::new(store, &format!("s{writer}")).await?;
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
pub(super) async fn readers_see_whole_batches(store: Store) -> Outcome {
    let stream = Subject::new(store, "s").await?;
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
        require_eq!(numbers, expected, "numbers while somebody writes");
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
