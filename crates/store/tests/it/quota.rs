//! R15: quotas of the store in memory.

use std::sync::Arc;

use windlass_core::error::{AgentLoopError, QuotaExceeded, Result};
use windlass_core::typed_id::SessionId;
use windlass_store::{FileQuota, InMemorySessionFileStore};

use crate::support::{FileSystemRef, initial, text, write};

fn limited(quota: FileQuota) -> (FileSystemRef, SessionId) {
    let store = InMemorySessionFileStore::new().with_quota(quota);
    (Arc::new(store), SessionId::new())
}

fn exceeded<T: std::fmt::Debug>(result: Result<T>) -> QuotaExceeded {
    match result {
        Err(AgentLoopError::QuotaExceeded(exceeded)) => exceeded,
        other => panic!("no quota was exceeded: {other:?}"),
    }
}

#[tokio::test]
async fn r15_files_are_counted_for_each_session() {
    let (files, session) = limited(FileQuota {
        max_files: Some(2),
        ..FileQuota::default()
    });
    write(&files, session, "/d/a", "1").await.unwrap();
    files
        .seed_initial_file(session, &initial("/b", "2", true))
        .await
        .unwrap();
    let error = exceeded(write(&files, session, "/new/c", "3").await);
    assert_eq!((error.what, error.limit), ("files", 2));
    assert_eq!(error.subject, session.to_string());
    assert!(files.stat_file(session, "/new").await.unwrap().is_none());

    write(&files, session, "/d/a", "written again")
        .await
        .unwrap();
    write(&files, SessionId::new(), "/c", "r62").await.unwrap();
    files.delete_file(session, "/d", true).await.unwrap();
    write(&files, session, "/c", "3").await.unwrap();
}

#[tokio::test]
async fn r15_number_of_directories_is_limited() {
    let (files, session) = limited(FileQuota {
        max_files: Some(1),
        ..FileQuota::default()
    });
    let limit = windlass_store::MAX_DEPTH as u64;
    for n in 0..limit {
        files
            .create_directory(session, &format!("/{n}"))
            .await
            .unwrap();
    }
    let error = exceeded(files.create_directory(session, "/more").await);
    assert_eq!((error.what, error.limit), ("directories", limit));
    files.create_directory(session, "/0").await.unwrap();
}

#[tokio::test]
async fn r15_bytes_are_counted_decoded() {
    let (files, session) = limited(FileQuota {
        max_file_bytes: Some(5),
        max_total_bytes: Some(8),
        ..FileQuota::default()
    });
    // Five bytes, eight characters as base64.
    files
        .write_file(session, "/a", "AAECAwQ=", "base64")
        .await
        .unwrap();
    let error = exceeded(write(&files, session, "/b", "123456").await);
    assert_eq!(
        (error.what, error.limit, &*error.subject),
        ("bytes per file", 5, "/b")
    );
    let error = exceeded(write(&files, session, "/b", "1234").await);
    assert_eq!((error.what, error.limit), ("bytes in all", 8));
    assert!(files.stat_file(session, "/b").await.unwrap().is_none());

    write(&files, session, "/b", "123").await.unwrap();
    let changed = files
        .write_file_if_content_matches(session, "/b", "123", "text", "1234", "text")
        .await;
    exceeded(changed);
    assert_eq!(text(&files, session, "/b").await.unwrap(), "123");
    write(&files, session, "/a", "").await.unwrap();
    write(&files, session, "/b", "12345").await.unwrap();
}

#[tokio::test]
async fn r15_deleted_files_use_no_quota() {
    let (files, session) = limited(FileQuota {
        max_files: Some(3),
        max_total_bytes: Some(10),
        ..FileQuota::default()
    });
    // More often than the directories of three files may be.
    for round in 0..2 * windlass_store::MAX_DEPTH {
        let directory = format!("/d{round}");
        write(&files, session, &format!("{directory}/a"), "12345")
            .await
            .unwrap();
        write(&files, session, &format!("{directory}/b/c"), "12345")
            .await
            .unwrap();
        assert!(files.delete_file(session, &directory, true).await.unwrap());
    }
    files.forget_session(session).await.unwrap();
    write(&files, session, "/a", "1234567890").await.unwrap();
}

#[tokio::test]
async fn r62_quotas_apply_to_each_session() {
    let (files, session) = limited(FileQuota {
        max_files: Some(1),
        max_total_bytes: Some(4),
        ..FileQuota::default()
    });
    write(&files, session, "/a", "1234").await.unwrap();
    for _ in 0..3 {
        let other = SessionId::new();
        write(&files, other, "/a", "1234").await.unwrap();
        exceeded(write(&files, other, "/b", "").await);
    }
    exceeded(write(&files, session, "/a", "12345").await);
}
