//! Builds a harness.

use chrono::{DateTime, Utc};
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::harness::{Harness, HarnessStatus};
use windlass_core::mcp::ScopedMcpServers;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::session_file::InitialFile;
use windlass_core::typed_id::{HarnessId, ModelId};

use super::now;
use crate::setters::record_setters;
use windlass_core::setters;

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
        id(HarnessId) |builder, id| builder.record.id = id;
        /// Sets the addressable name.
        name(impl Into<String>) |builder, name| builder.record.name = name.into();
        /// Sets the display name.
        display_name(impl Into<String>) |builder, name| builder.record.display_name = Some(name.into());
        /// Sets the description.
        description(impl Into<String>) |builder, text| builder.record.description = Some(text.into());
        /// Sets the prompt.
        system_prompt(impl Into<String>) |builder, prompt| builder.record.system_prompt = prompt.into();
        /// Sets the harness to inherit from.
        parent_harness_id(HarnessId) |builder, id| builder.record.parent_harness_id = Some(id);
        /// Sets the model.
        default_model_id(ModelId) |builder, id| builder.record.default_model_id = Some(id);
        /// Sets whether it came with the platform.
        is_built_in(bool) |builder, is_built_in| builder.record.is_built_in = is_built_in;
        /// Sets the status; sessions can use active harnesses only.
        status(HarnessStatus) |builder, status| builder.record.status = status;
    }

    record_setters!(Harness, "harness");
}
