//! The traits that a host implements, and the context of a tool call.

/// Implements a trait for `Arc<T>` by calling the value inside.
macro_rules! forward_arc {
    ($name:ident { $(fn $plain:ident(&self) -> $plain_result:ty;)* $(async fn $method:ident(&self, $($arg:ident: $arg_type:ty),*) -> $result:ty;)* }) => {
        #[async_trait::async_trait]
        impl<T: $name + ?Sized> $name for std::sync::Arc<T> {
            $(fn $plain(&self) -> $plain_result {
                (**self).$plain()
            })*
            $(async fn $method(&self, $($arg: $arg_type),*) -> $result {
                (**self).$method($($arg),*).await
            })*
        }
    };
}
pub(crate) use forward_arc;

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
