//! Queries of forks.

use serde_json::json;
use windlass_core::events::{EventContext, EventRequest, SessionForkedData};
use windlass_core::typed_id::{EventId, SessionId, TurnId};

use super::subject::{QueryStoresRef, ThreadFixture, of_agent};
use super::turns::pages;
use crate::conformance::check::{CheckOutcome, Violation};
use crate::journal::StreamKey;
use crate::queries::{Order, Origin};
use crate::runs::RunFilter;

pub(super) async fn fork(
    store: &QueryStoresRef,
    parent: &StreamKey,
    at: u64,
    child: &str,
) -> Result<u64, Violation> {
    let data = SessionForkedData {
        parent_session_id: SessionId::from_seed(7),
        parent_sequence: at,
        record: Some(Box::new(of_agent("other", false))),
        dropped_turn_id: None,
        depth: None,
    };
    let session = SessionId::from_seed(8);
    let forked = EventRequest::new(session, EventContext::default(), data);
    let forked = forked.into_event(EventId::new(), None);
    let child = StreamKey::new(child);
    Ok(store.journal.fork(parent, at, &child, forked).await?)
}

/// Writes turns with these texts, three records each.
async fn turns(thread: &mut ThreadFixture, texts: &[&str]) -> Result<Vec<TurnId>, Violation> {
    let mut turns = Vec::new();
    for text in texts {
        let turn = thread.start().await?;
        thread.answer(turn, text).await?;
        let usage = json!({"input_tokens": 1, "output_tokens": 0});
        thread.end_with(turn, None, usage).await?;
        turns.push(turn);
    }
    Ok(turns)
}

/// Returns the text of a turn, and whether the turn is shared.
async fn first_text(
    store: &QueryStoresRef,
    stream: &str,
    turn: TurnId,
) -> Result<Option<(String, bool)>, Violation> {
    let stream = StreamKey::new(stream);
    let Some(detail) = store.queries.turn_detail(&stream, turn).await? else {
        return Ok(None);
    };
    let mut items = detail.log.items_of(turn);
    let text = items.next().map(|item| item.detail().into_owned());
    Ok(Some((text.unwrap_or_default(), detail.row.is_shared)))
}

pub(super) async fn fork_shows_shared_turns_and_counts_its_own(
    store: QueryStoresRef,
) -> CheckOutcome {
    let mut parent = ThreadFixture::new(&store, "parent").await?;
    let a = turns(&mut parent, &["one", "two", "three"]).await?;
    let head = fork(&store, &parent.key, 6, "child").await?;
    let child = StreamKey::new("child");
    let shown = store.queries.thread(&child).await?;
    let shown = shown.map(|row| (row.seq, row.turns, row.usage, row.origin));
    let origin = Origin {
        parent: SessionId::from_seed(7),
        sequence: 6,
        dropped: None,
    };
    require_eq!(shown, Some((head, 0, None, Some(origin))), "at first");
    let mut own = ThreadFixture::new(&store, "child").await?;
    let b = turns(&mut own, &["four"]).await?;
    for (order, limit, expected) in [
        (Order::OldestFirst, 9, vec![vec![a[0], a[1], b[0]]]),
        (Order::NewestFirst, 2, vec![vec![b[0], a[1]], vec![a[0]]]),
        (
            Order::OldestFirst,
            1,
            vec![vec![a[0]], vec![a[1]], vec![b[0]]],
        ),
    ] {
        let listed = pages(&store, &child, order, limit).await?;
        require_eq!(listed, expected, "{order:?} by {limit}");
    }
    for (stream, turn, expected) in [
        ("child", a[0], Some(("one".to_owned(), true))),
        ("child", a[2], None),
        ("child", b[0], Some(("four".to_owned(), false))),
        ("parent", a[0], Some(("one".to_owned(), false))),
        ("parent", b[0], None),
    ] {
        require_eq!(
            first_text(&store, stream, turn).await?,
            expected,
            "in {stream}"
        );
    }
    let shared = store.queries.turn(&child, a[0]).await?;
    let shared = shared.map(|turn| (turn.view.session_id, turn.stream));
    let expected = (SessionId::from_seed(8), child.clone());
    require_eq!(shared, Some(expected), "session of a shared turn");
    let detail = store.queries.thread_detail(&child, 2).await?;
    let detail = detail.map(|detail| detail.turns.len());
    require_eq!(detail, Some(2), "the newest of both");
    // Forks of it, from before and after its start.
    fork(&store, &child, 3, "early").await?;
    fork(&store, &child, own.head, "late").await?;
    for (name, expected) in [("early", vec![a[0]]), ("late", vec![a[0], a[1], b[0]])] {
        let key = StreamKey::new(name);
        let listed = pages(&store, &key, Order::OldestFirst, 9).await?;
        require_eq!(listed, [expected], "{name}");
    }
    let runs = store.queries.runs(RunFilter::default(), 9).await?;
    let mut runs: Vec<_> = runs
        .iter()
        .map(|run| (run.summary().run_id.clone(), run.summary().agent_id.clone()))
        .collect();
    runs.sort_unstable();
    let mut expected: Vec<_> = a
        .iter()
        .map(|turn| (turn.to_string(), "windlass:main".to_owned()))
        .chain([(b[0].to_string(), "other".to_owned())])
        .collect();
    expected.sort_unstable();
    require_eq!(runs, expected, "each turn is one run");
    Ok(())
}

pub(super) async fn fork_retains_its_turns_when_its_parent_is_removed(
    store: QueryStoresRef,
) -> CheckOutcome {
    let mut parent = ThreadFixture::new(&store, "parent").await?;
    let a = turns(&mut parent, &["one", "two"]).await?;
    fork(&store, &parent.key, 3, "child").await?;
    store.journal.remove(&parent.key).await?;
    let child = StreamKey::new("child");
    let listed = pages(&store, &child, Order::NewestFirst, 9).await?;
    require_eq!(listed, [vec![a[0]]], "its turns");
    let shown = first_text(&store, "child", a[0]).await?;
    require_eq!(shown, Some(("one".to_owned(), true)), "the shared text");
    let runs = store.queries.runs(RunFilter::default(), 9).await?;
    require!(runs.is_empty(), "runs of a removed thread: {runs:?}");
    require_eq!(store.queries.counts().await?.current, 1, "threads");
    store.journal.remove(&child).await?;
    let listed = pages(&store, &child, Order::NewestFirst, 9).await?;
    require_eq!(listed, [Vec::<TurnId>::new()], "after the last fork");
    Ok(())
}
