//! The traits that a host implements, and the context of a tool call.

mod context;
mod files;
pub mod in_memory;
mod secret_places;
mod storage;
mod stores;

pub use crate::events::EventRequest;
pub use crate::llm_models::{LlmProviderType, ModelWithProvider};
pub use crate::message_retriever::MessageRetriever;
pub use context::ToolContext;
pub use files::{
    DisabledSessionFileSystemFactory, SessionFileSystem, SessionFileSystem as SessionFileStore,
    SessionFileSystemFactory, SessionFileSystemFactoryContext,
};
pub use secret_places::SecretPlaces;
pub use storage::{KeyInfo, SECRET_MASK, SecretInfo, SessionStorageStore};
pub use stores::{
    AgentStore, EventEmitter, HarnessStore, LlmProviderStore, SessionMutator, SessionStore,
    UserConnectionResolver,
};
