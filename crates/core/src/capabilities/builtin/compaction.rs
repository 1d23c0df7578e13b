//! Automatic compaction of the history, for sessions that enable it.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::capabilities::Capability;

/// Enables automatic compaction when the history no longer fits the model's context window. The runtime does the work; this type holds the
/// configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompactionCapability;

impl CompactionCapability {
    /// The id by which records name it.
    pub const ID: &'static str = "compaction";
}

/// The configuration of [`CompactionCapability`]; missing fields use the runtime's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// `false` switches it off, also where the runtime has it on.
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
