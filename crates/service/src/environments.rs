//! Named root directories, and the working directory of a turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::Utc;
use serde_json::json;
use windlass_core::thread_record::{ThreadEnvironment, ThreadRecord};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_policy::{TurnMode, TurnPolicy};
use windlass_protocol::{
    CreateEnvironment, EnvironmentInfo, EnvironmentPolicy, ErrorCode, NetworkPolicy,
    TurnEnvironmentParams,
};
use windlass_tools::{Environments, Network, Policy, Unconfined};

use crate::convert::convert_variants;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::open::OpenError;
use crate::service::Service;
use crate::store::WireStore;

/// The environment that always exists.
pub(crate) const LOCAL: &str = "local";

pub(crate) fn not_found() -> ApiError {
    ApiError::new(ErrorCode::EnvironmentNotFound, "Environment not found")
}

/// Environments that clients cannot remove.
pub(crate) struct FixedEnvironments {
    /// The environment `local`.
    pub(crate) local: EnvironmentInfo,
    /// Environments from the operator's configuration.
    configured: Vec<EnvironmentInfo>,
}

impl FixedEnvironments {
    fn iter(&self) -> impl Iterator<Item = &EnvironmentInfo> {
        std::iter::once(&self.local).chain(&self.configured)
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.iter().any(|environment| environment.id == id)
    }
}

/// Creates a configured environment, which clients cannot remove.
fn configured_environment(configured: &CreateEnvironment) -> Result<EnvironmentInfo> {
    let environment = validated(configured.clone())?;
    Ok(EnvironmentInfo {
        protected: true,
        ..environment
    })
}

/// Creates the environment that always exists.
fn local(workspace: &Path) -> std::io::Result<EnvironmentInfo> {
    Ok(EnvironmentInfo {
        id: LOCAL.to_owned(),
        kind: LOCAL.to_owned(),
        root: workspace.canonicalize()?,
        policy: EnvironmentPolicy::default(),
        protected: true,
        created_at: ids::time(Utc::now()),
    })
}

/// Validates an environment that a client registers.
pub(crate) fn validated(request: CreateEnvironment) -> Result<EnvironmentInfo> {
    let CreateEnvironment {
        id,
        kind,
        root,
        policy,
    } = request;
    let is_id = |id: &str| {
        let mut bytes = id.bytes();
        let lower = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        id.len() <= 64
            && bytes.next().is_some_and(lower)
            && bytes.all(|c| lower(c) || c == b'_' || c == b'-')
    };
    if !is_id(&id) {
        return Err(ApiError::field(
            "/id",
            "an id has 1 to 64 lower-case letters, digits, `_` or `-`, and begins with a letter or digit",
        ));
    }
    if kind.as_deref().is_some_and(|kind| kind != LOCAL) {
        return Err(ApiError::new(
            ErrorCode::UnsupportedKind,
            "only environments of kind `local` are served",
        ));
    }
    if !root.is_absolute() {
        return Err(ApiError::field(
            "/root",
            "the root must be an absolute path",
        ));
    }
    Ok(EnvironmentInfo {
        id,
        kind: LOCAL.to_owned(),
        root: directory(&root)?,
        policy,
        protected: false,
        created_at: ids::time(Utc::now()),
    })
}

/// Resolves symbolic links; a path that is not a directory is refused.
fn directory(path: &Path) -> Result<PathBuf> {
    let missing = || ApiError::new(ErrorCode::CwdNotFound, "the directory does not exist");
    let resolved = path.canonicalize().map_err(|_| missing())?;
    if resolved.is_dir() {
        Ok(resolved)
    } else {
        Err(missing())
    }
}

/// Resolves a directory inside an environment.
pub(crate) fn resolve_inside(environment: &EnvironmentInfo, cwd: &Path) -> Result<PathBuf> {
    // Relative and absolute paths are both accepted: `join` replaces the root with an absolute path.
    let resolved = directory(&environment.root.join(cwd))?;
    if resolved.starts_with(&environment.root) {
        return Ok(resolved);
    }
    let hint = match environment.id.as_str() {
        LOCAL => "; start the daemon with another `--workspace` to open it",
        _ => "",
    };
    let text = format!(
        "the directory `{}` lies outside of the environment's root{hint}",
        cwd.display()
    );
    Err(ApiError::new(ErrorCode::CwdOutsideRoot, text)
        .with(json!({ "environment_id": environment.id })))
}

convert_variants! {
    fn tool_network(NetworkPolicy) -> Network { Inherit None Filtered }
}

/// Returns the sandbox policy of tools in an environment.
fn policy(environment: &EnvironmentInfo) -> Policy {
    let EnvironmentPolicy {
        write,
        shell,
        network,
    } = environment.policy;
    Policy {
        write,
        shell,
        network: tool_network(network),
        unconfined: Unconfined::Refuse,
    }
}

/// Converts an environment to the type of the tools crate.
pub(crate) fn tool_environment(environment: &EnvironmentInfo) -> windlass_tools::Environment {
    windlass_tools::Environment::stored(&environment.id, &environment.root, policy(environment))
}

/// The policy of a turn's tools in its environment, and the tools that do not apply there.
pub(crate) struct TurnTools {
    pub(crate) environment: TurnEnvironment,
    pub(crate) idle_tools: Vec<String>,
}

/// Makes the environments available to tools: `local` at the workspace, those of the configuration, and those that clients registered.
///
/// A host calls it before it builds its runtime, because resumed turns need the environments.
pub async fn open_environments(
    environments: &Environments,
    workspace: &Path,
    configured: &[CreateEnvironment],
    store: &dyn WireStore,
) -> Result<(), OpenError> {
    open(environments, workspace, configured, store)
        .await
        .map(drop)
}

/// Refuses a workspace and environments that [`open_environments`] cannot open. A host calls it before it creates other resources.
pub fn check_environments(
    workspace: &Path,
    configured: &[CreateEnvironment],
) -> Result<(), OpenError> {
    fixed(workspace, configured).map(drop)
}

/// Opens the environments; returns the fixed ones and all of them.
pub(crate) async fn open(
    environments: &Environments,
    workspace: &Path,
    configured: &[CreateEnvironment],
    store: &dyn WireStore,
) -> Result<(FixedEnvironments, Vec<EnvironmentInfo>), OpenError> {
    let fixed = fixed(workspace, configured)?;
    let all = all(&fixed, store).await.map_err(OpenError::Store)?;
    for environment in &all {
        environments.put(tool_environment(environment));
    }
    Ok((fixed, all))
}

/// Creates the fixed environments.
fn fixed(
    workspace: &Path,
    configured: &[CreateEnvironment],
) -> Result<FixedEnvironments, OpenError> {
    let mut local = local(workspace).map_err(|source| OpenError::Workspace {
        path: workspace.display().to_string(),
        source,
    })?;
    // For the workspace, only the policy is configurable.
    let workspace = local.root.clone();
    let is_local = |entry: &&CreateEnvironment| {
        let root = entry.root.canonicalize();
        entry.id == LOCAL && root.is_ok_and(|root| root == workspace)
    };
    let refused = |id: &str, why: String| OpenError::Environment {
        id: id.to_owned(),
        why,
    };
    let (of_workspace, others): (Vec<_>, Vec<_>) = configured.iter().partition(is_local);
    match of_workspace[..] {
        [] => {}
        [entry] => local.policy = entry.policy,
        _ => {
            let text = "the policy of the workspace is configured twice: omit the entry, or omit shell.network and configure the network in the entry";
            return Err(refused(LOCAL, text.to_owned()));
        }
    }
    let others = others.into_iter().map(|entry| match entry.id.as_str() {
        LOCAL => {
            let text = "its root is the daemon's workspace";
            Err(refused(LOCAL, text.to_owned()))
        }
        id => configured_environment(entry).map_err(|error| refused(id, error.to_string())),
    });
    Ok(FixedEnvironments {
        configured: others.collect::<Result<_, _>>()?,
        local,
    })
}

/// Returns all environments, fixed ones first. The configuration takes precedence over earlier client registrations.
async fn all(fixed: &FixedEnvironments, store: &dyn WireStore) -> Result<Vec<EnvironmentInfo>> {
    let mut all: Vec<_> = fixed.iter().cloned().collect();
    let registered = store.environments().await?.into_iter();
    all.extend(registered.filter(|environment| !fixed.has(&environment.id)));
    Ok(all)
}

impl Service {
    /// Refuses a directory that is hidden from tools, such as the data directory: no turn could work there.
    pub(crate) fn refuse_hidden(&self, directory: &Path) -> Result<()> {
        match self.settings.environments.hides(directory) {
            Ok(false) => Ok(()),
            Ok(true) => Err(ApiError::new(
                ErrorCode::CwdOutsideRoot,
                "the directory contains the data or keys of the daemon, which tools cannot access; choose another \
                 directory, or start the daemon with another `--data`",
            )),
            Err(_) => Err(ApiError::new(
                ErrorCode::CwdNotFound,
                "the directory cannot be opened",
            )),
        }
    }

    /// Narrows a turn's policy in an environment: plan mode is read-only, and commands need the thread's permission.
    pub(crate) fn turn_tools(
        &self,
        at: &ThreadEnvironment,
        policy: &TurnPolicy,
    ) -> Result<TurnTools> {
        let mut environment = TurnEnvironment::new(&at.environment_id, &at.cwd);
        environment.write = policy.mode != TurnMode::Plan;
        environment.shell = environment.write && policy.may_run_commands();
        self.with_idle_tools(environment)
    }

    /// Adds the tools that do not apply in the turn's environment.
    pub(crate) fn with_idle_tools(&self, environment: TurnEnvironment) -> Result<TurnTools> {
        let policy = policy(&self.environment(&environment.environment_id)?);
        let idle_tools = policy.narrowed(Some(&environment)).idle_tools();
        Ok(TurnTools {
            environment,
            idle_tools: idle_tools.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Returns all environments, `local` first. Every turn reads them, so they are cached.
    pub(crate) fn environments(&self) -> Arc<Vec<EnvironmentInfo>> {
        Arc::clone(&self.environments.read())
    }

    /// Reloads the environments from the store after a change.
    pub(crate) async fn reload_environments(&self) -> Result<()> {
        let all = all(&self.fixed, &*self.store).await?;
        *self.environments.write() = Arc::new(all);
        Ok(())
    }

    pub(crate) fn environment(&self, id: &str) -> Result<EnvironmentInfo> {
        let all = self.environments();
        let found = all.iter().find(|environment| environment.id == id);
        found.cloned().ok_or_else(not_found)
    }

    /// Validates and resolves the environments of a thread.
    pub(crate) fn resolve_environments(
        &self,
        requested: &[TurnEnvironmentParams],
    ) -> Result<Vec<ThreadEnvironment>> {
        let resolve = |entry: &TurnEnvironmentParams| -> Result<ThreadEnvironment> {
            let environment = self.environment(&entry.environment_id)?;
            let cwd = resolve_inside(&environment, &entry.cwd)?;
            self.refuse_hidden(&cwd)?;
            Ok(ThreadEnvironment {
                cwd,
                environment_id: environment.id,
            })
        };
        requested.iter().map(resolve).collect()
    }

    /// Chooses the environment of a turn: the one it names, else the thread's first, else `local` at the thread's workspace.
    pub(crate) fn turn_environment(
        &self,
        thread: &ThreadRecord,
        requested: Option<&str>,
    ) -> Result<ThreadEnvironment> {
        let entries = &thread.environments;
        let default = ThreadEnvironment {
            environment_id: LOCAL.to_owned(),
            cwd: thread.workspace.clone().into(),
        };
        let selected = match requested {
            None => entries.first().unwrap_or(&default).clone(),
            Some(id) => {
                let environment = self.environment(id)?;
                let listed = entries.iter().find(|entry| entry.environment_id == id);
                let default = (entries.is_empty() && id == LOCAL).then_some(&default);
                let listed = listed.or(default).cloned();
                listed.unwrap_or(ThreadEnvironment {
                    cwd: environment.root,
                    environment_id: environment.id,
                })
            }
        };
        let environment = self.environment(&selected.environment_id)?;
        let cwd = resolve_inside(&environment, &selected.cwd)?;
        Ok(ThreadEnvironment { cwd, ..selected })
    }
}
