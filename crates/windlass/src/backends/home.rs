//! Home directories of external agents, and which of the user's files an agent may change.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use serde_json::{Value, json};

use windlass_tools::SHARED_HOME_DIRECTORIES;

use super::built_in;
use crate::config::BackendKind;

/// Name of the home directory for threads without an owner.
const OPERATOR: &str = "operator";

/// The home directory policy of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgentHome {
    /// A separate home for each thread owner, below this directory.
    Own(PathBuf),
    /// The user's home and the agent's settings directory in it, with symlinks resolved.
    User { home: PathBuf, settings: PathBuf },
}

/// Why no home directory is available to an agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum HomeError {
    #[error(
        "this backend uses the user's home, and the thread belongs to `{owner}`; threads with an owner need a backend with \
         home = \"own\""
    )]
    OtherOwner { owner: String },
    #[error("cannot create {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} contains a symlink, and the agent may not change its target", path.display())]
    Link { path: PathBuf },
}

/// Validates the settings directory of a configuration entry.
pub(super) fn check_settings(settings: &Path) -> Result<(), String> {
    let shown = settings.display();
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if settings.as_os_str().is_empty() || !settings.components().all(is_plain) {
        return Err(format!(
            "{shown:?} is not inside the home directory; use a path relative to it, such as \".config/agent\""
        ));
    }
    let mut shared = SHARED_HOME_DIRECTORIES.iter();
    if shared.any(|shared| Path::new(shared).starts_with(settings)) {
        Err(format!(
            "{shown:?} belongs to many programs; use the agent's own directory, such as \".config/agent\""
        ))
    } else {
        Ok(())
    }
}

impl AgentHome {
    /// Returns the agent's home for threads of `owner`.
    pub(super) fn path(&self, owner: Option<&str>) -> Result<PathBuf, HomeError> {
        match (self, owner) {
            (Self::Own(homes), None) => Ok(homes.join(OPERATOR)),
            (Self::Own(homes), Some(owner)) => {
                // An owner's name can contain any character, so the directory is named by its digest.
                let digest = blake3::hash(owner.as_bytes()).to_hex();
                Ok(homes.join(&digest[..32]))
            }
            (Self::User { home, .. }, None) => Ok(home.clone()),
            (Self::User { .. }, Some(owner)) => Err(HomeError::OtherOwner {
                owner: owner.to_owned(),
            }),
        }
    }

    /// Creates the home and returns the paths that the agent may change. Only the operator's threads get the user's login: anyone who can prompt an
    /// agent can make it read every file that it can see.
    pub(super) fn create(
        &self,
        owner: Option<&str>,
        kind: BackendKind,
        user: Option<&Path>,
    ) -> Result<Vec<PathBuf>, HomeError> {
        let home = self.path(owner)?;
        match self {
            Self::User { settings, .. } => match create_directory(settings)? {
                real if real == *settings => Ok(vec![real]),
                _ => Err(HomeError::Link {
                    path: settings.clone(),
                }),
            },
            Self::Own(_) => {
                let home = create_directory(&home)?;
                let user = user.filter(|_| owner.is_none());
                let linked = user.and_then(|user| link_login(&home, kind, user));
                Ok([home].into_iter().chain(linked).collect())
            }
        }
    }
}

/// Creates a directory and returns its canonical path.
fn create_directory(path: &Path) -> Result<PathBuf, HomeError> {
    let failed = |source| HomeError::Io {
        path: path.to_owned(),
        source,
    };
    let mut builder = fs::DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(path);
    created.map_err(failed)?;
    path.canonicalize().map_err(failed)
}

/// Links the user's login file into the agent's own home and returns the target. An existing login of the agent is not replaced.
fn link_login(home: &Path, kind: BackendKind, user: &Path) -> Option<PathBuf> {
    let agent = built_in::find(kind)?;
    let (settings, name) = (agent.settings, agent.login);
    let file = user.join(settings).join(name);
    let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file());
    if !is_file || file.canonicalize().ok()? != file {
        return None;
    }
    // The agent may have created symlinks anywhere in its home.
    let directory_flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let home = openat(CWD, home, directory_flags, Mode::empty()).ok()?;
    match mkdirat(&home, settings, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(_) => return None,
    }
    let directory = openat(&home, settings, directory_flags, Mode::empty()).ok()?;
    if kind == BackendKind::Gemini {
        let (choices, _) = agent.settings_file;
        let selected = login_settings(&user.join(settings).join(choices));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let created = openat(&directory, choices, flags, Mode::RUSR | Mode::WUSR);
        // Existing settings of the agent are not overwritten.
        if let (Some(selected), Ok(created)) = (selected, created) {
            let _ = fs::File::from(created).write_all(selected.to_string().as_bytes());
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
    let selected = settings.pointer("/security/auth/selectedType")?.as_str()?;
    Some(json!({"security": {"auth": {"selectedType": selected}}}))
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
    fn each_owner_has_a_home_and_the_users_home_is_for_the_operator() {
        let own = AgentHome::Own(PathBuf::from("/data/backends/x"));
        let homes = [None, Some("a"), Some("../a")].map(|owner| own.path(owner).unwrap());
        for (number, home) in homes.iter().enumerate() {
            assert_eq!(home.parent(), Some(Path::new("/data/backends/x")));
            assert!(!homes[..number].contains(home), "{home:?}");
        }
        let user = AgentHome::User {
            home: PathBuf::from("/home/u"),
            settings: PathBuf::from("/home/u/.claude"),
        };
        assert!(user.path(None).is_ok());
        assert!(matches!(
            user.path(Some("a")),
            Err(HomeError::OtherOwner { .. })
        ));
    }

    #[test]
    fn login_is_linked_for_the_operator_only_and_not_through_symlinks() {
        let kind = BackendKind::ClaudeCode;
        let around = tempfile::tempdir().unwrap();
        let at = around.path().canonicalize().unwrap();
        let user = at.join("user");
        let login = user.join(".claude/.credentials.json");
        fs::create_dir_all(user.join(".claude")).unwrap();
        fs::write(&login, "login").unwrap();
        let home = AgentHome::Own(at.join("homes"));
        let created = home.create(None, kind, Some(&user)).unwrap();
        assert_eq!(created, [at.join("homes/operator"), login]);
        let linked = created[0].join(".claude/.credentials.json");
        assert_eq!(fs::read_to_string(linked).unwrap(), "login");
        let created = home.create(Some("a"), kind, Some(&user)).unwrap();
        assert_eq!(created.len(), 1, "{created:?}");

        // A symlink that the agent created is not followed.
        let outside = at.join("outside");
        fs::create_dir(&outside).unwrap();
        fs::remove_dir_all(at.join("homes/operator/.claude")).unwrap();
        symlink(&outside, at.join("homes/operator/.claude")).unwrap();
        let created = home.create(None, kind, Some(&user)).unwrap();
        assert_eq!(created.len(), 1, "{created:?}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        // A symlink in the user's home is not followed either.
        let settings = user.join(".codex");
        symlink(&outside, &settings).unwrap();
        let home = AgentHome::User {
            home: user.clone(),
            settings,
        };
        let refused = home.create(None, BackendKind::Codex, Some(&user));
        assert!(
            matches!(refused, Err(HomeError::Link { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn only_the_authentication_type_of_gemini_is_copied() {
        let around = tempfile::tempdir().unwrap();
        let at = around.path().canonicalize().unwrap();
        let user = at.join("user");
        fs::create_dir_all(user.join(".gemini")).unwrap();
        fs::write(user.join(".gemini/oauth_creds.json"), "login").unwrap();
        let settings = json!({"security": {"auth": {"selectedType": "oauth-personal"}}, "mcpServers": {"a": {}}});
        fs::write(user.join(".gemini/settings.json"), settings.to_string()).unwrap();
        let home = AgentHome::Own(at.join("homes"));
        let created = home.create(None, BackendKind::Gemini, Some(&user)).unwrap();
        let copied = fs::read_to_string(created[0].join(".gemini/settings.json")).unwrap();
        assert_eq!(
            copied,
            r#"{"security":{"auth":{"selectedType":"oauth-personal"}}}"#
        );
    }
}
