//! Claude Code.

use super::model::PRINTED;
use super::{Cli, scenarios};

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
fn claude_code_uses_an_allowed_tool_and_answers() {
    scenarios::uses_a_tool_and_answers(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_continues_after_a_denied_command() {
    scenarios::continues_after_a_denied_command(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_stops_on_interrupt_and_continues() {
    scenarios::stops_on_interrupt_and_continues(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_resumes_its_session_after_the_daemon_is_killed() {
    scenarios::resumes_its_session_after_the_daemon_is_killed(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_starts_a_new_session_when_the_old_is_unknown() {
    scenarios::starts_a_new_session_when_the_old_is_unknown(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_waits_for_a_limit_without_a_reset_time() {
    scenarios::waits_for_a_limit_without_a_reset_time(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_waits_until_a_subscription_limit_resets() {
    scenarios::waits_until_a_limit_resets(&SUBSCRIBED);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_reports_a_missing_login() {
    scenarios::reports_a_missing_login(&CLAUDE);
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn exit_of_claude_code_ends_the_turn_and_not_the_thread() {
    scenarios::exit_ends_the_turn_and_not_the_thread(&CLAUDE);
}
