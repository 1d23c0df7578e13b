//! Payloads of events: one struct per event.

use serde_json::Value;
use windlass_macros::wire;

use crate::{ApprovalDecision, Item, Status, Thread, Turn};

/// Declares payload structs that serialise, deserialise and describe themselves.
macro_rules! payloads {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[wire(omit_none)]
        pub struct $name { $($(#[$field_doc])* pub $field: $ty,)* }
    )*};
}

payloads! {
    /// A new thread.
    ThreadStartedPayload {
        /// The thread as it was created.
        thread: Thread,
    }

    /// A change of a thread's settings.
    ThreadUpdatedPayload {
        /// The changed fields with their new values.
        changes: Value,
        /// The thread after the change.
        thread: Thread,
    }

    /// A thread created from another one.
    ThreadForkedPayload {
        /// How many turns of the source were dropped; absent for a plain fork.
        backtrack_depth_from_tail: Option<u64>,
        /// The first dropped turn of the source.
        dropped_turn_id: Option<String>,
        /// The last `seq` that the fork shares with its source.
        source_seq: u64,
        /// The thread that was forked.
        source_thread_id: String,
        /// The new thread.
        thread: Thread,
    }

    /// An input that waits for its turn.
    InputQueuedPayload {
        /// `true` if the input is placed before the others; absent if it is placed last.
        ahead: Option<bool>,
        /// The beginning of the text, or the client's own summary of it.
        input_summary: String,
        /// Plain text, UTF-8.
        prompt: String,
        /// ID of the thread, `thr_…`.
        thread_id: String,
        /// The turn that the input will start.
        turn_id: String,
    }

    /// A change of a queued input.
    InputEditedPayload {
        /// The new index in the queue, from 0; absent if it is unchanged.
        position: Option<u64>,
        /// The new text; absent if it is unchanged.
        prompt: Option<String>,
        /// ID of the thread, `thr_…`.
        thread_id: String,
        /// The turn that the input will start.
        turn_id: String,
    }

    /// The removal of a queued input.
    InputRemovedPayload {
        /// Reason; absent if a client removed the input.
        reason: Option<String>,
        /// ID of the thread, `thr_…`.
        thread_id: String,
        /// The turn that does not start.
        turn_id: String,
    }

    /// The start of a turn.
    TurnStartedPayload {
        /// `true` for a compaction that a client requested; absent otherwise.
        manual_compaction: Option<bool>,
        /// The turn at its start.
        turn: Turn,
    }

    /// A turn at work.
    TurnLifecyclePayload {
        /// `true` after a restart; absent otherwise.
        resumed: Option<bool>,
        /// How many restarts the turn has survived; absent before the first.
        resumed_count: Option<u32>,
        /// Always `in_progress`.
        status: Status,
    }

    /// More input for a running turn.
    TurnSteeredPayload {
        /// Plain text, UTF-8.
        input: String,
        /// ID of the thread, `thr_…`.
        thread_id: String,
        /// ID of the turn, `turn_…`.
        turn_id: String,
    }

    /// A final answer that does not match the turn's `output_schema`. The model repairs it once.
    OutputRejectedPayload {
        /// What is wrong, each with a JSON pointer into the answer, without the answer's values; at most 10.
        errors: Vec<String>,
        /// ID of the thread, `thr_…`.
        thread_id: String,
        /// ID of the turn, `turn_…`.
        turn_id: String,
    }

    /// A request to stop a turn.
    TurnInterruptRequestedPayload {
        /// ID of the thread, `thr_…`.
        thread_id: String,
        /// ID of the turn, `turn_…`.
        turn_id: String,
    }

    /// The end of a turn, whatever its status.
    TurnCompletedPayload {
        /// `true` if the turn ended because its process was gone; absent otherwise.
        recovered: Option<bool>,
        /// The turn at its end.
        turn: Turn,
    }

    /// The tool call that an item shows.
    EventToolCall {
        /// ID of the call, `call_…`.
        id: String,
        /// The arguments; `null` until they are known.
        input: Value,
        /// The tool's name, with its namespace if it has one.
        name: String,
    }

    /// The start or the end of an item.
    ItemPayload {
        /// Whether a compaction began automatically; compactions only.
        auto: Option<bool>,
        /// The item at this event.
        item: Item,
        /// Messages after the compaction; compactions only.
        messages_after: Option<u64>,
        /// Messages before the compaction; compactions only.
        messages_before: Option<u64>,
        /// The call, when a tool item starts.
        tool: Option<EventToolCall>,
    }

    /// More text of an item.
    ItemDeltaPayload {
        /// The text, to be appended.
        delta: String,
        /// Which kind of item the text belongs to.
        kind: DeltaKind,
    }

    /// A call that waits for an approval.
    ApprovalRequiredPayload {
        /// Same as `id`.
        approval_id: String,
        /// ID of the call, `call_…`.
        call_id: String,
        /// The tool and its arguments.
        description: String,
        /// Time at which the approval is denied automatically.
        expires_at: Option<String>,
        /// ID of the approval, `appr_…`.
        id: String,
        /// The agent's stated purpose; null if it gave none.
        #[cfg_attr(feature = "openapi", schema(required = true))]
        #[null]
        intent_summary: Option<String>,
        /// The item that shows the call.
        item_id: String,
        /// Same as `description`.
        summary: String,
        /// Name of the tool, with its namespace.
        tool_name: String,
        /// ID of the turn, `turn_…`.
        turn_id: String,
    }

    /// A question that waits for an answer.
    UserInputRequiredPayload {
        /// Time at which the question is cancelled automatically.
        expires_at: Option<String>,
        /// ID of the request, `input_…`.
        id: String,
        /// Same as `id`.
        input_id: String,
        /// The item that shows the call.
        item_id: String,
        /// The questions: `{questions: [{header, id, question, options, allow_free_text, multi_select}]}`.
        request: Value,
        /// ID of the turn, `turn_…`.
        turn_id: String,
    }

    /// A decision about an approval.
    ApprovalDecidedPayload {
        /// ID of the approval, `appr_…`.
        approval_id: String,
        /// `allow` or `deny`.
        decision: ApprovalDecision,
        /// The item that shows the call.
        item_id: String,
        /// Reason, if one was given.
        reason: Option<String>,
        /// Whether the decision applies beyond this call.
        remember: bool,
        /// `project` if it applies to the project; absent otherwise.
        remember_for: Option<String>,
        /// `true` if the deadline decided; absent otherwise.
        timeout: Option<bool>,
    }

    /// An approval whose deadline has passed; `approval.decided` follows.
    ApprovalTimeoutPayload {
        /// ID of the approval, `appr_…`.
        approval_id: String,
        /// Length of the deadline in seconds.
        timeout_secs: u64,
    }

    /// An answered question.
    UserInputAnsweredPayload {
        /// ID of the request, `input_…`.
        id: String,
        /// Same as `id`.
        input_id: String,
    }

    /// A question that needs no answer any more.
    UserInputCanceledPayload {
        /// ID of the request, `input_…`.
        id: String,
        /// Same as `id`.
        input_id: String,
        /// Always `true`.
        terminal: bool,
    }

    /// A client's result for its tool call.
    ToolCallResolvedPayload {
        /// ID of the call, `call_…`.
        call_id: String,
        /// The item that shows the call.
        item_id: String,
        /// Always `true`.
        result_accepted: bool,
        /// Always `resolved`.
        status: ToolCallStatus,
        /// Whether the client reported success.
        success: bool,
        /// ID of the thread, `thr_…`.
        thread_id: String,
        /// ID of the turn, `turn_…`.
        turn_id: String,
    }

    /// A client's tool call whose deadline has passed.
    ToolCallTimeoutPayload {
        /// ID of the call, `call_…`.
        call_id: String,
        /// The item that shows the call.
        item_id: String,
        /// Always `timeout`.
        status: ToolCallStatus,
        /// ID of the thread, `thr_…`.
        thread_id: String,
        /// Length of the deadline in seconds.
        timeout_secs: u64,
        /// ID of the turn, `turn_…`.
        turn_id: String,
    }

    /// A client's tool call that needs no result any more.
    ToolCallCanceledPayload {
        /// ID of the call, `call_…`.
        call_id: String,
        /// The item that shows the call.
        item_id: String,
        /// Reason for people.
        reason: String,
        /// `true` after a restart; absent otherwise.
        recovered: Option<bool>,
        /// Always `canceled`.
        status: ToolCallStatus,
        /// Always `true`.
        terminal: bool,
        /// ID of the thread, `thr_…`.
        thread_id: String,
        /// ID of the turn, `turn_…`.
        turn_id: String,
    }
}

/// The end of the wait for a client's result.
#[wire(Copy, Eq, snake_case)]
pub enum ToolCallStatus {
    /// The client returned a result.
    Resolved,
    /// The deadline has passed.
    Timeout,
    /// The turn ended first.
    Canceled,
}

/// The kinds of items whose text is streamed.
#[wire(Copy, Eq, snake_case)]
pub enum DeltaKind {
    /// The agent's answer.
    AgentMessage,
    /// The model's thinking.
    AgentReasoning,
    /// A tool's output; only on streams that include it.
    ToolCall,
}
