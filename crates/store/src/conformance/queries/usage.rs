//! Sums of what turns used.

use chrono::{DateTime, Utc};
use serde_json::json;

use super::subject::{Store, Subject, at};
use crate::conformance::check::Outcome;
use crate::queries::{UsageBy, UsageQuery, UsageSum};

fn by(by: UsageBy, since: Option<DateTime<Utc>>, until: Option<DateTime<Utc>>) -> UsageQuery {
    UsageQuery { since, until, by }
}

/// Lets a turn end that used so many tokens and cost so much.
async fn turn(thread: &mut Subject, model: &str, tokens: u32, cost: Option<f64>) -> Outcome {
    let turn = thread.start().await?;
    let outline =
        json!({"model": model, "provider": "p", "labels": {"provider": format!("of {model}")}});
    let usage = json!({
        "input_tokens": tokens, "output_tokens": 1, "cache_read_tokens": 2, "estimated_cost_usd": cost,
    });
    thread.end_with(turn, Some(outline), usage).await?;
    Ok(())
}

pub(super) async fn turns_are_summed_by_day_model_provider_and_thread(store: Store) -> Outcome {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let mut one = Subject::new(&store, "one").await?;
    let mut two = Subject::new(&store, "two").await?;
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
    require_eq!(unknown, Some(1), "a turn that tells no model");
    Ok(())
}

pub(super) async fn only_turns_that_ended_in_the_time_count(store: Store) -> Outcome {
    let mut thread = Subject::new(&store, "s").await?;
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
