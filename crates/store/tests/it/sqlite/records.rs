//! Harnesses, agents and sessions survive.

use std::io::Cursor;

use serde_json::json;
use windlass_core::agent::Agent;
use windlass_core::harness::Harness;
use windlass_core::session::{Session, SubagentStatus};
use windlass_core::traits::{AgentStore, HarnessStore, SessionMutator, SessionStore};
use windlass_core::typed_id::{AgentId, HarnessId, SessionId};
use windlass_store::Records;
use windlass_store::sqlite::{ImportReport, ImportedRecords};

use super::support::StoreHome;

const AT: &str = "2026-01-02T03:04:05.123456Z";

fn harness(name: &str, parent: Option<HarnessId>) -> Harness {
    serde_json::from_value(json!({
        "id": HarnessId::new(), "name": name, "display_name": name, "system_prompt": "p",
        "parent_harness_id": parent, "created_at": AT, "updated_at": AT,
    }))
    .unwrap()
}

fn agent(name: &str) -> Agent {
    serde_json::from_value(json!({
        "id": AgentId::new(), "name": name, "system_prompt": "p", "created_at": AT, "updated_at": AT,
    }))
    .unwrap()
}

fn session(created_at: &str) -> Session {
    serde_json::from_value(json!({
        "id": SessionId::new(), "harness_id": HarnessId::new(), "created_at": created_at, "updated_at": AT,
    }))
    .unwrap()
}

#[tokio::test]
async fn records_survive_a_restart() {
    let home = StoreHome::new();
    let store = home.open().await;
    let records = store.records();
    let (root, one) = (harness("root", None), agent("one"));
    let leaf = harness("leaf", Some(root.id));
    let (new, old) = (
        session("2026-02-02T00:00:00Z"),
        session("2026-01-01T00:00:00Z"),
    );
    for harness in [&leaf, &root] {
        records.add_harness(harness.clone()).await.unwrap();
    }
    records.add_agent(one.clone()).await.unwrap();
    for session in [&new, &old] {
        records.add_session(session.clone()).await.unwrap();
    }
    records
        .update_session_title(new.id, "t".into())
        .await
        .unwrap();
    let status = SubagentStatus::Completed;
    assert!(records.set_subagent_status(new.id, status).await.unwrap());
    let unknown = records.set_subagent_status(SessionId::new(), status).await;
    assert!(!unknown.unwrap());
    let changed = records.get_session(new.id).await.unwrap().unwrap();
    assert_eq!(changed.title.as_deref(), Some("t"));
    assert_eq!(changed.subagent_status, Some(status));
    let missing = records
        .update_session_title(SessionId::new(), "t".into())
        .await;
    assert!(
        missing
            .unwrap_err()
            .to_string()
            .contains("session not found")
    );
    store.close().await;

    let store = home.open().await;
    let records = store.records();
    let chain = records.get_harness_chain(leaf.id).await.unwrap();
    assert_eq!(
        chain.iter().map(|h| h.id).collect::<Vec<_>>(),
        [root.id, leaf.id]
    );
    assert!(
        records
            .get_harness_chain(HarnessId::new())
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(records.list_harnesses().await.unwrap().len(), 2);
    let stored = records.get_agent(one.public_id).await.unwrap().unwrap();
    assert_eq!(
        serde_json::to_value(&stored).unwrap(),
        serde_json::to_value(&one).unwrap()
    );
    let listed = records.list_sessions().await.unwrap();
    assert_eq!(
        listed.iter().map(|s| s.id).collect::<Vec<_>>(),
        [old.id, new.id]
    );
    assert_eq!(listed[1].title.as_deref(), Some("t"));
    assert_eq!(records.session_ids().await.unwrap(), [old.id, new.id]);

    assert!(records.remove_session(new.id).await.unwrap());
    assert!(!records.remove_session(new.id).await.unwrap());
    assert!(records.get_session(new.id).await.unwrap().is_none());
    assert!(records.remove_agent(one.public_id).await.unwrap());
    assert!(records.remove_harness(root.id).await.unwrap());
    let broken = records.get_harness_chain(leaf.id).await.unwrap_err();
    assert!(broken.to_string().contains("does not exist"), "{broken}");
}

#[tokio::test]
async fn import_inserts_only_absent_records() {
    let (home, other) = (StoreHome::new(), StoreHome::new());
    let store = home.open().await;
    let records = store.records();
    let (mut old_harness, mut old_agent) = (harness("h", None), agent("a"));
    let old_session = session(AT);
    records.add_harness(old_harness.clone()).await.unwrap();
    records.add_agent(old_agent.clone()).await.unwrap();
    records.add_session(old_session.clone()).await.unwrap();
    let (lines, _) = store.export(Vec::new()).await.unwrap();

    old_harness.system_prompt = "newer".into();
    old_agent.system_prompt = "newer".into();
    records.add_harness(old_harness.clone()).await.unwrap();
    records.add_agent(old_agent.clone()).await.unwrap();
    let title = "newer".to_owned();
    let newer = records.update_session_title(old_session.id, title).await;
    let report = store.import(Cursor::new(lines.clone())).await.unwrap();
    let chain = records.get_harness_chain(old_harness.id).await.unwrap();
    assert_eq!(json!(chain), json!([old_harness]));
    let found = records.get_agent(old_agent.public_id).await.unwrap();
    assert_eq!(json!(found), json!(old_agent));
    let found = records.get_session(old_session.id).await.unwrap();
    assert_eq!(json!(found), json!(newer.unwrap()));
    let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    let differs = "already exists with different content and was left unchanged";
    assert_eq!(
        findings,
        [
            format!("harness {} (h) {differs}", old_harness.id),
            format!("agent {} (a) {differs}", old_agent.public_id),
            format!("session {} (newer) {differs}", old_session.id),
        ]
    );
    let none = ImportedRecords::default();
    let differing = ImportedRecords {
        different: 1,
        ..none
    };
    assert_eq!(report.harnesses, differing);
    assert_eq!(report.agents, differing);
    assert_eq!(report.sessions, differing);

    let copy = other.open().await;
    let one = |report: &ImportReport| [report.harnesses, report.agents, report.sessions];
    let first = copy.import(Cursor::new(lines.clone())).await.unwrap();
    assert_eq!(
        one(&first),
        [ImportedRecords {
            inserted: 1,
            ..none
        }; 3]
    );
    let second = copy.import(Cursor::new(lines)).await.unwrap();
    assert_eq!(
        one(&second),
        [ImportedRecords {
            identical: 1,
            ..none
        }; 3]
    );
    assert_eq!(second.findings, []);
}
