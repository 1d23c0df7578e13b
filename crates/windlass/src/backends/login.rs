//! Detects from files and environment variables whether an external agent is logged in. The provider is not contacted, so an expired login counts as
//! a login.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::built_in;
use crate::config::BackendKind;
use crate::data::own_file;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginStatus {
    Yes,
    No,
    /// The login may be stored where it cannot be inspected, such as in a keychain.
    Unknown,
}

impl LoginStatus {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// Checks the files in the agent's home and the environment variables of its process.
pub(super) fn detect(
    kind: BackendKind,
    home: &Path,
    variables: &BTreeMap<String, String>,
) -> LoginStatus {
    let Some(agent) = built_in::find(kind) else {
        return LoginStatus::Unknown;
    };
    let value = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    if agent.key_variables.iter().any(|key| value(key).is_some()) {
        return LoginStatus::Yes;
    }
    let named = agent.settings_variable.and_then(value);
    let directory = named.map_or_else(|| home.join(agent.settings), PathBuf::from);
    match fs::metadata(directory.join(agent.login)) {
        Ok(file) if file.len() > 0 => return LoginStatus::Yes,
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(_) => return LoginStatus::Unknown,
    }
    let (settings, words) = agent.settings_file;
    let settings = match own_file::read(&directory.join(settings)) {
        Ok(settings) => settings.map_or(String::new(), |file| file.text),
        // The settings cannot be read, so the login may be stored elsewhere.
        Err(_) => return LoginStatus::Unknown,
    };
    let is_elsewhere = words.iter().any(|word| settings.contains(word))
        || agent.provider_variables.iter().any(|other| value(other).is_some())
        // On macOS, logins are in the keychain.
        || cfg!(target_os = "macos");
    if is_elsewhere {
        LoginStatus::Unknown
    } else {
        LoginStatus::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_is_detected_from_keys_files_and_settings() {
        use BackendKind::{Acp, ClaudeCode, Codex, Gemini};
        let absent = if cfg!(target_os = "macos") {
            LoginStatus::Unknown
        } else {
            LoginStatus::No
        };
        for (kind, file, content, variable, login) in [
            (ClaudeCode, "none", "", "", absent),
            (
                ClaudeCode,
                ".claude/.credentials.json",
                "{}",
                "",
                LoginStatus::Yes,
            ),
            (ClaudeCode, ".claude/.credentials.json", "", "", absent),
            (
                ClaudeCode,
                "none",
                "",
                "ANTHROPIC_API_KEY",
                LoginStatus::Yes,
            ),
            (ClaudeCode, "none", "", "OPENAI_API_KEY", absent),
            (
                ClaudeCode,
                "none",
                "",
                "CLAUDE_CODE_USE_VERTEX",
                LoginStatus::Unknown,
            ),
            (Codex, ".codex/auth.json", "{}", "", LoginStatus::Yes),
            (Codex, ".claude/.credentials.json", "{}", "", absent),
            (
                Codex,
                ".codex/config.toml",
                "model_provider = 'own'",
                "",
                LoginStatus::Unknown,
            ),
            (
                Gemini,
                ".gemini/oauth_creds.json",
                "{}",
                "",
                LoginStatus::Yes,
            ),
            (
                Gemini,
                ".gemini/settings.json",
                "{\"selectedType\": 1}",
                "",
                LoginStatus::Unknown,
            ),
            (Gemini, "none", "", "GEMINI_API_KEY", LoginStatus::Yes),
            (Acp, "none", "", "ANTHROPIC_API_KEY", LoginStatus::Unknown),
        ] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
            let variables = BTreeMap::from([(variable.to_owned(), "x".to_owned())]);
            let case = (kind, file, variable);
            assert_eq!(detect(kind, home.path(), &variables), login, "{case:?}");
        }
    }

    #[test]
    fn settings_that_are_a_pipe_do_not_block() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".codex");
        std::fs::create_dir(&directory).unwrap();
        let pipe = directory.join("config.toml");
        let made = std::process::Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
        let login = detect(BackendKind::Codex, home.path(), &BTreeMap::new());
        assert_eq!(login, LoginStatus::Unknown);
    }
}
