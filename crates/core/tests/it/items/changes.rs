//! What each event changes for people: the table of the design, line by line.

use serde_json::json;
use windlass_core::events::*;
use windlass_core::message::{ERROR_MARK, MessageRole, REPORT_MARK};
use windlass_core::tools::ToolShape;
use windlass_core::typed_id::{MessageId, SessionId, TurnId};

use super::journal::{
    CALL, COMPACTION, INPUT, Journal, MODEL, STEER, TURN, answered, at, call, cancelled, completed,
    message, tool_done,
};

/// Checks the user-visible changes after the start of a turn.
fn check(write: impl FnOnce(&mut Journal), then: &[&str]) {
    let mut journal = Journal::begun();
    let before = journal.events.len();
    write(&mut journal);
    assert_eq!(journal.descriptions()[before..], *then);
}

#[test]
fn session_changes_are_visible() {
    let mut journal = Journal::default();
    let outside = EventContext::default;
    journal.add(
        outside(),
        SessionStartedData {
            title: None,
            record: None,
        },
    );
    journal.add(
        outside(),
        SessionUpdatedData {
            title: None,
            record: None,
            changed_fields: None,
        },
    );
    let forked = SessionForkedData {
        record: None,
        dropped_turn_id: None,
        depth: None,
        parent_session_id: SessionId::from_seed(8),
        parent_sequence: 3,
    };
    journal.add(outside(), forked);
    let pruned = JournalPrunedData {
        first_sequence: 1,
        last_sequence: 2,
        digest: None,
    };
    journal.add(outside(), pruned);
    let words = ["session started", "session updated", "session forked", "-"];
    assert_eq!(journal.descriptions(), words);
}

#[test]
fn turn_starts_with_its_input() {
    assert_eq!(
        Journal::begun().descriptions(),
        [
            "turn started: hello",
            "started UserMessage: hello",
            "ended UserMessage (completed): hello",
            "turn works",
        ]
    );
    check(|journal| journal.reason(2), &["-"]);
}

#[test]
fn messages_outside_of_turns_are_not_shown() {
    let mut journal = Journal::default();
    let message = message(MessageId::from_seed(70), MessageRole::User, "before");
    journal.add(EventContext::default(), InputMessageData { message });
    journal.add(EventContext::default(), answered("imported"));
    assert_eq!(journal.descriptions(), ["-", "-"]);
}

#[test]
fn thinking_is_an_item_of_its_step() {
    let thought = |interrupted| ReasonThinkingCompletedData {
        thinking: "hm".to_owned(),
        started_at: Some(at(5)),
        interrupted,
    };
    check(
        |journal| {
            journal.step(MODEL, ReasonThinkingStartedData {});
            let delta = "h".to_owned();
            let turn_id = TURN;
            journal.step(MODEL, ReasonThinkingDeltaData { turn_id, delta });
            journal.step(MODEL, thought(None));
        },
        &[
            "started AgentReasoning: ",
            "delta AgentReasoning: h",
            "ended AgentReasoning (completed): hm",
        ],
    );
    check(
        |journal| journal.step(MODEL, thought(Some(true))),
        &["ended AgentReasoning (interrupted): hm"],
    );
}

#[test]
fn answer_is_an_item_of_its_message() {
    check(
        |journal| {
            journal.text_starts();
            journal.text("hel");
            journal.step(MODEL, answered("hello"));
        },
        &[
            "started AgentMessage: ",
            "delta AgentMessage: hel",
            "ended AgentMessage (completed): hello",
        ],
    );
}

#[test]
fn answer_with_only_calls_is_not_shown() {
    check(|journal| journal.step(MODEL, answered("")), &["-"]);
    let ends = OutputMessageCompletedData {
        started_at: Some(at(5)),
        ..answered("")
    };
    check(
        |journal| journal.step(MODEL, ends),
        &["ended AgentMessage (completed): "],
    );
}

#[test]
fn failed_answer_retains_its_text_and_a_report_is_an_error() {
    let marked = |marks: &[&str], started_at, interrupted| {
        let mut data = answered("half");
        let marks = marks
            .iter()
            .map(|mark| ((*mark).to_owned(), json!("server")));
        data.message.metadata = Some(marks.collect());
        OutputMessageCompletedData {
            started_at,
            interrupted,
            ..data
        }
    };
    let cases = [
        (
            marked(&[ERROR_MARK], Some(at(5)), None),
            "ended AgentMessage (failed): half",
        ),
        (
            marked(&[ERROR_MARK, REPORT_MARK], None, None),
            "ended Error (failed): half",
        ),
        (
            marked(&[ERROR_MARK, REPORT_MARK], Some(at(5)), Some(true)),
            "ended AgentMessage (interrupted): half",
        ),
        (
            marked(&[], Some(at(5)), Some(true)),
            "ended AgentMessage (interrupted): half",
        ),
    ];
    for (data, then) in cases {
        check(|journal| journal.step(MODEL, data), &[then]);
    }
}

#[test]
fn call_status_determines_the_item_status() {
    let cases = [
        (
            ToolStatus::Success,
            "ended ToolCall (completed): look: seen",
        ),
        (
            ToolStatus::Error,
            "ended ToolCall (failed): look failed: blind",
        ),
        (
            ToolStatus::Timeout,
            "ended ToolCall (failed): look failed: blind",
        ),
        (
            ToolStatus::Unknown,
            "ended ToolCall (failed): look failed: blind",
        ),
        (
            ToolStatus::Cancelled,
            "ended ToolCall (interrupted): look: blind",
        ),
    ];
    for (status, then) in cases {
        check(
            |journal| {
                journal.tool_starts(None);
                journal.step(CALL, tool_done(status));
            },
            &["started ToolCall: look started", then],
        );
    }
}

#[test]
fn call_that_never_started_is_not_shown() {
    let never = ToolCompletedData {
        started_at: None,
        ..tool_done(ToolStatus::Cancelled)
    };
    check(|journal| journal.step(CALL, never), &["-"]);
}

#[test]
fn tool_shape_determines_the_item_kind() {
    check(
        |journal| {
            journal.tool_starts(Some(ToolShape::Command));
            journal.tool_starts(Some(ToolShape::FileChange));
        },
        &[
            "started CommandExecution: look started",
            "started FileChange: look started",
        ],
    );
}

#[test]
fn users_answer_is_not_shown() {
    let private = ToolCompletedData {
        private: Some(true),
        ..tool_done(ToolStatus::Success)
    };
    check(
        |journal| journal.step(CALL, private),
        &["ended ToolCall (completed): User input submitted"],
    );
}

#[test]
fn call_output_is_a_delta_and_progress_is_not_shown() {
    let (tool_call_id, tool_name) = ("c1".to_owned(), "look".to_owned());
    let progress = ToolProgressData {
        tool_call_id: tool_call_id.clone(),
        tool_name: tool_name.clone(),
        message: "half".to_owned(),
    };
    let output = ToolOutputDeltaData {
        tool_call_id,
        tool_name,
        delta: "out".to_owned(),
        stream: "stdout".to_owned(),
    };
    check(
        |journal| {
            journal.step(CALL, progress);
            journal.step(CALL, output);
        },
        &["-", "delta ToolCall: out"],
    );
}

#[test]
fn waits_are_shown_at_start_and_end() {
    let id = || "c1".to_owned();
    let requested = ToolCallRequestedData {
        tool_calls: vec![call()],
        tool_summaries: Vec::new(),
        headline: None,
        connection_required: None,
        expires_at: None,
    };
    let resolved = ToolCallResolvedData {
        tool_call_id: id(),
        success: true,
        digest: String::new(),
    };
    let timed_out = ToolCallTimeoutData {
        tool_call_id: id(),
        timeout_ms: Some(5),
    };
    let canceled = ToolCallCanceledData {
        tool_call_id: id(),
        reason: "turn_terminal".to_owned(),
    };
    check(
        |journal| {
            journal.step(CALL, requested);
            journal.step(CALL, resolved);
            journal.step(CALL, timed_out);
            journal.step(CALL, canceled);
        },
        &[
            "call requested",
            "call resolved: true",
            "call timed out: Some(5)",
            "call canceled: turn_terminal",
        ],
    );
    let required = ApprovalRequiredData {
        tool_call: call(),
        digest: String::new(),
        display_name: None,
        expires_at: None,
        request_id: None,
    };
    let late = ApprovalTimeoutData {
        tool_call_id: id(),
        timeout_ms: None,
    };
    let decided = ApprovalDecidedData {
        tool_call_id: id(),
        decision: Decision::Deny,
        reason: None,
        timed_out: Some(true),
        remember: None,
        project: None,
        withdrawn: None,
    };
    check(
        |journal| {
            journal.step(CALL, required);
            journal.step(CALL, late);
            journal.step(CALL, decided);
        },
        &[
            "approval required",
            "approval timed out",
            "approval decided: Deny",
        ],
    );
    let request = || "input_1".to_owned();
    let asked = UserInputRequiredData {
        request_id: request(),
        prompt: json!("sure?"),
        expires_at: None,
    };
    let said = UserInputAnsweredData {
        request_id: request(),
        answer: json!("secret"),
    };
    let void = UserInputCanceledData {
        request_id: request(),
        reason: "timeout".to_owned(),
    };
    check(
        |journal| {
            journal.step(CALL, asked);
            journal.step(CALL, said);
            journal.step(CALL, void);
        },
        &[
            "input required: \"sure?\"",
            "input answered: input_1",
            "input canceled: timeout",
        ],
    );
}

#[test]
fn turn_is_steered_interrupted_and_resumed() {
    let steered = TurnSteeredData {
        turn_id: TURN,
        message_id: STEER,
        input_text: Some("and whales".to_owned()),
    };
    let stop = TurnInterruptRequestedData {
        turn_id: TURN,
        reason: Some("enough".to_owned()),
    };
    let resumed = TurnResumedData {
        extended_ms: None,
        turn_id: TURN,
        attempt: 2,
    };
    let queued = InputQueuedData {
        turn_id: TurnId::from_seed(50),
        message: message(MessageId::from_seed(51), MessageRole::User, "later"),
        deadline_ms: None,
        ahead: None,
    };
    check(
        |journal| {
            journal.turn(steered);
            journal.input(STEER, "and whales");
            journal.turn(stop);
            journal.turn(TurnReleasedData { turn_id: TURN });
            journal.turn(resumed);
            journal.add(EventContext::of_turn(TurnId::from_seed(50)), queued);
        },
        &[
            "turn steered: and whales",
            "ended UserMessage (completed): and whales",
            "interrupt requested: enough",
            "-",
            "turn resumed: 2",
            &format!("input queued: {}", TurnId::from_seed(50)),
        ],
    );
}

#[test]
fn compaction_is_an_item_of_its_step() {
    let compacting = ContextCompactingData {
        message_count: 19,
        auto: Some(false),
        kept_messages: None,
    };
    let compacted = ContextCompactedData {
        messages_before: 19,
        messages_after: 7,
        summary: None,
        auto: Some(false),
        started_at: None,
        usage: None,
        error: None,
        interrupted: None,
        kept_messages: None,
    };
    check(
        |journal| {
            journal.step(COMPACTION, compacting);
            journal.step(COMPACTION, compacted);
        },
        &[
            "started ContextCompaction: Manual context compaction started",
            "ended ContextCompaction (completed): Compaction complete: 19 → 7 messages (12 removed)",
        ],
    );
}

#[test]
fn turn_ends_with_one_of_three_statuses() {
    let failed = TurnFailedData {
        turn_id: TURN,
        error: "boom".to_owned(),
        error_code: Some("server".to_owned()),
        error_fields: None,
        iterations: None,
        duration_ms: None,
        usage: None,
        tool_call_count: None,
        llm_call_count: None,
        final_message_id: None,
        outline: None,
    };
    let idled = SessionIdledData {};
    check(
        |journal| {
            journal.turn(completed());
            journal.turn(failed);
            journal.turn(cancelled(TURN));
            journal.turn(idled);
        },
        &[
            "turn ended: Completed",
            "turn ended: Failed",
            "turn ended: Interrupted",
            "-",
        ],
    );
}

#[test]
fn turn_cancelled_in_the_queue_is_a_removed_input() {
    let turn_id = TurnId::from_seed(50);
    let never = TurnCancelledData {
        iterations: None,
        ..cancelled(turn_id)
    };
    check(
        |journal| journal.add(EventContext::of_turn(turn_id), never),
        &[&format!("input removed: {turn_id}")],
    );
}

#[test]
fn inner_steps_are_not_shown() {
    let generation = LlmGenerationData {
        prompt: PromptRef {
            message_count: 1,
            last_message_id: Some(INPUT),
            digest: String::new(),
        },
        tools: Vec::new(),
        output: LlmGenerationOutput::default(),
        metadata: LlmGenerationMetadata::default(),
    };
    let reasoned = ReasonCompletedData {
        success: true,
        has_tool_calls: true,
        tool_call_count: 1,
        text_preview: None,
        error: None,
        duration_ms: None,
        usage: None,
    };
    let tool_call_count = 1;
    check(
        |journal| {
            journal.step(MODEL, generation);
            journal.step(MODEL, reasoned);
            journal.turn(ActStartedData { tool_call_count });
            journal.turn(ActCompletedData {
                tool_call_count,
                success_count: 1,
            });
            let custom = CustomData {
                name: "own".to_owned(),
                payload: json!(1),
            };
            journal.step(CALL, custom);
        },
        &["-", "-", "-", "-", "-"],
    );
}
