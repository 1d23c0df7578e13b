//! What a model is offered, shared by all turns that offer the same.
//!
//! The schemas of tools are the heaviest part of a turn's context, and a thousand sessions of one agent offer the same
//! tools. So equal offers are one value, which goes when the last turn that uses it has ended.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use windlass_core::digest::Digest128;
use windlass_core::llm_driver_registry::LlmCallConfig;
use windlass_core::tools::{ToolDefinition, ToolPolicy};
use windlass_turn::ToolSpec;

/// The settings of model calls, and the tools in them by name.
pub(crate) struct Offer {
    pub(crate) config: Arc<LlmCallConfig>,
    /// What the tools are called.
    pub(crate) names: Arc<HashSet<String>>,
    /// The same in the order in which they are offered.
    pub(crate) names_in_order: Arc<[String]>,
    /// What the machine must know of them.
    pub(crate) specs: Arc<HashMap<String, ToolSpec>>,
    places: HashMap<String, usize>,
}

impl Offer {
    fn new(config: LlmCallConfig) -> Self {
        let names = || config.tools.iter().map(|tool| tool.name().to_owned());
        Self {
            names: Arc::new(names().collect()),
            names_in_order: names().collect(),
            specs: Arc::new(names().zip(config.tools.iter().map(spec)).collect()),
            places: names().zip(0..).collect(),
            config: Arc::new(config),
        }
    }

    /// Returns the tools in the order in which they are offered.
    pub(crate) fn tools(&self) -> &[ToolDefinition] {
        &self.config.tools
    }

    /// Returns the tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolDefinition> {
        self.config.tools.get(*self.places.get(name)?)
    }
}

fn spec(tool: &ToolDefinition) -> ToolSpec {
    let hints = tool.hints();
    ToolSpec {
        policy: tool.policy(),
        concurrency_class: hints.concurrency_class.clone(),
        side_effects: hints.side_effects(),
        display_name: tool.display_name().map(str::to_owned),
        capability_id: hints.capability_id.clone(),
        shape: hints.shape,
        wait_timeout: hints
            .timeout_ms
            .filter(|_| tool.policy() == ToolPolicy::ClientSide)
            .map(Duration::from_millis),
    }
}

/// The offers that are in use.
#[derive(Default)]
pub(crate) struct Offers(Mutex<OfferTable>);

#[derive(Default)]
struct OfferTable {
    offers: HashMap<Digest128, Weak<Offer>>,
    sweep_at: usize,
}

impl Offers {
    /// Returns the equal offer that is in use, or makes a new one. The settings must not name the session.
    pub(crate) fn shared(&self, tools: Digest128, config: LlmCallConfig) -> Arc<Offer> {
        let named = format!("{}\0{:?}", config.model, config.reasoning_effort);
        let key = tools.chain(named.as_bytes());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offer) = known.offers.get(&key).and_then(Weak::upgrade)
            && *offer.config == config
        {
            return offer;
        }
        let offer = Arc::new(Offer::new(config));
        known.insert(key, &offer);
        offer
    }
}

impl OfferTable {
    fn insert(&mut self, key: Digest128, offer: &Arc<Offer>) {
        // Those that nobody uses any more are swept out each time their number may have doubled.
        if self.offers.len() >= self.sweep_at {
            self.offers.retain(|_, offer| offer.strong_count() > 0);
            self.sweep_at = (self.offers.len() * 2).max(64);
        }
        self.offers.insert(key, Arc::downgrade(offer));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offer(offers: &Offers, tool: &str, effort: Option<&str>) -> Arc<Offer> {
        let tools = vec![ToolDefinition::client_side(tool, "", json!({}))];
        let config = LlmCallConfig {
            tools,
            reasoning_effort: effort.map(str::to_owned),
            ..LlmCallConfig::default()
        };
        offers.shared(Digest128::of_json(&config.tools), config)
    }

    #[test]
    fn equal_offers_are_one_value_and_others_are_not() {
        let offers = Offers::default();
        let first = offer(&offers, "lift", None);
        assert!(Arc::ptr_eq(&first, &offer(&offers, "lift", None)));
        assert!(!Arc::ptr_eq(&first, &offer(&offers, "lift", Some("high"))));
        assert!(!Arc::ptr_eq(&first, &offer(&offers, "lower", None)));
        assert_eq!(first.tool("lift"), Some(&first.tools()[0]));
        assert_eq!(first.tool("lower"), None);
    }

    #[test]
    fn offers_that_nobody_uses_do_not_pile_up() {
        let offers = Offers::default();
        for n in 0..1_000 {
            offer(&offers, &format!("tool_{n}"), None);
        }
        assert!(offers.0.lock().unwrap().offers.len() <= 64);
    }
}
