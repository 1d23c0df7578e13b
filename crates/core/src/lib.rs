//! Values and contracts of Windlass: sessions, messages and events, and the traits of hosts and tools.
//!
//! This crate does no IO. It contains the records (harness, agent, session), the messages and events of a conversation, the traits that a host
//! implements, the registries of capabilities and drivers, and the simulator.

#[macro_use]
mod methods;
#[macro_use]
mod text_enum;

pub mod backend;
pub mod capabilities;
pub mod events;
pub mod items;
mod messages;
mod models;
mod network;
mod records;
pub mod runs;
pub mod tools;
pub mod traits;
mod values;

pub use capabilities::{atoms, capability_types, platform_definition};
pub use messages::{history, message, message_filter, message_retriever};
pub use models::{llm_driver_registry, llm_models, llmsim_driver, runtime_agent, runtime_context};
pub use network::{egress, json_rpc, mcp, network_access};
pub(crate) use records::session_path;
pub use records::{
    agent, config_layer, harness, named_secrets, remembered_calls, session, session_file,
    thread_record, turn_environment, turn_policy, turn_request,
};
pub use tools::{command, command_host, questions, session_tool, tool_types};
pub use traits::in_memory;
pub use values::{bounds, budget, derived_id, digest, error, lock, recent_values, typed_id};
pub(crate) use values::{clock, moment, shared_list};

pub use agent::{Agent, AgentStatus};
pub use atoms::*;
pub use capabilities::{Capability, CapabilityRegistry, SystemPromptContext};
pub use capability_types::{
    AgentCapabilityConfig, CapabilityId, CapabilityStatus, MountAccess, MountEntry, MountPoint,
    MountSource, RiskLevel, SkillContribution,
};
pub use clock::{Clock, ManualClock, Sleep, SystemClock};
pub use command::{
    CommandArg, CommandDescriptor, CommandExecutionContext, CommandResult, CommandSource,
    ExecuteCommandRequest,
};
pub use command_host::{
    CommandHost, CommandTurnContext, SessionCompletion, SessionCompletionError,
    SessionCompletionRequest,
};
pub use config_layer::AgentConfigOverlay;
pub use digest::Digest128;
pub use egress::*;
pub use error::{
    AgentLoopError, AskedModel, ErrorKind, ProviderError, QuotaExceeded, Result, StoreResultExt,
    WaitingFor,
};
pub use events::*;
pub use harness::{Harness, HarnessStatus, merge_harness_chain, validate_addressable_name};
pub use history::History;
pub use items::{Change, Item, ItemKind, ItemStatus, TurnLog, TurnStatus, TurnView, change};
pub use llm_driver_registry::{
    BoxedLlmDriver, DiscoveredModel, DriverRegistry, LlmCallConfig, LlmCompletionMetadata,
    LlmContentPart, LlmDriver, LlmMessage, LlmMessageContent, LlmMessageRole, LlmRequest,
    LlmResponse, LlmResponseStream, LlmStreamEvent, PromptCacheConfig, ProviderConfig,
    ProviderType, ToolSearchConfig,
};
pub use llm_models::{LlmProviderType, ModelWithDrivers, ModelWithProvider};
pub use mcp::{McpAuthMode, McpToolDiscovery, McpTransportType, ScopedMcpServer, ScopedMcpServers};
pub use message::{
    ContentPart, Controls, ExecutionPhase, ExternalActor, ImageContentPart, ImageFileContentPart,
    InputMessage, Message, MessageRole, ReasoningConfig, TextContentPart, ToolCallContentPart,
    ToolResultContentPart,
};
pub use message_filter::{
    InjectionPosition, MessageFilter, MessageFilterProvider, MessageInjection, MessageQuery,
};
pub use message_retriever::MessageRetriever;
pub use network_access::{NetworkAccessList, merge_network_access};
pub use platform_definition::{PlatformDefinition, PlatformDefinitionBuilder};
pub use runtime_agent::RuntimeAgent;
pub use runtime_context::AssembledTurnContext;
pub use session::{Session, SessionStatus, SubagentStatus};
pub use session_file::{FileInfo, FileStat, GrepMatch, InitialFile, SessionFile};
pub use session_path::normalize as normalize_session_path;
pub use shared_list::SharedList;
pub use thread_record::{ThreadRecord, ThreadRecordError};
pub use tools::{
    BuiltinTool, ClientSideTool, DeferrablePolicy, SideEffectClass, Tool, ToolCall, ToolDefinition,
    ToolExecutionResult, ToolHints, ToolInternalError, ToolPolicy, ToolRegistry, ToolResult,
    ToolResultImage, ToolShape,
};
pub use traits::{
    AgentStore, DisabledSessionFileSystemFactory, EventEmitter, HarnessStore, KeyInfo,
    LlmProviderStore, SecretInfo, SessionFileStore, SessionFileSystem, SessionFileSystemFactory,
    SessionFileSystemFactoryContext, SessionMutator, SessionStorageStore, SessionStore,
    ToolContext, UserConnectionResolver,
};
pub use turn_policy::{TurnMode, TurnPolicy, TurnPolicyOptions};
pub use typed_id::*;
