//! Following a run: no gap, no duplicate, and the end is always delivered.

use windlass_core::runs::{RunRecord, RunStatus};
use windlass_runs::{Follower, Reads, RunCaller, RunEvent, RunLimits, RunSettings};

use crate::support::RunFixture;

async fn fixture() -> RunFixture {
    RunFixture::new(RunSettings {
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
async fn subscriber_gets_existing_and_new_records() {
    let fixture = fixture().await;
    let caller = RunCaller::new();
    let run = fixture.start(&caller, "a").await;
    fixture.turn(&caller, &run).await;
    fixture.turn(&caller, &run).await;
    let mut snapshot = fixture
        .runs
        .subscribe(&caller, &run)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(indexes(&snapshot.turns), [0, 1]);
    assert_eq!(snapshot.status, RunStatus::InProgress);
    fixture.turn(&caller, &run).await;
    fixture.complete(&caller, &run).await.unwrap();
    let events = all(&mut snapshot.follower).await;
    let received: Vec<_> = events
        .iter()
        .map(|event| (event.cursor, event.status))
        .collect();
    let expected = [(3, RunStatus::InProgress), (3, RunStatus::Completed)];
    assert_eq!(received, expected, "the end does not move the cursor");
    let mut late = fixture
        .runs
        .subscribe(&caller, &run)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((late.turns.len(), late.status), (3, RunStatus::Completed));
    assert_eq!(all(&mut late.follower).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscription_has_no_gap_and_no_duplicate() {
    let fixture = std::sync::Arc::new(fixture().await);
    let caller = RunCaller::new();
    let run = fixture.start(&caller, "a").await;
    let mut followers = tokio::task::JoinSet::new();
    for number in 0..40 {
        let (fixture, run) = (std::sync::Arc::clone(&fixture), run.clone());
        followers.spawn(async move {
            for _ in 0..number {
                tokio::task::yield_now().await;
            }
            let snapshot = fixture.runs.subscribe(&RunCaller::new(), &run).await;
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
        fixture.turn(&caller, &run).await;
        tokio::task::yield_now().await;
    }
    fixture.complete(&caller, &run).await.unwrap();
    let expected: Vec<u64> = (0..200).collect();
    for seen in followers.join_all().await {
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn pages_of_turns_end_with_the_subscription() {
    let fixture = fixture().await;
    let caller = RunCaller::new();
    let run = fixture.start(&caller, "a").await;
    for _ in 0..5 {
        fixture.turn(&caller, &run).await;
    }
    let page = async |cursor, limit| {
        let page = fixture
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
    fixture.turn(&caller, &run).await;
    fixture.complete(&caller, &run).await.unwrap();
    let events = all(last.follower.as_mut().unwrap()).await;
    let cursors: Vec<_> = events.iter().map(|event| event.cursor).collect();
    assert_eq!(cursors, [6, 6]);
    let ended = page(0, 6).await;
    assert_eq!((ended.turns.len(), ended.status), (6, RunStatus::Completed));
    assert_eq!((ended.live_cursor, ended.next_cursor), (6, None));
}

#[tokio::test]
async fn long_run_is_read_in_pages() {
    let fixture = RunFixture::new(RunSettings {
        reads: Reads::Open,
        limits: RunLimits {
            page_bytes: 200,
            ..RunLimits::default()
        },
        ..RunSettings::default()
    })
    .await;
    let caller = RunCaller::new();
    let run = fixture.start(&caller, "a").await;
    for _ in 0..10 {
        fixture.turn(&caller, &run).await;
    }
    let refused = fixture.runs.subscribe(&caller, &run).await.unwrap_err();
    assert!(refused.to_string().contains("in pages"), "{refused}");
    let (mut cursor, mut seen) = (0, Vec::new());
    loop {
        let page = fixture.runs.subscribe_paged(&caller, &run, cursor, None);
        let page = page.await.unwrap().unwrap();
        seen.extend(indexes(&page.turns));
        match page.next_cursor {
            Some(next) => cursor = next,
            None => break,
        }
    }
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
}
