//! Automatic compaction of the history, for sessions that enable it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::session_tool::config;
use crate::capabilities::Capability;

/// Enables automatic compaction when the history no longer fits the model's context window. The runtime does the work; this type holds the
/// configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompactionCapability;

impl CompactionCapability {
    /// The ID that records use.
    pub const ID: &'static str = "compaction";
}

/// The configuration of [`CompactionCapability`]; missing fields use the runtime's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// `false` disables it, even if the runtime enables it by default.
    pub enabled: Option<bool>,
    /// Token limit of a request and its answer together.
    pub window_tokens: Option<u64>,
    /// Tokens reserved for the answer.
    pub reserve_tokens: Option<u64>,
    /// How much of the newest messages remains verbatim, in tokens.
    pub keep_recent_tokens: Option<u64>,
}

impl CompactionConfig {
    /// Reads a configuration; `null` is an empty one.
    pub fn read(value: &Value) -> Result<Self, String> {
        config::<Self>(value)
            .map_err(|error| format!("the configuration of `compaction` cannot be read: {error}"))
    }
}

impl Capability for CompactionCapability {
    constants!(
        Self::ID,
        "Compaction",
        "Compacts the history automatically when it no longer fits the model's context window.",
        "Memory"
    );
    fn config_schema(&self) -> Option<Value> {
        let tokens = json!({ "type": "integer", "minimum": 1 });
        Some(json!({
            "type": "object",
            "properties": {
                "enabled": { "type": "boolean" },
                "window_tokens": tokens,
                "reserve_tokens": tokens,
                "keep_recent_tokens": tokens,
            },
            "additionalProperties": false,
        }))
    }
    fn validate_config(&self, config: &Value) -> Result<(), String> {
        CompactionConfig::read(config).map(drop)
    }
}
