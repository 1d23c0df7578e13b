//! Pages of the web, and the network access to them.

mod address;
mod content;
mod egress;
mod error;
mod fetch;
mod html;
mod rules;
mod settings;

use std::sync::Arc;

use windlass_core::capabilities::{Capability, RiskLevel};
use windlass_core::constants;
use windlass_core::session_tool::session_tool;
use windlass_core::tools::Tool;

pub use egress::{Resolver, WebEgress};
pub use rules::{InvalidWebRule, WebRules};
pub use settings::WebSettings;

use crate::approval::{Approval, approvable_tools};
use crate::environments::Environments;
use fetch::WebFetch;

/// Name of the tool for the model.
const NAME: &str = "web_fetch";

/// Parses an untrusted address; the error is the text to return to its author.
pub(crate) fn read_address(text: &str) -> Result<url::Url, String> {
    address::parse(text).map_err(|error| error.to_string())
}

/// The capability `web_fetch`: reads pages of the web through the platform's egress service.
#[derive(Debug, Clone)]
pub struct WebCapability {
    environments: Environments,
    rules: Arc<WebRules>,
    settings: WebSettings,
}

impl WebCapability {
    /// Creates the capability for these environments; a turn whose environment has no network cannot read pages. The rules are those of the
    /// platform's [`WebEgress`].
    #[must_use]
    pub fn new(environments: Environments, rules: Arc<WebRules>, settings: WebSettings) -> Self {
        Self {
            environments,
            rules,
            settings,
        }
    }

    fn tools_for(&self, approval: Approval) -> Vec<Box<dyn Tool>> {
        vec![session_tool(WebFetch {
            environments: self.environments.clone(),
            rules: Arc::clone(&self.rules),
            settings: self.settings.clone(),
            policy: approval.policy(),
        })]
    }
}

impl Capability for WebCapability {
    constants!(
        NAME,
        "Web pages",
        "Reads pages of the public web as text.",
        "Web",
    );
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::High
    }
    approvable_tools!();
}
