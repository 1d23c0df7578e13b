//! The tools and settings that a model is offered, shared by all turns with an equal offer.
//!
//! The schemas of tools are the largest part of a turn's context, and a thousand sessions of one agent offer the same tools. So equal offers share
//! one value, which is dropped when the last turn that uses it has ended.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use windlass_core::digest::Digest128;
use windlass_core::llm_driver_registry::LlmCallConfig;
use windlass_core::tools::{ToolDefinition, ToolPolicy};
use windlass_turn::{CompactionPlan, ToolSpec};

use windlass_core::lock::lock;

/// The settings of model calls, and the tools by name.
pub(crate) struct Offer {
    /// Settings of every model call, with the tools that are offered at once.
    pub(crate) config: Arc<LlmCallConfig>,
    /// Tools that are offered after they are found.
    pub(crate) deferred: Vec<ToolDefinition>,
    /// Names of all tools.
    pub(crate) names: Arc<HashSet<String>>,
    /// Names of the tools that are offered at once, in order.
    pub(crate) names_in_order: Arc<[String]>,
    /// Names of the deferred tools, with their size in tokens.
    pub(crate) deferred_tokens: Arc<HashMap<String, u64>>,
    /// Properties of all tools that the turn machine needs.
    pub(crate) specs: Arc<HashMap<String, ToolSpec>>,
    indexes: HashMap<String, usize>,
}

impl Offer {
    pub(super) fn new(config: LlmCallConfig, deferred: Vec<ToolDefinition>) -> Self {
        let tools = || config.tools.iter().chain(&deferred);
        let names = || tools().map(|tool| tool.name().to_owned());
        let tokens = |tool: &ToolDefinition| {
            let json = serde_json::to_string(tool).map_or(0, |json| json.len());
            (
                tool.name().to_owned(),
                CompactionPlan::tokens_of_bytes(json),
            )
        };
        Self {
            names: Arc::new(names().collect()),
            names_in_order: names().take(config.tools.len()).collect(),
            deferred_tokens: Arc::new(deferred.iter().map(tokens).collect()),
            specs: Arc::new(names().zip(tools().map(spec)).collect()),
            indexes: names().zip(0..).collect(),
            config: Arc::new(config),
            deferred,
        }
    }

    /// Returns all tools: first those that are offered at once, in their order.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        self.config.tools.iter().chain(&self.deferred)
    }

    /// Returns the tool with this name, whether it has been found yet or not.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolDefinition> {
        let index = *self.indexes.get(name)?;
        match index.checked_sub(self.config.tools.len()) {
            None => self.config.tools.get(index),
            Some(index) => self.deferred.get(index),
        }
    }

    /// Returns the settings of a model call without tools.
    pub(crate) fn config_without_tools(&self) -> LlmCallConfig {
        LlmCallConfig {
            tools: Vec::new(),
            ..(*self.config).clone()
        }
    }

    /// Returns the settings of a model call that also offers some deferred tools. They come last, so that a provider's prompt cache of the others
    /// stays valid.
    pub(super) fn with_found(&self, found: &[String]) -> LlmCallConfig {
        let mut config = (*self.config).clone();
        let found = found.iter().filter_map(|name| self.tool(name));
        config.tools.extend(found.cloned());
        config
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
    /// Returns the equal offer in use, or creates a new one. The settings must not contain the session's ID.
    pub(crate) fn shared(
        &self,
        tools: Digest128,
        config: LlmCallConfig,
        deferred: Vec<ToolDefinition>,
    ) -> Arc<Offer> {
        let model = format!("{}\0{:?}", config.model, config.reasoning_effort);
        let key = tools.chain(model.as_bytes());
        let mut table = lock(&self.0);
        if let Some(offer) = table.offers.get(&key).and_then(Weak::upgrade)
            && *offer.config == config
            && offer.deferred == deferred
        {
            return offer;
        }
        let offer = Arc::new(Offer::new(config, deferred));
        table.insert(key, &offer);
        offer
    }
}

impl OfferTable {
    fn insert(&mut self, key: Digest128, offer: &Arc<Offer>) {
        // Unused offers are removed each time their number may have doubled.
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
        offers.shared(Digest128::of_json(&config.tools), config, Vec::new())
    }

    #[test]
    fn equal_offers_share_one_value() {
        let offers = Offers::default();
        let first = offer(&offers, "lift", None);
        assert!(Arc::ptr_eq(&first, &offer(&offers, "lift", None)));
        assert!(!Arc::ptr_eq(&first, &offer(&offers, "lift", Some("high"))));
        assert!(!Arc::ptr_eq(&first, &offer(&offers, "lower", None)));
        assert_eq!(first.tool("lift"), first.tools().next());
        assert_eq!(first.tool("lower"), None);
    }

    #[test]
    fn found_deferred_tools_are_offered_last() {
        let tool = |name: &str| ToolDefinition::client_side(name, "", json!({}));
        let config = LlmCallConfig {
            tools: vec![tool("shell")],
            ..LlmCallConfig::default()
        };
        let offer = Offer::new(config, vec![tool("haul"), tool("drop")]);
        assert_eq!(*offer.names_in_order, ["shell".to_owned()]);
        assert_eq!(offer.tool("drop").map(ToolDefinition::name), Some("drop"));
        assert!(offer.specs.contains_key("drop") && offer.names.contains("drop"));
        assert!(offer.deferred_tokens["haul"] > 0);
        let found = offer.with_found(&["drop".to_owned(), "gone".to_owned()]);
        assert_eq!(found.tools, [tool("shell"), tool("drop")]);
    }

    #[test]
    fn unused_offers_are_removed() {
        let offers = Offers::default();
        for n in 0..1_000 {
            offer(&offers, &format!("tool_{n}"), None);
        }
        assert!(offers.0.lock().unwrap().offers.len() <= 64);
    }
}
