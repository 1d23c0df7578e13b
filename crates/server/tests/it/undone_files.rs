//! Going back in a conversation, with the files.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use windlass_tools::{CheckpointLimits, Checkpoints};

use crate::support::{Daemon, Setup, text};

/// A daemon that checkpoints its agent's file changes.
async fn keeping(data: &Path) -> Daemon {
    let store = data.join("checkpoints");
    let setup = Setup {
        has_tools: true,
        ..Setup::settings(move |settings| {
            let kept = Checkpoints::open(store, CheckpointLimits::default()).unwrap();
            settings.environments.enable_checkpoints(kept);
        })
    };
    setup.start().await
}

struct Talk<'a> {
    daemon: &'a Daemon,
    thread: String,
}

impl<'a> Talk<'a> {
    async fn begin(daemon: &'a Daemon) -> Self {
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

async fn threads(daemon: &Daemon) -> usize {
    let all = daemon.client.get("/v1/threads").await.expect(200);
    all.as_array().unwrap().len()
}

#[tokio::test]
async fn a_patch_undo_goes_back_with_the_files_or_not_at_all() {
    let data = tempfile::tempdir().unwrap();
    let daemon = keeping(data.path()).await;
    let talk = Talk::begin(&daemon).await;
    for content in ["1", "2", "3"] {
        talk.write("a", content).await;
    }
    let undo = async |thread: &str, body: Value| {
        let path = format!("{thread}/patch-undo");
        daemon.client.post(&path, body).await
    };
    // The option has the same meaning regardless of the other fields.
    let undone = undo(&talk.thread, json!({ "files": false })).await;
    let undone = undone.expect(201);
    assert_eq!(undone["files"], json!({ "restored": ["a"], "left": [] }));
    let shown =
        json!({ "files_restored": true, "summary": "Restored: a", "snapshot_label": "pre-turn" });
    assert_eq!(undone["patch_result"], shown, "as clients read it");
    assert_eq!(talk.read("a").as_deref(), Some("2"));
    assert!(text(&undone["original_user_text"]).starts_with("CALL write"));
    let fork = format!("/v1/threads/{}", text(&undone["thread"]["id"]));
    let refused = undo(&fork, json!({ "depth": 9 })).await;
    assert_eq!(refused.code(), "depth_out_of_range");
    fs::write(daemon.workspace.path().join("a"), "mine").unwrap();
    let before = threads(&daemon).await;
    assert_eq!(undo(&fork, json!({})).await.code(), "files_changed");
    assert_eq!(talk.read("a").as_deref(), Some("mine"));
    assert_eq!(threads(&daemon).await, before);
    fs::write(daemon.workspace.path().join("a"), "2").unwrap();
    undo(&fork, json!({ "depth": 1 })).await.expect(201);
    assert_eq!(talk.read("a"), None, "two turns further");
    let words = daemon.thread(json!({})).await;
    daemon.say(&words, "only words").await;
    let undone = undo(&words, json!({})).await.expect(201);
    assert_eq!(undone["patch_result"]["files_restored"], false);
    assert!(undone["patch_result"]["summary"].is_string());

    let plain = Daemon::start().await;
    let thread = plain.thread(json!({})).await;
    plain.say(&thread, "hello").await;
    let refused = plain
        .client
        .raw("POST", &format!("{thread}/patch-undo"), None);
    assert_eq!(refused.await.code(), "files_not_kept");
    assert_eq!(threads(&plain).await, 1);
}

#[tokio::test]
async fn a_snapshot_is_what_was_before_a_turn_and_comes_back_without_the_conversation() {
    let data = tempfile::tempdir().unwrap();
    let daemon = keeping(data.path()).await;
    let (client, talk) = (&daemon.client, Talk::begin(&daemon).await);
    for content in ["1", "2", "3"] {
        talk.write("a", content).await;
    }
    daemon.say(&talk.thread, "only words").await;
    let list = client.get("/v1/snapshots").await.expect(200);
    let turns = daemon.detail(&talk.thread).await["turns"].clone();
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
    assert_eq!(talk.read("a").as_deref(), Some("1"));
    assert_eq!((talk.turns().await, threads(&daemon).await), (4, 1));
    restore(&second).await.expect(200);

    let unknown = format!("turn_{}", "0".repeat(32));
    let words = text(&turns[3]["id"]);
    for id in [&unknown, &words, "..%2F..%2Fknown", "turn_1", "%00"] {
        assert_eq!(restore(id).await.code(), "turn_not_found", "{id}");
    }
    assert_eq!(client.raw("DELETE", &talk.thread, None).await.status, 204);
    assert_eq!(client.get("/v1/snapshots").await.expect(200), json!([]));
    assert_eq!(restore(&second).await.code(), "turn_not_found");
}

#[tokio::test]
async fn files_go_back_with_the_conversation_when_that_is_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let daemon = keeping(data.path()).await;
    fs::write(daemon.workspace.path().join("a"), "0").unwrap();
    let talk = Talk::begin(&daemon).await;
    talk.write("a", "1").await;
    talk.write("a", "2").await;
    talk.write("b", "3").await;
    // Unless requested, the files are unchanged.
    let (status, undone) = talk.undo(json!({})).await;
    assert_eq!((status, undone.get("files")), (201, None));
    assert_eq!(talk.read("b").as_deref(), Some("3"));
    // Two turns, in one.
    let (status, undone) = talk.undo(json!({ "depth": 1, "files": true })).await;
    assert_eq!(status, 201, "{undone}");
    assert_eq!(
        undone["files"],
        json!({ "restored": ["a", "b"], "left": [] })
    );
    assert_eq!(
        (talk.read("a").as_deref(), talk.read("b")),
        (Some("1"), None)
    );
    // The fork goes back further: what it shares with its parent is known.
    let fork = Talk {
        daemon: &daemon,
        thread: format!("/v1/threads/{}", text(&undone["thread"]["id"])),
    };
    assert_eq!(fork.turns().await, 1);
    let (status, undone) = fork.undo(json!({ "files": true })).await;
    assert_eq!(status, 201, "{undone}");
    assert_eq!(talk.read("a").as_deref(), Some("0"));
}

#[tokio::test]
async fn edits_of_others_keep_both_as_they_are() {
    let data = tempfile::tempdir().unwrap();
    let daemon = keeping(data.path()).await;
    let talk = Talk::begin(&daemon).await;
    talk.write("a", "1").await;
    talk.write("b", "1").await;
    fs::write(daemon.workspace.path().join("a"), "theirs").unwrap();
    let (status, refused) = talk.undo(json!({ "depth": 1, "files": true })).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(refused["error"]["code"], "files_changed");
    assert_eq!(
        refused["error"]["details"],
        json!({ "paths": ["a"], "count": 1 })
    );
    assert_eq!(talk.read("a").as_deref(), Some("theirs"));
    assert_eq!(talk.read("b").as_deref(), Some("1"));
    assert_eq!((threads(&daemon).await, talk.turns().await), (1, 2));
    // The last turn alone does not concern the file.
    let (status, _) = talk.undo(json!({ "files": true })).await;
    assert_eq!((status, talk.read("b")), (201, None));
}

#[tokio::test]
async fn a_repeated_request_restores_once() {
    let data = tempfile::tempdir().unwrap();
    let daemon = keeping(data.path()).await;
    let talk = Talk::begin(&daemon).await;
    talk.write("a", "1").await;
    let mut client = daemon.client.clone();
    client
        .headers
        .push(("Idempotency-Key".to_owned(), "once".to_owned()));
    let (path, body) = (format!("{}/undo", talk.thread), json!({ "files": true }));
    let first = client.post(&path, body.clone()).await.expect(201);
    fs::write(daemon.workspace.path().join("a"), "1").unwrap();
    let again = client.post(&path, body).await.expect(201);
    assert_eq!(first["thread"]["id"], again["thread"]["id"]);
    assert_eq!(talk.read("a").as_deref(), Some("1"));
}

#[tokio::test]
async fn a_turn_is_tried_again_with_the_files_that_it_found() {
    let data = tempfile::tempdir().unwrap();
    let daemon = keeping(data.path()).await;
    fs::write(daemon.workspace.path().join("a"), "0").unwrap();
    let talk = Talk::begin(&daemon).await;
    talk.write("a", "1").await;
    talk.write("b", "2").await;
    let path = format!("{}/retry", talk.thread);
    let retry = async |body: Value| daemon.client.post(&path, body).await;
    // Unless requested, the files are unchanged.
    let answer = retry(json!({ "depth": 1, "prompt": "hello" })).await;
    assert_eq!(answer.expect(201).get("files"), None);
    assert_eq!(talk.read("b").as_deref(), Some("2"));
    // If the user has edited a file, neither happens.
    fs::write(daemon.workspace.path().join("a"), "theirs").unwrap();
    let before = threads(&daemon).await;
    let body = json!({ "depth": 1, "prompt": "hello", "files": true });
    let refused = retry(body.clone()).await.expect(409);
    assert_eq!(refused["error"]["code"], "files_changed");
    assert_eq!(threads(&daemon).await, before);
    assert_eq!(talk.read("a").as_deref(), Some("theirs"));
    fs::write(daemon.workspace.path().join("a"), "1").unwrap();
    let answer = retry(body).await;
    assert_eq!(answer.header("x-windlass-ignored"), None);
    let tried = answer.expect(201);
    let files = json!({ "restored": ["a", "b"], "left": [] });
    assert_eq!(tried["files"], files);
    assert_eq!(talk.read("a").as_deref(), Some("0"));
    assert_eq!(talk.read("b"), None);
}

#[tokio::test]
async fn no_field_of_going_back_counts_as_unknown() {
    let data = tempfile::tempdir().unwrap();
    let daemon = keeping(data.path()).await;
    let talk = Talk::begin(&daemon).await;
    talk.write("a", "1").await;
    let body = json!({ "depth": 0, "files": true, "cut_off": true, "fuels": true });
    let path = format!("{}/undo", talk.thread);
    let answer = daemon.client.post(&path, body).await;
    assert_eq!(answer.header("x-windlass-ignored"), Some("fuels"));
    answer.expect(201);
}

#[tokio::test]
async fn what_was_kept_goes_with_the_thread() {
    let data = tempfile::tempdir().unwrap();
    let daemon = keeping(data.path()).await;
    let talk = Talk::begin(&daemon).await;
    talk.write("a", "1").await;
    let kept = || fs::read_dir(data.path().join("checkpoints/workspaces")).unwrap();
    assert_eq!(kept().count(), 1);
    let removed = daemon.client.raw("DELETE", &talk.thread, None).await;
    assert_eq!(removed.status, 204);
    assert_eq!(kept().count(), 0);
}

#[tokio::test]
async fn where_nothing_is_kept_that_is_told() {
    let setup = Setup {
        has_tools: true,
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let talk = Talk::begin(&daemon).await;
    talk.write("a", "1").await;
    let (status, refused) = talk.undo(json!({ "files": true })).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("files_not_kept"))
    );
    assert_eq!(threads(&daemon).await, 1);
}

#[tokio::test]
async fn a_turn_that_is_open_keeps_its_files() {
    let data = tempfile::tempdir().unwrap();
    let daemon = keeping(data.path()).await;
    let talk = Talk::begin(&daemon).await;
    let mut events = daemon.events(&talk.thread, 0).await;
    daemon.turn(&talk.thread, json!({ "prompt": "SLOW" })).await;
    events.until("item.delta").await;
    let (status, refused) = talk.undo(json!({ "files": true })).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("turn_active"))
    );
}

#[tokio::test]
async fn where_there_is_no_room_for_the_fork_the_files_stay() {
    let data = tempfile::tempdir().unwrap();
    let store = data.path().join("checkpoints");
    let setup = Setup {
        has_tools: true,
        ..Setup::settings(move |settings| {
            let kept = Checkpoints::open(store, CheckpointLimits::default()).unwrap();
            settings.environments.enable_checkpoints(kept);
            settings.limits.threads = 1;
        })
    };
    let daemon = setup.start().await;
    let talk = Talk::begin(&daemon).await;
    talk.write("a", "1").await;
    talk.write("a", "2").await;
    for word in ["undo", "retry", "patch-undo"] {
        let path = format!("{}/{word}", talk.thread);
        let answer = daemon.client.post(&path, json!({ "files": true })).await;
        assert_eq!(answer.status, 429, "{word}: {}", answer.json());
        assert_eq!(talk.read("a").as_deref(), Some("2"), "{word}");
    }
}
