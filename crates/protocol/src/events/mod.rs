//! Events of a thread: the envelope, the names, and a typed payload for each name.

mod payloads;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

pub use payloads::{
    ApprovalDecidedPayload, ApprovalRequiredPayload, ApprovalTimeoutPayload, DeltaKind,
    EventToolCall, InputEditedPayload, InputQueuedPayload, InputRemovedPayload, ItemDeltaPayload,
    ItemPayload, OutputRejectedPayload, ThreadForkedPayload, ThreadStartedPayload,
    ThreadUpdatedPayload, ToolCallCanceledPayload, ToolCallResolvedPayload, ToolCallStatus,
    ToolCallTimeoutPayload, TurnCompletedPayload, TurnInterruptRequestedPayload,
    TurnLifecyclePayload, TurnStartedPayload, TurnSteeredPayload, UserInputAnsweredPayload,
    UserInputCanceledPayload, UserInputRequiredPayload,
};

use crate::{Item, PendingToolCall, RUNTIME_EVENT_ENVELOPE_SCHEMA_VERSION};

/// One event of a thread: the `data` of an SSE frame, or a line of an export. Its name follows from its payload.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeEventEnvelope {
    /// Sequence number in the thread: strictly increasing, never reused.
    pub seq: u64,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// The turn, if the event belongs to one.
    pub turn_id: Option<String>,
    /// The item, if the event belongs to one.
    pub item_id: Option<String>,
    /// Time of the event, RFC 3339.
    pub timestamp: String,
    /// Typed by the event's name.
    pub payload: EventPayload,
    /// `seq` of the previous event on the same stream.
    pub previous_seq: Option<u64>,
    /// The JSON that a client received, with fields that this version does not know. It is not part of the event.
    pub received: Option<Box<str>>,
}

impl RuntimeEventEnvelope {
    /// Name of the field that links a frame to the previous one on the same stream.
    pub const PREVIOUS_SEQ: &'static str = "previous_seq";
}

/// The fields of an envelope as they are received.
#[derive(Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = RuntimeEventEnvelope))]
pub(crate) struct Envelope {
    /// The version of the envelope.
    #[serde(default = "envelope_version")]
    schema_version: u32,
    /// Sequence number in the thread: strictly increasing, never reused.
    seq: u64,
    /// Name of the event, such as `turn.started`.
    event: String,
    /// Same as `event`.
    #[expect(dead_code, reason = "it repeats the name")]
    kind: String,
    /// ID of the thread, `thr_…`.
    thread_id: String,
    /// The turn; null if the event belongs to none.
    turn_id: Option<String>,
    /// The item; null if the event belongs to none.
    item_id: Option<String>,
    /// Time of the event, RFC 3339.
    timestamp: String,
    /// Same as `timestamp`.
    #[expect(dead_code, reason = "it repeats the time")]
    created_at: Option<String>,
    /// Typed by the event's name.
    payload: Value,
    /// `seq` of the previous event on the same stream.
    #[serde(default)]
    previous_seq: Option<u64>,
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for RuntimeEventEnvelope {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        Envelope::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for RuntimeEventEnvelope {}

const fn envelope_version() -> u32 {
    RUNTIME_EVENT_ENVELOPE_SCHEMA_VERSION
}

impl Serialize for RuntimeEventEnvelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.payload.name();
        let mut fields = serializer.serialize_struct("RuntimeEventEnvelope", 11)?;
        fields.serialize_field("schema_version", &RUNTIME_EVENT_ENVELOPE_SCHEMA_VERSION)?;
        fields.serialize_field("seq", &self.seq)?;
        fields.serialize_field("event", name)?;
        fields.serialize_field("kind", name)?;
        fields.serialize_field("thread_id", &self.thread_id)?;
        fields.serialize_field("turn_id", &self.turn_id)?;
        fields.serialize_field("item_id", &self.item_id)?;
        fields.serialize_field("timestamp", &self.timestamp)?;
        fields.serialize_field("created_at", &self.timestamp)?;
        fields.serialize_field("payload", &self.payload)?;
        if let Some(previous_seq) = self.previous_seq {
            fields.serialize_field(Self::PREVIOUS_SEQ, &previous_seq)?;
        }
        fields.end()
    }
}

impl<'de> Deserialize<'de> for RuntimeEventEnvelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Envelope::deserialize(deserializer)?;
        if raw.schema_version != RUNTIME_EVENT_ENVELOPE_SCHEMA_VERSION {
            let version = raw.schema_version;
            let text = format!("the event has the unknown envelope version {version}");
            return Err(de::Error::custom(text));
        }
        Ok(Self {
            seq: raw.seq,
            payload: EventPayload::read(raw.event, raw.payload).map_err(de::Error::custom)?,
            thread_id: raw.thread_id,
            turn_id: raw.turn_id,
            item_id: raw.item_id,
            timestamp: raw.timestamp,
            previous_seq: raw.previous_seq,
            received: None,
        })
    }
}

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident($payload:ty) = $name:literal;)*) => {
        /// Names of events. A stream contains optional events only on request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum EventName {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl EventName {
            /// All names in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        /// The payload of an event, by its name.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum EventPayload {
            $($(#[$doc])* $variant(Box<$payload>),)*
            /// An event of a newer server, as it was received.
            Unknown(UnknownEvent),
        }

        impl EventPayload {
            /// Returns the name of the event.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $name,)*
                    Self::Unknown(unknown) => &unknown.name,
                }
            }

            /// Reads the payload of a named event. A name that this version does not know gives [`EventPayload::Unknown`].
            ///
            /// # Errors
            /// The payload of a known event lacks a field, or one has the wrong type.
            pub fn read(name: String, payload: Value) -> serde_json::Result<Self> {
                Ok(match name.as_str() {
                    $($name => Self::$variant(serde_json::from_value(payload)?),)*
                    _ => Self::Unknown(UnknownEvent { name, payload }),
                })
            }
        }

        /// Adds a schema for each event to a description of the API.
        #[cfg(feature = "openapi")]
        pub(crate) fn describe(document: &mut crate::openapi::Document) {
            $(
                let payload = document.schema::<$payload>();
                document.add_event(EventName::$variant, &payload);
            )*
        }
    };
}

impl EventPayload {
    /// Returns the item whose end the event reports.
    #[must_use]
    pub const fn ended_item(&self) -> Option<&Item> {
        match self {
            Self::ItemCompleted(ended) | Self::ItemFailed(ended) | Self::ItemInterrupted(ended) => {
                Some(&ended.item)
            }
            _ => None,
        }
    }
}

/// An event whose name this version does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct UnknownEvent {
    /// Name of the event, such as `turn.started`.
    pub name: String,
    /// The payload as it was received.
    pub payload: Value,
}

impl Serialize for UnknownEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.payload.serialize(serializer)
    }
}

events! {
    /// A thread was created.
    ThreadStarted(ThreadStartedPayload) = "thread.started";
    /// A thread's settings were changed.
    ThreadUpdated(ThreadUpdatedPayload) = "thread.updated";
    /// A thread was created from another one.
    ThreadForked(ThreadForkedPayload) = "thread.forked";
    /// An input waits for its turn. Sent only with `include=queue`.
    InputQueued(InputQueuedPayload) = "input.queued";
    /// A queued input was changed. Sent only with `include=queue`.
    InputEdited(InputEditedPayload) = "input.edited";
    /// A queued input was removed before its turn started. Sent only with `include=queue`.
    InputRemoved(InputRemovedPayload) = "input.removed";
    /// A turn started.
    TurnStarted(TurnStartedPayload) = "turn.started";
    /// A turn is at work, or was resumed after a restart.
    TurnLifecycle(TurnLifecyclePayload) = "turn.lifecycle";
    /// A running turn received more input.
    TurnSteered(TurnSteeredPayload) = "turn.steered";
    /// The final answer does not match the turn's `output_schema`; the model repairs it once.
    OutputRejected(OutputRejectedPayload) = "output.rejected";
    /// A client requested the end of a turn.
    TurnInterruptRequested(TurnInterruptRequestedPayload) = "turn.interrupt_requested";
    /// A turn ended: completed, failed or interrupted.
    TurnCompleted(TurnCompletedPayload) = "turn.completed";
    /// An item started.
    ItemStarted(ItemPayload) = "item.started";
    /// An item has more text.
    ItemDelta(ItemDeltaPayload) = "item.delta";
    /// An item is complete.
    ItemCompleted(ItemPayload) = "item.completed";
    /// An item failed.
    ItemFailed(ItemPayload) = "item.failed";
    /// An item was cut short.
    ItemInterrupted(ItemPayload) = "item.interrupted";
    /// A call waits for an approval.
    ApprovalRequired(ApprovalRequiredPayload) = "approval.required";
    /// An approval was decided.
    ApprovalDecided(ApprovalDecidedPayload) = "approval.decided";
    /// An approval's deadline has passed; `approval.decided` follows.
    ApprovalTimeout(ApprovalTimeoutPayload) = "approval.timeout";
    /// A question waits for an answer.
    UserInputRequired(UserInputRequiredPayload) = "user_input.required";
    /// A question was answered.
    UserInputAnswered(UserInputAnsweredPayload) = "user_input.answered";
    /// A question needs no answer any more.
    UserInputCanceled(UserInputCanceledPayload) = "user_input.canceled";
    /// A client must run a call.
    ToolCallRequested(PendingToolCall) = "tool_call.requested";
    /// A client returned the result of a call.
    ToolCallResolved(ToolCallResolvedPayload) = "tool_call.resolved";
    /// No client returned a result in time.
    ToolCallTimeout(ToolCallTimeoutPayload) = "tool_call.timeout";
    /// The turn ended before a client returned a result.
    ToolCallCanceled(ToolCallCanceledPayload) = "tool_call.canceled";
    /// The sandbox stopped a tool. Not sent yet.
    SandboxDenied(Value) = "sandbox.denied";
    /// The agent started another one. Not sent yet.
    AgentSpawned(Value) = "agent.spawned";
    /// The progress of a started agent. Not sent yet.
    AgentProgress(Value) = "agent.progress";
    /// A started agent ended. Not sent yet.
    AgentCompleted(Value) = "agent.completed";
    /// The started agents. Not sent yet.
    AgentList(Value) = "agent.list";
}
