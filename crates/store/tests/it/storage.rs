//! Keys and secrets in memory: the suite, and that secrets leave no trace.

use std::sync::Arc;

use windlass_core::traits::SessionStorageStore;
use windlass_core::typed_id::SessionId;
use windlass_store::InMemorySessionStorageStore;
use windlass_store::conformance;

#[tokio::test]
async fn memory_conforms() {
    conformance::storage(|| Arc::new(InMemorySessionStorageStore::new()))
        .await
        .unwrap();
}

#[tokio::test]
async fn r70_debug_shows_no_value() {
    let store = InMemorySessionStorageStore::new();
    let session = SessionId::new();
    store.set_value(session, "key", "value-7391").await.unwrap();
    store
        .set_secret(session, "name", "secret-7391")
        .await
        .unwrap();
    for shown in [format!("{store:?}"), format!("{store:#?}")] {
        assert!(!shown.contains("7391"), "{shown}");
    }
}

#[tokio::test]
async fn r71_list_of_secrets_contains_only_names_and_times() {
    let store = InMemorySessionStorageStore::new();
    let session = SessionId::new();
    store
        .set_secret(session, "name", "secret-7391")
        .await
        .unwrap();
    let listed = store.list_secrets(session).await.unwrap();
    let shown = format!("{listed:?} {}", serde_json::to_string(&listed).unwrap());
    assert!(shown.contains("name") && !shown.contains("7391"), "{shown}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn r72_secrets_are_wiped_when_replaced_deleted_forgotten_and_dropped() {
    use crate::memory_scan::Needle;

    let store = InMemorySessionStorageStore::new();
    let (session, other) = (SessionId::new(), SessionId::new());
    let plant = async |session, name| {
        let needle = Needle::new();
        let secret = needle.spelled();
        store.set_secret(session, name, &secret).await.unwrap();
        drop(secret);
        assert_eq!(needle.count(), 1, "the secret is in memory once");
        needle
    };

    let replaced = plant(session, "replaced").await;
    store
        .set_secret(session, "replaced", "other")
        .await
        .unwrap();
    assert_eq!(replaced.count(), 0, "replaced");

    let deleted = plant(session, "deleted").await;
    store.delete_secret(session, "deleted").await.unwrap();
    assert_eq!(deleted.count(), 0, "deleted");

    let forgotten = plant(other, "forgotten").await;
    store.forget_session(other).await.unwrap();
    assert_eq!(forgotten.count(), 0, "forgotten");

    let dropped = plant(session, "dropped").await;
    drop(store);
    assert_eq!(dropped.count(), 0, "dropped");
}
