//! Environments of tools.

use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use windlass_macros::{Defaults, wire};

/// The environment that a thread or turn works in.
#[wire(Eq)]
pub struct TurnEnvironmentParams {
    /// Name of the environment, such as `local`.
    pub environment_id: String,
    /// Absolute path of the working directory.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cwd: PathBuf,
}

/// Network access of tools.
#[wire(Copy, Eq, Default, snake_case)]
pub enum NetworkPolicy {
    /// The network access of the daemon.
    #[default]
    Inherit,
    /// No network access.
    None,
    /// Hosts that the operator allows, through a proxy.
    Filtered,
}

/// Permissions in an environment. They narrow the permissions of thread and turn, and never widen them.
#[wire(Copy, Eq)]
#[serde(default, deny_unknown_fields)]
#[derive(Defaults)]
pub struct EnvironmentPolicy {
    /// Whether tools may change files.
    #[default(true)]
    pub write: bool,
    /// Whether tools may run commands.
    #[default(true)]
    pub shell: bool,
    /// Network access of tools.
    #[default(NetworkPolicy::Inherit)]
    pub network: NetworkPolicy,
}

/// A named root directory with a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Environment))]
pub struct EnvironmentInfo {
    /// Name that threads and requests use.
    pub id: String,
    /// `local`: a directory of the daemon's machine.
    pub kind: String,
    /// The directory, symbolic links resolved.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub root: PathBuf,
    /// Permissions in the environment.
    pub policy: EnvironmentPolicy,
    /// Whether clients cannot remove the environment.
    pub protected: bool,
    /// Creation time, RFC 3339.
    pub created_at: String,
}

/// The answer of `GET /v1/environments`.
#[wire(Eq)]
pub struct EnvironmentList {
    /// `local` first, then by id.
    pub environments: Vec<EnvironmentInfo>,
}

/// The body of `POST /v1/environments`.
#[wire(Eq, omit_none)]
pub struct CreateEnvironment {
    /// Name: lower-case letters, digits, `_` and `-`.
    pub id: String,
    /// `local` when absent.
    pub kind: Option<String>,
    /// An absolute path of an existing directory.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub root: PathBuf,
    /// Permissions in the environment. An unknown field is refused, because it may be meant as a restriction.
    #[serde(default, deserialize_with = "policy_as_object")]
    pub policy: EnvironmentPolicy,
}

/// Reads a policy from an object alone: a list would be read field by field.
fn policy_as_object<'de, D: Deserializer<'de>>(from: D) -> Result<EnvironmentPolicy, D::Error> {
    let fields = serde_json::Map::deserialize(from)?;
    EnvironmentPolicy::deserialize(serde_json::Value::Object(fields)).map_err(D::Error::custom)
}
