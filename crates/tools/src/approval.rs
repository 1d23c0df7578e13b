//! Configuration of whether tools that change something need approval.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::tools::ToolPolicy;

/// Whether calls that change something need approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Each call waits for approval, unless its turn approves every call.
    #[default]
    Ask,
    /// No call needs approval.
    Never,
}

/// Configuration of a capability where it is enabled.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Config {
    approval: Approval,
}

impl Approval {
    /// Parses a capability's configuration; an absent value is the default.
    pub(crate) fn parse(config: &Value) -> Result<Self, String> {
        let config = Option::<Config>::deserialize(config).map_err(|error| error.to_string())?;
        Ok(config.unwrap_or_default().approval)
    }

    /// Returns the policy for a tool that changes something.
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
                    "description": "Whether calls that change something need approval"
                }
            },
            "additionalProperties": false
        })
    }
}

/// The methods of a capability whose tools run in environments and whose changes need approval if the configuration requires it.
macro_rules! approvable_tools {
    () => {
        fn config_schema(&self) -> Option<serde_json::Value> {
            Some(Approval::schema())
        }
        fn validate_config(&self, config: &serde_json::Value) -> Result<(), String> {
            Approval::parse(config).map(drop)
        }
        fn knows_environment(
            &self,
            environment: &windlass_core::turn_environment::TurnEnvironment,
        ) -> bool {
            self.environments.get(&environment.environment_id).is_some()
        }
        fn tools(&self) -> Vec<Box<dyn Tool>> {
            self.tools_for(Approval::Ask)
        }
        fn tools_with_config(&self, config: &serde_json::Value) -> Vec<Box<dyn Tool>> {
            // An invalid configuration was rejected earlier; here it means `ask`.
            self.tools_for(Approval::parse(config).unwrap_or_default())
        }
    };
}
pub(crate) use approvable_tools;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_configuration_is_an_error() {
        assert_eq!(Approval::parse(&Value::Null), Ok(Approval::Ask));
        assert_eq!(Approval::parse(&json!({})), Ok(Approval::Ask));
        let never = json!({ "approval": "never" });
        assert_eq!(Approval::parse(&never), Ok(Approval::Never));
        for odd in [
            json!({"approval": "maybe"}),
            json!({"aproval": "never"}),
            json!(1),
        ] {
            assert!(Approval::parse(&odd).is_err(), "{odd}");
        }
    }
}
