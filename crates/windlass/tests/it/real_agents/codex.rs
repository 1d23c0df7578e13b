//! Codex.

use serde_json::json;

use super::model::{Act, AgentModel, PRINTED};
use super::{Cli, Conversation, scenarios};

pub(super) const CODEX: Cli = Cli {
    backend: "codex",
    program: "WINDLASS_CODEX",
    entry: "",
    variables: |_| vec![("MODEL_KEY", "a-key".to_owned())],
    settings: |url| {
        let config = format!(
            "model = 'gpt-5.1-codex'\nmodel_provider = 'fake'\n\
             [model_providers.fake]\nname = 'fake'\nbase_url = '{url}/v1'\nwire_api = 'responses'\nenv_key = 'MODEL_KEY'\n\
             request_max_retries = 1\nstream_max_retries = 1\n"
        );
        Some((".codex/config.toml", config))
    },
    sessions: ".codex/sessions",
    shows: PRINTED,
};

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_uses_a_tool_and_answers() {
    scenarios::uses_a_tool_and_answers(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_accepts_steering_of_a_running_turn() {
    let model = AgentModel::start();
    let home = CODEX.home(&model);
    let mut conversation = Conversation::begin_with(&CODEX, &home, &json!({"auto_approve": true}));
    model.next(Act::CallLong);
    let turn = conversation.say("a long story");
    conversation.until(|frame| frame.data["payload"]["item"]["kind"] == "tool_call");
    let path = format!("{turn}/steer");
    let words = json!({"prompt": "make it short"});
    let answer = conversation.daemon.client.post(&path, &words);
    assert!(answer.status < 300, "{}", answer.body);
    conversation.until_recorded("backend.steered");
    std::fs::write(home.workspace.join("go"), "").unwrap();
    conversation.until_end("completed");
    // The steering text was sent with the result of the command, without a separate prompt.
    assert_eq!(model.request_count(), 2, "{}", model.last_request());
    assert_eq!(model.max_repetitions("make it short"), 1);
    conversation.daemon.stop();
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_continues_after_a_denied_command() {
    scenarios::continues_after_a_denied_command(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_stops_on_interrupt_and_continues() {
    scenarios::stops_on_interrupt_and_continues(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_resumes_its_session_after_the_daemon_is_killed() {
    scenarios::resumes_its_session_after_the_daemon_is_killed(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_starts_a_new_session_when_the_old_is_unknown() {
    scenarios::starts_a_new_session_when_the_old_is_unknown(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_waits_for_a_limit_without_a_reset_time() {
    scenarios::waits_for_a_limit_without_a_reset_time(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_waits_until_a_limit_resets() {
    scenarios::waits_until_a_limit_resets(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_reports_a_missing_login() {
    scenarios::reports_a_missing_login(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn exit_of_codex_ends_the_turn_and_not_the_thread() {
    scenarios::exit_ends_the_turn_and_not_the_thread(&CODEX);
}
