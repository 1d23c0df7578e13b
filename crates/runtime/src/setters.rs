//! Setters of the builders.

/// Declares the setters that the builders of harnesses, agents and sessions have in common, and `build`.
macro_rules! record_setters {
    ($record:ident, $kind:literal) => {
        windlass_core::setters! {
            #[doc = concat!("Adds a label to the ", $kind, ".")]
            tag(impl Into<String>) |builder, tag| builder.record.tags.push(tag.into());
            #[doc = concat!("Adds labels to the ", $kind, ".")]
            tags(impl IntoIterator<Item = impl Into<String>>) |builder, tags| builder.record.tags.extend(tags.into_iter().map(Into::into));
            #[doc = concat!("Enables a capability for every session of the ", $kind, ".")]
            capability(impl Into<AgentCapabilityConfig>) |builder, capability| builder.record.capabilities.push(capability.into());
            /// Enables a capability, as [`capability`](Self::capability) does.
            with_capability(impl Into<AgentCapabilityConfig>) |builder, capability| builder.record.capabilities.push(capability.into());
            #[doc = concat!("Enables capabilities for every session of the ", $kind, ".")]
            capabilities(impl IntoIterator<Item = impl Into<AgentCapabilityConfig>>) |builder, all| builder.record.capabilities.extend(all.into_iter().map(Into::into));
            #[doc = concat!("Adds an initial file of every session of the ", $kind, ".")]
            initial_file(InitialFile) |builder, file| builder.record.initial_files.push(file);
            /// Sets the hosts that tools may connect to.
            network_access(NetworkAccessList) |builder, list| builder.record.network_access = Some(list);
            /// Sets the MCP servers.
            mcp_servers(ScopedMcpServers) |builder, servers| builder.record.mcp_servers = servers;
            /// Sets the creation time. Default: the time at which the builder was created.
            created_at(DateTime<Utc>) |builder, at| builder.record.created_at = at;
            /// Sets the time of the last change. Default: the creation time.
            updated_at(DateTime<Utc>) |builder, at| builder.updated_at = Some(at);
        }

        /// Returns the record.
        #[must_use]
        pub fn build(self) -> $record {
            let updated_at = self.updated_at.unwrap_or(self.record.created_at);
            $record {
                updated_at,
                ..self.record
            }
        }
    };
}
pub(crate) use record_setters;
