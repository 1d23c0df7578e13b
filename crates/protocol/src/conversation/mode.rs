//! How freely an agent works.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// How freely an agent works. Parsed case-insensitively and by its aliases; serialized in one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Works and asks for approvals where required; also `act`, `auto` and `1`.
    #[default]
    Agent,
    /// Changes nothing; also `2`.
    Plan,
    /// Works like `agent` and may delegate to other agents if there are any; also `operation`, `ops` and `3`.
    Operate,
    /// Never asks for approvals; also `4`, `bypass`, `bypass-permissions` and `bypasspermissions`.
    Yolo,
}

impl Mode {
    /// Returns the serialized form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Plan => "plan",
            Self::Operate => "operate",
            Self::Yolo => "yolo",
        }
    }
}

/// The text is not a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMode(String);

impl std::fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "unknown mode '{}'; expected agent, plan, operate or yolo",
            self.0
        )
    }
}

impl std::error::Error for UnknownMode {}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word.trim().to_ascii_lowercase().as_str() {
            "agent" | "act" | "auto" | "1" => Ok(Self::Agent),
            "plan" | "2" => Ok(Self::Plan),
            "operate" | "operation" | "ops" | "3" => Ok(Self::Operate),
            "yolo" | "4" | "bypass" | "bypass-permissions" | "bypasspermissions" => Ok(Self::Yolo),
            _ => Err(UnknownMode(word.to_owned())),
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        word.parse().map_err(serde::de::Error::custom)
    }
}
