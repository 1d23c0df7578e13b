//! Detects from files and environment variables whether an external agent is logged in. The provider is not contacted, so an expired login counts as
//! a login.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::known;
use crate::config::BackendKind;
use crate::own_file;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    Yes,
    No,
    /// The login may be in a location that cannot be inspected, such as a keychain.
    Unknown,
}

impl Login {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// Checks the files in the agent's home and the environment variables of its process.
pub(super) fn of(kind: BackendKind, home: &Path, variables: &BTreeMap<String, String>) -> Login {
    let Some(known) = known::of(kind) else {
        return Login::Unknown;
    };
    let value = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    if known.keys.iter().any(|key| value(key).is_some()) {
        return Login::Yes;
    }
    let named = known.settings_variable.and_then(value);
    let directory = named.map_or_else(|| home.join(known.settings), PathBuf::from);
    match fs::metadata(directory.join(known.login)) {
        Ok(file) if file.len() > 0 => return Login::Yes,
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(_) => return Login::Unknown,
    }
    let (settings, words) = known.choices;
    let settings = match own_file::read(&directory.join(settings)) {
        Ok(settings) => settings.map_or(String::new(), |file| file.text),
        // The settings cannot be read, so the login may be stored elsewhere.
        Err(_) => return Login::Unknown,
    };
    let is_elsewhere = words.iter().any(|word| settings.contains(word))
        || known.others.iter().any(|other| value(other).is_some())
        // On macOS, logins are in the keychain.
        || cfg!(target_os = "macos");
    if is_elsewhere {
        Login::Unknown
    } else {
        Login::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_or_the_file_of_a_login_is_one_and_settings_may_name_another() {
        use BackendKind::{Acp, ClaudeCode, Codex, Gemini};
        let nothing = if cfg!(target_os = "macos") {
            Login::Unknown
        } else {
            Login::No
        };
        for (kind, file, content, variable, login) in [
            (ClaudeCode, "none", "", "", nothing),
            (
                ClaudeCode,
                ".claude/.credentials.json",
                "{}",
                "",
                Login::Yes,
            ),
            (ClaudeCode, ".claude/.credentials.json", "", "", nothing),
            (ClaudeCode, "none", "", "ANTHROPIC_API_KEY", Login::Yes),
            (ClaudeCode, "none", "", "OPENAI_API_KEY", nothing),
            (
                ClaudeCode,
                "none",
                "",
                "CLAUDE_CODE_USE_VERTEX",
                Login::Unknown,
            ),
            (Codex, ".codex/auth.json", "{}", "", Login::Yes),
            (Codex, ".claude/.credentials.json", "{}", "", nothing),
            (
                Codex,
                ".codex/config.toml",
                "model_provider = 'own'",
                "",
                Login::Unknown,
            ),
            (Gemini, ".gemini/oauth_creds.json", "{}", "", Login::Yes),
            (
                Gemini,
                ".gemini/settings.json",
                "{\"selectedType\": 1}",
                "",
                Login::Unknown,
            ),
            (Gemini, "none", "", "GEMINI_API_KEY", Login::Yes),
            (Acp, "none", "", "ANTHROPIC_API_KEY", Login::Unknown),
        ] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
            let variables = BTreeMap::from([(variable.to_owned(), "x".to_owned())]);
            let case = (kind, file, variable);
            assert_eq!(of(kind, home.path(), &variables), login, "{case:?}");
        }
    }

    #[test]
    fn settings_that_are_no_file_say_nothing_and_nobody_waits_for_them() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".codex");
        std::fs::create_dir(&directory).unwrap();
        let pipe = directory.join("config.toml");
        let made = std::process::Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
        let login = of(BackendKind::Codex, home.path(), &BTreeMap::new());
        assert_eq!(login, Login::Unknown);
    }
}
