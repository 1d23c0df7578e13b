//! Where tools touch the world.

use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The environment that a thread or turn works in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TurnEnvironmentParams {
    /// Name of the environment, such as `local`.
    pub environment_id: String,
    /// The directory to work in.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cwd: PathBuf,
}

/// What tools may reach over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// What the daemon may.
    #[default]
    Inherit,
    /// No network access.
    None,
    /// Hosts that the operator names, by a proxy.
    Filtered,
}

/// What may be done in an environment. It narrows what thread and turn allow, and never widens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct EnvironmentPolicy {
    /// Whether files may be changed.
    pub write: bool,
    /// Whether commands may run.
    pub shell: bool,
    /// What may be reached over the network.
    pub network: NetworkPolicy,
}

impl Default for EnvironmentPolicy {
    fn default() -> Self {
        Self {
            write: true,
            shell: true,
            network: NetworkPolicy::Inherit,
        }
    }
}

/// A named root directory with a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvironmentInfo {
    /// Name that threads and requests use.
    pub id: String,
    /// `local`: a directory of the daemon's machine.
    pub kind: String,
    /// The directory, symbolic links resolved.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub root: PathBuf,
    /// What may be done in it.
    pub policy: EnvironmentPolicy,
    /// Whether it cannot be removed.
    pub protected: bool,
    /// When it was made.
    pub created_at: String,
}

/// The answer of `GET /v1/environments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvironmentList {
    /// `local` first, then by id.
    pub environments: Vec<EnvironmentInfo>,
}

/// The body of `POST /v1/environments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateEnvironment {
    /// Its name: lower-case letters, digits, `_` and `-`.
    pub id: String,
    /// `local` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// An absolute path of an existing directory.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub root: PathBuf,
    /// What may be done in it. What is not understood there is refused, since it was meant to narrow.
    #[serde(default, deserialize_with = "policy_as_object")]
    pub policy: EnvironmentPolicy,
}

/// Reads a policy from an object alone: a list would be read field by field.
fn policy_as_object<'de, D: Deserializer<'de>>(from: D) -> Result<EnvironmentPolicy, D::Error> {
    let fields = serde_json::Map::deserialize(from)?;
    EnvironmentPolicy::deserialize(serde_json::Value::Object(fields)).map_err(D::Error::custom)
}
