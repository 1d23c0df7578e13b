//! Pages of the web, and the way to them.

mod address;
mod content;
mod egress;
mod error;
mod fetch;
mod html;
mod rules;
mod settings;

use std::sync::Arc;

use serde_json::Value;
use windlass_core::capabilities::{Capability, RiskLevel};
use windlass_core::tools::Tool;
use windlass_core::turn_environment::TurnEnvironment;

pub use egress::{Resolver, WebEgress};
pub use rules::{InvalidWebRule, WebRules};
pub use settings::WebSettings;

use crate::approval::Approval;
use crate::environments::Environments;
use fetch::WebFetch;

/// What the model calls.
const NAME: &str = "web_fetch";

/// Reads an address that a stranger wrote; an error is what the stranger is told.
pub(crate) fn read_address(text: &str) -> Result<url::Url, String> {
    address::of_program(text).map_err(|error| error.to_string())
}

/// Reads pages of the web, over the platform's egress service.
#[derive(Debug, Clone)]
pub struct WebCapability {
    environments: Environments,
    rules: Arc<WebRules>,
    settings: WebSettings,
}

impl WebCapability {
    /// Reads pages for turns that work in these environments; one whose policy has no network reads none. The rules are those of
    /// the platform's [`WebEgress`].
    #[must_use]
    pub fn new(environments: Environments, rules: Arc<WebRules>, settings: WebSettings) -> Self {
        Self {
            environments,
            rules,
            settings,
        }
    }

    fn tools_for(&self, approval: Approval) -> Vec<Box<dyn Tool>> {
        vec![Box::new(WebFetch {
            environments: self.environments.clone(),
            rules: Arc::clone(&self.rules),
            settings: self.settings.clone(),
            policy: approval.policy(),
        })]
    }
}

impl Capability for WebCapability {
    fn id(&self) -> &str {
        NAME
    }
    fn name(&self) -> &str {
        "Web pages"
    }
    fn description(&self) -> &str {
        "Reads pages of the public web as text."
    }
    fn category(&self) -> Option<&str> {
        Some("Web")
    }
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::High
    }
    fn config_schema(&self) -> Option<Value> {
        Some(Approval::schema())
    }
    fn validate_config(&self, config: &Value) -> Result<(), String> {
        Approval::of(config).map(drop)
    }
    fn knows_environment(&self, environment: &TurnEnvironment) -> bool {
        self.environments.get(&environment.environment_id).is_some()
    }
    fn tools_revision(&self) -> Option<u64> {
        Some(0)
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        self.tools_for(Approval::Ask)
    }
    fn tools_with_config(&self, config: &Value) -> Vec<Box<dyn Tool>> {
        // What cannot be read was refused before; here it asks rather than not.
        self.tools_for(Approval::of(config).unwrap_or_default())
    }
}
