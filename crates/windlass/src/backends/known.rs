//! The agents of others that everybody knows: how each is called, what starts it, and where it keeps its settings and its login.

use crate::config::BackendKind;

/// What is known of an agent.
pub(crate) struct Known {
    /// What drives it. A backend of its name needs no entry.
    pub(crate) kind: BackendKind,
    /// The program, where an entry names none.
    pub(crate) program: &'static str,
    /// The directory of its settings, below the home.
    pub(super) settings: &'static str,
    /// The variable that names another, if it has one.
    pub(super) settings_variable: Option<&'static str>,
    /// The file with its login, among its settings.
    pub(super) login: &'static str,
    /// The file that says how it logs in, among its settings, and words in it by which the login is somewhere else.
    pub(super) choices: (&'static str, &'static [&'static str]),
    /// Variables with a key or a token.
    pub(super) keys: &'static [&'static str],
    /// Variables by which it asks another provider, with a login of that one.
    pub(super) others: &'static [&'static str],
}

/// All of them.
pub(crate) const KNOWN: [Known; 3] = [
    Known {
        kind: BackendKind::ClaudeCode,
        program: "claude",
        settings: ".claude",
        settings_variable: Some("CLAUDE_CONFIG_DIR"),
        login: ".credentials.json",
        choices: ("settings.json", &["apiKeyHelper", "\"env\""]),
        keys: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ],
        others: &["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"],
    },
    Known {
        kind: BackendKind::Codex,
        program: "codex",
        settings: ".codex",
        settings_variable: Some("CODEX_HOME"),
        login: "auth.json",
        choices: ("config.toml", &["model_provider", "credentials_store"]),
        keys: &["OPENAI_API_KEY", "CODEX_API_KEY"],
        others: &[],
    },
    Known {
        kind: BackendKind::Gemini,
        program: "gemini",
        settings: ".gemini",
        settings_variable: None,
        login: "oauth_creds.json",
        choices: ("settings.json", &["selectedType"]),
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        others: &[
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
    },
];

/// Returns what is known of a kind; nothing is of agents that only speak ACP.
pub(super) fn of(kind: BackendKind) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.kind == kind)
}
