//! Rows of runs are written late, and nobody sees it: not after a crash, not from another process, not where there is no room.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{SubsecRound, Utc};
use windlass_core::runs::{RunStarted, RunStatus};
use windlass_store::{Begun, Journal, JournalError, KeptRun, RunFilter, RunLog, SqliteStore};

use super::runs::{begin, ended, everything, full_store, turn};
use super::support::{Home, key};

fn count(home: &Home) -> i64 {
    let rows = "SELECT count(*) FROM runs";
    (home.database().query_row(rows, [], |row| row.get(0))).unwrap()
}

#[tokio::test]
async fn rows_that_were_not_written_are_folded() {
    let home = Home::new();
    let store = full_store(&home).await;
    let open = store.runs().get("open").await.unwrap().unwrap();
    let open = store.runs().take_over(&open, "another").await.unwrap();
    let expected = everything(&store).await;
    assert_eq!((expected.len(), count(&home)), (2, 0));

    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert_eq!(everything(&reader).await, expected, "in another process");
    assert_eq!(reader.runs().get("open").await.unwrap(), Some(open.clone()));
    assert_eq!(reader.verify().await.unwrap().findings, []);

    let crashed = home.crashed();
    let after = crashed.open().await;
    assert_eq!(everything(&after).await, expected, "after a crash");
    assert_eq!(after.runs().get("open").await.unwrap(), Some(open.clone()));
    assert_eq!(after.verify().await.unwrap().findings, []);
    let done = after.runs().append(&open, vec![ended(&open)]).await;
    let done = done.unwrap();
    after.close().await;
    assert_eq!(count(&crashed), 2, "closing writes them");
    let after = crashed.open().await;
    let found = after.runs().get("open").await.unwrap().unwrap();
    assert_eq!((found.head(), &found.client), (done.head(), &done.client));
    assert_eq!(after.verify().await.unwrap().findings, []);
}

#[tokio::test]
async fn lists_are_whole_while_rows_are_on_their_way() {
    const RUNS: usize = 2600;
    let home = Home::new();
    let store = home.open().await;
    let mut expected = Vec::new();
    for n in 0..RUNS {
        let mut run = begin(&store, &format!("r{n}")).await;
        // Every seventh stays open, and some of those go on much later.
        if n % 7 > 0 {
            run = (store.runs().append(&run, vec![ended(&run)]).await).unwrap();
        }
        expected.insert(0, run.summary.run_id);
        if n % 500 == 499 {
            let old = store.runs().get(&format!("r{}", n / 2 / 7 * 7)).await;
            let old = old.unwrap().unwrap();
            store
                .runs()
                .append(&old, vec![turn(0, "late")])
                .await
                .unwrap();
        }
    }
    let written = count(&home);
    assert!(0 < written && written < RUNS as i64, "{written}");
    for status in [
        None,
        Some(RunStatus::InProgress),
        Some(RunStatus::Incomplete),
    ] {
        for agent_id in [None, Some("a/b".to_owned())] {
            let mut filter = RunFilter {
                agent_id,
                status,
                before: None,
            };
            let mut listed = Vec::new();
            loop {
                let page = store.runs().list(filter.clone(), 97).await.unwrap();
                let Some(last) = page.last() else { break };
                filter.before = Some(last.position);
                listed.extend(page.into_iter().map(|run| run.summary.run_id));
            }
            let is_open = |id: &str| id[1..].parse::<usize>().unwrap() % 7 == 0;
            let is_wanted = |id: &&String| {
                status.is_none_or(|status| is_open(id) == (status == RunStatus::InProgress))
            };
            let wanted: Vec<_> = expected.iter().filter(is_wanted).cloned().collect();
            assert_eq!(listed, wanted, "{filter:?}");
        }
    }
    assert_eq!(store.verify().await.unwrap().findings, []);
    let summaries = |all: Vec<KeptRun>| all.into_iter().map(|run| run.summary).collect::<Vec<_>>();
    let all = summaries(store.runs().list(RunFilter::default(), RUNS).await.unwrap());
    let after = home.crashed().open().await;
    let again = summaries(after.runs().list(RunFilter::default(), RUNS).await.unwrap());
    assert!(all == again && all.len() == RUNS, "after a crash");
}

#[tokio::test]
async fn what_is_old_and_not_written_yet_is_forgotten_too() {
    let home = Home::new();
    let store = full_store(&home).await;
    let later = Utc::now() + Duration::from_secs(1);
    assert_eq!(store.runs().forget(later, 10).await.unwrap(), 1);
    let left = everything(&store).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].0.summary.run_id, "open");
    assert_eq!(store.runs().get("done").await.unwrap(), None);
    assert_eq!(store.verify().await.unwrap().findings, []);
}

#[tokio::test]
async fn runs_of_an_earlier_version_keep_their_connections() {
    let home = Home::new();
    let store = full_store(&home).await;
    let expected = everything(&store).await;
    store.close().await;
    home.step_back_to_9();
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert_eq!(everything(&reader).await, expected, "as they are");
    assert_eq!(reader.verify().await.unwrap().findings, []);
    let store = home.open().await;
    assert_eq!(everything(&store).await, expected, "as they have become");
    assert_eq!(everything(&reader).await, expected, "for who stayed open");
    assert_eq!(expected[0].0.client, "client");
    assert_eq!(store.verify().await.unwrap().findings, []);
}

async fn begin_with(
    store: &SqliteStore,
    run_id: &str,
    intent: usize,
) -> Result<Begun, JournalError> {
    let started = RunStarted {
        run_id: run_id.to_owned(),
        agent_id: "a".to_owned(),
        intent: "i".repeat(intent),
        outcome_description: None,
        started_at: Utc::now(),
    };
    store.runs().begin(started, "client").await
}

#[tokio::test]
async fn large_rows_do_not_wait_until_they_are_many() {
    let home = Home::new();
    let store = home.open().await;
    for n in 0..20 {
        begin_with(&store, &n.to_string(), 64 * 1024).await.unwrap();
    }
    assert!(count(&home) > 0);
}

/// Rows that wait for room must not take with them what makes some.
#[tokio::test]
async fn a_full_store_lets_runs_go() {
    let home = Home::new();
    let options = home.options().with_max_bytes(3_000_000);
    let store = SqliteStore::open(options).await.unwrap();
    let mut begun = Vec::new();
    while let Ok(Begun::New(run)) = begin_with(&store, &begun.len().to_string(), 3000).await {
        begun.push(run);
    }
    assert!(begun.len() > 100, "{}", begun.len());
    let listed = store.runs().list(RunFilter::default(), 9999).await.unwrap();
    assert_eq!(listed.len(), begun.len());
    for run in &begun {
        let stream = key(&format!("run:{}", run.summary.run_id));
        assert!(store.journal().remove(&stream).await.unwrap());
    }
    assert!(begin_with(&store, "again", 3000).await.is_ok());
    assert_eq!(store.verify().await.unwrap().findings, []);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_takes_its_run_out_of_no_list() {
    let home = Home::new();
    let store = home.open().await;
    let run = begin(&store, "x").await;
    let records = vec![turn(0, "a"), turn(1, "b"), ended(&run)];
    let run = store.runs().append(&run, records).await.unwrap();
    let damage = "UPDATE records SET body = x'7b', form = 0 WHERE position = 2";
    home.database().execute(damage, []).unwrap();
    let crashed = home.crashed();
    let after = crashed.open().await;
    let found = after.runs().get("x").await.unwrap().unwrap();
    assert_eq!(
        (found.head(), found.summary.status),
        (4, run.summary.status)
    );
    assert_eq!(
        after.runs().list(RunFilter::default(), 9).await.unwrap(),
        [found]
    );
    assert!(!after.verify().await.unwrap().findings.is_empty());
    let later = Utc::now() + Duration::from_secs(1);
    assert_eq!(after.runs().forget(later, 9).await.unwrap(), 1);
}

#[tokio::test]
async fn who_claims_the_stream_of_a_run_is_seen() {
    let home = Home::new();
    let store = home.open().await;
    begin(&store, "x").await;
    let claim = store.journal().claim(&key("run:x")).await.unwrap();
    let run = store.runs().get("x").await.unwrap().unwrap();
    assert_eq!(run.epoch, claim.epoch);
}

#[tokio::test]
async fn a_run_without_a_row_is_missing_in_an_earlier_version() {
    let home = Home::new();
    let store = full_store(&home).await;
    store.close().await;
    home.step_back_to_9();
    home.database().execute("DELETE FROM runs", []).unwrap();
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert_eq!(reader.runs().get("open").await.unwrap(), None);
}

/// Numbers that look like chance, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % limit
    }
}

/// Does this and that to runs of its own; returns those that are left.
async fn work(store: Arc<SqliteStore>, worker: u64) -> Vec<KeptRun> {
    let log = store.runs();
    let (mut chance, mut open, mut done) = (Chance(worker + 1), Vec::<KeptRun>::new(), Vec::new());
    for n in 0..400 {
        if open.is_empty() || chance.below(3) == 0 {
            open.push(begin(&store, &format!("{worker}-{n}")).await);
            continue;
        }
        let run = open.swap_remove(chance.below(open.len()));
        let id = &run.summary.run_id;
        let stream = key(&format!("run:{id}"));
        let run = match chance.below(6) {
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
            3 | 4 => {
                let next = vec![turn(run.summary.turn_count, "t")];
                log.append(&run, next).await.unwrap()
            }
            _ => log.append(&run, vec![ended(&run)]).await.unwrap(),
        };
        let found = log.get(&run.summary.run_id).await.unwrap().unwrap();
        assert_eq!(as_kept(found), as_kept(run.clone()));
        match run.summary.status {
            RunStatus::InProgress => open.push(run),
            _ => done.push(run),
        }
    }
    done.append(&mut open);
    done
}

/// Rows keep times to the microsecond.
fn as_kept(mut run: KeptRun) -> KeptRun {
    let summary = &mut run.summary;
    summary.started_at = summary.started_at.trunc_subsecs(6);
    summary.ended_at = summary.ended_at.map(|at| at.trunc_subsecs(6));
    run
}

async fn all(store: &SqliteStore) -> BTreeMap<u64, KeptRun> {
    let runs = store.runs().list(RunFilter::default(), 99_999).await;
    runs.unwrap()
        .into_iter()
        .map(|run| (run.position, run))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_leave_what_they_were_told() {
    let home = Home::new();
    let store = Arc::new(home.open().await);
    let workers = (0..6).map(|worker| tokio::spawn(work(Arc::clone(&store), worker)));
    let workers: Vec<_> = workers.collect();
    let mut expected = BTreeMap::new();
    for worker in workers {
        let runs = worker.await.unwrap().into_iter().map(as_kept);
        expected.extend(runs.map(|run| (run.position, run)));
    }
    assert!(all(&store).await == expected, "where they were written");
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert!(all(&reader).await == expected, "in another process");
    assert_eq!(reader.verify().await.unwrap().findings, []);
    let after = home.crashed().open().await;
    assert!(all(&after).await == expected, "after a crash");
    assert_eq!(after.verify().await.unwrap().findings, []);
    after.rebuild(|_| {}).await.unwrap();
    assert!(all(&after).await == expected, "made anew");
}
