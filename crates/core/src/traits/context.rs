//! The context of a tool call.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::capabilities::CapabilityRegistry;
use crate::egress::EgressService;
use crate::events::{EventContext, EventData, EventRequest, ToolOutputDeltaData, ToolProgressData};
use crate::message_retriever::MessageRetriever;
use crate::named_secrets::NamedSecrets;
use crate::network_access::NetworkAccessList;
use crate::tools::ToolRegistry;
use crate::traits::{
    AgentStore, EventEmitter, SecretPlaces, SessionFileSystem, SessionMutator, SessionStorageStore,
    SessionStore, UserConnectionResolver,
};
use crate::turn_environment::TurnEnvironment;
use crate::typed_id::SessionId;

macro_rules! tool_context {
    ($($(#[$doc:meta])* $field:ident: $ty:ty, $setter:ident;)*) => {
        /// The session as a tool sees it. A missing field means that the host does not offer the service.
        #[derive(Clone)]
        pub struct ToolContext {
            /// The session of the call.
            pub session_id: SessionId,
            $($(#[$doc])* pub $field: Option<$ty>,)*
        }
        impl ToolContext {
            /// Creates a context that offers no services.
            #[must_use]
            pub fn new(session_id: SessionId) -> Self {
                Self { session_id, $($field: None,)* }
            }
            $(#[doc = concat!("Sets `", stringify!($field), "`.")]
            #[must_use]
            pub fn $setter(mut self, value: $ty) -> Self {
                self.$field = Some(value);
                self
            })*
        }
    };
}

tool_context! {
    /// Tokens of connected accounts.
    connection_resolver: Arc<dyn UserConnectionResolver>, with_connection_resolver;
    /// The session's files.
    file_store: Arc<dyn SessionFileSystem>, with_files;
    /// The session's keys and secrets.
    storage_store: Arc<dyn SessionStorageStore>, with_storage;
    /// The session's messages.
    message_retriever: Arc<dyn MessageRetriever>, with_message_retriever;
    /// Read access to sessions.
    session_store: Arc<dyn SessionStore>, with_session_store;
    /// Write access to sessions.
    session_mutator: Arc<dyn SessionMutator>, with_session_mutator;
    /// Read access to agents.
    agent_store: Arc<dyn AgentStore>, with_agent_store;
    /// The only access to the network.
    egress_service: Arc<dyn EgressService>, with_egress_service;
    /// Receives progress and output while the call runs.
    event_emitter: Arc<dyn EventEmitter>, with_event_emitter;
    /// The turn and step of the call.
    event_context: EventContext, with_event_context;
    /// The provider's id of the call.
    tool_call_id: String, with_tool_call_id;
    /// The capabilities of the platform.
    capability_registry: CapabilityRegistry, with_capability_registry;
    /// The tools of the turn.
    tool_registry: Arc<ToolRegistry>, with_tool_registry;
    /// The names that the model sees.
    visible_tool_names: Arc<HashSet<String>>, with_visible_tool_names;
    /// The hosts that the call may connect to.
    network_access: NetworkAccessList, with_network_access;
    /// The language to answer in.
    locale: String, with_locale;
    /// The environment of the turn.
    environment: TurnEnvironment, with_environment;
    /// The operator's secrets that the call may use.
    secrets: NamedSecrets, with_secrets;
    /// Finds secrets that the session must not show; absent if there are none.
    secret_places: Arc<dyn SecretPlaces>, with_secret_places;
}

impl ToolContext {
    /// Creates a context with session files.
    #[must_use]
    pub fn with_file_store(session_id: SessionId, files: Arc<dyn SessionFileSystem>) -> Self {
        Self::new(session_id).with_files(files)
    }

    /// Creates a context with keys and secrets.
    #[must_use]
    pub fn with_storage_store(
        session_id: SessionId,
        storage: Arc<dyn SessionStorageStore>,
    ) -> Self {
        Self::new(session_id).with_storage(storage)
    }

    /// Reports the progress of the call to watchers. A report that cannot be delivered is dropped and never fails the call.
    pub async fn emit_progress(&self, tool_name: &str, message: &str) {
        let data = ToolProgressData {
            tool_call_id: self.tool_call_id.clone().unwrap_or_default(),
            tool_name: tool_name.to_owned(),
            message: message.to_owned(),
        };
        self.emit(data.into()).await;
    }

    /// Reports output of the running call to watchers; `stream` is `stdout` or `stderr`.
    pub async fn emit_tool_output(&self, tool_name: &str, delta: &str, stream: &str) {
        let data = ToolOutputDeltaData {
            tool_call_id: self.tool_call_id.clone().unwrap_or_default(),
            tool_name: tool_name.to_owned(),
            delta: delta.to_owned(),
            stream: stream.to_owned(),
        };
        self.emit(data.into()).await;
    }

    async fn emit(&self, data: EventData) {
        if let Some(emitter) = &self.event_emitter {
            let context = self.event_context.clone().unwrap_or_default();
            let _ = emitter
                .emit(EventRequest::new(self.session_id, context, data))
                .await;
        }
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("session_id", &self.session_id)
            .field("tool_call_id", &self.tool_call_id)
            .field("locale", &self.locale)
            .finish_non_exhaustive()
    }
}
