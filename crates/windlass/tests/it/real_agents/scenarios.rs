//! Scenarios that every agent must pass.

use super::model::{Act, AgentModel, PRINTED, SAID};
use super::{Cli, Conversation};

pub(super) fn uses_a_tool_and_answers(cli: &Cli) {
    let model = AgentModel::start();
    let home = cli.home(&model);
    let mut conversation = Conversation::begin(cli, &home);
    conversation.turn("hello");
    conversation.assert_newest("completed");
    assert!(
        conversation.items().contains(SAID),
        "{}",
        conversation.items()
    );

    model.next(Act::Call);
    let approvals = conversation.turn("use the tool");
    conversation.assert_newest("completed");
    assert_eq!(approvals, 1, "{}", conversation.items());
    assert!(
        conversation.items().contains(cli.shows),
        "{}",
        conversation.items()
    );
    let output = std::fs::read_to_string(home.workspace.join("made"));
    let output = output.unwrap_or_else(|error| panic!("{error}: {}", model.last_request()));
    assert_eq!(output.trim(), PRINTED);

    conversation.turn("and now");
    conversation.assert_newest("completed");
    // There is one conversation, in which each message occurs once.
    assert_eq!(
        model.max_repetitions("hello"),
        1,
        "{}",
        model.last_request()
    );
    assert!(model.last_request().contains("hello"));
    conversation.daemon.stop();
}

pub(super) fn continues_after_a_denied_command(cli: &Cli) {
    let model = AgentModel::start();
    let home = cli.home(&model);
    let mut conversation = Conversation::begin(cli, &home);
    model.next(Act::Call);
    conversation.say("use the tool");
    let approval = conversation.until(|frame| frame.event == "approval.required");
    conversation.decide(&approval, "deny");
    conversation.until_end("completed");
    assert!(
        conversation.items().contains(SAID),
        "{}",
        conversation.items()
    );
    assert!(!home.workspace.join("made").exists());
    conversation.daemon.stop();
}

pub(super) fn stops_on_interrupt_and_continues(cli: &Cli) {
    let model = AgentModel::start();
    let home = cli.home(&model);
    let mut conversation = Conversation::begin(cli, &home);
    model.next(Act::Hold);
    let turn = conversation.say("a long story");
    conversation.until_first_output();
    conversation.interrupt(&turn);
    conversation.until_end("interrupted");
    assert!(
        conversation.items().contains("The beginning"),
        "{}",
        conversation.items()
    );
    conversation.turn("and now");
    conversation.assert_newest("completed");
    conversation.daemon.stop();
}

pub(super) fn resumes_its_session_after_the_daemon_is_killed(cli: &Cli) {
    let model = AgentModel::start();
    let home = cli.home(&model);
    let mut conversation = Conversation::begin(cli, &home);
    conversation.turn("hello");
    model.next(Act::Hold);
    conversation.say("a long story");
    // After the output of the first turn.
    conversation.until_first_output();
    let mut conversation = conversation.killed();
    // Both turns, as the stream from the beginning reports them.
    conversation.until(|frame| frame.event == "turn.completed");
    conversation.until_end("completed");
    assert!(
        conversation.items().contains(SAID),
        "{}",
        conversation.items()
    );
    // The agent is asked to continue, and gets no message twice.
    assert_eq!(
        model.max_repetitions("a long story"),
        1,
        "{}",
        model.last_request()
    );
    assert!(model.last_request().contains("Continue your task"));
    conversation.turn("and now");
    conversation.assert_newest("completed");
    conversation.daemon.stop();
    assert!(cli.pids(&home).is_empty());
}

pub(super) fn starts_a_new_session_when_the_old_is_unknown(cli: &Cli) {
    let model = AgentModel::start();
    let home = cli.home(&model);
    let mut conversation = Conversation::begin(cli, &home);
    conversation.turn("hello");
    conversation.assert_newest("completed");
    let mut conversation = conversation.restarted(Cli::forget_sessions);
    conversation.until(|frame| frame.event == "turn.completed");
    conversation.say("and now");
    conversation.until_remark("does not know its session");
    conversation.until_end("completed");
    // The agent gets the conversation so far.
    assert!(
        model
            .last_request()
            .contains("This is the conversation so far")
    );
    assert!(model.last_request().contains("hello"));
    conversation.daemon.stop();
}

/// Without an end time, the turn waits for our own back-off, which is long enough to be killed and interrupted.
pub(super) fn waits_for_a_limit_without_a_reset_time(cli: &Cli) {
    let model = AgentModel::start();
    let home = cli.home(&model);
    let mut conversation = Conversation::begin(cli, &home);
    model.always(Act::Fail(429));
    let turn = conversation.say("hello");
    let wait = conversation.until_remark("limits it");
    model.always(Act::Say);
    let mut conversation = conversation.killed();
    let same = conversation.until_remark("limits it");
    assert_eq!(same["id"], wait["id"]);
    conversation.assert_newest("in_progress");
    conversation.interrupt(&turn);
    conversation.until_end("interrupted");
    conversation.turn("and now");
    conversation.assert_newest("completed");
    conversation.daemon.stop();
}

/// With an end time, the turn continues automatically at that time.
pub(super) fn waits_until_a_limit_resets(cli: &Cli) {
    let model = AgentModel::start();
    let home = cli.home(&model);
    let mut conversation = Conversation::begin(cli, &home);
    // The process is running before the limit is set.
    conversation.turn("hello");
    let soon = chrono::Utc::now() + chrono::Duration::seconds(8);
    model.always(Act::LimitUntil(soon.timestamp()));
    conversation.say("and now");
    let wait = conversation.until_remark("limits it");
    model.always(Act::Say);
    let until = soon.format("%H:%M:%S").to_string();
    assert!(wait.to_string().contains(&until), "{until}: {wait:#}");
    conversation.until_end("completed");
    // The agent received the prompt before the wait, so it is not sent again.
    assert_eq!(
        model.max_repetitions("and now"),
        1,
        "{}",
        model.last_request()
    );
    conversation.daemon.stop();
}

pub(super) fn reports_a_missing_login(cli: &Cli) {
    let model = AgentModel::start();
    let home = cli.home(&model);
    let mut conversation = Conversation::begin(cli, &home);
    model.always(Act::Fail(401));
    conversation.say("hello");
    let failed = conversation.until_end("failed");
    assert_eq!(failed["error_code"], "backend_auth", "{failed}");
    model.always(Act::Say);
    conversation.turn("and now");
    conversation.assert_newest("completed");
    conversation.daemon.stop();
}

pub(super) fn exit_ends_the_turn_and_not_the_thread(cli: &Cli) {
    let model = AgentModel::start();
    let home = cli.home(&model);
    let mut conversation = Conversation::begin(cli, &home);
    model.next(Act::Hold);
    conversation.say("a long story");
    conversation.until_first_output();
    let pids = cli.pids(&home);
    assert!(!pids.is_empty());
    for pid in pids {
        let pid = pid.to_string();
        let _ = std::process::Command::new("kill")
            .args(["-KILL", &pid])
            .status();
    }
    let failed = conversation.until_end("failed");
    assert_eq!(failed["error_code"], "backend_killed", "{failed}");
    conversation.turn("and now");
    conversation.assert_newest("completed");
    assert!(model.last_request().contains("a long story"));
    conversation.daemon.stop();
}
