//! Claims and valid appends.

use serde_json::json;

use super::subject::{JournalRef, StreamFixture, batch, event};
use crate::conformance::check::CheckOutcome;
use crate::journal::{Batch, JournalError};

pub(super) async fn numbers_start_at_one_and_are_consecutive(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store, "s").await?;
    require_eq!(stream.claim.head, 0, "head of a new stream");
    stream.append(1, 1).await?;
    stream.append(2, 3).await?;
    require_eq!(stream.numbers(0, 10).await?, [1, 2, 3, 4], "numbers");
    let again = stream.store.claim(&stream.key).await?;
    require_eq!(again.head, 4, "head of a stream that is claimed again");
    require_eq!(again.stream, stream.claim.stream, "number of the stream");
    require!(again.epoch > stream.claim.epoch, "a claim raises no epoch");
    Ok(())
}

pub(super) async fn claim_fences_the_previous_writer(store: JournalRef) -> CheckOutcome {
    let old = StreamFixture::new(store.clone(), "s").await?;
    old.append(1, 1).await?;
    let new = StreamFixture::new(store, "s").await?;
    let refused = old.append(2, 1).await;
    let expected = JournalError::Fenced {
        stream: old.claim.stream,
        current: new.claim.epoch,
        claimed: old.claim.epoch,
    };
    require_eq!(refused, Err(expected), "append of a stale writer");
    require_eq!(new.numbers(0, 10).await?, [1], "after a refused append");
    new.append(2, 1).await?;
    require_eq!(new.numbers(0, 10).await?, [1, 2], "after the new writer's");
    Ok(())
}

pub(super) async fn batch_out_of_sequence_is_refused_whole(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store, "s").await?;
    stream.append(1, 2).await?;
    let broken = |records: &[u64]| Batch {
        first_seq: 3,
        records: records.iter().map(|seq| event(*seq, json!(0))).collect(),
        ..Batch::default()
    };
    for (first_seq, wrong) in [
        (2, batch(2, 1)),
        (4, batch(4, 1)),
        (0, batch(0, 1)),
        (5, broken(&[3, 5])),
        (3, broken(&[3, 3])),
    ] {
        let refused = stream.store.append(&stream.claim, wrong).await;
        let expected = JournalError::OutOfSequence {
            stream: stream.claim.stream,
            head: 2,
            first_seq,
        };
        require_eq!(refused, Err(expected), "a batch that breaks at {first_seq}");
        require_eq!(
            stream.numbers(0, 10).await?,
            [1, 2],
            "after a refused batch"
        );
    }
    stream.append(3, 1).await?;
    require_eq!(stream.numbers(2, 10).await?, [3], "after a right one");
    Ok(())
}

pub(super) async fn empty_batch_changes_nothing(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store, "s").await?;
    stream.append(1, 0).await?;
    stream.append(1, 1).await?;
    stream.append(2, 0).await?;
    require_eq!(stream.numbers(0, 10).await?, [1], "numbers");
    Ok(())
}

pub(super) async fn removed_stream_can_be_recreated(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store, "s").await?;
    let other = StreamFixture::new(stream.store.clone(), "other").await?;
    stream.append(1, 3).await?;
    other.append(1, 1).await?;
    require!(
        stream.store.remove(&stream.key).await?,
        "nothing was removed"
    );
    require!(!stream.store.remove(&stream.key).await?, "removed twice");
    let page = stream.store.read(&stream.key, 0, 10).await?;
    require_eq!((page.events.len(), page.head), (0, 0), "a removed stream");
    let refused = stream.append(4, 1).await;
    let expected = JournalError::Removed(stream.claim.stream);
    require_eq!(refused, Err(expected.clone()), "append to a removed stream");
    let again = StreamFixture::new(stream.store.clone(), "s").await?;
    require_eq!(again.claim.head, 0, "head of a stream that begins again");
    require_eq!(stream.append(1, 1).await, Err(expected), "the old writer");
    again.append(1, 1).await?;
    require_eq!(again.numbers(0, 10).await?, [1], "numbers from then on");
    require_eq!(other.numbers(0, 10).await?, [1], "the other stream");
    Ok(())
}
