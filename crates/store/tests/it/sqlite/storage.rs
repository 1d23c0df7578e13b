//! Conformance of values and secrets in a database, and tests of their keys.

use std::fs;
use std::sync::Arc;

use windlass_core::error::AgentLoopError;
use windlass_core::traits::SessionStorageStore;
use windlass_core::typed_id::SessionId;
use windlass_store::conformance::STORAGE_CHECKS;
use windlass_store::sqlite::SecretsKey;
use windlass_store::{SqliteOptions, SqliteStore};

use super::support::StoreHome;

fn keyed(home: &StoreHome, byte: u8) -> SqliteOptions {
    home.options().with_secrets_key(SecretsKey::new([byte; 32]))
}

#[tokio::test]
async fn sqlite_conforms() {
    let home = StoreHome::new();
    let store = SqliteStore::open(keyed(&home, 1)).await.unwrap();
    for check in STORAGE_CHECKS {
        let outcome = check.run(Arc::new(store.storage())).await;
        assert_eq!(outcome, Ok(()), "{}", check.name);
    }
}

#[tokio::test]
async fn values_and_secrets_survive_and_secrets_are_not_readable_on_disk() {
    let home = StoreHome::new();
    let session = SessionId::new();
    let store = SqliteStore::open(keyed(&home, 1)).await.unwrap();
    store
        .storage()
        .set_value(session, "k", "value-7391")
        .await
        .unwrap();
    store
        .storage()
        .set_secret(session, "k", "secret-7391")
        .await
        .unwrap();
    assert!(!format!("{store:?}").contains("7391"));
    store.close().await;
    let mut bytes = Vec::new();
    for file in fs::read_dir(home.path()).unwrap() {
        bytes.extend(fs::read(file.unwrap().path()).unwrap());
    }
    let holds = |text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    assert!(holds("value-7391") && !holds("secret-7391"));

    let store = SqliteStore::open(keyed(&home, 1)).await.unwrap();
    let secret = store.storage().get_secret(session, "k").await.unwrap();
    assert_eq!(secret.as_deref(), Some("secret-7391"));
    let value = store.storage().get_value(session, "k").await.unwrap();
    assert_eq!(value.as_deref(), Some("value-7391"));
}

#[tokio::test]
async fn secret_requires_its_key() {
    let home = StoreHome::new();
    let session = SessionId::new();
    let store = SqliteStore::open(keyed(&home, 1)).await.unwrap();
    store.storage().set_secret(session, "k", "s").await.unwrap();
    store.close().await;

    let store = home.open().await;
    let storage = store.storage();
    let refused = storage.set_secret(session, "k", "s").await.unwrap_err();
    assert!(matches!(refused, AgentLoopError::Configuration(_)));
    assert!(
        refused.to_string().contains("with_secrets_key"),
        "{refused}"
    );
    assert!(storage.get_secret(session, "k").await.is_err());
    assert_eq!(
        storage.list_secrets(session).await.unwrap().len(),
        1,
        "names need no key"
    );
    assert!(storage.delete_secret(session, "missing").await.is_ok());
    store.close().await;

    let store = SqliteStore::open(keyed(&home, 2)).await.unwrap();
    let refused = store.storage().get_secret(session, "k").await.unwrap_err();
    assert!(refused.to_string().contains("another key"), "{refused}");
    store.close().await;
}

#[tokio::test]
async fn secret_is_bound_to_its_session_and_name() {
    let home = StoreHome::new();
    let (one, two) = (SessionId::new(), SessionId::new());
    let store = SqliteStore::open(keyed(&home, 1)).await.unwrap();
    for session in [one, two] {
        store
            .storage()
            .set_secret(session, "a", "secret")
            .await
            .unwrap();
        store
            .storage()
            .set_secret(session, "b", "secret")
            .await
            .unwrap();
    }
    store.close().await;
    let connection = home.database();
    let place = |session: SessionId, name| (*session.uuid().as_bytes(), name);
    for (from, to) in [
        (place(one, "a"), place(two, "a")),
        (place(one, "a"), place(one, "b")),
    ] {
        connection
            .execute(
                "UPDATE secrets SET (nonce, sealed) = \
                 (SELECT nonce, sealed FROM secrets WHERE session = ?1 AND name = ?2) \
                 WHERE session = ?3 AND name = ?4",
                (from.0, from.1, to.0, to.1),
            )
            .unwrap();
    }
    drop(connection);
    let store = SqliteStore::open(keyed(&home, 1)).await.unwrap();
    for (session, name) in [(two, "a"), (one, "b")] {
        let refused = store.storage().get_secret(session, name).await.unwrap_err();
        assert!(refused.to_string().contains("was changed"), "{refused}");
    }
    let secret = store.storage().get_secret(two, "b").await.unwrap();
    assert_eq!(secret.as_deref(), Some("secret"));
}

#[tokio::test]
async fn r70_debug_shows_no_value() {
    let home = StoreHome::new();
    let options = keyed(&home, 0xab);
    let shown = format!("{options:?}");
    assert!(!shown.contains("171") && !shown.contains("abab"), "{shown}");
    let store = SqliteStore::open(options).await.unwrap();
    let storage = store.storage();
    let session = SessionId::new();
    storage
        .set_value(session, "key", "value-7391")
        .await
        .unwrap();
    storage
        .set_secret(session, "name", "secret-7391")
        .await
        .unwrap();
    let shown = format!("{store:?} {storage:?}");
    assert!(!shown.contains("7391") && !shown.contains("171"), "{shown}");
}

#[tokio::test]
async fn r71_list_of_secrets_contains_only_names_and_times() {
    let home = StoreHome::new();
    let store = SqliteStore::open(keyed(&home, 1)).await.unwrap();
    let session = SessionId::new();
    let storage = store.storage();
    storage
        .set_secret(session, "name", "secret-7391")
        .await
        .unwrap();
    let listed = storage.list_secrets(session).await.unwrap();
    let shown = format!("{listed:?} {}", serde_json::to_string(&listed).unwrap());
    assert!(shown.contains("name") && !shown.contains("7391"), "{shown}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn r72_stored_secret_is_not_in_memory() {
    use crate::memory_scan::Needle;

    let home = StoreHome::new();
    let store = SqliteStore::open(keyed(&home, 1)).await.unwrap();
    let session = SessionId::new();
    let needle = Needle::new();
    let secret = needle.spelled();
    store
        .storage()
        .set_secret(session, "k", &secret)
        .await
        .unwrap();
    drop(secret);
    assert_eq!(needle.count(), 0, "stored");
    let read = store.storage().get_secret(session, "k").await.unwrap();
    let read = read.map(zeroize::Zeroizing::new);
    assert_eq!(needle.count(), 1, "read: the caller has it");
    drop(read);
    store.storage().delete_secret(session, "k").await.unwrap();
    assert_eq!(needle.count(), 0, "deleted");
}
