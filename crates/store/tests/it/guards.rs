//! The blocklist and the approval gate.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use windlass_core::typed_id::SessionId;
use windlass_store::{
    ApprovalGatingFileStore, DEFAULT_WRITE_BLOCKLIST, FileApprovalGate, InMemorySessionFileStore,
    WriteBlocklistFileStore,
};

use crate::support::{Always, FileSystemRef, initial, text, write};

fn blocked() -> (FileSystemRef, FileSystemRef, SessionId) {
    let inner: FileSystemRef = Arc::new(InMemorySessionFileStore::new());
    let guarded = WriteBlocklistFileStore::new(Arc::clone(&inner));
    (Arc::new(guarded), inner, SessionId::new())
}

#[tokio::test]
async fn blocked_names_are_read_but_not_changed() {
    let (files, inner, session) = blocked();
    for name in DEFAULT_WRITE_BLOCKLIST {
        let path = format!("/sub/{name}/file");
        write(&inner, session, &path, "x").await.unwrap();
        assert_eq!(text(&files, session, &path).await.unwrap(), "x");
        let seed = initial(&path, "y", false);
        let refusals = [
            write(&files, session, &path, "y").await.err(),
            write(&files, session, &format!("sub//{name}"), "y")
                .await
                .err(),
            files.delete_file(session, &path, false).await.err(),
            files.delete_file(session, "/sub", true).await.err(),
            files
                .create_directory(session, &format!("{name}/new"))
                .await
                .err(),
            files.seed_initial_file(session, &seed).await.err(),
            files
                .write_file_if_content_matches(session, &path, "x", "text", "y", "text")
                .await
                .err(),
        ];
        for refusal in refusals {
            let refusal = refusal.expect("something blocked was changed").to_string();
            assert!(refusal.contains(&format!("`{name}`")), "{refusal}");
        }
        assert_eq!(text(&files, session, &path).await.unwrap(), "x");
        inner.delete_file(session, "/sub", true).await.unwrap();
    }
}

#[tokio::test]
async fn similar_names_are_not_blocked() {
    let (files, _, session) = blocked();
    for path in ["/.gitignore", "/targets/x", "/my-build/x", "/src/dist.rs"] {
        write(&files, session, path, "x").await.unwrap();
    }
    assert!(files.delete_file(session, "/targets", true).await.unwrap());
    let other = WriteBlocklistFileStore::with_blocklist(files, ["private"]);
    let other: FileSystemRef = Arc::new(other);
    write(&other, session, "/private/x", "x").await.unwrap_err();
}

#[tokio::test]
async fn guards_forward_forget_session() {
    let (files, inner, session) = blocked();
    let gated: FileSystemRef =
        Arc::new(ApprovalGatingFileStore::new(files, Arc::new(Always(true))));
    write(&gated, session, "/f", "x").await.unwrap();
    gated.forget_session(session).await.unwrap();
    assert!(text(&inner, session, "/f").await.is_none());
}

/// A gate that records its requests, changes a file during a request, and then answers.
struct RecordingGate {
    requests: Mutex<Vec<String>>,
    meanwhile: Option<(FileSystemRef, SessionId, &'static str)>,
    answer: bool,
}

#[async_trait]
impl FileApprovalGate for RecordingGate {
    async fn approve_write(&self, path: &str, before: Option<String>, after: &str) -> bool {
        let request = format!("{path}: {before:?} -> {after}");
        self.requests.lock().unwrap().push(request);
        if let Some((files, session, path)) = &self.meanwhile {
            write(files, *session, path, "meanwhile").await.unwrap();
        }
        self.answer
    }
    async fn approve_delete(&self, path: &str, recursive: bool) -> bool {
        let request = format!("delete {path} {recursive}");
        self.requests.lock().unwrap().push(request);
        self.answer
    }
}

struct Gated {
    files: FileSystemRef,
    inner: FileSystemRef,
    gate: Arc<RecordingGate>,
    session: SessionId,
}

fn gated(answer: bool, meanwhile: Option<&'static str>) -> Gated {
    let inner: FileSystemRef = Arc::new(InMemorySessionFileStore::new());
    let session = SessionId::new();
    let gate = Arc::new(RecordingGate {
        requests: Mutex::default(),
        meanwhile: meanwhile.map(|path| (Arc::clone(&inner), session, path)),
        answer,
    });
    let files = ApprovalGatingFileStore::new(Arc::clone(&inner), gate.clone());
    Gated {
        files: Arc::new(files),
        inner,
        gate,
        session,
    }
}

#[tokio::test]
async fn gate_receives_the_change_and_a_refusal_changes_nothing() {
    let Gated {
        files,
        inner,
        gate,
        session,
    } = gated(false, None);
    write(&inner, session, "/old", "before").await.unwrap();
    let refusals = [
        write(&files, session, "old", "after").await.err(),
        write(&files, session, "/new", "after").await.err(),
        files
            .write_file_if_content_matches(session, "/old", "before", "text", "other", "text")
            .await
            .err(),
        files.delete_file(session, "/old", true).await.err(),
    ];
    for refusal in refusals {
        let refusal = refusal.expect("something refused was done").to_string();
        assert!(refusal.contains("not approved: /"), "{refusal}");
    }
    assert_eq!(
        *gate.requests.lock().unwrap(),
        [
            "/old: Some(\"before\") -> after",
            "/new: None -> after",
            "/old: Some(\"before\") -> other",
            "delete /old true",
        ]
    );
    assert_eq!(text(&inner, session, "/old").await.unwrap(), "before");
    assert!(text(&inner, session, "/new").await.is_none());
}

#[tokio::test]
async fn impossible_changes_are_refused_without_a_request() {
    let Gated {
        files,
        inner,
        gate,
        session,
    } = gated(true, None);
    write(&inner, session, "/d/f", "x").await.unwrap();
    let locked = initial("/locked", "x", true);
    files.seed_initial_file(session, &locked).await.unwrap();
    write(&files, session, "/locked", "y").await.unwrap_err();
    write(&files, session, "/d", "y").await.unwrap_err();
    write(&files, session, "/../x", "y").await.unwrap_err();
    files
        .write_file(session, "/b", "%", "base64")
        .await
        .unwrap_err();
    files.delete_file(session, "/", true).await.unwrap_err();
    files
        .delete_file(session, "/locked", false)
        .await
        .unwrap_err();
    assert!(!files.delete_file(session, "/missing", true).await.unwrap());
    assert!(!files.delete_file(session, "/d", false).await.unwrap());
    let other = files.write_file_if_content_matches(session, "/d/f", "y", "text", "z", "text");
    assert!(other.await.unwrap().is_none());
    assert_eq!(*gate.requests.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn change_during_approval_is_not_overwritten() {
    for path in ["/old", "/new"] {
        let Gated {
            files,
            inner,
            session,
            ..
        } = gated(true, Some(path));
        write(&inner, session, "/old", "before").await.unwrap();
        let error = write(&files, session, path, "after").await.unwrap_err();
        assert!(error.to_string().contains("changed while"), "{error}");
        assert_eq!(text(&inner, session, path).await.unwrap(), "meanwhile");
    }
}
