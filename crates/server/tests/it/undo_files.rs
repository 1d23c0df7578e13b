//! Undo, retry and snapshots that restore files.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use windlass_tools::{CheckpointLimits, Checkpoints};

use crate::support::{Setup, TestDaemon, text};

/// A daemon that checkpoints its agent's file changes.
async fn start_with_checkpoints(data: &Path) -> TestDaemon {
    let store = data.join("checkpoints");
    let setup = Setup {
        has_tools: true,
        ..Setup::settings(move |settings| {
            let checkpoints = Checkpoints::open(store, CheckpointLimits::default()).unwrap();
            settings.environments.enable_checkpoints(checkpoints);
        })
    };
    setup.start().await
}

struct UndoFixture<'a> {
    daemon: &'a TestDaemon,
    thread: String,
}

impl<'a> UndoFixture<'a> {
    async fn begin(daemon: &'a TestDaemon) -> Self {
        let thread = daemon.thread(json!({ "auto_approve": true })).await;
        Self { daemon, thread }
    }

    async fn write(&self, path: &str, content: &str) {
        let arguments = json!({ "path": path, "content": content });
        let prompt = format!("CALL write {arguments}");
        self.daemon.say(&self.thread, &prompt).await;
    }

    async fn undo(&self, body: Value) -> (u16, Value) {
        let path = format!("{}/undo", self.thread);
        let answer = self.daemon.client.post(&path, body).await;
        (answer.status, answer.json())
    }

    async fn turns(&self) -> usize {
        let detail = self.daemon.detail(&self.thread).await;
        detail["turns"].as_array().unwrap().len()
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.daemon.workspace.path().join(path)).ok()
    }
}

async fn threads(daemon: &TestDaemon) -> usize {
    let all = daemon.client.get("/v1/threads").await.expect(200);
    all.as_array().unwrap().len()
}

#[tokio::test]
async fn patch_undo_restores_the_files_or_nothing() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start_with_checkpoints(data.path()).await;
    let fixture = UndoFixture::begin(&daemon).await;
    for content in ["1", "2", "3"] {
        fixture.write("a", content).await;
    }
    let undo = async |thread: &str, body: Value| {
        let path = format!("{thread}/patch-undo");
        daemon.client.post(&path, body).await
    };
    // The option has the same meaning regardless of the other fields.
    let undone = undo(&fixture.thread, json!({ "files": false })).await;
    let undone = undone.expect(201);
    assert_eq!(undone["files"], json!({ "restored": ["a"], "left": [] }));
    let shown =
        json!({ "files_restored": true, "summary": "Restored: a", "snapshot_label": "pre-turn" });
    assert_eq!(undone["patch_result"], shown, "as clients read it");
    assert_eq!(fixture.read("a").as_deref(), Some("2"));
    assert!(text(&undone["original_user_text"]).starts_with("CALL write"));
    let fork = format!("/v1/threads/{}", text(&undone["thread"]["id"]));
    let refused = undo(&fork, json!({ "depth": 9 })).await;
    assert_eq!(refused.code(), "depth_out_of_range");
    fs::write(daemon.workspace.path().join("a"), "mine").unwrap();
    let before = threads(&daemon).await;
    assert_eq!(undo(&fork, json!({})).await.code(), "files_changed");
    assert_eq!(fixture.read("a").as_deref(), Some("mine"));
    assert_eq!(threads(&daemon).await, before);
    fs::write(daemon.workspace.path().join("a"), "2").unwrap();
    undo(&fork, json!({ "depth": 1 })).await.expect(201);
    assert_eq!(fixture.read("a"), None, "two turns further");
    let words = daemon.thread(json!({})).await;
    daemon.say(&words, "only words").await;
    let undone = undo(&words, json!({})).await.expect(201);
    assert_eq!(undone["patch_result"]["files_restored"], false);
    assert!(undone["patch_result"]["summary"].is_string());

    let plain = TestDaemon::start().await;
    let thread = plain.thread(json!({})).await;
    plain.say(&thread, "hello").await;
    let refused = plain
        .client
        .raw("POST", &format!("{thread}/patch-undo"), None);
    assert_eq!(refused.await.code(), "files_not_kept");
    assert_eq!(threads(&plain).await, 1);
}

#[tokio::test]
async fn snapshot_is_restored_without_the_conversation() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start_with_checkpoints(data.path()).await;
    let (client, fixture) = (&daemon.client, UndoFixture::begin(&daemon).await);
    for content in ["1", "2", "3"] {
        fixture.write("a", content).await;
    }
    daemon.say(&fixture.thread, "only words").await;
    let list = client.get("/v1/snapshots").await.expect(200);
    let turns = daemon.detail(&fixture.thread).await["turns"].clone();
    assert_eq!(list.as_array().unwrap().len(), 3, "words change no file");
    for (snapshot, turn) in [(0, 2), (1, 1), (2, 0)] {
        let (snapshot, turn) = (&list[snapshot], &turns[turn]);
        assert_eq!(snapshot["id"], turn["id"]);
        assert_eq!(snapshot["label"], turn["input_summary"]);
        assert!(snapshot["timestamp"].as_i64().unwrap() > 0);
    }
    let fewer = client.get("/v1/snapshots?limit=1").await.expect(200);
    assert_eq!(fewer, json!([list[0]]));
    assert_eq!(client.get("/v1/snapshots?limit=x").await.status, 400);

    let restore = async |id: &str| {
        let path = format!("/v1/snapshots/{id}/restore");
        client.raw("POST", &path, None).await
    };
    let second = text(&list[1]["id"]);
    fs::write(daemon.workspace.path().join("a"), "mine").unwrap();
    assert_eq!(restore(&second).await.code(), "files_changed");
    fs::write(daemon.workspace.path().join("a"), "3").unwrap();
    let restored = restore(&second).await.expect(200);
    assert_eq!(restored["restored"], second);
    assert_eq!(restored["files"], json!({ "restored": ["a"], "left": [] }));
    assert_eq!(fixture.read("a").as_deref(), Some("1"));
    assert_eq!((fixture.turns().await, threads(&daemon).await), (4, 1));
    restore(&second).await.expect(200);

    let unknown = format!("turn_{}", "0".repeat(32));
    let words = text(&turns[3]["id"]);
    for id in [&unknown, &words, "..%2F..%2Fknown", "turn_1", "%00"] {
        assert_eq!(restore(id).await.code(), "turn_not_found", "{id}");
    }
    assert_eq!(
        client.raw("DELETE", &fixture.thread, None).await.status,
        204
    );
    assert_eq!(client.get("/v1/snapshots").await.expect(200), json!([]));
    assert_eq!(restore(&second).await.code(), "turn_not_found");
}

#[tokio::test]
async fn undo_restores_files_on_request() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start_with_checkpoints(data.path()).await;
    fs::write(daemon.workspace.path().join("a"), "0").unwrap();
    let fixture = UndoFixture::begin(&daemon).await;
    fixture.write("a", "1").await;
    fixture.write("a", "2").await;
    fixture.write("b", "3").await;
    // Unless requested, the files are unchanged.
    let (status, undone) = fixture.undo(json!({})).await;
    assert_eq!((status, undone.get("files")), (201, None));
    assert_eq!(fixture.read("b").as_deref(), Some("3"));
    // Undoes two turns at once.
    let (status, undone) = fixture.undo(json!({ "depth": 1, "files": true })).await;
    assert_eq!(status, 201, "{undone}");
    assert_eq!(
        undone["files"],
        json!({ "restored": ["a", "b"], "left": [] })
    );
    assert_eq!(
        (fixture.read("a").as_deref(), fixture.read("b")),
        (Some("1"), None)
    );
    // Undo in the fork also covers the turns shared with its parent.
    let fork = UndoFixture {
        daemon: &daemon,
        thread: format!("/v1/threads/{}", text(&undone["thread"]["id"])),
    };
    assert_eq!(fork.turns().await, 1);
    let (status, undone) = fork.undo(json!({ "files": true })).await;
    assert_eq!(status, 201, "{undone}");
    assert_eq!(fixture.read("a").as_deref(), Some("0"));
}

#[tokio::test]
async fn external_edits_prevent_the_undo() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start_with_checkpoints(data.path()).await;
    let fixture = UndoFixture::begin(&daemon).await;
    fixture.write("a", "1").await;
    fixture.write("b", "1").await;
    fs::write(daemon.workspace.path().join("a"), "theirs").unwrap();
    let (status, refused) = fixture.undo(json!({ "depth": 1, "files": true })).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(refused["error"]["code"], "files_changed");
    assert_eq!(
        refused["error"]["details"],
        json!({ "paths": ["a"], "count": 1 })
    );
    assert_eq!(fixture.read("a").as_deref(), Some("theirs"));
    assert_eq!(fixture.read("b").as_deref(), Some("1"));
    assert_eq!((threads(&daemon).await, fixture.turns().await), (1, 2));
    // The last turn did not change the file.
    let (status, _) = fixture.undo(json!({ "files": true })).await;
    assert_eq!((status, fixture.read("b")), (201, None));
}

#[tokio::test]
async fn repeated_request_restores_once() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start_with_checkpoints(data.path()).await;
    let fixture = UndoFixture::begin(&daemon).await;
    fixture.write("a", "1").await;
    let mut client = daemon.client.clone();
    client
        .headers
        .push(("Idempotency-Key".to_owned(), "once".to_owned()));
    let (path, body) = (format!("{}/undo", fixture.thread), json!({ "files": true }));
    let first = client.post(&path, body.clone()).await.expect(201);
    fs::write(daemon.workspace.path().join("a"), "1").unwrap();
    let again = client.post(&path, body).await.expect(201);
    assert_eq!(first["thread"]["id"], again["thread"]["id"]);
    assert_eq!(fixture.read("a").as_deref(), Some("1"));
}

#[tokio::test]
async fn retry_starts_with_the_original_files() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start_with_checkpoints(data.path()).await;
    fs::write(daemon.workspace.path().join("a"), "0").unwrap();
    let fixture = UndoFixture::begin(&daemon).await;
    fixture.write("a", "1").await;
    fixture.write("b", "2").await;
    let path = format!("{}/retry", fixture.thread);
    let retry = async |body: Value| daemon.client.post(&path, body).await;
    // Unless requested, the files are unchanged.
    let answer = retry(json!({ "depth": 1, "prompt": "hello" })).await;
    assert_eq!(answer.expect(201).get("files"), None);
    assert_eq!(fixture.read("b").as_deref(), Some("2"));
    // If the user has edited a file, the retry is refused and no file is restored.
    fs::write(daemon.workspace.path().join("a"), "theirs").unwrap();
    let before = threads(&daemon).await;
    let body = json!({ "depth": 1, "prompt": "hello", "files": true });
    let refused = retry(body.clone()).await.expect(409);
    assert_eq!(refused["error"]["code"], "files_changed");
    assert_eq!(threads(&daemon).await, before);
    assert_eq!(fixture.read("a").as_deref(), Some("theirs"));
    fs::write(daemon.workspace.path().join("a"), "1").unwrap();
    let answer = retry(body).await;
    assert_eq!(answer.header("x-windlass-ignored"), None);
    let tried = answer.expect(201);
    let files = json!({ "restored": ["a", "b"], "left": [] });
    assert_eq!(tried["files"], files);
    assert_eq!(fixture.read("a").as_deref(), Some("0"));
    assert_eq!(fixture.read("b"), None);
}

#[tokio::test]
async fn all_undo_fields_are_known() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start_with_checkpoints(data.path()).await;
    let fixture = UndoFixture::begin(&daemon).await;
    fixture.write("a", "1").await;
    let body = json!({ "depth": 0, "files": true, "cut_off": true, "fuels": true });
    let path = format!("{}/undo", fixture.thread);
    let answer = daemon.client.post(&path, body).await;
    assert_eq!(answer.header("x-windlass-ignored"), Some("fuels"));
    answer.expect(201);
}

#[tokio::test]
async fn checkpoints_are_removed_with_the_thread() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start_with_checkpoints(data.path()).await;
    let fixture = UndoFixture::begin(&daemon).await;
    fixture.write("a", "1").await;
    let workspaces = || fs::read_dir(data.path().join("checkpoints/workspaces")).unwrap();
    assert_eq!(workspaces().count(), 1);
    let removed = daemon.client.raw("DELETE", &fixture.thread, None).await;
    assert_eq!(removed.status, 204);
    assert_eq!(workspaces().count(), 0);
}

#[tokio::test]
async fn undo_without_checkpoints_is_reported() {
    let setup = Setup {
        has_tools: true,
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let fixture = UndoFixture::begin(&daemon).await;
    fixture.write("a", "1").await;
    let (status, refused) = fixture.undo(json!({ "files": true })).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("files_not_kept"))
    );
    assert_eq!(threads(&daemon).await, 1);
}

#[tokio::test]
async fn undo_of_an_active_turn_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start_with_checkpoints(data.path()).await;
    let fixture = UndoFixture::begin(&daemon).await;
    let mut events = daemon.events(&fixture.thread, 0).await;
    daemon
        .turn(&fixture.thread, json!({ "prompt": "SLOW" }))
        .await;
    events.until("item.delta").await;
    let (status, refused) = fixture.undo(json!({ "files": true })).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("turn_active"))
    );
}

#[tokio::test]
async fn files_are_unchanged_when_the_fork_exceeds_the_quota() {
    let data = tempfile::tempdir().unwrap();
    let store = data.path().join("checkpoints");
    let setup = Setup {
        has_tools: true,
        ..Setup::settings(move |settings| {
            let checkpoints = Checkpoints::open(store, CheckpointLimits::default()).unwrap();
            settings.environments.enable_checkpoints(checkpoints);
            settings.limits.threads = 1;
        })
    };
    let daemon = setup.start().await;
    let fixture = UndoFixture::begin(&daemon).await;
    fixture.write("a", "1").await;
    fixture.write("a", "2").await;
    for word in ["undo", "retry", "patch-undo"] {
        let path = format!("{}/{word}", fixture.thread);
        let answer = daemon.client.post(&path, json!({ "files": true })).await;
        assert_eq!(answer.status, 429, "{word}: {}", answer.json());
        assert_eq!(fixture.read("a").as_deref(), Some("2"), "{word}");
    }
}
