//! Results of reads.

use serde_json::json;

use super::subject::{JournalRef, StreamFixture, event};
use crate::conformance::check::CheckOutcome;
use crate::journal::{Batch, StreamKey, all_events};

pub(super) async fn events_read_back_as_they_were_written(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store, "s").await?;
    let payloads = [
        json!(null),
        json!({"b": 1, "a": [1.5, "zwei", {"ä": "\u{0}\u{1f600}"}]}),
        json!(u64::MAX),
        json!("x".repeat(100_000)),
        json!(""),
    ];
    let records: Vec<_> = (1..)
        .zip(payloads)
        .map(|(seq, payload)| event(seq, payload))
        .collect();
    let batch = Batch {
        first_seq: 1,
        records: records.clone(),
        ..Batch::default()
    };
    stream.store.append(&stream.claim, batch).await?;
    let page = stream.store.read(&stream.key, 0, 10).await?;
    require!(
        page.events == records,
        "events differ from what was written"
    );
    Ok(())
}

pub(super) async fn page_respects_cursor_and_limit(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store, "s").await?;
    stream.append(1, 7).await?;
    for (after, limit, expected) in [
        (0, 3, &[1, 2, 3][..]),
        (3, 3, &[4, 5, 6]),
        (6, 3, &[7]),
        (7, 3, &[]),
        (100, 3, &[]),
        (u64::MAX, 3, &[]),
        (0, 0, &[]),
        (5, usize::MAX, &[6, 7]),
    ] {
        let page = stream.store.read(&stream.key, after, limit).await?;
        let numbers: Vec<_> = page.events.iter().map(|event| event.seq()).collect();
        require_eq!(numbers, expected, "{limit} after {after}");
        require_eq!(page.head, 7, "head of {limit} after {after}");
        require!(page.pruned.is_empty(), "{limit} after {after} shows gaps");
    }
    Ok(())
}

pub(super) async fn unwritten_stream_is_empty(store: JournalRef) -> CheckOutcome {
    let claimed = StreamFixture::new(store, "claimed").await?;
    for key in ["claimed", "missing"] {
        let page = claimed.store.read(&StreamKey::new(key), 0, 10).await?;
        require_eq!((page.events.len(), page.head), (0, 0), "{key}");
    }
    require!(all_events(&*claimed.store).await?.is_empty(), "all events");
    Ok(())
}

pub(super) async fn streams_are_separate_and_accept_any_name(store: JournalRef) -> CheckOutcome {
    let long = "x".repeat(10_000);
    let keys = [
        "",
        " ",
        "a",
        "A",
        "a/../b",
        "a\0b",
        "日本語",
        "'; --",
        &long,
    ];
    let mut streams = Vec::new();
    for key in keys {
        streams.push(StreamFixture::new(store.clone(), key).await?);
    }
    for (count, stream) in (1..).zip(&streams) {
        stream.append(1, count).await?;
    }
    for (count, stream) in (1..).zip(&streams) {
        let page = stream.store.read(&stream.key, 0, 100).await?;
        require_eq!(page.head, count, "head of stream {count}");
        require_eq!(page.events.len() as u64, count, "events of stream {count}");
    }
    Ok(())
}
