//! The visible output of a tool's result, and the text that the model reads.

use serde_json::{Value, json};

use crate::support::{Frame, Setup, TestDaemon};

async fn with_tools() -> TestDaemon {
    let setup = Setup {
        has_tools: true,
        ..Setup::default()
    };
    let daemon = setup.start().await;
    std::fs::create_dir(daemon.workspace.path().join("sub")).unwrap();
    std::fs::write(
        daemon.workspace.path().join("log.txt"),
        "all hands\non deck\n",
    )
    .unwrap();
    daemon
}

/// Returns the item of the tool call from the events of a turn.
fn called(frames: &[Frame]) -> Value {
    let ended = frames.iter().find(|frame| {
        frame.event == "item.completed"
            && frame.data["payload"]["item"]["metadata"]["tool"].is_object()
    });
    ended.unwrap().data["payload"]["item"].clone()
}

#[tokio::test]
async fn tool_detail_is_text_and_numbers_are_in_the_metadata() {
    let daemon = with_tools().await;
    let thread = daemon.thread(json!({"auto_approve": true})).await;
    let cases = [
        (
            r#"read {"path": "log.txt", "lines": 1}"#,
            "all hands\n",
            json!({"path": "log.txt", "line_count": 2, "start_line": 1}),
        ),
        (
            r#"grep {"pattern": "deck"}"#,
            "log.txt:2:on deck",
            json!({"files_searched": 1}),
        ),
        (r#"glob {"pattern": "*.txt"}"#, "log.txt", json!({})),
        (r#"list {}"#, "log.txt\nsub/", json!({"entry_count": 2})),
        (
            r#"write {"path": "new.txt", "content": "ahoy"}"#,
            "created new.txt (4 bytes)",
            json!({"path": "new.txt", "created": true}),
        ),
    ];
    for (call, detail, figures) in cases {
        let frames = daemon.say(&thread, &format!("CALL {call}")).await;
        let item = called(&frames);
        assert_eq!(item["detail"], detail, "{call}");
        for (name, value) in figures.as_object().unwrap() {
            assert_eq!(item["metadata"][name], *value, "{call}: {item}");
        }
        assert!(item["metadata"]["duration_ms"].is_u64(), "{item}");
    }
    let frames = daemon
        .say(
            &thread,
            r#"CALL edit {"path": "new.txt", "old_string": "ahoy", "new_string": "land"}"#,
        )
        .await;
    let item = called(&frames);
    let detail = item["detail"].as_str().unwrap();
    assert!(
        detail.contains("-ahoy") && detail.contains("+land"),
        "{detail}"
    );
    assert_eq!(item["metadata"]["replacements"], 1);
    // The thread detail and the events agree.
    let shown = daemon.detail(&thread).await;
    let same = shown["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|other| other["id"] == item["id"]);
    assert_eq!(same.unwrap()["detail"], item["detail"]);
    // The model receives every field by name.
    assert!(
        daemon
            .model
            .messages()
            .concat()
            .contains(r#""replacements":1"#)
    );
}
