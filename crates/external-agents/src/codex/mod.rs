//! Codex over its app-server on standard input and output.

mod approval;
mod failure;
mod protocol;

use std::path::{Path, PathBuf};

use windlass_core::backend::BackendSpec;
use windlass_process::Confinement;

use crate::backend::Invocation;

pub use protocol::Codex;

pub(crate) const PROGRAM: &str = "codex";
pub(crate) const HOW_TO_INSTALL: &str = "install it with `npm install -g @openai/codex`";

/// What Codex may do without asking.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodexSettings {
    /// When Codex requests a permission, as a Codex policy name. `None`: before each command that is not known to be read-only, or never if the turn
    /// has no reader for approvals.
    pub approval_policy: Option<String>,
    /// The sandbox of Codex, as a Codex mode name. `None`: no sandbox if Windlass confines the process, because sandboxes cannot be nested, else
    /// `workspace-write`.
    pub sandbox: Option<String>,
}

impl CodexSettings {
    /// Fills in the defaults of unset fields.
    fn with_defaults(self, spec: &BackendSpec, confinement: Confinement) -> Self {
        let sandbox = match confinement {
            Confinement::Unconfined => "workspace-write",
            Confinement::Bubblewrap | Confinement::Landlock => "danger-full-access",
        };
        // With `on-request`, Codex asks only to leave its own sandbox, and here it has none.
        let policy = if spec.approve_all {
            "never"
        } else {
            "untrusted"
        };
        Self {
            approval_policy: self.approval_policy.or_else(|| Some(policy.to_owned())),
            sandbox: self.sandbox.or_else(|| Some(sandbox.to_owned())),
        }
    }
}

pub(crate) fn invocation(
    spec: &BackendSpec,
    settings: &CodexSettings,
    confinement: Confinement,
) -> Invocation {
    let settings = settings.clone().with_defaults(spec, confinement);
    let mut arguments = vec!["-c".into(), distrust_projects(&spec.cwd).into()];
    arguments.extend(spec.arguments.iter().map(Into::into));
    arguments.push("app-server".into());
    (arguments, Box::new(Codex::new(spec, settings)))
}

/// The setting that makes Codex distrust every repository around the directory. Without it, Codex trusts a repository that it may write to, and
/// starts the programs that the repository's configuration names.
fn distrust_projects(cwd: &Path) -> String {
    // Codex writes paths without a trailing slash.
    let cwd: PathBuf = cwd.components().collect();
    let above = cwd.ancestors().filter(|above| above.parent().is_some());
    let projects = above.map(|path| {
        // A JSON string is also a valid TOML string.
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
    fn codex_asks_unless_the_turn_allows_everything() {
        let mut spec = BackendSpec::new("test", "/srv");
        for (approve_all, expected) in [(false, "untrusted"), (true, "never")] {
            spec.approve_all = approve_all;
            let with_defaults =
                CodexSettings::default().with_defaults(&spec, Confinement::Bubblewrap);
            assert_eq!(with_defaults.approval_policy.as_deref(), Some(expected));
        }
    }

    #[test]
    fn enclosing_repository_is_not_trusted() {
        let setting = distrust_projects(Path::new("/srv/a \"b\"/"));
        let untrusted = r#"{trust_level="untrusted"}"#;
        let expected = format!(r#"projects={{"/srv/a \"b\""={untrusted},"/srv"={untrusted}}}"#);
        assert_eq!(setting, expected);
    }
}
