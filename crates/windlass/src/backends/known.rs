//! The built-in external agents: their names, programs, settings directories and login files.

use crate::config::BackendKind;

/// Built-in defaults of an agent.
pub(crate) struct Known {
    /// The protocol or CLI that drives it. A backend named after its kind needs no configuration entry.
    pub(crate) kind: BackendKind,
    /// The program, unless the entry names one.
    pub(crate) program: &'static str,
    /// The settings directory, relative to the home.
    pub(super) settings: &'static str,
    /// The environment variable that overrides the settings directory, if there is one.
    pub(super) settings_variable: Option<&'static str>,
    /// The login file, relative to the settings directory.
    pub(super) login: &'static str,
    /// The file with the authentication settings, relative to the settings directory, and the words in it that mean that the login is stored
    /// elsewhere.
    pub(super) choices: (&'static str, &'static [&'static str]),
    /// Environment variables that contain an API key or a token.
    pub(super) keys: &'static [&'static str],
    /// Environment variables that select another provider, which has its own login.
    pub(super) others: &'static [&'static str],
}

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

/// Returns the built-in defaults of a kind; `None` for generic ACP agents.
pub(super) fn of(kind: BackendKind) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.kind == kind)
}
