//! Windlass, an embeddable agent runtime.
//!
//! # A conversation
//!
//! An agent needs a model and an input. This example uses the simulator, which returns scripted answers, so it needs no API key:
//!
//! ```
//! use windlass_core::llmsim_driver::LlmSimConfig;
//! use windlass_runtime::Conversation;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let mut chat = Conversation::builder()
//!     .simulator(LlmSimConfig::fixed("Hello!"))
//!     .instructions("You greet people.")
//!     .start()
//!     .await?;
//! let reply = chat.say("Hi").await?;
//! assert_eq!(reply.text, "Hello!");
//! # Ok::<(), windlass_runtime::ConversationError>(())
//! # }).unwrap();
//! ```
//!
//! # Tools and streaming
//!
//! A tool is an async closure with a name, a description and a schema ([`tool_fn`]). With the feature `typed-tools` its arguments can be a Rust type
//! (`typed_tool`), and so can an answer (`Conversation::ask_for`). The arguments are checked against the schema before the closure runs; the model
//! receives any error that the closure returns.
//!
//! ```
//! use serde_json::{Value, json};
//! use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
//! use windlass_runtime::{Conversation, tool_fn};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let city = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
//!     let weather = tool_fn("weather", "Tells the weather", city.clone(), |args: Value, _ctx| async move {
//!         Ok(format!("rain in {}", args["city"]))
//!     });
//!     let clock = tool_fn("clock", "Tells the time", city, |args: Value, _ctx| async move {
//!         Ok(format!("noon in {}", args["city"]))
//!     });
//!     // The simulator follows a script; a model would choose the same calls.
//!     let ask = |tool| SimToolCall::new(tool, json!({ "city": "Bergen" }));
//!     let script = LlmSimConfig::scripted(vec![
//!         SimTurn::ToolCalls(vec![ask("weather"), ask("clock")]),
//!         SimTurn::Assistant("Take an umbrella to lunch.".into()),
//!     ]);
//!     let mut chat = Conversation::builder().simulator(script).tool(weather).tool(clock).start().await?;
//!
//!     let mut answer = chat.stream("I am off to Bergen.").await?;
//!     while let Some(piece) = answer.next().await {
//!         print!("{piece}");
//!     }
//!     let reply = answer.finish().await?;
//!     assert_eq!(reply.turn.tool_calls_count, 2);
//!     Ok(())
//! }
//! ```
//!
//! Ready-made tools come in capabilities, enabled by their id with [`ConversationBuilder::capability`]:
//!
//! | ID | provides |
//! | --- | --- |
//! | `session_file_system` | tools that read, write, edit, list, search and delete files |
//! | `agent_instructions` | the session's `/AGENTS.md` in the prompt of every turn |
//! | `skills` | instructions in `/.agents/skills/{name}/SKILL.md`, read on demand |
//! | `session`, `session_storage` | the session's title and metadata; values and secrets by name |
//! | `compaction` | automatic compaction of a history that no longer fits the model's context window |
//! | `infinity_context` | a search of the whole conversation |
//! | `subagents` | agents that the model starts, where the runtime has them ([`InProcessRuntimeBuilder::subagents`]) |
//! | `plan`, `stateless_todo_list`, `current_time` | a plan that users follow; one for the model only; the time |
//! | `loop_detection` | a guard against repeated identical calls |
//! | `message_metadata` | the time and sender of messages, for the model only |
//! | `btw`, `test_math`, `noop` | the command `/btw`; a calculator; nothing |
//!
//! # Human in the loop
//!
//! A turn parks when the model calls a tool that [requires approval](FnTool::requires_approval), or one that the program runs itself
//! ([`client_tool`]). The reply lists the [`pending`](Reply::pending) calls; [`Conversation::approve`], [`refuse`](Conversation::refuse) and
//! [`answer`](Conversation::answer) let the turn continue. [`AnswerStream::cancel`] stops a turn at any point and retains the text so far.
//!
//! # After a crash
//!
//! With a durable journal, such as that of `ConversationBuilder::on_disk` or `RuntimeBackends::sqlite`, a turn outlives its process. Building a
//! runtime resumes no turn. Neither does reading: [`Conversation::pending`], [`InProcessRuntime::open_turn`], events, messages and lists. With
//! `ConversationBuilder::on_disk_read_only` or `SqliteStore::open_read_only`, another process can read while one process writes.
//!
//! [`Conversation::resume`] resumes the turn of one conversation, and [`InProcessRuntime::resume_open_turns`] resumes all open turns. Work on a
//! session also resumes its open turn. From then on this process executes the turn. A turn fails at a restart if its process has crashed three times
//! in a row, with no tool call completed in between, or ten times in all. An orderly stop ([`Conversation::close`], [`InProcessRuntime::shutdown`])
//! does not count as a crash. See the examples `after_a_crash`, `looking` and `pending_approvals`.
//!
//! # A real model
//!
//! [`ConversationBuilder::model`] accepts the value of `models::model("provider/model", key)` (feature `models`); see the example `real_model`.
//!
//! # The underlying runtime
//!
//! A conversation is one session of an [`InProcessRuntime`]. A thread executes its turns and records every step before it becomes visible. A program
//! with many sessions, agents and harnesses uses the runtime directly:
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

mod agent_backends;
mod backends;
mod builder;
mod builders;
mod conversation;
mod drivers;
#[cfg(feature = "sqlite")]
mod durable_backends;
mod errors;
mod inner;
mod journal_views;
mod json_in_text;
mod metrics;
mod mirror;
mod panics;
mod provider_failure_log;
mod replay;
mod runtime;
mod secrets;
mod setters;
mod settings;
mod spending;
mod steps;
mod subagents;
mod thread;
mod turn_context;
mod turn_result;

pub use agent_backends::{BackendHost, BackendRequest};
pub use backends::{
    EventBus, RuntimeAgentStore, RuntimeBackends, RuntimeHarnessStore, RuntimeMessageStore,
    RuntimeProviderStore, RuntimeSessionStore, SessionProgress,
};
pub use builder::InProcessRuntimeBuilder;
pub use builders::{AgentBuilder, HarnessBuilder, SessionBuilder, SingleSessionBuilder};
pub use conversation::{
    AnswerStream, Conversation, ConversationBuilder, ConversationError, Conversations, FnTool,
    Need, PendingCall, Reply, ToolFnError, ToolSet, client_tool, tool_fn,
};
#[cfg(feature = "typed-tools")]
pub use conversation::{output_schema_of, typed_tool, typed_tool_with_context};
#[cfg(feature = "sqlite")]
pub use durable_backends::DurableParts;
pub use metrics::TurnMetrics;
pub use replay::{Divergence, Replay, ReplayReport};
pub use runtime::{
    ContextUsage, EventStream, ForkAt, ForkOptions, InProcessRuntime, OpenTurn, RuntimeHostAdapter,
    SessionSummary,
};
#[cfg(feature = "typed-tools")]
pub use schemars;
pub use settings::{
    CompactionSettings, RecoveryPolicy, ResumePolicy, RetryPolicy, RuntimeSettings,
};
pub use spending::DailyLimit;
pub use steps::arguments::check_arguments;
#[cfg(feature = "schema")]
pub use steps::arguments::check_schema;
pub use subagents::{ChildDraft, SubagentHost, SubagentSettings};
pub use thread::{PROCESS_RESTART, PROCESS_STOPPED};
pub use tokio_util::sync::CancellationToken;
pub use turn_context::check_output_schema;
pub use turn_result::{
    EventObserver, StopReason, TurnHandle, TurnOptions, TurnResult, output_value,
};
pub use windlass_core::budget::DayLimits;
pub use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
pub use windlass_core::message::{ContentPart, ImageContentPart, InputMessage};
pub use windlass_core::runtime_context::AssembledTurnContext;
pub use windlass_core::{Clock, ManualClock, Sleep, SystemClock};
#[cfg(feature = "models")]
pub use windlass_models as models;
pub use windlass_policy::{ApprovalAction, ApprovalRule, ApprovalRules};
#[cfg(feature = "sqlite")]
pub use windlass_store::sqlite::{
    OnLostCommits, SecretsKey, SqliteError, SqliteOptions, SqliteRetention, SqliteStore,
};
pub use windlass_store::{
    ApprovalGatingFileStore, DEFAULT_WRITE_BLOCKLIST, EventSink, FileApprovalGate, FileQuota,
    InMemorySessionFileStore, InMemorySessionFileSystemFactory, InMemorySessionStorageStore,
    InMemorySessionStore, Journal, LedgerError, Listed, MemoryJournal, MemoryLedger, MemoryQueries,
    OwnerSpending, Queries, Reservation, Retention, SpendingLedger, ThreadQuery, ThreadRow,
    WriteBlocklistFileStore,
};
#[cfg(feature = "real-disk")]
pub use windlass_store::{RealDiskFileStore, RealDiskSessionFileSystemFactory};
#[cfg(feature = "tools")]
pub use windlass_tools as tools;
pub use windlass_turn::{Approval, Limits, OnBusy, QueueEdit, Queued};

/// The README's program is compiled with the documentation's tests.
#[cfg(all(doctest, feature = "sqlite", feature = "models"))]
#[doc = include_str!("../../../README.md")]
struct ReadmeDoctests;

/// The program of the page about the library's events is compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library-events.md")]
struct EventsDoctests;

/// The programs of the page about embedding are compiled and run with the documentation's tests.
#[cfg(all(doctest, feature = "sqlite", feature = "models"))]
#[doc = include_str!("../../../docs/embedding.md")]
struct EmbeddingDoctests;
