//! Cursors of lists.

use super::subject::{QueryStoresRef, ThreadFixture};
use crate::conformance::check::{CheckOutcome, Violation, forged};
use crate::cursor::CursorError;
use crate::queries::{Order, QueryError, ThreadQuery, TurnQuery};

async fn two_threads(store: &QueryStoresRef) -> Result<(ThreadFixture, String), Violation> {
    let mut old = ThreadFixture::new(store, "old").await?;
    let turn = old.start().await?;
    old.end(turn).await?;
    old.start().await?;
    let mut young = ThreadFixture::new(store, "young").await?;
    young.clock = 100;
    young.note().await?;
    let page = store.queries.threads(ThreadQuery::first(1)).await?;
    let next = page.next;
    let next = next.ok_or_else(|| Violation("there is no next page".to_owned()))?;
    Ok((old, next))
}

pub(super) async fn invalid_cursor_is_refused(store: QueryStoresRef) -> CheckOutcome {
    let (old, cursor) = two_threads(&store).await?;
    let mut wrong: Vec<String> = (0..cursor.len()).map(|end| cursor[..end].into()).collect();
    wrong.extend(["1.2".into(), format!("{cursor}0"), cursor.replace('t', "u")]);
    for wrong in wrong {
        let query = ThreadQuery {
            after: Some(wrong.clone()),
            ..ThreadQuery::first(9)
        };
        let answer = store.queries.threads(query).await;
        let is_refused = matches!(answer, Err(QueryError::Cursor(CursorError::Bad { .. })));
        require!(is_refused, "{wrong} is a cursor: {answer:?}");
    }
    let other = TurnQuery {
        stream: old.key,
        order: Order::NewestFirst,
        upto: None,
        after: Some(cursor),
        limit: 9,
    };
    let answer = store.queries.turns(other).await;
    let is_refused = matches!(answer, Err(QueryError::Cursor(CursorError::Bad { .. })));
    require!(is_refused, "that of another list: {answer:?}");
    Ok(())
}

pub(super) async fn pages_do_not_repeat_moved_threads(store: QueryStoresRef) -> CheckOutcome {
    let (_, next) = two_threads(&store).await?;
    // One that was shown moves to the front, another one comes.
    let mut young = ThreadFixture::new(&store, "young").await?;
    young.clock = 200;
    young.start().await?;
    let mut new = ThreadFixture::new(&store, "new").await?;
    new.clock = 300;
    new.note().await?;
    let query = ThreadQuery {
        after: Some(next),
        ..ThreadQuery::first(9)
    };
    let page = store.queries.threads(query).await?;
    let names: Vec<_> = page.entries.iter().map(|row| row.stream.as_str()).collect();
    require_eq!(names, ["old"], "the second page");
    Ok(())
}

pub(super) async fn forged_cursor_is_only_a_position(store: QueryStoresRef) -> CheckOutcome {
    let (old, cursor) = two_threads(&store).await?;
    let numbers = [0, 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX];
    let page = |order, after| TurnQuery {
        stream: old.key.clone(),
        order,
        upto: None,
        after,
        limit: 1,
    };
    let newest = store.queries.turns(page(Order::NewestFirst, None)).await?;
    let of_turns = newest.next;
    let of_turns = of_turns.ok_or_else(|| Violation("there is no next page".to_owned()))?;
    for (first, second) in numbers.iter().flat_map(|n| numbers.map(|m| (*n, m))) {
        let query = ThreadQuery {
            after: Some(forged(&cursor, first, second)),
            ..ThreadQuery::first(9)
        };
        let threads = store.queries.threads(query).await?.entries;
        require!(threads.len() <= 2, "{first}, {second}: {threads:?}");
        for order in [Order::NewestFirst, Order::OldestFirst] {
            let after = Some(forged(&of_turns, first, second));
            let turns = store.queries.turns(page(order, after)).await?.entries;
            let is_behind = |seq: u64| match order {
                Order::NewestFirst => seq < second,
                Order::OldestFirst => seq > second,
            };
            let is_right = turns.iter().all(|turn| is_behind(turn.first_seq));
            require!(is_right, "{first}, {second}, {order:?}: {turns:?}");
        }
    }
    Ok(())
}
