//! The configured external agents: their drivers, sandboxes and process environments.

mod built_in;
mod home;
mod host;
mod installed;
mod login;
mod sandbox;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use windlass_core::backend::{Backend, BackendSpec};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_external_agents::{
    AcpSettings, AgentKind, CodexSettings, ExternalAgent, SessionSettings,
};
use windlass_tools::{Environments, ShellSettings};

use crate::config::{BackendEntry, BackendHome, BackendKind};
pub(crate) use built_in::{BUILT_IN_AGENTS, BuiltInAgent};
use home::AgentHome;
pub(crate) use host::TurnBackendHost;
pub(crate) use installed::{check_installed, is_installed};
pub(crate) use login::LoginStatus;
use sandbox::BackendSandboxes;

/// Default limit on an agent's silence during a turn. It is longer than the agent's longest pause between retries.
const DEFAULT_SILENCE: Duration = Duration::from_secs(600);

/// The search path of programs if the daemon has no `PATH`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An external agent that can run turns.
pub(crate) struct ConfiguredBackend {
    pub(crate) name: String,
    pub(crate) kind: BackendKind,
    pub(crate) backend: Arc<dyn Backend>,
    entry: BackendEntry,
    sandboxes: Arc<BackendSandboxes>,
    path: String,
}

/// Settings shared by all agents: their environments and sandbox.
pub(crate) struct BackendContext<'a> {
    /// The data directory; the homes of agents are below it.
    pub(crate) data: &'a Path,
    pub(crate) environments: &'a Environments,
    pub(crate) shell: &'a ShellSettings,
}

/// Creates all agents: the built-in ones and those of the configuration.
pub(crate) fn all(
    entries: &BTreeMap<String, BackendEntry>,
    context: &BackendContext<'_>,
) -> Result<Vec<ConfiguredBackend>> {
    let mut named: BTreeMap<&str, BackendEntry> = BUILT_IN_AGENTS
        .iter()
        .map(|agent| (agent.kind.name(), BackendEntry::default()))
        .collect();
    named.extend(
        entries
            .iter()
            .map(|(name, entry)| (name.as_str(), entry.clone())),
    );
    named
        .into_iter()
        .map(|(name, entry)| ConfiguredBackend::new(name, entry, context))
        .collect()
}

impl ConfiguredBackend {
    fn new(name: &str, entry: BackendEntry, context: &BackendContext<'_>) -> Result<Self> {
        // The agent's own home directory has this name.
        let is_allowed =
            |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_allowed) {
            bail!(
                "a backend cannot be named {name:?}: a name has up to 64 letters, digits, `-` and `_`"
            );
        }
        let built_in = BUILT_IN_AGENTS
            .iter()
            .find(|agent| agent.kind.name() == name);
        let kind = entry.kind.or(built_in.map(|agent| agent.kind));
        let Some(kind) = kind else {
            bail!(
                "[backends.{name}] needs a `kind`: claude-code, codex, gemini, or acp for any other agent that implements ACP"
            );
        };
        if kind == BackendKind::Acp && entry.command.is_none() {
            bail!("[backends.{name}] has the kind acp and needs a `command`");
        }
        let user = std::env::home_dir().filter(|home| home.is_absolute());
        let user = user.and_then(|home| home.canonicalize().ok());
        let home = home_of(name, kind, &entry, user.as_deref(), context.data)?;
        let sandboxes = Arc::new(BackendSandboxes {
            environments: context.environments.clone(),
            shell: context.shell.clone(),
            home,
            kind,
            user,
        });
        let agent = match kind {
            BackendKind::ClaudeCode => AgentKind::ClaudeCode,
            BackendKind::Codex => AgentKind::Codex(CodexSettings::default()),
            BackendKind::Gemini => AgentKind::Acp(AcpSettings::gemini()),
            BackendKind::Acp => {
                let command = entry.command.clone().unwrap_or_default();
                let command = command.display().to_string();
                AgentKind::Acp(AcpSettings::new(command, Vec::new()))
            }
        };
        let settings = SessionSettings::default();
        let backend = ExternalAgent::new(name, Arc::clone(&sandboxes) as _, settings, agent);
        Ok(Self {
            name: name.to_owned(),
            kind,
            backend: Arc::new(backend),
            entry,
            sandboxes,
            path: std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned()),
        })
    }

    /// Detects whether the agent is logged in, given the process settings that it would be started with.
    pub(crate) fn login(&self, spec: &BackendSpec) -> LoginStatus {
        let home = spec.variables.get("HOME").map(PathBuf::from);
        login::detect(self.kind, &home.unwrap_or_default(), &spec.variables)
    }

    /// Returns the process settings for an agent in `cwd`, for threads of an owner. The agent gets the variables of its entry and only those others
    /// that it needs.
    pub(crate) fn spec(
        &self,
        cwd: PathBuf,
        environment: Option<TurnEnvironment>,
        owner: Option<String>,
    ) -> Result<BackendSpec> {
        let entry = &self.entry;
        let mut spec = BackendSpec::new(&self.name, cwd);
        let home = self.sandboxes.home.path(owner.as_deref())?;
        spec.owner = owner;
        spec.command.clone_from(&entry.command);
        spec.arguments.clone_from(&entry.arguments);
        spec.environment = environment;
        spec.model.clone_from(&entry.model);
        spec.inactivity_timeout = Some(
            entry
                .silence_seconds
                .map_or(DEFAULT_SILENCE, Duration::from_secs),
        )
        .filter(|it| !it.is_zero());
        spec.turn_limit = entry.turn_seconds.map(Duration::from_secs);
        let home = home.display().to_string();
        let variables = [
            ("HOME", home.as_str()),
            ("PATH", &self.path),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        spec.variables.extend(variables);
        for name in &entry.variables {
            if let Ok(value) = std::env::var(name) {
                spec.variables.entry(name.clone()).or_insert(value);
            }
        }
        Ok(spec)
    }
}

fn home_of(
    name: &str,
    kind: BackendKind,
    entry: &BackendEntry,
    user: Option<&Path>,
    data: &Path,
) -> Result<AgentHome> {
    match (entry.home, &entry.settings) {
        (BackendHome::Own, None) => {
            let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
            Ok(AgentHome::Own(data.join("backends").join(name)))
        }
        (BackendHome::Own, Some(_)) => {
            bail!("[backends.{name}] has `settings`, which requires home = \"user\"")
        }
        (BackendHome::User, settings) => {
            let default = built_in::find(kind).map(|agent| PathBuf::from(agent.settings));
            let Some(settings) = settings.clone().or(default) else {
                bail!(
                    "[backends.{name}] has home = \"user\" and needs `settings`: its own directory there, such as \".config/{name}\""
                );
            };
            home::check_settings(&settings)
                .map_err(|why| anyhow::anyhow!("`settings` of [backends.{name}]: {why}"))?;
            let user =
                user.context("there is no home directory; set HOME, or configure home = \"own\"")?;
            Ok(AgentHome::User {
                home: user.to_owned(),
                settings: user.join(settings),
            })
        }
    }
}
