//! Codex.

use serde_json::json;

use super::model::{Act, Model, PRINTED};
use super::{Cli, Conversation, scenes};

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
fn codex_answers_uses_a_tool_and_answers_again() {
    scenes::it_answers_uses_a_tool_and_answers_again(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_takes_what_is_said_to_a_running_turn() {
    let model = Model::start();
    let home = CODEX.home(&model);
    let mut it = Conversation::begin_with(&CODEX, &home, &json!({"auto_approve": true}));
    model.next(Act::CallLong);
    let turn = it.say("a long story");
    it.until(|frame| frame.data["payload"]["item"]["kind"] == "tool_call");
    let path = format!("{turn}/steer");
    let words = json!({"prompt": "make it short"});
    let answer = it.daemon.client.post(&path, &words);
    assert!(answer.status < 300, "{}", answer.body);
    it.until_recorded("backend.steered");
    std::fs::write(home.workspace.join("go"), "").unwrap();
    it.until_end("completed");
    // The steering text was sent with the result of the command, without a separate prompt.
    assert_eq!(model.asked(), 2, "{}", model.last_asked());
    assert_eq!(model.most_often_told("make it short"), 1);
    it.daemon.stop();
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_continues_after_a_denied_command() {
    scenes::it_continues_after_a_denied_command(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_stops_when_it_is_interrupted_and_goes_on() {
    scenes::it_stops_when_it_is_interrupted_and_goes_on(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_takes_its_session_up_after_a_kill_of_the_daemon() {
    scenes::it_takes_its_session_up_after_a_kill_of_the_daemon(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_starts_fresh_when_it_does_not_know_its_session() {
    scenes::it_starts_fresh_when_it_does_not_know_its_session(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_waits_for_a_limit_that_says_no_end() {
    scenes::it_waits_for_a_limit_that_says_no_end(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_waits_for_a_limit_until_its_end() {
    scenes::it_waits_for_a_limit_until_its_end(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_says_that_it_is_not_logged_in() {
    scenes::it_says_that_it_is_not_logged_in(&CODEX);
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn the_death_of_codex_ends_the_turn_and_not_the_thread() {
    scenes::its_death_ends_the_turn_and_not_the_thread(&CODEX);
}
