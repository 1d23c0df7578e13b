//! FileSystemRef in a database: the quota, and that they survive. The suite is run by `rules`.

use std::sync::Arc;

use windlass_core::error::AgentLoopError;
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::SessionId;
use windlass_store::{FileQuota, SqliteStore};

use super::support::StoreHome;
use crate::support::{initial, text, write};

#[tokio::test]
async fn files_survive_a_restart() {
    let home = StoreHome::new();
    let session = SessionId::new();
    let files = async |store: &SqliteStore| Arc::new(store.files()) as Arc<dyn SessionFileSystem>;
    let store = home.open().await;
    let before = files(&store).await;
    write(&before, session, "/a/b.txt", "hello").await.unwrap();
    before
        .write_file(session, "/c.bin", "AP8B", "base64")
        .await
        .unwrap();
    let seeded = initial("/locked", "fixed", true);
    before.seed_initial_file(session, &seeded).await.unwrap();
    let stat = before
        .stat_file(session, "/a/b.txt")
        .await
        .unwrap()
        .unwrap();
    store.close().await;

    let store = home.open().await;
    let after = files(&store).await;
    assert_eq!(
        text(&after, session, "/a/b.txt").await.as_deref(),
        Some("hello")
    );
    let binary = after.read_file(session, "/c.bin").await.unwrap().unwrap();
    assert_eq!(
        (binary.content.as_deref(), binary.encoding.as_str()),
        (Some("AP8B"), "base64")
    );
    let again = after.stat_file(session, "/a/b.txt").await.unwrap().unwrap();
    assert_eq!(
        (stat.created_at, stat.updated_at),
        (again.created_at, again.updated_at)
    );
    assert!(write(&after, session, "/locked", "x").await.is_err());
}

#[tokio::test]
async fn r62_quota_applies_to_each_session() {
    let home = StoreHome::new();
    let quota = FileQuota {
        max_files: Some(2),
        max_file_bytes: Some(10),
        max_total_bytes: Some(15),
    };
    let store = home.open().await;
    let files: Arc<dyn SessionFileSystem> = Arc::new(store.files().with_quota(quota));
    let session = SessionId::new();
    write(&files, session, "/one", "12345678").await.unwrap();
    for (path, text) in [("/one", "12345678901"), ("/two", "12345678")] {
        let refused = write(&files, session, path, text).await;
        assert!(
            matches!(refused, Err(AgentLoopError::QuotaExceeded(_))),
            "{path}"
        );
    }
    write(&files, session, "/two", "1234567").await.unwrap();
    let refused = write(&files, session, "/three", "").await;
    assert!(matches!(refused, Err(AgentLoopError::QuotaExceeded(_))));
    let other = SessionId::new();
    write(&files, other, "/three", "1234567890").await.unwrap();
    write(&files, session, "/one", "1").await.unwrap();
    files.delete_file(session, "/one", false).await.unwrap();
    write(&files, session, "/three", "").await.unwrap();
}
