//! The daemon's settings. Defaults for new threads can be changed at runtime; other settings are in the configuration file.

use serde_json::json;
use windlass_policy::ApprovalAction;
use windlass_protocol::Mode;
use windlass_protocol::config::{ConfigReloaded, ConfigSet, RuntimeConfig, SwitchedProvider};

use crate::operations::prelude::*;
use crate::settings::effective::{EffectiveSettings, Overrides};

/// Keys that can be changed at runtime.
const SETTABLE: [&str; 6] = [
    "model",
    "default_model",
    "provider",
    "reasoning_effort",
    "default_mode",
    "allow_shell",
];
/// Keys under which clients know settings of the configuration file.
const IN_FILE: [(&str, &str); 10] = [
    ("approval_mode", "approvals.default"),
    ("approval_policy", "approvals.default"),
    ("base_url", "providers.<name>.base_url"),
    ("provider_url", "providers.<name>.base_url"),
    ("provider_base_url", "providers.<name>.base_url"),
    ("auto_compact", "compaction.enabled"),
    ("mcp_config_path", "mcp_servers"),
    ("subagents_enabled", "subagents.enabled"),
    ("subagents_max_depth", "subagents.max_depth"),
    ("sandbox_mode", "shell.sandbox"),
];
/// Maximum length of a reasoning effort.
const MAX_EFFORT_BYTES: usize = 32;
/// The value that clients send to restore the configured setting.
const AUTO: &str = "auto";

/// A validated change that is not applied yet.
struct ConfigChange {
    value: String,
    apply: Box<dyn FnOnce(&mut Overrides) + Send>,
}

impl ConfigChange {
    fn new(value: impl Into<String>, apply: impl FnOnce(&mut Overrides) + Send + 'static) -> Self {
        Self {
            value: value.into(),
            apply: Box::new(apply),
        }
    }
}

impl Handle<op::GetConfig> for Service {
    async fn handle(&self, _: &RequestContext, _: Call<op::GetConfig>) -> Result<RuntimeConfig> {
        let (effective, host) = (self.effective(), &self.settings.config);
        let policy = &effective.overrides.policy;
        let model = effective.models.default_name().to_owned();
        let provider = effective.provider().to_owned();
        let entry = effective
            .providers
            .iter()
            .find(|entry| entry.id == provider);
        Ok(RuntimeConfig {
            default_model: model.clone(),
            model,
            base_url: entry.map_or_else(String::new, |entry| entry.default_base_url.clone()),
            provider,
            approval_mode: match host.approvals {
                None | Some(ApprovalAction::Ask) => "suggest",
                Some(ApprovalAction::Allow) => "auto",
                Some(ApprovalAction::Deny) => "never",
            }
            .to_owned(),
            reasoning_effort: policy
                .reasoning_effort
                .as_deref()
                .unwrap_or(AUTO)
                .to_owned(),
            auto_compact: host.compacts,
            cost_currency: "usd".to_owned(),
            default_mode: policy
                .mode
                .clone()
                .unwrap_or_else(|| Mode::default().to_string()),
            allow_shell: policy.allow_shell.unwrap_or(true),
            subagents_enabled: host.subagent_depth.is_some(),
            subagents_max_depth: host.subagent_depth.unwrap_or(0),
            show_thinking: true,
            show_tool_details: true,
            inline_diffs: AUTO.to_owned(),
            locale: AUTO.to_owned(),
            sandbox_mode: "workspace-write".to_owned(),
            search_provider: "none".to_owned(),
            settable: SETTABLE.map(str::to_owned).into(),
            ..RuntimeConfig::default()
        })
    }
}

/// Changes one setting if it can be changed at runtime, or only validates the change.
impl Handle<op::SetConfig> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::SetConfig>) -> Result<ConfigSet> {
        let request = call.request;
        let key = request.key.trim().to_ascii_lowercase();
        let ConfigChange { value, apply } = self.config_change(&key, request.value.trim())?;
        if request.persist {
            self.change_overrides(apply).await?;
        }
        let message = if request.persist {
            "set: it applies to new threads, also after a restart"
        } else {
            "validated only: it is stored with \"persist\": true"
        };
        Ok(ConfigSet {
            key,
            value,
            message: message.to_owned(),
            persisted: request.persist,
            requires_reload: false,
        })
    }
}

/// Changes the provider of threads that name no model.
impl Handle<op::SwitchProvider> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::SwitchProvider>,
    ) -> Result<SwitchedProvider> {
        let id = &call.path.id;
        let model = self.model_of(&self.effective(), id, call.request.model.as_deref())?;
        let effective = self
            .change_overrides(|overrides| overrides.policy.model = Some(model))
            .await?;
        let model = effective.models.default_name().to_owned();
        Ok(SwitchedProvider {
            message: format!("new threads use {model} of {id}, also after a restart"),
            provider: id.to_owned(),
            model,
            persisted: true,
        })
    }
}

/// Reloads the configuration file.
impl Handle<op::ReloadConfig> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        _: Call<op::ReloadConfig>,
    ) -> Result<ConfigReloaded> {
        let Some(reload) = &self.settings.config.reload else {
            return Err(ApiError::not_implemented("reading the configuration again"));
        };
        // Reloads run one after the other, so that the last one read is the last one applied.
        let _guard = self.write_locks.lock("reading the configuration").await;
        let reloaded = reload.reload().await.map_err(|why| {
            let text = format!("the configuration is invalid and was not applied: {why}");
            ApiError::new(ErrorCode::ConfigInvalid, text)
        })?;
        if self.runs_jobs()
            && let Some(jobs) = &self.jobs
        {
            jobs.automations.declare(reloaded.automations).await?;
        }
        self.configure(reloaded.models, reloaded.providers).await;
        self.retry_held_jobs().await;
        let message = match (
            reloaded.applied.is_empty(),
            reloaded.needs_restart.is_empty(),
        ) {
            (true, true) => "the configuration was reloaded; it has not changed".to_owned(),
            (false, true) => "the configuration was reloaded; it applies to new threads".to_owned(),
            (_, false) => format!(
                "the configuration was reloaded; changes of {} apply after a restart of the daemon",
                reloaded.needs_restart.join(", ")
            ),
        };
        Ok(ConfigReloaded {
            message,
            applied: reloaded.applied,
            needs_restart: reloaded.needs_restart,
        })
    }
}

impl Service {
    fn config_change(&self, key: &str, value: &str) -> Result<ConfigChange> {
        match key {
            "model" | "default_model" => self.model_change(value),
            "provider" => {
                let model = self.model_of(&self.effective(), value, None)?;
                Ok(ConfigChange::new(value, |overrides| {
                    overrides.policy.model = Some(model)
                }))
            }
            "reasoning_effort" => effort_change(value),
            "default_mode" => mode_change(value),
            "allow_shell" => shell_change(value),
            _ => Err(refused(key, &self.settings.config.file_keys)),
        }
    }

    /// A model name without a provider belongs to the current provider.
    fn model_change(&self, value: &str) -> Result<ConfigChange> {
        if value.is_empty() || value == AUTO {
            return Ok(ConfigChange::new(AUTO, |overrides| {
                overrides.policy.model = None
            }));
        }
        let effective = self.effective();
        let models = &effective.models;
        let is_own = models.provider.as_deref() == Some(effective.provider());
        let name = if is_own || models.names_provider(value) {
            value.to_owned()
        } else {
            format!("{}/{value}", effective.provider())
        };
        let name = checked_model(&effective, &name)?;
        Ok(ConfigChange::new(name.clone(), |overrides| {
            overrides.policy.model = Some(name)
        }))
    }

    /// Returns the name of a provider's model: the requested one, else the provider's default.
    fn model_of(
        &self,
        effective: &EffectiveSettings,
        id: &str,
        requested: Option<&str>,
    ) -> Result<String> {
        let provider = self.provider(effective, id)?;
        if !provider.usable {
            let text = format!(
                "the provider `{id}` has no key; set one of {} for the daemon, or its address in the configuration, and restart it",
                provider.env_vars.join(", ")
            );
            return Err(ApiError::new(ErrorCode::ProviderUnusable, text));
        }
        let requested = requested
            .map(str::trim)
            .filter(|model| !model.is_empty() && *model != AUTO);
        let models = &effective.models;
        if models.provider.as_deref() == Some(id) {
            checked_model(effective, requested.unwrap_or(&models.default))
        } else {
            let model = requested.unwrap_or(&provider.default_model);
            checked_model(effective, &format!("{id}/{model}"))
        }
    }
}

fn checked_model(effective: &EffectiveSettings, name: &str) -> Result<String> {
    let name = effective.models.resolve(Some(name));
    name.map_err(|error| error.at("/value"))
}

fn effort_change(value: &str) -> Result<ConfigChange> {
    if value.is_empty() || value == AUTO {
        return Ok(ConfigChange::new(AUTO, |overrides| {
            overrides.policy.reasoning_effort = None
        }));
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if value.len() > MAX_EFFORT_BYTES || !value.bytes().all(is_word) {
        let text = "the effort is one word, such as low, medium or high";
        return Err(ApiError::field("/value", text));
    }
    let effort = value.to_owned();
    Ok(ConfigChange::new(value, |overrides| {
        overrides.policy.reasoning_effort = Some(effort)
    }))
}

fn mode_change(value: &str) -> Result<ConfigChange> {
    if value.is_empty() {
        return Ok(ConfigChange::new(Mode::default().as_str(), |overrides| {
            overrides.policy.mode = None
        }));
    }
    let mode: Mode = value
        .parse()
        .map_err(|error| ApiError::field("/value", format!("{error}")))?;
    // It would disable approvals in threads of other clients.
    if mode == Mode::Yolo {
        let text = "only the client of a thread can disable approvals; set the mode when you create the thread";
        return Err(ApiError::field("/value", text));
    }
    Ok(ConfigChange::new(mode.as_str(), move |overrides| {
        overrides.policy.mode = Some(mode.to_string())
    }))
}

fn shell_change(value: &str) -> Result<ConfigChange> {
    let allowed = match value {
        "" => None,
        "true" => Some(true),
        "false" => Some(false),
        _ => return Err(ApiError::field("/value", "write true or false")),
    };
    let shown = allowed.unwrap_or(true).to_string();
    Ok(ConfigChange::new(shown, move |overrides| {
        overrides.policy.allow_shell = allowed
    }))
}

fn refused(key: &str, file_keys: &[String]) -> ApiError {
    let in_file = IN_FILE.iter().find(|(known, _)| *known == key);
    let in_file = in_file.map(|(_, setting)| *setting);
    let is_key = || file_keys.iter().any(|known| is_part_of(key, known));
    if let Some(setting) = in_file.or_else(|| is_key().then_some(key)) {
        let text = format!(
            "this is the setting `{setting}` of windlass.toml: change it there and restart the daemon, or reload the configuration if it is the address of a provider"
        );
        return ApiError::new(ErrorCode::RestartRequired, text)
            .with(json!({ "key": key, "setting": setting }));
    }
    let text = format!(
        "Unknown config key; the settable keys are {}",
        SETTABLE.join(", ")
    );
    ApiError::new(ErrorCode::UnknownSetting, text).with(json!({ "settable": SETTABLE }))
}

/// Returns whether a key is valid in a configuration file, or a table of valid keys.
fn is_part_of(key: &str, known: &str) -> bool {
    let mut known = known.split('.');
    key.split('.').all(|part| {
        known
            .next()
            .is_some_and(|known| known == part || (known == "*" && !part.is_empty()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_keys_and_unknown_keys_get_different_codes() {
        let keys = ["limits.threads", "providers.*.base_url"].map(str::to_owned);
        for (key, code) in [
            ("limits.threads", ErrorCode::RestartRequired),
            ("limits", ErrorCode::RestartRequired),
            ("providers.own.base_url", ErrorCode::RestartRequired),
            ("approval_mode", ErrorCode::RestartRequired),
            ("limits.thread", ErrorCode::UnknownSetting),
            ("limits.threads.more", ErrorCode::UnknownSetting),
            ("providers..base_url", ErrorCode::UnknownSetting),
            ("limit", ErrorCode::UnknownSetting),
            ("", ErrorCode::UnknownSetting),
        ] {
            let refused = refused(key, &keys);
            assert_eq!(refused.code(), code, "{key}: {refused}");
            if code == ErrorCode::RestartRequired {
                assert!(refused.to_string().contains("windlass.toml"), "{refused}");
            }
        }
    }
}
