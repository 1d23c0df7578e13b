//! A history that is made shorter by itself, for the sessions that ask for it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Capability;

/// Makes the history shorter by itself when it no longer fits the model's window. The runtime does it; this is where a record says so.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompactionCapability;

impl CompactionCapability {
    /// The id by which records name it.
    pub const ID: &'static str = "compaction";
}

/// What the configuration of [`CompactionCapability`] may say; what it does not say is as the runtime has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// `false` switches it off, also where the runtime has it on.
    pub enabled: Option<bool>,
    /// How many tokens a request and its answer may have together.
    pub window_tokens: Option<u64>,
    /// How many of them are kept free for the answer.
    pub reserve_tokens: Option<u64>,
    /// How many of the newest messages stay whole, in tokens.
    pub keep_recent_tokens: Option<u64>,
}

impl CompactionConfig {
    /// Reads a configuration; nothing at all is one that says nothing.
    pub fn read(config: &Value) -> Result<Self, String> {
        if config.is_null() {
            return Ok(Self::default());
        }
        let read = Self::deserialize(config);
        read.map_err(|error| format!("the configuration of `compaction` cannot be read: {error}"))
    }
}

impl Capability for CompactionCapability {
    fn id(&self) -> &str {
        Self::ID
    }
    fn name(&self) -> &str {
        "Compaction"
    }
    fn description(&self) -> &str {
        "Makes the history shorter by itself when it no longer fits the model's window."
    }
    fn tools_revision(&self) -> Option<u64> {
        Some(0)
    }
    fn category(&self) -> Option<&str> {
        Some("Memory")
    }
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
