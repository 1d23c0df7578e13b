//! Gemini, over ACP.

use super::model::COMMAND;
use super::{Cli, scenarios};

const GEMINI: Cli = Cli {
    backend: "gemini",
    program: "WINDLASS_GEMINI",
    entry: "model = 'gemini-2.5-pro'",
    variables: |url| {
        let all = [
            ("GEMINI_API_KEY", "a-key"),
            ("GOOGLE_GEMINI_BASE_URL", url),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
            ("NO_COLOR", "1"),
        ];
        all.map(|(name, value)| (name, value.to_owned())).into()
    },
    settings: |_| {
        let settings = r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}, "telemetry": {"enabled": false},
            "privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}}"#;
        Some((".gemini/settings.json", settings.to_owned()))
    },
    sessions: ".gemini/tmp",
    // It does not report the output of a command.
    shows: COMMAND,
};

#[test]
#[ignore = "needs Gemini CLI; `cargo xtask backends` runs it"]
fn gemini_uses_an_allowed_tool_and_answers() {
    scenarios::uses_a_tool_and_answers(&GEMINI);
}

#[test]
#[ignore = "needs Gemini CLI; `cargo xtask backends` runs it"]
fn gemini_stops_on_interrupt_and_continues() {
    scenarios::stops_on_interrupt_and_continues(&GEMINI);
}
