//! Usage totals.

use chrono::{DateTime, Utc};
use serde_json::json;
use windlass_core::events::EventContext;
use windlass_core::typed_id::{ExecId, TurnId};

use super::forks::fork;
use super::subject::{QueryStoresRef, ThreadFixture, at};
use crate::conformance::check::CheckOutcome;
use crate::journal::StreamKey;
use crate::queries::{UsageBy, UsageQuery, UsageReport, UsageSum};

fn by(by: UsageBy, since: Option<DateTime<Utc>>, until: Option<DateTime<Utc>>) -> UsageQuery {
    UsageQuery { since, until, by }
}

/// Writes a turn with this usage and cost.
async fn turn(
    thread: &mut ThreadFixture,
    model: &str,
    tokens: u32,
    cost: Option<f64>,
) -> CheckOutcome {
    let turn = thread.start().await?;
    let outline =
        json!({"model": model, "provider": "p", "labels": {"provider": format!("of {model}")}});
    let usage = json!({
        "input_tokens": tokens, "output_tokens": 1, "cache_read_tokens": 2, "estimated_cost_usd": cost,
    });
    thread.end_with(turn, Some(outline), usage).await?;
    Ok(())
}

pub(super) async fn turns_are_summed_by_day_model_provider_and_thread(
    store: QueryStoresRef,
) -> CheckOutcome {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let mut one = ThreadFixture::new(&store, "one").await?;
    let mut two = ThreadFixture::new(&store, "two").await?;
    turn(&mut one, "m", 10, Some(0.5)).await?;
    turn(&mut two, "n", 20, None).await?;
    two.clock = DAY;
    turn(&mut two, "m", 30, Some(0.25)).await?;
    let open = two.start().await?;
    let days = [at(0), at(DAY)].map(|day| day.format("%Y-%m-%d").to_string());
    for (group, expected) in [
        (UsageBy::Day, [(days[0].as_str(), 30), (&days[1], 30)]),
        (UsageBy::Model, [("m", 40), ("n", 20)]),
        (UsageBy::Provider, [("of m", 40), ("of n", 20)]),
        (UsageBy::Thread, [("one", 10), ("two", 50)]),
    ] {
        let report = store.queries.usage(by(group, None, None)).await?;
        let groups = report.groups.iter();
        let shown: Vec<_> = groups
            .map(|(key, sum)| (key.as_str(), sum.input_tokens))
            .collect();
        require_eq!(shown, expected, "{group:?}");
        let expected = UsageSum {
            turns: 3,
            input_tokens: 60,
            output_tokens: 3,
            cache_read_tokens: 6,
            cost_usd: 0.75,
            priced_turns: 2,
            ..UsageSum::default()
        };
        require_eq!(report.total, expected, "all by {group:?}");
    }
    two.end(open).await?;
    let report = store.queries.usage(by(UsageBy::Model, None, None)).await?;
    let unknown = report.groups.get("").map(|sum| sum.turns);
    require_eq!(unknown, Some(1), "a turn without a model");
    Ok(())
}

pub(super) async fn usage_covers_turns_that_ended_in_the_period(
    store: QueryStoresRef,
) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    for clock in [10, 20, 30] {
        thread.clock = clock - 2;
        turn(&mut thread, "m", 1, None).await?;
    }
    for (since, until, expected) in [
        (None, None, 3),
        (Some(10), Some(30), 3),
        (Some(11), Some(29), 1),
        (Some(20), None, 2),
        (None, Some(9), 0),
        (Some(31), None, 0),
    ] {
        let query = by(UsageBy::Day, since.map(at), until.map(at));
        let turns = store.queries.usage(query).await?.total.turns;
        require_eq!(turns, expected, "from {since:?} to {until:?}");
    }
    Ok(())
}

/// Ends a model call of an open turn.
async fn model_call(thread: &mut ThreadFixture, turn: TurnId, tokens: u32) -> CheckOutcome {
    let completed = json!({
        "success": true, "has_tool_calls": true, "tool_call_count": 1,
        "usage": {"input_tokens": tokens, "output_tokens": 1},
    });
    let context = EventContext::of_step(turn, ExecId::new());
    thread.say(context, "reason.completed", completed).await?;
    Ok(())
}

pub(super) async fn usage_outlives_its_thread(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    turn(&mut thread, "m", 10, Some(0.5)).await?;
    turn(&mut thread, "n", 20, None).await?;
    let all = by(UsageBy::Thread, None, None);
    store.queries.usage(all).await?;
    turn(&mut thread, "n", 30, None).await?;
    let before = store.queries.usage(all).await?;
    let open = thread.start().await?;
    model_call(&mut thread, open, 5).await?;
    store.journal.remove(&thread.key).await?;
    let after = store.queries.usage(all).await?;
    let tokens = |report: &UsageReport| report.total.input_tokens;
    require_eq!((tokens(&before), tokens(&after)), (60, 65), "in all");
    require_eq!(after.total.turns, 4, "with the one that was open");
    let of_thread = after.groups.get("s").map(|sum| sum.cost_usd);
    require_eq!(of_thread, Some(0.5), "of the thread");
    let models = store.queries.usage(by(UsageBy::Model, None, None)).await?;
    let models: Vec<_> = models
        .groups
        .iter()
        .map(|(key, sum)| (key.as_str(), sum.turns))
        .collect();
    require_eq!(models, [("", 1), ("m", 1), ("n", 2)], "by model");
    let later = by(UsageBy::Day, Some(at(1_000)), None);
    require_eq!(store.queries.usage(later).await?.total.turns, 0, "later");
    Ok(())
}

pub(super) async fn shared_turn_counts_once_after_its_parent_is_removed(
    store: QueryStoresRef,
) -> CheckOutcome {
    let mut parent = ThreadFixture::new(&store, "parent").await?;
    turn(&mut parent, "m", 10, None).await?;
    fork(&store, &parent.key, parent.head, "child").await?;
    let mut child = ThreadFixture::new(&store, "child").await?;
    turn(&mut child, "m", 20, None).await?;
    let all = by(UsageBy::Thread, None, None);
    for removed in [None, Some("parent"), Some("child")] {
        if let Some(key) = removed {
            store.journal.remove(&StreamKey::new(key)).await?;
        }
        let report = store.queries.usage(all).await?;
        let groups = report.groups.iter();
        let shown: Vec<_> = groups
            .map(|(key, sum)| (key.as_str(), sum.input_tokens))
            .collect();
        require_eq!(
            shown,
            [("child", 20), ("parent", 10)],
            "without {removed:?}"
        );
    }
    Ok(())
}
