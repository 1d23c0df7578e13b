//! Events of a thread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RUNTIME_EVENT_ENVELOPE_SCHEMA_VERSION;

const fn envelope_version() -> u32 {
    RUNTIME_EVENT_ENVELOPE_SCHEMA_VERSION
}

/// One event as a frame carries it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuntimeEventEnvelope {
    /// The version of this shape.
    #[serde(default = "envelope_version")]
    pub schema_version: u32,
    /// The number in the thread; it rises and is never used twice.
    pub seq: u64,
    /// The name.
    pub event: String,
    /// The name again.
    pub kind: String,
    /// The thread.
    pub thread_id: String,
    /// The turn; null when there is none.
    pub turn_id: Option<String>,
    /// The item; null when there is none.
    pub item_id: Option<String>,
    /// When it happened.
    pub timestamp: String,
    /// The same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// What happened.
    pub payload: Value,
    /// Further fields, such as `previous_seq`.
    #[serde(default, flatten)]
    pub extra: BTreeMap<String, Value>,
}

impl RuntimeEventEnvelope {
    /// The name of the field that links a frame with the one before it on the same stream.
    pub const PREVIOUS_SEQ: &'static str = "previous_seq";

    /// Links the event with the one before it on the same stream.
    pub fn link(&mut self, previous_seq: u64) {
        self.extra
            .insert(Self::PREVIOUS_SEQ.to_owned(), previous_seq.into());
    }

    /// Returns the number of the event before it on the same stream.
    #[must_use]
    pub fn previous_seq(&self) -> Option<u64> {
        self.extra.get(Self::PREVIOUS_SEQ)?.as_u64()
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// The names of events. No other name appears on a stream that did not ask for it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum EventName {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl EventName {
            /// All names.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

names! {
    /// A thread exists: `{thread}`.
    ThreadStarted = "thread.started";
    /// A thread was changed: `{thread, changes}`.
    ThreadUpdated = "thread.updated";
    /// A thread was made from another one: `{thread, source_thread_id, source_seq}`.
    ThreadForked = "thread.forked";
    /// A turn begins: `{turn}`.
    TurnStarted = "turn.started";
    /// A turn works: `{status: "in_progress"}`, with `resumed` and `resumed_count` after a restart.
    TurnLifecycle = "turn.lifecycle";
    /// A running turn was told more: `{thread_id, turn_id, input}`.
    TurnSteered = "turn.steered";
    /// Somebody wants a turn to stop: `{thread_id, turn_id}`.
    TurnInterruptRequested = "turn.interrupt_requested";
    /// A turn is at its end, whichever: `{turn}`.
    TurnCompleted = "turn.completed";
    /// An item begins: `{item}`, with `tool` for calls.
    ItemStarted = "item.started";
    /// More of an item's text: `{delta, kind}`.
    ItemDelta = "item.delta";
    /// An item came to its end: `{item}`.
    ItemCompleted = "item.completed";
    /// An item failed: `{item}`.
    ItemFailed = "item.failed";
    /// An item was cut short: `{item}`.
    ItemInterrupted = "item.interrupted";
    /// Somebody must allow a call.
    ApprovalRequired = "approval.required";
    /// It is decided.
    ApprovalDecided = "approval.decided";
    /// Nobody decided in time; the decision follows.
    ApprovalTimeout = "approval.timeout";
    /// Somebody must answer a question.
    UserInputRequired = "user_input.required";
    /// Somebody did.
    UserInputAnswered = "user_input.answered";
    /// The question is void.
    UserInputCanceled = "user_input.canceled";
    /// A client must carry out a call.
    ToolCallRequested = "tool_call.requested";
    /// A client did.
    ToolCallResolved = "tool_call.resolved";
    /// No client did in time.
    ToolCallTimeout = "tool_call.timeout";
    /// The turn ended before.
    ToolCallCanceled = "tool_call.canceled";
    /// The sandbox stopped a tool.
    SandboxDenied = "sandbox.denied";
    /// An agent was started by this one.
    AgentSpawned = "agent.spawned";
    /// How far such an agent is.
    AgentProgress = "agent.progress";
    /// Such an agent is done.
    AgentCompleted = "agent.completed";
    /// The agents that were started.
    AgentList = "agent.list";
}
