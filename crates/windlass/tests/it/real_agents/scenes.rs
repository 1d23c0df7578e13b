//! Scenarios that every agent must pass.

use super::model::{Act, Model, PRINTED, SAID};
use super::{Cli, Conversation};

pub(super) fn it_answers_uses_a_tool_and_answers_again(cli: &Cli) {
    let model = Model::start();
    let home = cli.home(&model);
    let mut it = Conversation::begin(cli, &home);
    it.turn("hello");
    it.assert_newest("completed");
    assert!(it.items().contains(SAID), "{}", it.items());

    model.next(Act::Call);
    let asked = it.turn("use the tool");
    it.assert_newest("completed");
    assert_eq!(asked, 1, "{}", it.items());
    assert!(it.items().contains(cli.shows), "{}", it.items());
    let made = std::fs::read_to_string(home.workspace.join("made"));
    let made = made.unwrap_or_else(|error| panic!("{error}: {}", model.last_asked()));
    assert_eq!(made.trim(), PRINTED);

    it.turn("and now");
    it.assert_newest("completed");
    // There is one conversation, in which each message occurs once.
    assert_eq!(model.most_often_told("hello"), 1, "{}", model.last_asked());
    assert!(model.last_asked().contains("hello"));
    it.daemon.stop();
}

pub(super) fn it_continues_after_a_denied_command(cli: &Cli) {
    let model = Model::start();
    let home = cli.home(&model);
    let mut it = Conversation::begin(cli, &home);
    model.next(Act::Call);
    it.say("use the tool");
    let asked = it.until(|frame| frame.event == "approval.required");
    it.decide(&asked, "deny");
    it.until_end("completed");
    assert!(it.items().contains(SAID), "{}", it.items());
    assert!(!home.workspace.join("made").exists());
    it.daemon.stop();
}

pub(super) fn it_stops_when_it_is_interrupted_and_goes_on(cli: &Cli) {
    let model = Model::start();
    let home = cli.home(&model);
    let mut it = Conversation::begin(cli, &home);
    model.next(Act::Hold);
    let turn = it.say("a long story");
    it.until_it_speaks();
    it.interrupt(&turn);
    it.until_end("interrupted");
    assert!(it.items().contains("The beginning"), "{}", it.items());
    it.turn("and now");
    it.assert_newest("completed");
    it.daemon.stop();
}

pub(super) fn it_takes_its_session_up_after_a_kill_of_the_daemon(cli: &Cli) {
    let model = Model::start();
    let home = cli.home(&model);
    let mut it = Conversation::begin(cli, &home);
    it.turn("hello");
    model.next(Act::Hold);
    it.say("a long story");
    // After the output of the first turn.
    it.until_it_speaks();
    let mut it = it.killed();
    // Both turns, as the stream from the beginning reports them.
    it.until(|frame| frame.event == "turn.completed");
    it.until_end("completed");
    assert!(it.items().contains(SAID), "{}", it.items());
    // The agent is asked to continue, and gets no message twice.
    assert_eq!(
        model.most_often_told("a long story"),
        1,
        "{}",
        model.last_asked()
    );
    assert!(model.last_asked().contains("Continue your task"));
    it.turn("and now");
    it.assert_newest("completed");
    it.daemon.stop();
    assert!(cli.pids(&home).is_empty());
}

pub(super) fn it_starts_fresh_when_it_does_not_know_its_session(cli: &Cli) {
    let model = Model::start();
    let home = cli.home(&model);
    let mut it = Conversation::begin(cli, &home);
    it.turn("hello");
    it.assert_newest("completed");
    let mut it = it.restarted(Cli::forget_sessions);
    it.until(|frame| frame.event == "turn.completed");
    it.say("and now");
    it.until_remark("does not know its session");
    it.until_end("completed");
    // The agent gets the conversation so far.
    assert!(
        model
            .last_asked()
            .contains("This is the conversation so far")
    );
    assert!(model.last_asked().contains("hello"));
    it.daemon.stop();
}

/// Without an end time, the turn waits for our own back-off, which is long enough to be killed and interrupted.
pub(super) fn it_waits_for_a_limit_that_says_no_end(cli: &Cli) {
    let model = Model::start();
    let home = cli.home(&model);
    let mut it = Conversation::begin(cli, &home);
    model.always(Act::Fail(429));
    let turn = it.say("hello");
    let wait = it.until_remark("limits it");
    model.always(Act::Say);
    let mut it = it.killed();
    let same = it.until_remark("limits it");
    assert_eq!(same["id"], wait["id"]);
    it.assert_newest("in_progress");
    it.interrupt(&turn);
    it.until_end("interrupted");
    it.turn("and now");
    it.assert_newest("completed");
    it.daemon.stop();
}

/// With an end time, the turn continues automatically at that time.
pub(super) fn it_waits_for_a_limit_until_its_end(cli: &Cli) {
    let model = Model::start();
    let home = cli.home(&model);
    let mut it = Conversation::begin(cli, &home);
    // The process is running before the limit is set.
    it.turn("hello");
    let soon = chrono::Utc::now() + chrono::Duration::seconds(8);
    model.always(Act::LimitUntil(soon.timestamp()));
    it.say("and now");
    let wait = it.until_remark("limits it");
    model.always(Act::Say);
    let until = soon.format("%H:%M:%S").to_string();
    assert!(wait.to_string().contains(&until), "{until}: {wait:#}");
    it.until_end("completed");
    // The agent received the prompt before the wait, so it is not sent again.
    assert_eq!(
        model.most_often_told("and now"),
        1,
        "{}",
        model.last_asked()
    );
    it.daemon.stop();
}

pub(super) fn it_says_that_it_is_not_logged_in(cli: &Cli) {
    let model = Model::start();
    let home = cli.home(&model);
    let mut it = Conversation::begin(cli, &home);
    model.always(Act::Fail(401));
    it.say("hello");
    let failed = it.until_end("failed");
    assert_eq!(failed["error_code"], "backend_auth", "{failed}");
    model.always(Act::Say);
    it.turn("and now");
    it.assert_newest("completed");
    it.daemon.stop();
}

pub(super) fn its_death_ends_the_turn_and_not_the_thread(cli: &Cli) {
    let model = Model::start();
    let home = cli.home(&model);
    let mut it = Conversation::begin(cli, &home);
    model.next(Act::Hold);
    it.say("a long story");
    it.until_it_speaks();
    let pids = cli.pids(&home);
    assert!(!pids.is_empty());
    for pid in pids {
        let pid = pid.to_string();
        let _ = std::process::Command::new("kill")
            .args(["-KILL", &pid])
            .status();
    }
    let failed = it.until_end("failed");
    assert_eq!(failed["error_code"], "backend_killed", "{failed}");
    it.turn("and now");
    it.assert_newest("completed");
    assert!(model.last_asked().contains("a long story"));
    it.daemon.stop();
}
