//! The built-in external agents: their programs, settings directories and login files.

use crate::config::BackendKind;

/// Built-in defaults of an agent.
pub(crate) struct BuiltInAgent {
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
    pub(super) settings_file: (&'static str, &'static [&'static str]),
    /// Environment variables with an API key or a token.
    pub(super) key_variables: &'static [&'static str],
    /// Environment variables that select another provider, which has its own login.
    pub(super) provider_variables: &'static [&'static str],
}

pub(crate) const BUILT_IN_AGENTS: [BuiltInAgent; 3] = [
    BuiltInAgent {
        kind: BackendKind::ClaudeCode,
        program: "claude",
        settings: ".claude",
        settings_variable: Some("CLAUDE_CONFIG_DIR"),
        login: ".credentials.json",
        settings_file: ("settings.json", &["apiKeyHelper", "\"env\""]),
        key_variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ],
        provider_variables: &["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"],
    },
    BuiltInAgent {
        kind: BackendKind::Codex,
        program: "codex",
        settings: ".codex",
        settings_variable: Some("CODEX_HOME"),
        login: "auth.json",
        settings_file: ("config.toml", &["model_provider", "credentials_store"]),
        key_variables: &["OPENAI_API_KEY", "CODEX_API_KEY"],
        provider_variables: &[],
    },
    BuiltInAgent {
        kind: BackendKind::Gemini,
        program: "gemini",
        settings: ".gemini",
        settings_variable: None,
        login: "oauth_creds.json",
        settings_file: ("settings.json", &["selectedType"]),
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        provider_variables: &[
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
    },
];

/// Returns the built-in defaults of a kind; `None` for generic ACP agents.
pub(super) fn find(kind: BackendKind) -> Option<&'static BuiltInAgent> {
    BUILT_IN_AGENTS.iter().find(|agent| agent.kind == kind)
}
