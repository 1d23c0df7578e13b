//! Windlass, the agent runtime that a program embeds.
//!
//! A turn is carried by a thread that records every step before anyone sees it. [`InProcessRuntime`] is the way in:
//!
//! ```
//! use windlass_core::llmsim_driver::LlmSimConfig;
//! use windlass_runtime::InProcessRuntimeBuilder;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let runtime = InProcessRuntimeBuilder::new()
//!     .llm_sim(LlmSimConfig::fixed("Hello!"))
//!     .single_session(|session| session.agent("greeter", "You greet people."))
//!     .build()
//!     .await?;
//! let session = runtime.default_session_id().expect("single_session makes one");
//! let turn = runtime.run_text_turn(session, "Hi").await?;
//! assert_eq!(turn.response, "Hello!");
//! # Ok::<(), windlass_core::AgentLoopError>(())
//! # }).unwrap();
//! ```

mod backends;
mod builder;
mod builders;
mod drivers;
mod errors;
mod inner;
mod journal_views;
mod panics;
mod runtime;
mod settings;
mod steps;
mod thread;
mod turn_context;
mod turn_result;
mod world;

pub use backends::{
    EventBus, RuntimeAgentStore, RuntimeBackends, RuntimeHarnessStore, RuntimeMessageStore,
    RuntimeProviderStore, RuntimeSessionStore, SessionProgress,
};
pub use builder::InProcessRuntimeBuilder;
pub use builders::{AgentBuilder, HarnessBuilder, SessionBuilder, SingleSessionBuilder};
pub use runtime::{EventStream, InProcessRuntime, RuntimeHostAdapter};
pub use settings::{RecoveryPolicy, RetryPolicy, RuntimeSettings};
pub use tokio_util::sync::CancellationToken;
pub use turn_result::{EventObserver, StopReason, TurnHandle, TurnOptions, TurnResult};
pub use windlass_core::runtime_context::AssembledTurnContext;
pub use windlass_store::{
    ApprovalGatingFileStore, DEFAULT_WRITE_BLOCKLIST, EventSink, FileApprovalGate, FileQuota,
    InMemorySessionFileStore, InMemorySessionFileSystemFactory, InMemorySessionStorageStore,
    InMemorySessionStore, Journal, MemoryJournal, Retention, WriteBlocklistFileStore,
};
#[cfg(feature = "real-disk")]
pub use windlass_store::{RealDiskFileStore, RealDiskSessionFileSystemFactory};
pub use windlass_turn::{Limits, OnBusy};
pub use world::{ManualWorld, Sleep, SystemWorld, World};
