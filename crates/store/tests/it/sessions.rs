//! Sessions in memory.

use windlass_core::session::Session;
use windlass_core::traits::{SessionMutator, SessionStore};
use windlass_core::typed_id::SessionId;
use windlass_store::InMemorySessionStore;

fn session(created_at: &str) -> Session {
    serde_json::from_value(serde_json::json!({
        "id": SessionId::new(),
        "harness_id": windlass_core::typed_id::HarnessId::new(),
        "created_at": created_at,
        "updated_at": created_at,
    }))
    .unwrap()
}

#[tokio::test]
async fn sessions_are_added_changed_listed_and_removed() {
    let store = InMemorySessionStore::new();
    let (new, old) = (
        session("2026-01-02T00:00:00Z"),
        session("2026-01-01T00:00:00Z"),
    );
    store.add_session(new.clone()).await;
    store.clone().add_session(old.clone()).await;
    let listed: Vec<_> = store.list().iter().map(|session| session.id).collect();
    assert_eq!(listed, [old.id, new.id]);

    let titled = store
        .update_session_title(new.id, "t".into())
        .await
        .unwrap();
    assert_eq!(titled.title.as_deref(), Some("t"));
    assert!(titled.updated_at > new.updated_at);
    let other = SessionId::new();
    let changed = store.update(new.id, |session| {
        session.locale = Some("de".into());
        session.id = other;
    });
    assert_eq!(changed.unwrap().id, new.id);
    let stored = store.get_session(new.id).await.unwrap().unwrap();
    assert_eq!(stored.locale.as_deref(), Some("de"));
    assert_eq!(stored.title.as_deref(), Some("t"));

    assert_eq!(store.remove_session(new.id).unwrap().id, new.id);
    assert!(store.remove_session(new.id).is_none());
    assert!(store.update(new.id, |_| {}).is_none());
    assert!(store.get_session(new.id).await.unwrap().is_none());
}

#[tokio::test]
async fn the_title_of_a_missing_session_cannot_be_set() {
    let (store, id) = (InMemorySessionStore::new(), SessionId::new());
    let error = store
        .update_session_title(id, "t".into())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("Message store error: session not found: {id}")
    );
}

#[tokio::test]
async fn a_change_that_panics_changes_nothing() {
    let store = InMemorySessionStore::new();
    let session = session("2026-01-01T00:00:00Z");
    store.add_session(session.clone()).await;
    let (shared, id) = (store.clone(), session.id);
    let change = move || {
        shared.update(id, |session| {
            session.title = Some("half".into());
            panic!("in the middle");
        })
    };
    assert!(std::thread::spawn(change).join().is_err());
    let stored = store.get_session(id).await.unwrap().unwrap();
    assert_eq!(stored.title, None);
}
