//! Claude Code.

use super::model::PRINTED;
use super::{Cli, scenes};

/// Variables that disable network access except to the model, and long retries.
const QUIET: [(&str, &str); 5] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("IS_SANDBOX", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", "1"),
];

fn with(key: &'static str, url: &str) -> Vec<(&'static str, String)> {
    let own = [(key, "a-key"), ("ANTHROPIC_BASE_URL", url)];
    let all = QUIET.iter().chain(&own);
    all.map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

pub(super) const CLAUDE: Cli = Cli {
    backend: "claude-code",
    program: "WINDLASS_CLAUDE",
    entry: "",
    variables: |url| with("ANTHROPIC_API_KEY", url),
    settings: |_| None,
    sessions: ".claude/projects",
    shows: PRINTED,
};

/// With a subscription login, which reports more limits than an API key.
const SUBSCRIBED: Cli = Cli {
    variables: |url| with("CLAUDE_CODE_OAUTH_TOKEN", url),
    ..CLAUDE
};

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_answers_uses_a_tool_that_was_allowed_and_answers_again() {
    scenes::it_answers_uses_a_tool_and_answers_again(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_continues_after_a_denied_command() {
    scenes::it_continues_after_a_denied_command(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_stops_when_it_is_interrupted_and_goes_on() {
    scenes::it_stops_when_it_is_interrupted_and_goes_on(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_takes_its_session_up_after_a_kill_of_the_daemon() {
    scenes::it_takes_its_session_up_after_a_kill_of_the_daemon(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_starts_fresh_when_it_does_not_know_its_session() {
    scenes::it_starts_fresh_when_it_does_not_know_its_session(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_waits_for_a_limit_that_says_no_end() {
    scenes::it_waits_for_a_limit_that_says_no_end(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_waits_for_the_limit_of_a_subscription_until_its_end() {
    scenes::it_waits_for_a_limit_until_its_end(&SUBSCRIBED);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_says_that_it_is_not_logged_in() {
    scenes::it_says_that_it_is_not_logged_in(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn the_death_of_claude_code_ends_the_turn_and_not_the_thread() {
    scenes::its_death_ends_the_turn_and_not_the_thread(&CLAUDE);
}
