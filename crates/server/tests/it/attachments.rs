//! Images and files that come with a prompt.

use serde_json::{Value, json};
use windlass_core::message::ContentPart;
use windlass_runtime::{ApprovalAction, ApprovalRule, ApprovalRules};

use crate::support::{Setup, TestDaemon};

/// A PNG of one pixel.
pub(crate) const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Returns the parts of the newest message in the model's request.
fn parts(daemon: &TestDaemon) -> Vec<ContentPart> {
    let requests = daemon.model.requests();
    let last = requests.last().unwrap().history.iter().next_back();
    last.unwrap().content.clone()
}

async fn say(daemon: &TestDaemon, thread: &str, input: Value) {
    let since = daemon.detail(thread).await["latest_seq"].as_u64().unwrap();
    let body = json!({"prompt": "look", "input": input});
    daemon.turn(thread, body).await;
    let mut events = daemon.events(thread, since).await;
    events.until("turn.completed").await;
}

#[tokio::test]
async fn images_and_files_reach_the_model_in_order() {
    let setup = Setup::default();
    let root = setup.workspace.path();
    std::fs::write(root.join("notes.txt"), "from the workspace").unwrap();
    std::fs::write(root.join("a.gif"), b"GIF89a....").unwrap();
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    let input = json!([
        {"type": "image", "data": PIXEL, "media_type": "image/png"},
        {"type": "text", "text": "and"},
        {"type": "file", "name": "a.md", "text": "# A"},
        {"type": "file", "path": "notes.txt"},
        {"type": "image", "path": "a.gif"},
    ]);
    say(&daemon, &thread, input).await;
    let shown: Vec<String> = parts(&daemon)
        .iter()
        .map(|part| match part {
            ContentPart::Text(part) => part.text.clone(),
            ContentPart::Image(image) => {
                let data = image.base64.clone().unwrap();
                format!("{} {}", image.media_type.clone().unwrap(), data.len())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        shown,
        [
            "look",
            &format!("image/png {}", PIXEL.len()),
            "and",
            "<file name=\"a.md\">\n# A\n</file>",
            "<file name=\"notes.txt\">\nfrom the workspace\n</file>",
            "image/gif 16",
        ]
    );
}

#[tokio::test]
async fn image_bytes_are_recorded_once() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    say(&daemon, &thread, json!([{"type": "image", "data": PIXEL}])).await;
    say(&daemon, &thread, json!([])).await;
    let id = thread.trim_start_matches("/v1/threads/thr_");
    let session = format!("session_{id}").parse().unwrap();
    let events = daemon.runtime.events_since(session, 0, 1000).await.unwrap();
    let events = events.iter().map(|event| serde_json::to_string(&**event));
    let copies = events.map(|event| event.unwrap().matches(PIXEL).count());
    assert_eq!(copies.sum::<usize>(), 1);
}

#[tokio::test]
async fn invalid_parts_are_refused_and_not_recorded() {
    let setup = Setup::default();
    let root = setup.workspace.path();
    std::fs::write(root.join("binary.pdf"), b"%PDF-1.7\0\xff").unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.txt"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.txt"), root.join("link.txt")).unwrap();
    let outside = outside.path().join("secret.txt").display().to_string();
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    let many = vec![json!({"type": "text", "text": "x"}); 33];
    let long = "a".repeat(1024 * 1024 + 1);
    for (part, code) in [
        (json!({"type": "image", "data": "%%%"}), "invalid_field"),
        (
            json!({"type": "image", "data": "aGVsbG8="}),
            "invalid_field",
        ),
        (
            json!({"type": "image", "data": PIXEL, "media_type": "image/jpeg"}),
            "invalid_field",
        ),
        (json!({"type": "image"}), "invalid_field"),
        (
            json!({"type": "image", "data": PIXEL, "path": "a.png"}),
            "invalid_field",
        ),
        (
            json!({"type": "image", "url": "http://127.0.0.1/a.png"}),
            "invalid_field",
        ),
        (json!({"type": "sound", "data": "x"}), "invalid_field"),
        (json!({"type": "file", "text": "x"}), "invalid_field"),
        (
            json!({"type": "file", "name": "a\"b", "text": "x"}),
            "invalid_field",
        ),
        (
            json!({"type": "file", "name": "long", "text": long}),
            "invalid_field",
        ),
        (json!({"type": "file", "path": "missing"}), "invalid_field"),
        (json!({"type": "file", "path": "../x"}), "invalid_field"),
        (json!({"type": "file", "path": outside}), "invalid_field"),
        (json!({"type": "file", "path": "link.txt"}), "invalid_field"),
        (
            json!({"type": "file", "path": "binary.pdf"}),
            "unsupported_input",
        ),
    ] {
        let body = json!({"prompt": "look", "input": [part]});
        let answer = daemon.client.post(&format!("{thread}/turns"), body).await;
        let shown: String = part.to_string().chars().take(80).collect();
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (422, code),
            "{shown}"
        );
    }
    let body = json!({"prompt": "look", "input": many});
    let answer = daemon.client.post(&format!("{thread}/turns"), body).await;
    assert_eq!(answer.code(), "invalid_field");
    assert_eq!(daemon.detail(&thread).await["turns"], json!([]));
    assert!(daemon.model.requests().is_empty());
}

#[tokio::test]
async fn image_for_a_text_only_model_is_refused_and_not_recorded() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({"model": "text-only"})).await;
    let path = format!("{thread}/turns");
    let image = json!([{"type": "image", "data": PIXEL}]);
    let refused = |answer: crate::support::Reply| {
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (422, "unsupported_input")
        );
        assert_eq!(answer.json()["error"]["details"]["model"], "text-only");
    };
    let body = json!({"prompt": "look", "input": image});
    refused(daemon.client.post(&path, body.clone()).await);
    assert_eq!(daemon.detail(&thread).await["turns"], json!([]));

    let turn = daemon.turn(&thread, json!({"prompt": "SILENT"})).await;
    refused(
        daemon
            .client
            .post(&format!("{turn}/steer"), body.clone())
            .await,
    );
    for on_busy in ["queue", "steer", "interrupt"] {
        let mut body = body.clone();
        body["on_busy"] = on_busy.into();
        refused(daemon.client.post(&path, body).await);
    }
    let read = daemon.client.get(&turn).await.expect(200);
    assert_eq!(
        (&read["turn"]["status"], &read["turn"]["steer_count"]),
        (&json!("in_progress"), &json!(0))
    );
}

#[tokio::test]
async fn queued_prompt_can_be_edited_without_its_images() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.turn(&thread, json!({"prompt": "SILENT"})).await;
    let body =
        json!({"prompt": "old", "on_busy": "queue", "input": [{"type": "image", "data": PIXEL}]});
    let queued = daemon.client.post(&format!("{thread}/turns"), body).await;
    let queued = queued.expect(201)["turn"]["id"].clone();
    let path = format!("{thread}/queue/{}", queued.as_str().unwrap());
    let edited = daemon.client.patch(&path, json!({"prompt": "new"})).await;
    assert_eq!(edited.expect(200)["prompt"], "new");
    daemon.model.open();
    let mut events = daemon.events(&thread, 0).await;
    for _ in 0..2 {
        events.until("turn.completed").await;
    }
    let parts = parts(&daemon);
    assert_eq!(parts[0], ContentPart::text("new"));
    assert!(parts[1].is_image());
}

#[tokio::test]
async fn denied_path_is_not_attached() {
    let rules = ApprovalRules {
        default: None,
        rules: vec![ApprovalRule {
            tool: "*".to_owned(),
            arguments: [("path".to_owned(), "secret/**".to_owned())].into(),
            command: None,
            action: ApprovalAction::Deny,
        }],
    };
    let setup = Setup {
        runtime: Box::new(|settings| settings.approvals = rules.into()),
        ..Setup::default()
    };
    let root = setup.workspace.path();
    std::fs::create_dir(root.join("secret")).unwrap();
    std::fs::write(root.join("secret/key.txt"), "key").unwrap();
    std::fs::write(root.join("open.txt"), "open").unwrap();
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    let attach = async |path: &str| {
        let body = json!({"prompt": "look", "input": [{"type": "file", "path": path}]});
        daemon.client.post(&format!("{thread}/turns"), body).await
    };
    for path in ["secret/key.txt", "./secret/key.txt", "x/../secret/key.txt"] {
        let refused = attach(path).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (422, "invalid_field"),
            "{path}"
        );
    }
    assert_eq!(daemon.detail(&thread).await["turns"], json!([]));
    attach("open.txt").await.expect(201);
}
