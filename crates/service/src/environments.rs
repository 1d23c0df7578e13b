//! Named root directories, and the working directory of a turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::Utc;
use serde_json::json;
use windlass_core::thread_record::{ThreadEnvironment, ThreadRecord};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_policy::{TurnMode, TurnPolicy};
use windlass_protocol::{
    CreateEnvironment, Environment, EnvironmentPolicy, ErrorCode, NetworkPolicy,
    TurnEnvironmentParams,
};
use windlass_tools::{Environments, Network, Policy, Unconfined};

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
    pub(crate) local: Environment,
    /// Environments from the operator's configuration.
    configured: Vec<Environment>,
}

impl FixedEnvironments {
    fn iter(&self) -> impl Iterator<Item = &Environment> {
        std::iter::once(&self.local).chain(&self.configured)
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.iter().any(|environment| environment.id == id)
    }
}

/// Creates a configured environment, which clients cannot remove.
fn fixed(configured: &CreateEnvironment) -> Result<Environment> {
    let checked = checked(configured.clone())?;
    Ok(Environment {
        protected: true,
        ..checked
    })
}

/// Creates the environment that always exists.
fn local(workspace: &Path) -> std::io::Result<Environment> {
    Ok(Environment {
        id: LOCAL.to_owned(),
        kind: LOCAL.to_owned(),
        root: workspace.canonicalize()?,
        policy: EnvironmentPolicy::default(),
        protected: true,
        created_at: ids::time(Utc::now()),
    })
}

/// Validates an environment that a client registers.
pub(crate) fn checked(request: CreateEnvironment) -> Result<Environment> {
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
    Ok(Environment {
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

/// Resolves a directory inside of an environment.
pub(crate) fn inside(environment: &Environment, cwd: &Path) -> Result<PathBuf> {
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

/// Returns the sandbox policy of tools in an environment.
fn policy(environment: &Environment) -> Policy {
    let EnvironmentPolicy {
        write,
        shell,
        network,
    } = environment.policy;
    Policy {
        write,
        shell,
        network: match network {
            NetworkPolicy::Inherit => Network::Inherit,
            NetworkPolicy::None => Network::None,
            NetworkPolicy::Filtered => Network::Filtered,
        },
        unconfined: Unconfined::Refuse,
    }
}

/// Converts an environment to the type of the tools crate.
pub(crate) fn for_tools(environment: &Environment) -> windlass_tools::Environment {
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
    let opened = opened(environments, workspace, configured, store);
    opened.await.map(drop)
}

/// Refuses a workspace and environments that [`open_environments`] cannot open. A host calls it before it creates other resources.
pub fn check_environments(
    workspace: &Path,
    configured: &[CreateEnvironment],
) -> Result<(), OpenError> {
    always(workspace, configured).map(drop)
}

/// Opens the environments; returns the fixed ones and all of them.
pub(crate) async fn opened(
    environments: &Environments,
    workspace: &Path,
    configured: &[CreateEnvironment],
    store: &dyn WireStore,
) -> Result<(FixedEnvironments, Vec<Environment>), OpenError> {
    let always = always(workspace, configured)?;
    let all = all(&always, store).await.map_err(OpenError::Store)?;
    for environment in &all {
        environments.put(for_tools(environment));
    }
    Ok((always, all))
}

/// Creates the fixed environments.
fn always(
    workspace: &Path,
    configured: &[CreateEnvironment],
) -> Result<FixedEnvironments, OpenError> {
    let mut local = local(workspace).map_err(|source| OpenError::Workspace {
        path: workspace.display().to_string(),
        source,
    })?;
    // For the workspace, only the policy is configurable.
    let workspace = local.root.clone();
    let is_local = |wanted: &&CreateEnvironment| {
        let root = wanted.root.canonicalize();
        wanted.id == LOCAL && root.is_ok_and(|root| root == workspace)
    };
    let mut said = configured.iter().filter(is_local);
    if let Some(said) = said.next() {
        local.policy = said.policy;
    }
    if said.next().is_some() {
        return Err(OpenError::Environment {
            id: LOCAL.to_owned(),
            why: "what may be done in the workspace is said twice: leave out the entry, or shell.network, and say the network in the entry".to_owned(),
        });
    }
    let others = configured.iter().filter(|wanted| !is_local(wanted));
    let made = others.map(|wanted| {
        let refused = |why| OpenError::Environment {
            id: wanted.id.clone(),
            why,
        };
        match wanted.id.as_str() {
            LOCAL => Err(refused("its root is the daemon's workspace".to_owned())),
            _ => fixed(wanted).map_err(|error| refused(error.to_string())),
        }
    });
    Ok(FixedEnvironments {
        configured: made.collect::<Result<_, _>>()?,
        local,
    })
}

/// Returns all environments, fixed ones first. The configuration takes precedence over earlier client registrations.
async fn all(always: &FixedEnvironments, store: &dyn WireStore) -> Result<Vec<Environment>> {
    let mut all: Vec<_> = always.iter().cloned().collect();
    let registered = store.environments().await?.into_iter();
    all.extend(registered.filter(|environment| !always.has(&environment.id)));
    Ok(all)
}

impl Service {
    /// Refuses a directory that is hidden from tools, such as the data directory: no turn could work there.
    pub(crate) fn refuse_hidden(&self, directory: &Path) -> Result<()> {
        match self.settings.environments.hides(directory) {
            Ok(false) => Ok(()),
            Ok(true) => Err(ApiError::new(
                ErrorCode::CwdOutsideRoot,
                "the directory lies where the daemon keeps its own data or keys, which are out of the reach of tools; choose \
                 another directory, or start the daemon with another `--data`",
            )),
            Err(_) => Err(ApiError::new(
                ErrorCode::CwdNotFound,
                "the directory cannot be opened",
            )),
        }
    }

    /// Narrows a turn's policy in an environment: plan mode is read-only, and commands need the thread's permission.
    pub(crate) fn narrowed(
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
    pub(crate) fn environments(&self) -> Arc<Vec<Environment>> {
        Arc::clone(&self.environments.read())
    }

    /// Reloads the environments from the store after a change.
    pub(crate) async fn reload_environments(&self) -> Result<()> {
        let all = all(&self.fixed, &*self.store).await?;
        *self.environments.write() = Arc::new(all);
        Ok(())
    }

    pub(crate) fn environment(&self, id: &str) -> Result<Environment> {
        let all = self.environments();
        let mut all = all.iter();
        let found = all.find(|environment| environment.id == id);
        found.cloned().ok_or_else(not_found)
    }

    /// Validates and resolves the environments of a thread.
    pub(crate) fn resolve_environments(
        &self,
        wished: &[TurnEnvironmentParams],
    ) -> Result<Vec<ThreadEnvironment>> {
        let mut resolved = Vec::with_capacity(wished.len());
        for entry in wished {
            let environment = self.environment(&entry.environment_id)?;
            let cwd = inside(&environment, &entry.cwd)?;
            self.refuse_hidden(&cwd)?;
            resolved.push(ThreadEnvironment {
                cwd,
                environment_id: environment.id,
            });
        }
        Ok(resolved)
    }

    /// Chooses the environment of a turn: the one it names, else the thread's first, else `local` at the thread's workspace.
    pub(crate) fn turn_environment(
        &self,
        thread: &ThreadRecord,
        wished: Option<&str>,
    ) -> Result<ThreadEnvironment> {
        let entries = &thread.environments;
        let default = ThreadEnvironment {
            environment_id: LOCAL.to_owned(),
            cwd: thread.workspace.clone().into(),
        };
        let chosen = match wished {
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
        let environment = self.environment(&chosen.environment_id)?;
        let cwd = inside(&environment, &chosen.cwd)?;
        Ok(ThreadEnvironment { cwd, ..chosen })
    }
}
