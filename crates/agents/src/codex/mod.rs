//! Codex, by its app-server over stdio; and what its one-shot mode prints.

mod approval;
mod exec;
mod failure;
mod protocol;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::backend::{Backend, BackendError, BackendSession, BackendSpec, BackendVersion};
use windlass_process::Confinement;

use crate::place::Places;
use crate::session::{self, SessionSettings, Start};

pub use exec::CodexExec;
pub use protocol::Codex;

const PROGRAM: &str = "codex";
const HOW_TO_INSTALL: &str = "install it with `npm install -g @openai/codex`";

/// What Codex may do by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodexSettings {
    /// When it asks for a permission, in its own words; `None` is before each command that is not known to change nothing, and
    /// never in a turn that nobody is asked about.
    pub approval_policy: Option<String>,
    /// Its own sandbox, in its own words; `None` is none where we confine it, since a sandbox inside of ours cannot be made, and
    /// `workspace-write` where nothing does.
    pub sandbox: Option<String>,
}

impl CodexSettings {
    /// Says what was left open.
    fn filled(self, spec: &BackendSpec, confinement: Confinement) -> Self {
        let sandbox = match confinement {
            Confinement::Unconfined => "workspace-write",
            Confinement::Bubblewrap | Confinement::Landlock => "danger-full-access",
        };
        // With `on-request` it asks only to leave its own sandbox, and here it has none.
        let policy = match spec.approve_all {
            true => "never",
            false => "untrusted",
        };
        Self {
            approval_policy: self.approval_policy.or_else(|| Some(policy.to_owned())),
            sandbox: self.sandbox.or_else(|| Some(sandbox.to_owned())),
        }
    }
}

/// Codex.
pub struct CodexBackend {
    name: String,
    places: Arc<dyn Places>,
    settings: SessionSettings,
    codex: CodexSettings,
}

impl CodexBackend {
    /// Codex under a name, with what confines it.
    pub fn new(
        name: impl Into<String>,
        places: Arc<dyn Places>,
        settings: SessionSettings,
        codex: CodexSettings,
    ) -> Self {
        Self {
            name: name.into(),
            places,
            settings,
            codex,
        }
    }
}

#[async_trait]
impl Backend for CodexBackend {
    fn name(&self) -> &str {
        &self.name
    }

    /// It chooses by itself, and says so before it is asked anything.
    fn choose_session(&self) -> Option<String> {
        None
    }

    async fn check(&self, spec: &BackendSpec) -> Result<BackendVersion, BackendError> {
        let place = session::place(self.places.as_ref(), spec)?;
        session::check(spec, place, PROGRAM, HOW_TO_INSTALL).await
    }

    async fn open(&self, spec: BackendSpec) -> Result<Box<dyn BackendSession>, BackendError> {
        let place = session::place(self.places.as_ref(), &spec)?;
        let codex = self.codex.clone().filled(&spec, place.confinement);
        let protocol = Box::new(Codex::new(&spec, codex));
        let mut arguments = vec!["-c".into(), trusts_nothing(&spec.cwd).into()];
        arguments.extend(spec.arguments.iter().map(OsString::from));
        arguments.push("app-server".into());
        let start = Start {
            program: PROGRAM.to_owned(),
            how_to_install: HOW_TO_INSTALL.to_owned(),
            arguments,
            place,
            settings: self.settings.clone(),
        };
        session::open(spec, start, protocol).await
    }
}

/// The setting by which Codex trusts no repository that a directory is in. Without it, it trusts the one that it may write to, and starts the
/// programs that its configuration names.
fn trusts_nothing(cwd: &Path) -> String {
    // As Codex writes them: without a slash at the end.
    let cwd: PathBuf = cwd.components().collect();
    let above = cwd.ancestors().filter(|above| above.parent().is_some());
    let projects = above.map(|path| {
        // A string of JSON is one of TOML.
        let path = serde_json::Value::from(path.to_string_lossy()).to_string();
        format!("{path}={{trust_level=\"untrusted\"}}")
    });
    let projects: Vec<_> = projects.collect();
    format!("projects={{{}}}", projects.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codex_asks_unless_the_turn_allows_all() {
        let mut spec = BackendSpec::new("test", "/srv");
        for (approve_all, expected) in [(false, "untrusted"), (true, "never")] {
            spec.approve_all = approve_all;
            let filled = CodexSettings::default().filled(&spec, Confinement::Bubblewrap);
            assert_eq!(filled.approval_policy.as_deref(), Some(expected));
        }
    }

    #[test]
    fn no_repository_around_a_directory_is_trusted() {
        let said = trusts_nothing(Path::new("/srv/a \"b\"/"));
        let untrusted = r#"{trust_level="untrusted"}"#;
        let expected = format!(r#"projects={{"/srv/a \"b\""={untrusted},"/srv"={untrusted}}}"#);
        assert_eq!(said, expected);
    }
}
