//! Builds a harness.

use chrono::{DateTime, Utc};
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::harness::{Harness, HarnessStatus};
use windlass_core::mcp::ScopedMcpServers;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::session_file::InitialFile;
use windlass_core::typed_id::{HarnessId, ModelId};

use super::{now, setters};

/// Builds a [`Harness`].
///
/// ```
/// use windlass_core::network_access::NetworkAccessList;
/// use windlass_runtime::HarnessBuilder;
/// let base = HarnessBuilder::new("base", "Be honest.")
///     .network_access(NetworkAccessList::allow_only(["*.example.com"]))
///     .build();
/// let child = HarnessBuilder::new("support", "Be kind.")
///     .parent_harness_id(base.id)
///     .capability("session_file_system")
///     .build();
/// assert_eq!(child.parent_harness_id, Some(base.id));
/// ```
#[derive(Debug, Clone)]
pub struct HarnessBuilder {
    record: Harness,
    updated_at: Option<DateTime<Utc>>,
}

impl HarnessBuilder {
    /// Creates a harness with a name and a prompt.
    #[must_use]
    pub fn new(name: impl Into<String>, system_prompt: impl Into<String>) -> Self {
        let created_at = now();
        let record = Harness {
            id: HarnessId::new(),
            name: name.into(),
            display_name: None,
            description: None,
            system_prompt: system_prompt.into(),
            parent_harness_id: None,
            default_model_id: None,
            tags: Vec::new(),
            capabilities: Vec::new(),
            initial_files: Vec::new(),
            network_access: None,
            mcp_servers: ScopedMcpServers::new(),
            is_built_in: false,
            status: HarnessStatus::Active,
            created_at,
            updated_at: created_at,
        };
        Self {
            record,
            updated_at: None,
        }
    }

    /// Returns the id that the harness will have.
    #[must_use]
    pub fn harness_id(&self) -> HarnessId {
        self.record.id
    }

    setters! {
        /// Sets the id.
        id(HarnessId) |harness, id| harness.id = id;
        /// Sets the addressable name.
        name(impl Into<String>) |harness, name| harness.name = name.into();
        /// Sets the display name.
        display_name(impl Into<String>) |harness, name| harness.display_name = Some(name.into());
        /// Sets the description.
        description(impl Into<String>) |harness, text| harness.description = Some(text.into());
        /// Sets the prompt.
        system_prompt(impl Into<String>) |harness, prompt| harness.system_prompt = prompt.into();
        /// Sets the harness to inherit from.
        parent_harness_id(HarnessId) |harness, id| harness.parent_harness_id = Some(id);
        /// Sets the model.
        default_model_id(ModelId) |harness, id| harness.default_model_id = Some(id);
        /// Adds a label.
        tag(impl Into<String>) |harness, tag| harness.tags.push(tag.into());
        /// Adds labels to the harness.
        tags(impl IntoIterator<Item = impl Into<String>>) |harness, tags| harness.tags.extend(tags.into_iter().map(Into::into));
        /// Enables a capability.
        capability(impl Into<AgentCapabilityConfig>) |harness, capability| harness.capabilities.push(capability.into());
        /// Enables a capability.
        with_capability(impl Into<AgentCapabilityConfig>) |harness, capability| harness.capabilities.push(capability.into());
        /// Enables capabilities for every session of the harness.
        capabilities(impl IntoIterator<Item = impl Into<AgentCapabilityConfig>>) |harness, all| harness.capabilities.extend(all.into_iter().map(Into::into));
        /// Adds an initial file of its sessions.
        initial_file(InitialFile) |harness, file| harness.initial_files.push(file);
        /// Sets the hosts that tools may connect to.
        network_access(NetworkAccessList) |harness, list| harness.network_access = Some(list);
        /// Sets the MCP servers.
        mcp_servers(ScopedMcpServers) |harness, servers| harness.mcp_servers = servers;
        /// Sets whether it came with the platform.
        is_built_in(bool) |harness, is_built_in| harness.is_built_in = is_built_in;
        /// Sets the status; sessions can use active harnesses only.
        status(HarnessStatus) |harness, status| harness.status = status;
        /// Sets the creation time.
        created_at(DateTime<Utc>) |harness, at| harness.created_at = at;
    }

    /// Sets the time of the last change.
    #[must_use]
    pub fn updated_at(mut self, at: DateTime<Utc>) -> Self {
        self.updated_at = Some(at);
        self
    }

    /// Returns the harness.
    #[must_use]
    pub fn build(self) -> Harness {
        let updated_at = self.updated_at.unwrap_or(self.record.created_at);
        Harness {
            updated_at,
            ..self.record
        }
    }
}
