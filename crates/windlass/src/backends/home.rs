//! Home directories of external agents, and which of the user's files an agent may change.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use serde_json::{Value, json};

use windlass_tools::SHARED_HOME_DIRECTORIES;

use super::known;
use crate::config::BackendKind;

/// Name of the home directory for threads without an owner.
const OPERATOR: &str = "operator";

/// The home directory policy of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Home {
    /// A separate home for each thread owner, below this directory.
    Own(PathBuf),
    /// The user's home and the agent's settings directory in it, with symlinks resolved.
    User { home: PathBuf, settings: PathBuf },
}

/// Why no home directory is available to an agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoHome {
    #[error(
        "this backend has the user's own home, and the thread belongs to `{owner}`; threads of others need a backend with \
         home = \"own\""
    )]
    OfAnother { owner: String },
    #[error("cannot make {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is reached by a link, and what it leads to is not the agent's to change", path.display())]
    Link { path: PathBuf },
}

/// Validates the settings directory of a configuration entry.
pub(super) fn check_settings(settings: &Path) -> Result<(), String> {
    let shown = settings.display();
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if settings.as_os_str().is_empty() || !settings.components().all(is_plain) {
        return Err(format!(
            "{shown:?} does not lie in the home directory; name it from there, such as \".config/agent\""
        ));
    }
    let mut shared = SHARED_HOME_DIRECTORIES.iter();
    if shared.any(|shared| Path::new(shared).starts_with(settings)) {
        Err(format!(
            "{shown:?} belongs to many programs; name the agent's own directory, such as \".config/agent\""
        ))
    } else {
        Ok(())
    }
}

impl Home {
    /// Returns the agent's home for threads of `owner`.
    pub(super) fn of(&self, owner: Option<&str>) -> Result<PathBuf, NoHome> {
        match (self, owner) {
            (Self::Own(homes), None) => Ok(homes.join(OPERATOR)),
            (Self::Own(homes), Some(owner)) => {
                // An owner's name can contain any character, so the directory is named by its digest.
                let digest = blake3::hash(owner.as_bytes()).to_hex();
                Ok(homes.join(&digest[..32]))
            }
            (Self::User { home, .. }, None) => Ok(home.clone()),
            (Self::User { .. }, Some(owner)) => Err(NoHome::OfAnother {
                owner: owner.to_owned(),
            }),
        }
    }

    /// Creates the home and returns the paths that the agent may change. Only the operator's threads get the user's login: anyone who can prompt an
    /// agent can make it read every file that it can see.
    pub(super) fn make(
        &self,
        owner: Option<&str>,
        kind: BackendKind,
        user: Option<&Path>,
    ) -> Result<Vec<PathBuf>, NoHome> {
        let home = self.of(owner)?;
        match self {
            Self::User { settings, .. } => match make_directory(settings)? {
                real if real == *settings => Ok(vec![real]),
                _ => Err(NoHome::Link {
                    path: settings.clone(),
                }),
            },
            Self::Own(_) => {
                let home = make_directory(&home)?;
                let user = user.filter(|_| owner.is_none());
                let lent = user.and_then(|user| lend_login(&home, kind, user));
                Ok([home].into_iter().chain(lent).collect())
            }
        }
    }
}

/// Creates a directory and returns its canonical path.
fn make_directory(path: &Path) -> Result<PathBuf, NoHome> {
    let failed = |source| NoHome::Io {
        path: path.to_owned(),
        source,
    };
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.map_err(failed)?;
    path.canonicalize().map_err(failed)
}

/// Links the user's login file into the agent's own home and returns the target. An existing login of the agent is not replaced.
fn lend_login(home: &Path, kind: BackendKind, user: &Path) -> Option<PathBuf> {
    let known = known::of(kind)?;
    let (settings, name) = (known.settings, known.login);
    let file = user.join(settings).join(name);
    let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file());
    if !is_file || file.canonicalize().ok()? != file {
        return None;
    }
    // The agent may have created symlinks anywhere in its home.
    let look = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let home = openat(CWD, home, look, Mode::empty()).ok()?;
    match mkdirat(&home, settings, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(_) => return None,
    }
    let directory = openat(&home, settings, look, Mode::empty()).ok()?;
    if kind == BackendKind::Gemini {
        let (choices, _) = known.choices;
        let chosen = login_settings(&user.join(settings).join(choices));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let made = openat(&directory, choices, flags, Mode::RUSR | Mode::WUSR);
        // Existing settings of the agent are not overwritten.
        if let (Some(chosen), Ok(made)) = (chosen, made) {
            let _ = fs::File::from(made).write_all(chosen.to_string().as_bytes());
        }
    }
    match symlinkat(&file, &directory, name) {
        Ok(()) | Err(Errno::EXIST) => Some(file),
        Err(_) => None,
    }
}

/// Reads the authentication type from the user's Gemini settings. Gemini ignores a login without it; no other setting is copied.
fn login_settings(settings: &Path) -> Option<Value> {
    let settings: Value = serde_json::from_slice(&fs::read(settings).ok()?).ok()?;
    let chosen = settings.pointer("/security/auth/selectedType")?.as_str()?;
    Some(json!({"security": {"auth": {"selectedType": chosen}}}))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn settings_are_a_directory_of_one_program_in_the_home() {
        for good in [".config/agent", ".agent", ".local/share/agent", "agent"] {
            assert_eq!(check_settings(Path::new(good)), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/etc",
            "..",
            ".config/../.ssh",
            ".config",
            ".config/",
            ".local",
            ".local/share",
        ] {
            assert!(check_settings(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_owner_has_a_home_and_the_users_is_for_nobody_else() {
        let own = Home::Own(PathBuf::from("/data/backends/x"));
        let homes = [None, Some("a"), Some("../a")].map(|owner| own.of(owner).unwrap());
        for (number, home) in homes.iter().enumerate() {
            assert_eq!(home.parent(), Some(Path::new("/data/backends/x")));
            assert!(!homes[..number].contains(home), "{home:?}");
        }
        let user = Home::User {
            home: PathBuf::from("/home/u"),
            settings: PathBuf::from("/home/u/.claude"),
        };
        assert!(user.of(None).is_ok());
        assert!(matches!(user.of(Some("a")), Err(NoHome::OfAnother { .. })));
    }

    #[test]
    fn a_login_is_lent_to_the_operator_alone_and_through_no_link() {
        let kind = BackendKind::ClaudeCode;
        let around = tempfile::tempdir().unwrap();
        let at = around.path().canonicalize().unwrap();
        let user = at.join("user");
        let login = user.join(".claude/.credentials.json");
        fs::create_dir_all(user.join(".claude")).unwrap();
        fs::write(&login, "login").unwrap();
        let home = Home::Own(at.join("homes"));
        let made = home.make(None, kind, Some(&user)).unwrap();
        assert_eq!(made, [at.join("homes/operator"), login]);
        let lent = made[0].join(".claude/.credentials.json");
        assert_eq!(fs::read_to_string(lent).unwrap(), "login");
        let made = home.make(Some("a"), kind, Some(&user)).unwrap();
        assert_eq!(made.len(), 1, "{made:?}");

        // A symlink that the agent created is not followed.
        let outside = at.join("outside");
        fs::create_dir(&outside).unwrap();
        fs::remove_dir_all(at.join("homes/operator/.claude")).unwrap();
        symlink(&outside, at.join("homes/operator/.claude")).unwrap();
        let made = home.make(None, kind, Some(&user)).unwrap();
        assert_eq!(made.len(), 1, "{made:?}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        // A symlink in the user's home is not followed either.
        let settings = user.join(".codex");
        symlink(&outside, &settings).unwrap();
        let home = Home::User {
            home: user.clone(),
            settings,
        };
        let refused = home.make(None, BackendKind::Codex, Some(&user));
        assert!(matches!(refused, Err(NoHome::Link { .. })), "{refused:?}");
    }

    #[test]
    fn gemini_is_told_how_the_user_logs_in_and_nothing_else_of_the_settings() {
        let around = tempfile::tempdir().unwrap();
        let at = around.path().canonicalize().unwrap();
        let user = at.join("user");
        fs::create_dir_all(user.join(".gemini")).unwrap();
        fs::write(user.join(".gemini/oauth_creds.json"), "login").unwrap();
        let settings = json!({"security": {"auth": {"selectedType": "oauth-personal"}}, "mcpServers": {"a": {}}});
        fs::write(user.join(".gemini/settings.json"), settings.to_string()).unwrap();
        let home = Home::Own(at.join("homes"));
        let made = home.make(None, BackendKind::Gemini, Some(&user)).unwrap();
        let told = fs::read_to_string(made[0].join(".gemini/settings.json")).unwrap();
        assert_eq!(
            told,
            r#"{"security":{"auth":{"selectedType":"oauth-personal"}}}"#
        );
    }
}
