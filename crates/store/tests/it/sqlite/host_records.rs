//! Records of the host: kept by kind and name, and trimmed by age and number.

use chrono::{DateTime, TimeDelta, Utc};
use windlass_store::sqlite::{HostRecord, SqliteHostRecords};

use super::support::Home;

fn record(name: &str, body: &str) -> HostRecord {
    HostRecord {
        name: name.to_owned(),
        body: body.as_bytes().to_vec(),
    }
}

async fn names(records: &SqliteHostRecords, kind: &'static str) -> Vec<String> {
    let records = records.list(kind).await.unwrap();
    records.into_iter().map(|record| record.name).collect()
}

#[tokio::test]
async fn records_of_the_host_survive_a_restart_each_kind_for_itself() {
    let home = Home::new();
    let now = Utc::now();
    {
        let store = home.open().await;
        let records = store.host_records();
        assert!(records.add("a", record("x", "1"), now).await.unwrap());
        assert!(!records.add("a", record("x", "2"), now).await.unwrap());
        records.put("b", record("x", "3"), now).await.unwrap();
        records.put("b", record("x", "4"), now).await.unwrap();
        records.put("b", record("w", "5"), now).await.unwrap();
        store.close().await;
    }
    let store = home.open().await;
    let records = store.host_records();
    assert_eq!(
        records.get("a", "x").await.unwrap(),
        Some(record("x", "1")),
        "the first one stays"
    );
    assert_eq!(records.get("a", "w").await.unwrap(), None);
    assert_eq!(
        records.list("b").await.unwrap(),
        [record("w", "5"), record("x", "4")]
    );
    assert!(records.remove("b", "x").await.unwrap());
    assert!(!records.remove("b", "x").await.unwrap());
    assert_eq!(names(&records, "a").await, ["x"]);
}

#[tokio::test]
async fn trimming_removes_the_old_and_keeps_the_newest() {
    let home = Home::new();
    let store = home.open().await;
    let records = store.host_records();
    let begin = DateTime::UNIX_EPOCH;
    for (n, name) in (0..).zip(["a", "b", "c", "d", "e"]) {
        let at = begin + TimeDelta::hours(n);
        records.put("k", record(name, ""), at).await.unwrap();
    }
    records.put("other", record("a", ""), begin).await.unwrap();
    let trimmed = records.trim("k", begin + TimeDelta::hours(1), 3).await;
    assert_eq!(trimmed.unwrap(), 2);
    assert_eq!(names(&records, "k").await, ["c", "d", "e"]);
    assert_eq!(names(&records, "other").await, ["a"]);
}
