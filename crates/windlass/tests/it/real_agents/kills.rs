//! The daemon is killed at five points of turns that Claude Code runs: while it starts, while it works, and while it runs a command.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::claude::CLAUDE;
use super::model::{Act, AgentModel};
use super::{Conversation, PATIENCE};

/// The notices about a prompt that is sent again.
const NOTICES: [&str; 2] = [
    "the prompt is sent again",
    "starts again with the conversation",
];

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_resumes_after_kills_at_five_points() {
    let model = AgentModel::start();
    let home = CLAUDE.home(&model);
    let mut conversation = Conversation::begin_with(&CLAUDE, &home, &json!({"auto_approve": true}));
    for (number, moment_ms) in [150, 2400, 900, 1500, 3300].into_iter().enumerate() {
        let words = format!("words number {number}");
        model.next(Act::CallLong);
        let turn = conversation.say(&words);
        std::thread::sleep(Duration::from_millis(moment_ms));
        let before = CLAUDE.pids(&home);
        conversation = conversation.killed();
        // Only now, the command that the old process waits for ends.
        std::fs::write(home.workspace.join("go"), "").unwrap();
        until_gone(&before);
        let id = turn.rsplit('/').next().unwrap();
        conversation.until(|frame| frame.event == "turn.completed" && frame.data["turn_id"] == id);
        let newest = conversation.assert_newest("completed");
        assert_eq!(newest["resumed_count"], 1, "{newest}");
        let detail = conversation.detail();
        let items = detail["items"].as_array().unwrap().iter();
        let notices = items.filter(|item| {
            let detail = item["detail"].to_string();
            item["turn_id"] == id && NOTICES.iter().any(|notice| detail.contains(notice))
        });
        let count = model.max_repetitions(&words);
        assert!(
            (1..=1 + notices.count()).contains(&count),
            "{count}: {detail:#}"
        );
        std::fs::remove_file(home.workspace.join("go")).unwrap();
    }
    conversation.daemon.stop();
    assert!(CLAUDE.pids(&home).is_empty());
}

/// Waits until processes have ended. Their IDs are not reused within the test.
#[track_caller]
fn until_gone(pids: &[u32]) {
    let given_up = std::time::Instant::now() + PATIENCE;
    let is_there = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
    while let Some(pid) = pids.iter().find(|pid| is_there(pid)) {
        assert!(std::time::Instant::now() < given_up, "{pid} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}
