//! The host's additions to a session and a turn: records, tools, options, answers.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::ThreadRecord;
use windlass_core::error::AgentLoopError;
use windlass_core::events::{ChangedFields, EventData, SessionStartedData, SessionUpdatedData};
use windlass_core::items::TurnLog;
use windlass_core::message::InputMessage;
use windlass_core::tools::{
    ClientSideTool, ToolDefinition, ToolExecutionResult, ToolHints, ToolPolicy, ToolResult,
    ToolResultImage,
};
use windlass_core::turn_request::{TurnLabels, TurnRequest};
use windlass_runtime::StopReason;

use super::support::{Gate, ScriptedCall, Setup, call, soon, tool};

fn external(name: &str, shown: &str) -> ClientSideTool {
    ClientSideTool {
        name: name.to_owned(),
        display_name: Some(shown.to_owned()),
        parameters: json!({"type": "object"}),
        hints: ToolHints::default().with_timeout_ms(5_000),
        ..ClientSideTool::default()
    }
}

fn asking(text: &str, request: TurnRequest) -> InputMessage {
    InputMessage::user(text).with_turn_request(request)
}

#[tokio::test]
async fn host_notes_belong_to_no_turn() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new().wait(&gate).text("x").done()])
        .build()
        .await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    let record = Some(Box::new(ThreadRecord::default()));
    let started = SessionStartedData {
        title: None,
        record: record.clone(),
    };
    let event = runtime.note_session(session, started).await.unwrap();
    assert_eq!(event.sequence, Some(1));
    let turn = fixture.start("hello");
    soon(gate.reached(1)).await;
    let updated = SessionUpdatedData {
        title: None,
        record,
        changed_fields: Some(ChangedFields(vec!["mode".to_owned()])),
    };
    let event = runtime.note_session(session, updated).await.unwrap();
    assert_eq!(event.context.turn_id, None);
    let refused = runtime
        .note_session(
            session,
            EventData::SessionIdled(windlass_core::events::SessionIdledData {}),
        )
        .await;
    assert!(
        matches!(refused, Err(AgentLoopError::EventEmission(_))),
        "{refused:?}"
    );
    gate.open();
    assert!(soon(turn).await.unwrap().unwrap().success);
    let head = runtime.latest_sequence(session).await.unwrap();
    assert_eq!(head, fixture.events().await.len() as u64);
    fixture.assert_sound().await;
}

#[tokio::test]
async fn the_labels_of_an_input_are_on_the_records_that_begin_and_end_its_turn() {
    let fixture = Setup::new([ScriptedCall::answer("x")]).build().await;
    let labels = TurnLabels {
        provider: Some("of the house".to_owned()),
    };
    let input = asking(
        "hello",
        TurnRequest {
            labels: Some(labels.clone()),
            ..TurnRequest::default()
        },
    );
    soon(fixture.runtime.run_turn(fixture.session, input))
        .await
        .unwrap();
    let events = fixture.events().await;
    let log = TurnLog::fold(&events);
    assert_eq!(log.turns()[0].outline.labels, Some(labels.clone()));
    let ended = events.iter().find_map(|event| match &event.data {
        EventData::TurnCompleted(data) => data.outline.as_ref()?.labels.clone(),
        _ => None,
    });
    assert_eq!(ended, Some(labels));
}

#[tokio::test]
async fn turn_has_only_the_requested_tools() {
    let shell = tool("shell", |_, _| async {
        ToolExecutionResult::Success(json!("done"))
    })
    .policy(ToolPolicy::RequiresApproval);
    let files = tool("files", |_, _| async {
        ToolExecutionResult::Success(json!("done"))
    });
    let calls = vec![
        call("1", "tau::get", json!({})),
        call("2", "get", json!({})),
        call("3", "shell", json!({})),
        call("4", "files", json!({})),
    ];
    let fixture = Setup::new([
        ScriptedCall::tools(calls),
        ScriptedCall::answer("thanks"),
        ScriptedCall::answer("again"),
    ])
    .tool(&shell)
    .tool(&files)
    .build()
    .await;
    let request = TurnRequest {
        system_prompt: Some("Speak like a pirate.".to_owned()),
        tools: vec![external("tau__get", "tau::get")],
        disallowed_tools: vec!["fi*".to_owned()],
        approve_all: true,
        ..TurnRequest::default()
    };
    let (runtime, session) = (&fixture.runtime, fixture.session);
    let turn = soon(runtime.run_turn(session, asking("hello", request)))
        .await
        .unwrap();
    assert_eq!(
        turn.stop_reason,
        StopReason::WaitingForToolResults,
        "{turn:?}"
    );
    let request = &fixture.model.requests()[0];
    let names: Vec<_> = request
        .config
        .tools
        .iter()
        .map(ToolDefinition::name)
        .collect();
    assert_eq!(names, ["shell", "tau__get"]);
    assert!(
        request.system_prompt.ends_with("Speak like a pirate."),
        "{}",
        request.system_prompt
    );
    let results = vec![
        ToolResult {
            images: Some(vec![ToolResultImage::at("https://example.org/x.png")]),
            ..ToolResult::success("1", "one")
        },
        ToolResult::success("2", "two"),
    ];
    let handle = soon(runtime.submit_tool_results(session, results))
        .await
        .unwrap();
    assert!(soon(handle.wait()).await.unwrap().success);
    let events = fixture.events().await;
    let log = TurnLog::fold(&events);
    let details: Vec<_> = log
        .items_of(turn.turn_id)
        .map(|item| item.detail().into_owned())
        .collect();
    assert!(
        details.contains(&"one\n[image] https://example.org/x.png".to_owned()),
        "{details:?}"
    );
    assert!(
        details
            .iter()
            .any(|detail| detail.contains("unknown tool `files`")),
        "{details:?}"
    );
    fixture.run("once more").await;
    let names = fixture.model.requests()[2].config.tools.len();
    assert_eq!(names, 2, "the wishes were for one turn");
}

#[tokio::test]
async fn client_side_tool_has_its_own_wait_timeout() {
    let fixture = Setup::new([
        ScriptedCall::tools(vec![call("1", "tau__get", json!({}))]),
        ScriptedCall::answer("late"),
    ])
    .settings(|settings| settings.wait_timeout = Some(Duration::from_secs(300)))
    .build()
    .await;
    let request = TurnRequest {
        tools: vec![external("tau__get", "tau::get")],
        ..TurnRequest::default()
    };
    let input = asking("hello", request);
    let turn = soon(fixture.runtime.run_turn(fixture.session, input))
        .await
        .unwrap();
    let mut events = fixture
        .runtime
        .subscribe_after(fixture.session, 0)
        .await
        .unwrap();
    fixture.clock.asleep_for(Duration::from_secs(5)).await;
    fixture.clock.advance(Duration::from_secs(6));
    let timeout = soon(async {
        loop {
            match &events.next().await.expect("the session is there").data {
                EventData::ToolCallTimeout(data) => break data.timeout_ms,
                data => assert!(!data.ends_turn()),
            }
        }
    });
    assert_eq!(timeout.await, Some(5_000));
    assert_eq!(turn.stop_reason, StopReason::WaitingForToolResults);
}

#[tokio::test]
async fn a_question_waits_for_its_answer_which_only_the_model_reads() {
    let question = json!({"questions": [{"id": "colour", "question": "Which colour?"}]});
    let asking = windlass_core::tools::ToolCall {
        arguments: question,
        ..call("1", "request_user_input", json!({}))
    };
    let setup = Setup::new([
        ScriptedCall::tools(vec![asking]),
        ScriptedCall::answer("Red it is"),
    ]);
    let fixture = setup
        .session(|session| session.with_capability("ask_user"))
        .build()
        .await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    let handle = soon(runtime.submit(session, "ask me")).await.unwrap();
    let mut events = runtime.subscribe_after(session, 0).await.unwrap();
    let request = soon(async {
        loop {
            if let EventData::UserInputRequired(data) = &events.next().await.unwrap().data {
                break data.clone();
            }
        }
    })
    .await;
    assert_eq!(request.prompt["questions"][0]["allow_free_text"], true);
    let unknown = runtime
        .answer_user_input(session, "input_x", Value::Null)
        .await;
    assert!(
        matches!(unknown, Err(AgentLoopError::NoPendingCall { .. })),
        "{unknown:?}"
    );
    let answer = json!({"answers": [{"id": "colour", "value": "red"}]});
    let answered = runtime.answer_user_input(session, &request.request_id, answer.clone());
    let answered = soon(answered).await.unwrap();
    let repeat = async || {
        let repeated = runtime.answer_user_input(session, &request.request_id, answer.clone());
        soon(repeated).await.unwrap()
    };
    assert_eq!(repeat().await.turn_id(), handle.turn_id());
    let turn = soon(answered.wait()).await.unwrap();
    assert_eq!(soon(repeat().await.wait()).await.unwrap(), turn);
    soon(async { while !events.next().await.unwrap().data.ends_turn() {} }).await;
    assert!(
        fixture
            .model
            .sent(1)
            .iter()
            .any(|message| message.contains("red"))
    );
    let all = fixture.events().await;
    let log = TurnLog::fold(&all);
    let shown: Vec<_> = log
        .items_of(log.turns()[0].id)
        .map(|item| item.detail().into_owned())
        .collect();
    assert_eq!(shown[1], "User input submitted");
}
