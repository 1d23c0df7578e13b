//! Turns of a thread.

use serde_json::json;
use windlass_core::events::EventContext;
use windlass_core::items::{ItemKind, ItemStatus, TurnStatus};
use windlass_core::typed_id::{ExecId, TurnId};

use super::subject::{QueryStoresRef, ThreadFixture};
use crate::conformance::check::{CheckOutcome, Violation};
use crate::journal::StreamKey;
use crate::queries::{Order, TurnDetail, TurnQuery};

/// Lists turns, page by page.
pub(super) async fn pages(
    store: &QueryStoresRef,
    stream: &StreamKey,
    order: Order,
    limit: usize,
) -> Result<Vec<Vec<TurnId>>, Violation> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let query = TurnQuery {
            stream: stream.clone(),
            order,
            upto: None,
            after,
            limit,
        };
        let page = store.queries.turns(query).await?;
        pages.push(page.entries.iter().map(|turn| turn.view.id).collect());
        if page.next.is_none() {
            return Ok(pages);
        }
        after = page.next;
    }
}

/// Returns a turn with its items, which must be there.
async fn detail(thread: &ThreadFixture, turn: TurnId) -> Result<TurnDetail, Violation> {
    let queries = &thread.store.queries;
    let found = queries.turn_detail(&thread.key, turn).await?;
    found.ok_or_else(|| Violation(format!("{turn} is not there")))
}

pub(super) async fn turns_are_listed_from_both_ends(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    let mut turns = Vec::new();
    for _ in 0..3 {
        let turn = thread.start().await?;
        thread.note().await?;
        thread.end(turn).await?;
        turns.push(turn);
    }
    turns.push(thread.start().await?);
    let [a, b, c, d] = turns[..] else {
        return Err(Violation("there are not four".to_owned()));
    };
    for (order, limit, expected) in [
        (Order::NewestFirst, 9, vec![vec![d, c, b, a]]),
        (Order::NewestFirst, 3, vec![vec![d, c, b], vec![a]]),
        (Order::OldestFirst, 2, vec![vec![a, b], vec![c, d]]),
    ] {
        let listed = pages(&store, &thread.key, order, limit).await?;
        require_eq!(listed, expected, "{order:?} by {limit}");
    }
    let shown = store.queries.turn(&thread.key, b).await?;
    let shown = shown.map(|turn| (turn.first_seq, turn.last_seq, turn.view.status));
    require_eq!(shown, Some((4, Some(6), TurnStatus::Completed)), "one");
    let open = store.queries.turn(&thread.key, d).await?;
    require_eq!(open.and_then(|turn| turn.last_seq), None, "the open one");
    let other = store.queries.turn(&thread.key, TurnId::new()).await?;
    require_eq!(other, None, "a missing turn");
    let nowhere = pages(&store, &StreamKey::new("x"), Order::NewestFirst, 9).await?;
    require_eq!(nowhere, [Vec::<TurnId>::new()], "a missing thread");
    Ok(())
}

pub(super) async fn turn_detail_contains_its_items(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    let before = thread.start().await?;
    thread.answer(before, "before").await?;
    thread.end(before).await?;
    let turn = thread.start().await?;
    let call = thread.call(turn).await?;
    let done = json!({
        "tool_call_id": "c", "tool_name": "shell", "success": true, "status": "success",
        "result": [{"type": "text", "text": "done"}],
    });
    let step = EventContext::of_step(turn, call);
    thread.say(step, "tool.completed", done).await?;
    thread.answer(turn, "after").await?;
    let open = detail(&thread, turn).await?;
    require_eq!(open.row.view.tool_call_count, 1, "calls");
    require_eq!(open.row.view.outline.item_ids.len(), 2, "items of its row");
    thread.end(turn).await?;
    let after = thread.start().await?;
    thread.answer(after, "later").await?;
    for (turn, expected) in [
        (before, &[(ItemKind::AgentMessage, "before")][..]),
        (
            turn,
            &[
                (ItemKind::ToolCall, "done"),
                (ItemKind::AgentMessage, "after"),
            ],
        ),
        (after, &[(ItemKind::AgentMessage, "later")]),
    ] {
        let detail = detail(&thread, turn).await?;
        require_eq!(detail.log.turns().len(), 1, "turns in the log of one");
        let items: Vec<_> = detail.log.items_of(turn).collect();
        let texts: Vec<_> = items.iter().map(|item| item.detail()).collect();
        let kinds = items.iter().map(|item| item.kind);
        let shown: Vec<_> = kinds.zip(texts.iter().map(|text| &**text)).collect();
        require_eq!(shown, expected, "items");
        require!(detail.pruned.is_empty(), "nothing was pruned");
    }
    Ok(())
}

pub(super) async fn turn_detail_contains_streamed_text(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    let turn = thread.start().await?;
    let exec = ExecId::new();
    let step = EventContext::of_step(turn, exec);
    thread
        .say(step.clone(), "reason.thinking.started", json!({}))
        .await?;
    for word in ["so ", "far"] {
        let delta = json!({"turn_id": turn, "delta": word});
        thread
            .say(step.clone(), "reason.thinking.delta", delta)
            .await?;
    }
    let shown = thread.thread().await?;
    require_eq!(shown.seq, 4, "a piece of text is a record");
    let detail = detail(&thread, turn).await?;
    let items: Vec<_> = detail.log.items_of(turn).collect();
    let shown: Vec<_> = items
        .iter()
        .map(|item| (item.status, item.detail().into_owned()))
        .collect();
    let expected = [(ItemStatus::InProgress, "so far".to_owned())];
    require_eq!(shown, expected, "streamed text");
    Ok(())
}

pub(super) async fn thread_detail_contains_the_newest_turns(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    let missing = store.queries.thread_detail(&thread.key, 9).await?;
    require!(missing.is_none(), "a stream without records");
    let mut turns = Vec::new();
    for text in ["a", "b", "c"] {
        let turn = thread.start().await?;
        thread.answer(turn, text).await?;
        turns.push(turn);
        if text != "c" {
            thread.end(turn).await?;
        }
    }
    let call = thread.call(turns[2]).await?;
    thread.ask(turns[2], call).await?;
    for (newest, expected) in [(9, &turns[..]), (2, &turns[1..]), (0, &[])] {
        let found = store.queries.thread_detail(&thread.key, newest).await?;
        let found = found.ok_or_else(|| Violation("it is not there".to_owned()))?;
        require_eq!(found.thread, thread.thread().await?, "the thread");
        let shown: Vec<_> = found.turns.iter().map(|turn| turn.row.view.id).collect();
        require_eq!(shown, expected, "the newest {newest}");
        let waits = found.turns.iter().flat_map(|turn| turn.log.open_waits());
        let waits: Vec<_> = waits.map(|wait| wait.exec_id).collect();
        require_eq!(waits.len(), usize::from(newest > 0), "waits");
        let older = match found.older {
            None => Vec::new(),
            Some(after) => {
                let query = TurnQuery {
                    stream: thread.key.clone(),
                    order: Order::NewestFirst,
                    upto: None,
                    after: Some(after),
                    limit: 9,
                };
                let page = store.queries.turns(query).await?.entries;
                page.iter().map(|turn| turn.view.id).collect()
            }
        };
        let expected: Vec<_> = turns.iter().rev().skip(newest).copied().collect();
        require_eq!(older, expected, "those before the newest {newest}");
    }
    Ok(())
}

pub(super) async fn turns_are_listed_up_to_a_record(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    for text in ["a", "b", "c"] {
        let turn = thread.start().await?;
        thread.answer(turn, text).await?;
        thread.end(turn).await?;
    }
    let all = |order, upto, after, limit| TurnQuery {
        stream: thread.key.clone(),
        order,
        upto,
        after,
        limit,
    };
    let rows = store.queries.turns(all(Order::OldestFirst, None, None, 9));
    let rows = rows.await?.entries;
    let last = rows.iter().map(|row| row.first_seq).max().unwrap_or(0);
    for upto in (0..=last + 1).chain([u64::MAX]) {
        for order in [Order::OldestFirst, Order::NewestFirst] {
            let begun = rows.iter().filter(|row| row.first_seq <= upto);
            let mut expected: Vec<_> = begun.map(|row| row.view.id).collect();
            if order == Order::NewestFirst {
                expected.reverse();
            }
            let (mut shown, mut after) = (Vec::new(), None);
            loop {
                let page = store
                    .queries
                    .turns(all(order, Some(upto), after, 1))
                    .await?;
                shown.extend(page.entries.iter().map(|row| row.view.id));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            require_eq!(shown, expected, "up to {upto}, {order:?}");
        }
    }
    Ok(())
}
