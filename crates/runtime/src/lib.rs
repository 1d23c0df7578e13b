//! Windlass, the agent runtime that a program embeds.
//!
//! # A conversation
//!
//! An agent needs a model and something to do. Here the model is the simulator, which says what it is told to say, so
//! that nothing else is needed:
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
//! # Tools, and an answer as it is written
//!
//! A tool is an async closure with a name, a description and a schema ([`tool_fn`]); with the feature `typed-tools` its
//! arguments can be a Rust type (`typed_tool`), and so can an answer (`Conversation::ask_for`). The arguments are
//! checked against the schema before the closure sees them; an error that it returns is what the model reads.
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
//!     // The simulator follows a script; a model would come to this by itself.
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
//! | id | what it brings |
//! | --- | --- |
//! | `session_file_system` | tools that read, write, edit, list, search and delete files |
//! | `agent_instructions` | `/AGENTS.md` of the session's files in the prompt of every turn |
//! | `skills` | instructions in `/.agents/skills/{name}/SKILL.md`, read on demand |
//! | `session`, `session_storage` | the session's title and facts; values and secrets by name |
//! | `compaction` | a history that is made shorter by itself when it no longer fits the model's window |
//! | `infinity_context` | a search of the whole conversation |
//! | `subagents` | agents that the model starts, where the runtime has them ([`InProcessRuntimeBuilder::subagents`]) |
//! | `stateless_todo_list`, `current_time` | a plan; the time |
//! | `loop_detection` | a guard against calls that repeat |
//! | `message_metadata` | the time and sender of messages, for the model only |
//! | `btw`, `test_math`, `noop` | the command `/btw`; a calculator; nothing |
//!
//! # People in the loop
//!
//! A call of a tool that [requires approval](FnTool::requires_approval), or of one that the program runs itself
//! ([`client_tool`]), makes the turn wait: the reply lists the [`pending`](Reply::pending) calls, and
//! [`Conversation::approve`], [`refuse`](Conversation::refuse) and [`answer`](Conversation::answer) let it go on.
//! [`AnswerStream::cancel`] stops a turn wherever it is and keeps what was said.
//!
//! # After a crash
//!
//! On a journal that lasts, such as that of `ConversationBuilder::on_disk` or `RuntimeBackends::sqlite`, a turn outlives its process. Building a
//! runtime takes up nothing, and neither does looking: [`Conversation::pending`], [`InProcessRuntime::open_turn`], events, messages and
//! lists can be read as often as one likes, with `ConversationBuilder::on_disk_read_only` or `SqliteStore::open_read_only` also beside a process that writes.
//! [`Conversation::resume`] goes on with the turn of a conversation, [`InProcessRuntime::resume_open_turns`] with all that are
//! open; so does work on a session, for that session. From then on the process is at work on the turn: if it goes down three times
//! in a row, with no tool call running to its end in between, or ten times in all, the turn fails at that restart. A stop in order
//! ([`Conversation::close`], [`InProcessRuntime::shutdown`]) does not count. The examples `after_a_crash`, `looking` and
//! `pending_approvals` show all of it.
//!
//! # A real model
//!
//! `windlass_models::model("provider/model", key)` is what [`ConversationBuilder::model`] takes; the example `real_model` asks one.
//!
//! # The runtime below
//!
//! A conversation is one session of an [`InProcessRuntime`], where a turn is carried by a thread that records every
//! step before anyone sees it. A program with many sessions, agents and harnesses uses it directly:
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
mod drivers;
#[cfg(feature = "sqlite")]
mod durable_backends;
mod easy;
mod errors;
mod figures;
mod inner;
mod journal_views;
mod mirror;
mod panics;
mod provider_trouble;
mod replay;
mod runtime;
mod secrets;
mod settings;
mod spending;
mod steps;
mod subagents;
mod thread;
mod turn_context;
mod turn_result;
mod world;

pub use agent_backends::{BackendHost, BackendRequest};
pub use backends::{
    EventBus, RuntimeAgentStore, RuntimeBackends, RuntimeHarnessStore, RuntimeMessageStore,
    RuntimeProviderStore, RuntimeSessionStore, SessionProgress,
};
pub use builder::InProcessRuntimeBuilder;
pub use builders::{AgentBuilder, HarnessBuilder, SessionBuilder, SingleSessionBuilder};
#[cfg(feature = "sqlite")]
pub use durable_backends::DurableParts;
pub use easy::{
    AnswerStream, Conversation, ConversationBuilder, ConversationError, Conversations, FnTool,
    Need, PendingCall, Reply, ToolFnError, ToolSet, client_tool, tool_fn,
};
#[cfg(feature = "typed-tools")]
pub use easy::{typed_tool, typed_tool_with_context};
pub use figures::TurnFigures;
pub use replay::{Divergence, Replay, ReplayReport};
pub use runtime::{
    ContextUsage, EventStream, ForkAt, ForkOptions, InProcessRuntime, OpenTurn, RuntimeHostAdapter,
    SessionSummary,
};
#[cfg(feature = "typed-tools")]
pub use schemars;
pub use settings::{CompactionSettings, RecoveryPolicy, RetryPolicy, RuntimeSettings, TakesUp};
pub use spending::DailyLimit;
pub use steps::arguments::check_arguments;
#[cfg(feature = "schema")]
pub use steps::arguments::check_schema;
pub use subagents::{ChildDraft, SubagentHost, SubagentSettings};
pub use thread::{PROCESS_RESTART, PROCESS_STOPPED};
pub use tokio_util::sync::CancellationToken;
pub use turn_result::{EventObserver, StopReason, TurnHandle, TurnOptions, TurnResult};
pub use windlass_core::budget::DayLimits;
pub use windlass_core::runtime_context::AssembledTurnContext;
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
pub use windlass_turn::{Limits, OnBusy, QueueEdit, Queued};
pub use world::{ManualWorld, Sleep, SystemWorld, World};

/// The README's program is compiled with the documentation's tests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
struct ReadmeDoctests;

/// The program of the page about the library's events is compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library-events.md")]
struct EventsDoctests;

/// The programs of the page about embedding are compiled and run with the documentation's tests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../docs/embedding.md")]
struct EmbeddingDoctests;
