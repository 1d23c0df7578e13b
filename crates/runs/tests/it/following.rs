//! Following a run: no gap, no duplicate, and the end is always delivered.

use windlass_core::runs::{RunRecord, RunStatus};
use windlass_runs::{Caller, Follower, Reads, RunEvent, RunLimits, RunSettings};

use crate::support::World;

async fn world() -> World {
    World::new(RunSettings {
        reads: Reads::Open,
        ..RunSettings::default()
    })
    .await
}

async fn all(follower: &mut Follower) -> Vec<RunEvent> {
    let mut events = Vec::new();
    while let Some(event) = follower.next().await.unwrap() {
        events.push(event);
    }
    events
}

fn indexes(records: &[RunRecord]) -> Vec<u64> {
    let turns = records.iter().filter_map(|record| match record {
        RunRecord::Turn(turn) => Some(turn.index),
        _ => None,
    });
    turns.collect()
}

#[tokio::test]
async fn a_subscriber_has_what_was_and_hears_what_comes() {
    let world = world().await;
    let caller = Caller::new();
    let run = world.start(&caller, "a").await;
    world.turn(&caller, &run).await;
    world.turn(&caller, &run).await;
    let mut snapshot = world.runs.subscribe(&caller, &run).await.unwrap().unwrap();
    assert_eq!(indexes(&snapshot.turns), [0, 1]);
    assert_eq!(snapshot.status, RunStatus::InProgress);
    world.turn(&caller, &run).await;
    world.complete(&caller, &run).await.unwrap();
    let events = all(&mut snapshot.follower).await;
    let heard: Vec<_> = events
        .iter()
        .map(|event| (event.cursor, event.status))
        .collect();
    let expected = [(3, RunStatus::InProgress), (3, RunStatus::Completed)];
    assert_eq!(heard, expected, "the end does not move the cursor");
    let mut late = world.runs.subscribe(&caller, &run).await.unwrap().unwrap();
    assert_eq!((late.turns.len(), late.status), (3, RunStatus::Completed));
    assert_eq!(all(&mut late.follower).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_one_subscribes_there_is_no_gap_and_no_duplicate() {
    let world = std::sync::Arc::new(world().await);
    let caller = Caller::new();
    let run = world.start(&caller, "a").await;
    let mut followers = tokio::task::JoinSet::new();
    for number in 0..40 {
        let (world, run) = (std::sync::Arc::clone(&world), run.clone());
        followers.spawn(async move {
            for _ in 0..number {
                tokio::task::yield_now().await;
            }
            let snapshot = world.runs.subscribe(&Caller::new(), &run).await;
            let mut snapshot = snapshot.unwrap().unwrap();
            let mut seen = indexes(&snapshot.turns);
            let events = all(&mut snapshot.follower).await;
            let records: Vec<_> = events.into_iter().map(|event| event.record).collect();
            assert!(matches!(records.last(), Some(RunRecord::Ended(_))) || seen.len() == 200);
            seen.extend(indexes(&records));
            seen
        });
    }
    for _ in 0..200 {
        world.turn(&caller, &run).await;
        tokio::task::yield_now().await;
    }
    world.complete(&caller, &run).await.unwrap();
    let expected: Vec<u64> = (0..200).collect();
    for seen in followers.join_all().await {
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn pages_of_turns_end_with_the_subscription() {
    let world = world().await;
    let caller = Caller::new();
    let run = world.start(&caller, "a").await;
    for _ in 0..5 {
        world.turn(&caller, &run).await;
    }
    let page = async |cursor, limit| {
        let page = world
            .runs
            .subscribe_paged(&caller, &run, cursor, Some(limit));
        page.await.unwrap().unwrap()
    };
    let first = page(0, 2).await;
    assert_eq!(indexes(&first.turns), [0, 1]);
    assert_eq!((first.next_cursor, first.live_cursor), (Some(2), 5));
    assert!(first.follower.is_none());
    let second = page(2, 2).await;
    assert_eq!(
        (indexes(&second.turns), second.next_cursor),
        (vec![2, 3], Some(4))
    );
    let mut last = page(4, 2).await;
    assert_eq!((indexes(&last.turns), last.next_cursor), (vec![4], None));
    world.turn(&caller, &run).await;
    world.complete(&caller, &run).await.unwrap();
    let events = all(last.follower.as_mut().unwrap()).await;
    let cursors: Vec<_> = events.iter().map(|event| event.cursor).collect();
    assert_eq!(cursors, [6, 6]);
    let ended = page(0, 6).await;
    assert_eq!((ended.turns.len(), ended.status), (6, RunStatus::Completed));
    assert_eq!((ended.live_cursor, ended.next_cursor), (6, None));
}

#[tokio::test]
async fn a_run_that_is_too_long_for_one_answer_is_read_in_pages() {
    let world = World::new(RunSettings {
        reads: Reads::Open,
        limits: RunLimits {
            page_bytes: 200,
            ..RunLimits::default()
        },
        ..RunSettings::default()
    })
    .await;
    let caller = Caller::new();
    let run = world.start(&caller, "a").await;
    for _ in 0..10 {
        world.turn(&caller, &run).await;
    }
    let whole = world.runs.subscribe(&caller, &run).await.unwrap_err();
    assert!(whole.to_string().contains("in pages"), "{whole}");
    let (mut cursor, mut seen) = (0, Vec::new());
    loop {
        let page = world.runs.subscribe_paged(&caller, &run, cursor, None);
        let page = page.await.unwrap().unwrap();
        seen.extend(indexes(&page.turns));
        match page.next_cursor {
            Some(next) => cursor = next,
            None => break,
        }
    }
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
}
