//! Rows of reported runs are written late too, and a writer of a run relies only on its records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use windlass_core::runs::{RunStarted, RunStatus};
use windlass_store::{
    BeginOutcome, Journal, JournalError, Queries, RunFilter, RunLog, SqliteStore, StoredRun,
};

use super::super::runs::{begin, ended, everything, full_store, reported, turn};
use super::super::support::{StoreHome, findings, key};

#[tokio::test]
async fn runs_are_the_same_in_another_process_and_after_a_kill() {
    let home = StoreHome::new();
    let store = full_store(&home).await;
    let open = store.runs().get("open").await.unwrap().unwrap();
    let open = store.runs().take_over(&open, "another").await.unwrap();
    let expected = everything(&store).await;
    assert_eq!(expected.len(), 2);
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    let crashed = home.crashed();
    let after = crashed.open().await;
    for (shown, who) in [(&reader, "in another process"), (&after, "after a kill")] {
        let found: Vec<_> = everything(shown).await;
        assert_eq!(found, expected, "{who}");
        let found = shown.runs().get("open").await.unwrap();
        assert_eq!(found, Some(open.clone()), "{who}");
        assert_eq!(findings(shown).await, [""; 0], "{who}");
    }
    let done = after.runs().append(&open, vec![ended(&open)]).await;
    let done = done.unwrap();
    after.close().await;
    let after = crashed.open().await;
    let found = after.runs().get("open").await.unwrap().unwrap();
    assert_eq!((found.head(), &found.client), (done.head(), &done.client));
    assert_eq!(findings(&after).await, [""; 0]);
}

#[tokio::test]
async fn lists_are_complete_while_rows_are_written() {
    const RUNS: usize = 700;
    let home = StoreHome::new();
    let store = home.open().await;
    let mut expected = Vec::new();
    for n in 0..RUNS {
        let mut run = begin(&store, &format!("r{n}")).await;
        // Every seventh run stays open, and some of those continue much later.
        if n % 7 > 0 {
            run = (store.runs().append(&run, vec![ended(&run)]).await).unwrap();
        }
        expected.insert(0, run.summary.run_id);
        if n % 200 == 199 {
            store.write_rows().await.unwrap();
            let old = store.runs().get(&format!("r{}", n / 2 / 7 * 7)).await;
            let old = old.unwrap().unwrap();
            let late = store.runs().append(&old, vec![turn(0, "late")]).await;
            late.unwrap();
        }
    }
    for status in [
        None,
        Some(RunStatus::InProgress),
        Some(RunStatus::Incomplete),
    ] {
        for agent_id in [None, Some("a/b".to_owned())] {
            let mut filter = RunFilter {
                agent_id,
                status,
                ..RunFilter::default()
            };
            let mut listed = Vec::new();
            loop {
                let page = store.queries().runs(filter.clone(), 97).await.unwrap();
                let Some(last) = page.last() else { break };
                filter.before = Some(last.position());
                listed.extend(page.iter().map(|run| run.summary().run_id.clone()));
            }
            let is_open = |id: &str| id[1..].parse::<usize>().unwrap() % 7 == 0;
            let is_wanted = |id: &&String| {
                status.is_none_or(|status| is_open(id) == (status == RunStatus::InProgress))
            };
            let wanted: Vec<_> = expected.iter().filter(is_wanted).cloned().collect();
            assert_eq!(listed, wanted, "{filter:?}");
        }
    }
    assert_eq!(findings(&store).await, [""; 0]);
    let after = home.crashed().open().await;
    assert!(reported(&store).await == reported(&after).await, "killed");
}

#[tokio::test]
async fn old_runs_without_rows_are_removed() {
    let home = StoreHome::new();
    let store = full_store(&home).await;
    let later = Utc::now() + Duration::from_secs(1);
    assert_eq!(store.runs().forget(later, 10).await.unwrap(), 1);
    let left = everything(&store).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].0.summary.run_id, "open");
    assert_eq!(store.runs().get("done").await.unwrap(), None);
    assert_eq!(findings(&store).await, [""; 0]);
}

#[tokio::test]
async fn runs_can_be_removed_from_a_full_store() {
    let home = StoreHome::new();
    let options = home.options().with_max_bytes(3_000_000);
    let store = SqliteStore::open(options).await.unwrap();
    let begin_large = async |n: usize| {
        let started = RunStarted {
            run_id: n.to_string(),
            agent_id: "a".to_owned(),
            intent: "i".repeat(3000),
            outcome_description: None,
            started_at: Utc::now(),
        };
        store.runs().begin(started, "client").await
    };
    let mut begun = Vec::new();
    while let Ok(BeginOutcome::New(run)) = begin_large(begun.len()).await {
        begun.push(run);
    }
    assert!(begun.len() > 100, "{}", begun.len());
    assert_eq!(reported(&store).await.len(), begun.len());
    for run in &begun {
        let stream = key(&format!("run:{}", run.summary.run_id));
        assert!(store.journal().remove(&stream).await.unwrap());
    }
    assert!(begin_large(99_999).await.is_ok());
    assert_eq!(findings(&store).await, [""; 0]);
}

#[tokio::test]
async fn unreadable_record_does_not_hide_its_run() {
    let home = StoreHome::new();
    let store = home.open().await;
    let run = begin(&store, "x").await;
    let records = vec![turn(0, "a"), turn(1, "b"), ended(&run)];
    let run = store.runs().append(&run, records).await.unwrap();
    let crashed = home.crashed();
    let damage = "UPDATE records SET body = x'7b', form = 0 WHERE position = 2; UPDATE state SET folded = 0; \
                  DELETE FROM runs";
    crashed.database().execute_batch(damage).unwrap();
    let after = crashed.open().await;
    let found = after.runs().get("x").await.unwrap().unwrap();
    assert_eq!(
        (found.head(), found.summary.status),
        (4, run.summary.status)
    );
    assert_eq!(reported(&after).await, [found]);
    assert!(!findings(&after).await.is_empty());
    let later = Utc::now() + Duration::from_secs(1);
    assert_eq!(after.runs().forget(later, 9).await.unwrap(), 1);
}

#[tokio::test]
async fn claim_of_a_run_stream_is_visible() {
    let home = StoreHome::new();
    let store = home.open().await;
    begin(&store, "x").await;
    store.write_rows().await.unwrap();
    let claim = store.journal().claim(&key("run:x")).await.unwrap();
    let run = store.runs().get("x").await.unwrap().unwrap();
    assert_eq!(run.epoch, claim.epoch);
    assert_eq!(reported(&store).await[0].epoch, claim.epoch);
}

/// Pseudo-random numbers, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % limit
    }
}

/// Runs random operations on its own runs; returns the remaining ones.
async fn work(store: Arc<SqliteStore>, worker: u64) -> Vec<StoredRun> {
    let log = store.runs();
    let (mut chance, mut open, mut done) =
        (Chance(worker + 1), Vec::<StoredRun>::new(), Vec::new());
    for n in 0..300 {
        if open.is_empty() || chance.below(3) == 0 {
            open.push(begin(&store, &format!("{worker}-{n}")).await);
            continue;
        }
        let run = open.swap_remove(chance.below(open.len()));
        let id = &run.summary.run_id;
        let stream = key(&format!("run:{id}"));
        let run = match chance.below(7) {
            0 => {
                assert!(store.journal().remove(&stream).await.unwrap());
                assert_eq!(log.get(id).await.unwrap(), None);
                continue;
            }
            1 => {
                let mut stale = run.clone();
                stale.epoch += 1;
                let refused = log.append(&stale, vec![ended(&stale)]).await;
                assert!(matches!(refused, Err(JournalError::Fenced { .. })));
                store.rebuild_stream(&stream).await.unwrap();
                run
            }
            2 => log.take_over(&run, &format!("c{n}")).await.unwrap(),
            3 => {
                store.write_rows().await.unwrap();
                run
            }
            4 | 5 => {
                let next = vec![turn(run.summary.turn_count, "t")];
                log.append(&run, next).await.unwrap()
            }
            _ => log.append(&run, vec![ended(&run)]).await.unwrap(),
        };
        let found = log.get(&run.summary.run_id).await.unwrap().unwrap();
        assert_eq!(found, run);
        match run.summary.status {
            RunStatus::InProgress => open.push(run),
            _ => done.push(run),
        }
    }
    done.append(&mut open);
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_workers_get_consistent_runs() {
    let home = StoreHome::new();
    let store = Arc::new(home.open().await);
    let workers = (0..4).map(|worker| tokio::spawn(work(Arc::clone(&store), worker)));
    let workers: Vec<_> = workers.collect();
    let mut expected = BTreeMap::new();
    for worker in workers {
        let runs = worker.await.unwrap().into_iter();
        expected.extend(runs.map(|run| (run.position, run)));
    }
    let all = async |store: &SqliteStore| -> BTreeMap<u64, StoredRun> {
        let all = reported(store).await.into_iter();
        all.map(|run| (run.position, run)).collect()
    };
    let here = all(&store).await;
    for (found, expected) in here.values().zip(expected.values()) {
        assert_eq!(found, expected, "where they were written");
    }
    assert_eq!(here.len(), expected.len());
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert!(all(&reader).await == expected, "in another process");
    assert_eq!(findings(&reader).await, [""; 0]);
    let after = home.crashed().open().await;
    assert!(all(&after).await == expected, "after a kill");
    assert_eq!(findings(&after).await, [""; 0]);
    after.rebuild(|_| {}).await.unwrap();
    assert!(all(&after).await == expected, "made anew");
}
