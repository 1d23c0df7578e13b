//! The rules of records that a host stores next to its sessions.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use windlass_core::events::{CustomData, EventContext, EventRequest};
use windlass_core::typed_id::{EventId, SessionId};

use super::check::{CheckOutcome, ConformanceCheck, Violation};
use crate::host_records::{HostRecord, HostRecords, RowWrite};
use crate::journal::{Batch, Journal, StreamKey};

/// The records of the host, and the journal whose appends may write some.
pub struct HostRecordStores {
    /// Stores the streams of the sessions.
    pub journal: Arc<dyn Journal>,
    /// The records of the host.
    pub records: Arc<dyn HostRecords>,
}

type HostRecordStoresRef = Arc<HostRecordStores>;

/// The rules of host records.
pub const HOST_RECORD_CHECKS: &[ConformanceCheck<HostRecordStores>] = checks![
    rules::kinds_are_separate,
    rules::add_refuses_an_existing_name,
    rules::pages_are_in_descending_order_of_names,
    rules::old_and_surplus_records_are_trimmed,
    rules::puts_are_atomic_with_their_records,
];

fn at(hours: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::hours(hours)
}

fn record(name: &str, body: &'static str) -> HostRecord {
    HostRecord {
        name: name.to_owned(),
        body: Bytes::from_static(body.as_bytes()),
    }
}

async fn names(store: &HostRecordStoresRef, kind: &'static str) -> Result<Vec<String>, Violation> {
    let records = store.records.list(kind).await?;
    Ok(records.into_iter().map(|record| record.name).collect())
}

mod rules {
    use super::*;

    pub(super) async fn kinds_are_separate(store: HostRecordStoresRef) -> CheckOutcome {
        let records = &store.records;
        records.put("b", record("x", "1"), at(0)).await?;
        records.put("b", record("x", "2"), at(1)).await?;
        records.put("b", record("w", ""), at(2)).await?;
        let all = vec![("a", record("x", "3")), ("c", record("y", "4"))];
        records.put_all(all, at(3)).await?;
        let found = records.get("b", "x").await?;
        require_eq!(found, Some(record("x", "2")), "the newest write");
        require_eq!(records.get("a", "w").await?, None, "a name of another kind");
        let listed = records.list("b").await?;
        require_eq!(listed, [record("w", ""), record("x", "2")], "one kind");
        require!(records.remove("b", "x").await?, "it was not there");
        require!(!records.remove("b", "x").await?, "it was removed twice");
        require_eq!(names(&store, "a").await?, ["x"], "another kind");
        require_eq!(names(&store, "none").await?.len(), 0, "a kind without any");
        Ok(())
    }

    pub(super) async fn pages_are_in_descending_order_of_names(
        store: HostRecordStoresRef,
    ) -> CheckOutcome {
        let records = &store.records;
        let all = ["a", "b", "c", "d"].map(|name| ("k", record(name, "k")));
        records.put_all(all.into(), at(0)).await?;
        let others = vec![("j", record("z", "j")), ("l", record("a", "l"))];
        records.put_all(others, at(0)).await?;
        for (before, limit, wanted) in [
            (None, 2, &["d", "c"][..]),
            (Some("c"), 9, &["b", "a"]),
            (Some("bb"), 1, &["b"]),
            (Some("a"), 9, &[]),
            (None, 0, &[]),
        ] {
            let page = records.page("k", before, limit).await?;
            let found: Vec<_> = page.iter().map(|record| record.name.as_str()).collect();
            require_eq!(found, wanted, "a page before a name");
            require_eq!(
                page.iter().all(|record| record.body == "k"),
                true,
                "the bodies of that kind"
            );
        }
        require_eq!(
            records.page("m", None, 9).await?,
            Vec::new(),
            "a kind without records"
        );
        Ok(())
    }

    pub(super) async fn add_refuses_an_existing_name(store: HostRecordStoresRef) -> CheckOutcome {
        let records = &store.records;
        require!(records.add("a", record("x", "1"), at(0)).await?, "was free");
        require!(!records.add("a", record("x", "2"), at(1)).await?, "twice");
        let found = records.get("a", "x").await?;
        require_eq!(found, Some(record("x", "1")), "the first one");
        Ok(())
    }

    pub(super) async fn old_and_surplus_records_are_trimmed(
        store: HostRecordStoresRef,
    ) -> CheckOutcome {
        let records = &store.records;
        for (hours, name) in (0..).zip(["e", "d", "c", "b", "a"]) {
            records.put("k", record(name, ""), at(hours)).await?;
        }
        records.put("other", record("old", ""), at(0)).await?;
        require_eq!(records.trim("k", at(1), 9).await?, 1, "the old one");
        require_eq!(names(&store, "k").await?, ["a", "b", "c", "d"], "the rest");
        require_eq!(records.trim("k", at(1), 2).await?, 2, "the surplus records");
        require_eq!(names(&store, "k").await?, ["a", "b"], "the newest");
        require_eq!(records.trim("k", at(0), 0).await?, 2, "all of them");
        require_eq!(names(&store, "other").await?, ["old"], "another kind");
        Ok(())
    }

    pub(super) async fn puts_are_atomic_with_their_records(
        store: HostRecordStoresRef,
    ) -> CheckOutcome {
        let key = StreamKey::new("s");
        let first = store.journal.claim(&key).await?;
        let put = |name: &str, value: Option<&'static str>| RowWrite {
            kind: "k",
            key: name.to_owned(),
            value: value.map(|body| Bytes::from_static(body.as_bytes())),
        };
        let batch = |seq, puts| {
            let data = CustomData {
                name: "conformance".to_owned(),
                payload: json!(seq),
            };
            let request = EventRequest::new(SessionId::from_seed(7), EventContext::default(), data);
            let event = request.into_event(EventId::new(), Some(seq));
            Batch {
                first_seq: seq,
                records: vec![Arc::new(event)],
                puts,
                ..Batch::default()
            }
        };
        let puts = vec![put("a", Some("1")), put("b", Some("2"))];
        store.journal.append(&first, batch(1, puts)).await?;
        require_eq!(names(&store, "k").await?, ["a", "b"], "with the first");
        let puts = vec![put("a", None), put("b", Some("3")), put("none", None)];
        store.journal.append(&first, batch(2, puts)).await?;
        let listed = store.records.list("k").await?;
        require_eq!(listed, [record("b", "3")], "with the second");
        // Without records they still need the right to append.
        let alone = Batch {
            first_seq: 3,
            puts: vec![put("c", Some("4"))],
            ..Batch::default()
        };
        store.journal.append(&first, alone.clone()).await?;
        require_eq!(names(&store, "k").await?, ["b", "c"], "without records");
        store.journal.claim(&key).await?;
        let late = Batch {
            puts: vec![put("b", None), put("d", Some("5"))],
            ..batch(3, Vec::new())
        };
        for refused in [late, alone] {
            let refused = store.journal.append(&first, refused).await;
            require!(refused.is_err(), "an old claim wrote");
        }
        require_eq!(names(&store, "k").await?, ["b", "c"], "after a refusal");
        Ok(())
    }
}
