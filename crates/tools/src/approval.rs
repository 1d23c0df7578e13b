//! Whether somebody is asked before something changes.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::tools::ToolPolicy;

/// Whether somebody is asked before something changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Each call waits until somebody allows it, unless its turn approves everything.
    #[default]
    Ask,
    /// Nobody is asked.
    Never,
}

/// What can be set where a capability is enabled.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Config {
    approval: Approval,
}

impl Approval {
    /// Reads a capability's configuration; nothing said is the default.
    pub(crate) fn of(config: &Value) -> Result<Self, String> {
        if config.is_null() {
            return Ok(Self::default());
        }
        let config = Config::deserialize(config);
        config
            .map(|config| config.approval)
            .map_err(|error| error.to_string())
    }

    /// Returns when a tool that changes something may run.
    pub(crate) fn policy(self) -> ToolPolicy {
        match self {
            Self::Ask => ToolPolicy::RequiresApproval,
            Self::Never => ToolPolicy::Auto,
        }
    }

    pub(crate) fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "approval": {
                    "enum": ["ask", "never"],
                    "description": "Whether somebody is asked before something changes"
                }
            },
            "additionalProperties": false
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_left_out_by_a_typing_error() {
        assert_eq!(Approval::of(&Value::Null), Ok(Approval::Ask));
        assert_eq!(Approval::of(&json!({})), Ok(Approval::Ask));
        let never = json!({ "approval": "never" });
        assert_eq!(Approval::of(&never), Ok(Approval::Never));
        for odd in [
            json!({"approval": "maybe"}),
            json!({"aproval": "never"}),
            json!(1),
        ] {
            assert!(Approval::of(&odd).is_err(), "{odd}");
        }
    }
}
