//! Lists of threads.

use chrono::DateTime;
use windlass_core::events::{EventContext, EventData};
use windlass_core::items::TurnStatus;
use windlass_core::session::SessionStatus;
use windlass_core::typed_id::TurnId;

use super::subject::{Store, Subject, event};
use super::turns::{ended, started};
use crate::conformance::check::{Outcome, Violation};
use crate::journal::{Batch, ThreadCursor, ThreadFilter, Window};

/// Appends an event of a moment, counted in milliseconds.
async fn put(
    stream: &Subject,
    seq: u64,
    at: i64,
    data: Option<(EventData, TurnId)>,
) -> Result<(), Violation> {
    let mut event = (*event(seq, serde_json::json!(seq))).clone();
    event.ts = DateTime::from_timestamp_millis(1_700_000_000_000 + at).unwrap_or_default();
    if let Some((data, turn_id)) = data {
        event.context = EventContext::of_turn(turn_id);
        event.event_type = data.event_type().to_owned();
        event.data = data;
    }
    let batch = Batch {
        first_seq: seq,
        records: vec![event.into()],
    };
    Ok(stream.store.append(&stream.claim, batch).await?)
}

/// Lists names, page by page.
async fn names(
    store: &Store,
    filter: ThreadFilter,
    limit: usize,
) -> Result<Vec<Vec<String>>, Violation> {
    let (mut pages, mut window) = (Vec::new(), Window::first(limit));
    loop {
        let page = store.threads(filter, window).await?;
        let names = page.entries.iter().map(|thread| thread.stream.to_string());
        pages.push(names.collect());
        let Some(next) = page.next else {
            return Ok(pages);
        };
        let next: ThreadCursor = next
            .to_string()
            .parse()
            .map_err(|error| Violation(format!("a cursor is not read again: {error}")))?;
        window = Window::after(next, limit);
    }
}

pub(super) async fn threads_are_listed_by_their_newest_activity(store: Store) -> Outcome {
    let mut streams = Vec::new();
    for (name, at) in [("a", 1), ("b", 2), ("c", 3)] {
        let stream = Subject::new(store.clone(), name).await?;
        put(&stream, 1, at, None).await?;
        streams.push(stream);
    }
    Subject::new(store.clone(), "empty").await?;
    let (one, two) = (TurnId::new(), TurnId::new());
    put(&streams[0], 2, 10, Some((started(one)?, one))).await?;
    put(&streams[0], 3, 20, Some((ended(one)?, one))).await?;
    put(&streams[1], 2, 30, Some((started(two)?, two))).await?;
    // What happens within a turn is no activity, and a custom event outside of turns is none either.
    put(&streams[0], 4, 40, None).await?;
    for (filter, limit, expected) in [
        (ThreadFilter::All, 9, vec![vec!["b", "a", "c"]]),
        (ThreadFilter::All, 2, vec![vec!["b", "a"], vec!["c"]]),
        (ThreadFilter::All, 3, vec![vec!["b", "a", "c"]]),
        (ThreadFilter::Open, 9, vec![vec!["b"]]),
        (ThreadFilter::Idle, 1, vec![vec!["a"], vec!["c"]]),
    ] {
        let listed = names(&store, filter, limit).await?;
        require_eq!(listed, expected, "{filter:?} by {limit}");
    }
    store.remove(&streams[2].key).await?;
    let listed = names(&store, ThreadFilter::All, 9).await?;
    require_eq!(listed, [["b", "a"]], "after a removal");
    Ok(())
}

pub(super) async fn a_thread_is_shown_as_it_is(store: Store) -> Outcome {
    let stream = Subject::new(store.clone(), "s").await?;
    let missing = store.thread(&stream.key).await?;
    require!(missing.is_none(), "a stream without records is no thread");
    let turn = TurnId::new();
    for (seq, data, status, latest, head_at) in [
        (1, None, SessionStatus::Started, None, 5),
        (
            2,
            Some((started(turn)?, turn)),
            SessionStatus::Active,
            Some(TurnStatus::InProgress),
            6,
        ),
        (
            3,
            Some((ended(turn)?, turn)),
            SessionStatus::Idle,
            Some(TurnStatus::Interrupted),
            7,
        ),
    ] {
        put(&stream, seq, head_at, data).await?;
        let Some(thread) = store.thread(&stream.key).await? else {
            return Err(Violation(format!("no thread after record {seq}")));
        };
        require_eq!(thread.status(), status, "status after record {seq}");
        require_eq!(thread.latest_status, latest, "turn after record {seq}");
        require_eq!(thread.head, seq, "head after record {seq}");
        let at = 1_700_000_000_000 + head_at;
        let times = [thread.activity, thread.newest_at].map(|time| time.timestamp_millis());
        require_eq!(times, [at, at], "times after record {seq}");
        let listed = store.threads(ThreadFilter::All, Window::first(1)).await?;
        require_eq!(listed.entries, [thread], "the list after record {seq}");
    }
    Ok(())
}

pub(super) async fn the_end_of_each_stream_is_known(store: Store) -> Outcome {
    let long = Subject::new(store.clone(), "long").await?;
    for seq in 1..=3 {
        put(&long, seq, 1, None).await?;
    }
    let short = Subject::new(store.clone(), "short").await?;
    put(&short, 1, 2, None).await?;
    Subject::new(store.clone(), "empty").await?;
    let gone = Subject::new(store.clone(), "gone").await?;
    put(&gone, 1, 3, None).await?;
    store.remove(&gone.key).await?;
    let mut heads: Vec<_> = store.heads().await?;
    heads.sort();
    let expected = [(long.key.clone(), 3), (short.key.clone(), 1)];
    require_eq!(heads, expected, "the ends of the streams");
    Ok(())
}
