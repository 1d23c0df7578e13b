//! Reloads the configuration while the daemon runs. Models and providers change immediately, other keys at the next start.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use async_trait::async_trait;
use windlass_core::in_memory::InMemoryLlmProviderStore;
use windlass_macros::OpaqueDebug;
use windlass_server::{Models, Reload, Reloaded};

use super::agent::{register, register_providers, unknown_models};
use super::check::ConfigCheck;
use crate::config::{self, Layers};
use crate::model::Choice;
use crate::{cli, model};

/// Keys that apply immediately, in addition to the addresses and keys of providers.
const IMMEDIATE: [&str; 3] = ["model", "models", "unknown_models"];

/// Returns the provider whose address or API key a configuration key sets.
fn provider_of(key: &str) -> Option<&str> {
    let (provider, setting) = key.strip_prefix("providers.")?.rsplit_once('.')?;
    ["api_key", "base_url"]
        .contains(&setting)
        .then_some(provider)
}

/// The location of the configuration and its current layers.
#[derive(Clone)]
pub(crate) struct ConfigSource {
    pub(crate) named: Option<PathBuf>,
    pub(crate) layers: Layers,
}

#[derive(OpaqueDebug)]
pub(super) struct ConfigReload {
    pub(super) source: ConfigSource,
    pub(super) data: PathBuf,
    pub(super) workspace: PathBuf,
    pub(super) has_agents: bool,
    /// The model from the command line, which overrides all files.
    pub(super) model: Option<String>,
    /// The registry of models; `None` if the runtime has no provider.
    pub(super) providers: Option<Arc<InMemoryLlmProviderStore>>,
    /// The models at startup. The default model does not change, but its address and key do.
    pub(super) models: Models,
    /// The layers of the last successful reload.
    pub(super) last: Mutex<Layers>,
}

impl ConfigReload {
    async fn load(&self) -> anyhow::Result<Reloaded> {
        let (named, data) = (self.source.named.clone(), self.data.clone());
        let reading = tokio::task::spawn_blocking(move || config::layers(named.as_deref(), &data));
        let layers = reading.await??;
        // A file that was removed or edited since it was trusted must not silently drop out of the configuration.
        for origin in self.source.layers.origins() {
            if !layers.origins().any(|known| known == origin) {
                bail!(
                    "{origin} is missing, or has changed since it was trusted; check it, then run `{}`",
                    config::trust_command(&self.data)
                );
            }
        }
        let config = layers.config()?;
        let variable = |name: &str| std::env::var(name).ok();
        let wanted = self.model.as_deref();
        // An unusable model is rejected before anything changes.
        model::choose(wanted, &config, variable).context("its model cannot be used")?;
        // A configuration that the next start would reject is rejected as well.
        let check = ConfigCheck {
            config: &config,
            data: &self.data,
            workspace: &self.workspace,
            model: wanted,
            has_agents: self.has_agents,
        };
        check.all().context("the next start would fail")?;
        let mut models = self.models.clone();
        let own = models.provider.clone().unwrap_or_default();
        let default = format!("{own}/{}", models.default);
        // If the default model is no longer reachable, its previous settings remain, because threads may still use it.
        let reached = match model::choose(Some(&default), &config, variable) {
            Ok(Choice::Real(model)) => Some(model),
            _ => None,
        };
        let is_reached = reached.is_some();
        if let Some(providers) = &self.providers {
            let further = model::further(wanted, &config, variable)?;
            let as_before = self.models.known.get_key_value(&default);
            models.known = register(providers, further).await;
            // The default model stays registered, because threads may still use it.
            models
                .known
                .extend(as_before.map(|(name, id)| (name.clone(), *id)));
            let reached_now = model::providers(&config, variable)?;
            models.providers = register_providers(providers, reached_now).await;
            models.unknown = unknown_models(config.unknown_models);
            if let Some(reached) = reached {
                let named = [(default.clone(), reached.clone())];
                models.known.extend(register(providers, named).await);
                providers.set_default_model(reached).await;
            }
        }
        let named = config.model.clone().filter(|_| wanted.is_none());
        let is_default = wanted.is_some() || named.as_ref() == Some(&default);
        models.selected = named.filter(|name| !is_default && models.known.contains_key(name));
        let is_applied = |key: &String| match key.as_str() {
            key if key.starts_with("automations.") => true,
            _ if self.providers.is_none() => false,
            "model" => is_default || models.selected.is_some(),
            key => match provider_of(key) {
                Some(provider) => is_reached || provider != own,
                None => IMMEDIATE.contains(&key),
            },
        };
        let needs_restart = layers.changed_since(&self.source.layers);
        let needs_restart = needs_restart
            .into_iter()
            .filter(|key| !is_applied(key))
            .collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let applied = layers
            .changed_since(&last)
            .into_iter()
            .filter(is_applied)
            .collect();
        *last = layers;
        Ok(Reloaded {
            providers: model::entries(&config, variable),
            automations: super::jobs::settings(&config)?.declared,
            models,
            applied,
            needs_restart,
        })
    }
}

#[async_trait]
impl Reload for ConfigReload {
    async fn reload(&self) -> Result<Reloaded, String> {
        self.load().await.map_err(|error| cli::error_text(&error))
    }
}
