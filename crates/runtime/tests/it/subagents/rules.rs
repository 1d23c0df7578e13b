//! A subagent never has more rights than its parent.

use serde_json::json;
use windlass_core::message::InputMessage;
use windlass_core::tools::{ToolDefinition, ToolExecutionResult};
use windlass_core::turn_request::TurnRequest;

use super::*;
use crate::support::{FnTool, tool};

fn plain(name: &str) -> FnTool {
    tool(name, |_, _| async { ToolExecutionResult::success("done") })
}

/// Tools that were offered in the calls of a conversation whose first message is this text.
fn offered(fixture: &Fixture, first: &str) -> Vec<String> {
    let requests = fixture.model.requests();
    let request = requests
        .iter()
        .find(|request| request.history.iter().next().and_then(|it| it.text()) == Some(first));
    let tools = &request.expect("it was asked").config.tools;
    let mut names: Vec<String> = tools.iter().map(|tool| tool.name().to_owned()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn maximum_depth_is_enforced() {
    let fixture = process(Setup::new([]), SubagentSettings::default()).await;
    fixture
        .model
        .when("go", ScriptedCall::tools(vec![spawn("1", "one")]));
    fixture
        .model
        .when("one", ScriptedCall::tools(vec![spawn("2", "two")]));
    fixture
        .model
        .when("two", ScriptedCall::tools(vec![spawn("3", "three")]));
    assert!(fixture.run("go").await.success);
    let one = children(&fixture, ROOT).await[0];
    let two = children(&fixture, one).await[0];
    assert!(children(&fixture, two).await.is_empty());
    assert!(offered(&fixture, "one").contains(&"spawn_agent".to_owned()));
    assert!(!offered(&fixture, "two").contains(&"spawn_agent".to_owned()));
    let refused = &results(&fixture, two).await[0]["error"];
    assert!(
        refused.as_str().unwrap().contains("unknown tool"),
        "{refused}"
    );
    let parent = request_of(&fixture, two).await.parent.unwrap();
    assert_eq!((parent.root_session_id, parent.session_id), (ROOT, one));
    assert_eq!(parent.depth, 2);
    let sessions = fixture.runtime.list_sessions().await.unwrap();
    assert_eq!(sessions.len(), 3);
}

#[tokio::test]
async fn subagents_per_turn_are_limited() {
    let settings = SubagentSettings {
        per_turn: 3,
        ..SubagentSettings::default()
    };
    let fixture = process(Setup::new([]), settings).await;
    let calls = (0..20).map(|n| spawn(&n.to_string(), "x")).collect();
    fixture.model.when("go", ScriptedCall::tools(calls));
    assert!(fixture.run("go").await.success);
    assert_eq!(children(&fixture, ROOT).await.len(), 3);
    let results = results(&fixture, ROOT).await;
    let refused = results.iter().filter(|result| result["error"].is_string());
    assert_eq!(refused.count(), 17);
}

#[tokio::test]
async fn subagent_has_a_subset_of_its_parents_tools() {
    let mine = ToolDefinition::client_side("mine", "mine", json!({"type": "object"}));
    let setup = Setup::new([])
        .tool(&plain("one"))
        .tool(&plain("two"))
        .tool(&plain("three"));
    let fixture = process(setup, SubagentSettings::default()).await;
    let with = |id: &str, prompt: &str, tools: serde_json::Value| {
        call(id, "spawn_agent", json!({"prompt": prompt, "tools": tools}))
    };
    let calls = vec![
        spawn("1", "all"),
        with("2", "few", json!(["one"])),
        with("3", "none", json!([])),
        with("4", "forbidden", json!(["one", "three"])),
        with("5", "pattern", json!(["*"])),
        with("6", "client", json!(["mine"])),
        with("7", "unknown", json!(["shell"])),
    ];
    fixture.model.when("go", ScriptedCall::tools(calls));
    let request = TurnRequest {
        disallowed_tools: vec!["thr*".to_owned()],
        tools: match mine {
            ToolDefinition::ClientSide(mine) => vec![mine],
            other => panic!("{other:?}"),
        },
        approve_all: true,
        owner: Some("another-owner".to_owned()),
        environment: Some(
            windlass_core::turn_environment::TurnEnvironment::new("local", "/").read_only(),
        ),
        ..TurnRequest::default()
    };
    let input = InputMessage::user("go").with_turn_request(request.clone());
    let turn = soon(fixture.runtime.run_turn(ROOT, input)).await.unwrap();
    assert!(turn.success, "{turn:?}");
    assert_eq!(offered(&fixture, "all"), ["one", "spawn_agent", "two"]);
    assert_eq!(offered(&fixture, "few"), ["one"]);
    assert!(offered(&fixture, "none").is_empty());
    let begun = children(&fixture, ROOT).await;
    assert_eq!(begun.len(), 3);
    for child in begun {
        let asked = request_of(&fixture, child).await;
        assert_eq!(asked.environment, request.environment);
        assert_eq!(asked.disallowed_tools, request.disallowed_tools);
        assert_eq!(asked.owner, request.owner);
        assert!(asked.approve_all && asked.tools.is_empty());
    }
    for result in &results(&fixture, ROOT).await[3..] {
        let error = result["error"].as_str().unwrap();
        assert!(error.contains("one, spawn_agent, two"), "{error}");
    }
}

#[tokio::test]
async fn session_without_the_capability_cannot_start_subagents() {
    let setup = Setup::new([]).session(|session| session.session_id(ROOT));
    let fixture = built(setup, SubagentSettings::default()).await;
    fixture
        .model
        .then(ScriptedCall::tools(vec![spawn("1", "x")]));
    assert!(fixture.run("go").await.success);
    assert!(offered(&fixture, "go").is_empty());
    assert_eq!(fixture.runtime.list_sessions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn tool_cannot_claim_a_session_as_its_subagent() {
    use windlass_core::events::{EventContext, EventRequest, SubagentStartedData};
    let claims = tool("claims", |_, context| async move {
        let step = context.event_context.clone().unwrap_or_default();
        let data = SubagentStartedData {
            child_session_id: SessionId::from_seed(99),
            name: "mine".to_owned(),
            task: None,
        };
        let request = EventRequest::new(context.session_id, EventContext::clone(&step), data);
        let emitter = context.event_emitter.as_ref().unwrap();
        match emitter.emit(request).await {
            Ok(_) => ToolExecutionResult::success("claimed"),
            Err(error) => ToolExecutionResult::tool_error(error.to_string()),
        }
    });
    let fixture = process(Setup::new([]).tool(&claims), SubagentSettings::default()).await;
    fixture.model.when(
        "go",
        ScriptedCall::tools(vec![call("1", "claims", json!({}))]),
    );
    assert!(fixture.run("go").await.success);
    assert!(results(&fixture, ROOT).await[0]["error"].is_string());
    fixture.assert_sound().await;
}
