//! All that is answered about a store, in words that can be compared.

use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::items::TurnLog;
use windlass_store::queries::{Order, TurnQuery, UsageBy, UsageQuery};
use windlass_store::{Batch, Journal, Queries, RunFilter, StreamKey, ThreadQuery};

use super::super::support::key;

/// Appends events to a stream, in batches of a given size.
pub(super) async fn append(journal: &dyn Journal, name: &str, events: &[Arc<Event>], group: usize) {
    let claim = journal.claim(&key(name)).await.unwrap();
    for events in events.chunks(group) {
        let batch = Batch {
            first_seq: events[0].seq(),
            records: events.to_vec(),
            ..Batch::default()
        };
        journal.append(&claim, batch).await.unwrap();
    }
}

/// Formats the contents of a turn that are not in its row.
fn items(log: &TurnLog) -> Vec<String> {
    let ids = log.turns().iter().map(|turn| turn.id);
    let items = ids.flat_map(|id| log.items_of(id));
    let items = items.map(|item| format!("{item:?}"));
    items
        .chain(log.open_waits().map(|wait| format!("{wait:?}")))
        .collect()
}

/// Formats all query results for a thread.
pub(super) async fn thread(queries: &dyn Queries, stream: &StreamKey) -> Vec<String> {
    let mut shown = Vec::new();
    let row = queries.thread(stream).await.unwrap();
    shown.push(format!("{row:?}"));
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let query = TurnQuery {
            stream: stream.clone(),
            order: Order::OldestFirst,
            upto: None,
            after,
            limit: 7,
        };
        let page = queries.turns(query).await.unwrap();
        for mut turn in page.entries {
            ids.push(turn.view.id);
            // Positions differ between journals.
            turn.position = 0;
            shown.push(format!("{turn:?}"));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    for id in &ids {
        let detail = queries.turn_detail(stream, *id).await.unwrap().unwrap();
        shown.extend(items(&detail.log));
        shown.push(format!("{:?}", detail.pruned));
    }
    let detail = queries.thread_detail(stream, 3).await.unwrap();
    let newest: Vec<_> = detail.map_or(Vec::new(), |detail| {
        detail.turns.iter().map(|turn| turn.row.view.id).collect()
    });
    assert_eq!(newest, ids[ids.len().saturating_sub(3)..]);
    let waits = queries.waits(Some(stream)).await.unwrap();
    shown.push(format!("{waits:?}"));
    shown
}

/// Formats the results of all queries.
pub(super) async fn everything(queries: &dyn Queries) -> Vec<String> {
    let mut shown = Vec::new();
    let threads = queries.threads(ThreadQuery::first(999)).await.unwrap();
    for row in threads.entries {
        shown.extend(thread(queries, &row.stream).await);
    }
    shown.push(format!("{:?}", queries.waits(None).await.unwrap()));
    for by in [
        UsageBy::Day,
        UsageBy::Model,
        UsageBy::Provider,
        UsageBy::Thread,
    ] {
        let query = UsageQuery {
            since: None,
            until: None,
            by,
        };
        let mut report = queries.usage(query).await.unwrap();
        // Sums of prices depend on their order in the last digit.
        let round = |cost: &mut f64| *cost = (*cost * 1e9).round();
        round(&mut report.total.cost_usd);
        let groups = report.groups.values_mut();
        groups.for_each(|sum| round(&mut sum.cost_usd));
        shown.push(format!("{report:?}"));
    }
    let runs = queries.runs(RunFilter::default(), 9999).await.unwrap();
    // Positions differ between journals.
    let mut runs: Vec<_> = runs
        .iter()
        .map(|run| format!("{:?}", run.summary()))
        .collect();
    runs.sort_unstable();
    shown.extend(runs);
    shown.push(format!("{:?}", queries.counts().await.unwrap()));
    shown
}

/// Compares two answers; names the first difference.
pub(super) fn assert_same(found: &[String], expected: &[String], when: &str) {
    let pairs = found.iter().zip(expected).enumerate();
    for (at, (found, expected)) in pairs {
        assert_eq!(found, expected, "{when}: answer {at}");
    }
    assert_eq!(found.len(), expected.len(), "{when}");
}
