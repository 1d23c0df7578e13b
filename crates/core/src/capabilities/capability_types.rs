//! References of records to capabilities, and the files and skills that capabilities contribute.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Names a capability.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CapabilityId(String);

impl CapabilityId {
    /// Wraps a name.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CapabilityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl From<&str> for CapabilityId {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}
impl From<String> for CapabilityId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

pub(super) fn empty_config() -> Value {
    Value::Object(serde_json::Map::new())
}

/// A capability that a record enables, with its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentCapabilityConfig {
    #[serde(rename = "ref")]
    pub capability_ref: CapabilityId,
    #[serde(default = "empty_config")]
    pub config: Value,
}

impl AgentCapabilityConfig {
    /// Enables a capability with an empty configuration.
    pub fn new(id: impl Into<CapabilityId>) -> Self {
        Self::with_config(id, empty_config())
    }
    /// Enables a capability with a configuration.
    pub fn with_config(id: impl Into<CapabilityId>, config: Value) -> Self {
        Self {
            capability_ref: id.into(),
            config,
        }
    }
    /// Returns the capability's name.
    #[must_use]
    pub fn capability_id(&self) -> &str {
        self.capability_ref.as_str()
    }
}

impl From<&str> for AgentCapabilityConfig {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}
impl From<String> for AgentCapabilityConfig {
    fn from(id: String) -> Self {
        Self::new(id)
    }
}
impl From<CapabilityId> for AgentCapabilityConfig {
    fn from(id: CapabilityId) -> Self {
        Self::new(id)
    }
}

text_enum! {
    /// Whether a capability can be used.
    CapabilityStatus {
        Available = "available",
        /// It is only announced.
        ComingSoon = "coming_soon",
        /// It no longer contributes.
        Deprecated = "deprecated",
    }
}

/// The potential harm of a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// No approval is worthwhile.
    #[default]
    Low,
    Medium,
    High,
}

/// Whether a mount can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountAccess {
    /// Writing is refused.
    ReadOnly,
    /// Writing is allowed.
    ReadWrite,
}

/// An entry of a mounted directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MountEntry {
    File {
        /// The content in its encoding.
        content: String,
        /// `text` or `base64`.
        encoding: String,
    },
    Directory {
        /// Its entries by name.
        entries: HashMap<String, MountEntry>,
    },
}

/// The content that a mount adds to the session's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MountSource(pub MountEntry);

impl MountSource {
    /// Mounts a text file.
    pub fn text_file(content: impl Into<String>) -> Self {
        Self(MountEntry::File {
            content: content.into(),
            encoding: "text".into(),
        })
    }
    /// Mounts a binary file.
    pub fn binary_file(base64: impl Into<String>) -> Self {
        Self(MountEntry::File {
            content: base64.into(),
            encoding: "base64".into(),
        })
    }
    /// Mounts a directory.
    #[must_use]
    pub fn directory(entries: HashMap<String, MountEntry>) -> Self {
        Self(MountEntry::Directory { entries })
    }
}

/// Files that a capability mounts in the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountPoint {
    pub path: String,
    /// Whether they can be written.
    pub access: MountAccess,
    pub source: MountSource,
    /// The capability that contributes the mount.
    pub capability_id: String,
}

impl MountPoint {
    /// Mounts a source read-only.
    pub fn readonly(
        path: impl Into<String>,
        source: MountSource,
        capability_id: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            access: MountAccess::ReadOnly,
            source,
            capability_id: capability_id.into(),
        }
    }
    /// Mounts a source with write access.
    pub fn readwrite(
        path: impl Into<String>,
        source: MountSource,
        capability_id: impl Into<String>,
    ) -> Self {
        Self {
            access: MountAccess::ReadWrite,
            ..Self::readonly(path, source, capability_id)
        }
    }
}

/// A skill that a capability contributes; it is mounted below `/.agents/skills`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillContribution {
    /// The folder's name.
    pub name: String,
    /// The purpose of the skill.
    pub description: String,
    /// The text of its `SKILL.md` without the header.
    pub instructions: String,
    /// More files by path inside of the folder.
    #[serde(default)]
    pub files: HashMap<String, String>,
}
