//! Values and contracts of Windlass: what sessions, messages and events are, and what hosts and tools promise.
//!
//! This crate does no IO. It holds the records (harness, agent, session), the messages and events of a
//! conversation, the traits that a host implements, the registries of capabilities and drivers, and the simulator.

pub mod agent;
pub mod atoms;
pub mod backend;
pub mod bounds;
pub mod budget;
pub mod capabilities;
pub mod capability_types;
pub mod command;
pub mod command_host;
pub mod config_layer;
pub mod derived_id;
pub mod digest;
pub mod egress;
pub mod error;
pub mod events;
pub mod harness;
pub mod history;
pub mod in_memory;
pub mod items;
pub mod llm_driver_registry;
pub mod llm_models;
pub mod llmsim_driver;
pub mod mcp;
pub mod message;
pub mod message_filter;
pub mod message_retriever;
mod moment;
pub mod named_secrets;
pub mod network_access;
pub mod platform_definition;
pub mod questions;
pub mod remembered_calls;
pub mod runs;
pub mod runtime_agent;
pub mod runtime_context;
pub mod session;
pub mod session_file;
pub mod session_path;
pub mod shared_list;
pub mod thread_record;
pub mod tool_types;
pub mod tools;
pub mod traits;
pub mod transcript;
pub mod turn_environment;
pub mod turn_policy;
pub mod turn_request;
pub mod typed_id;

pub use agent::{Agent, AgentStatus};
pub use atoms::*;
pub use capabilities::{Capability, CapabilityRegistry, SystemPromptContext};
pub use capability_types::{
    AgentCapabilityConfig, CapabilityId, CapabilityStatus, MountAccess, MountEntry, MountPoint,
    MountSource, RiskLevel, SkillContribution,
};
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
