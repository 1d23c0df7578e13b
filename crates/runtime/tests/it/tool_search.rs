//! Deferred tools: a model is offered them when it has found them, in every process and in replay.

use serde_json::json;
use windlass_core::events::EventData;
use windlass_core::message::{InputMessage, Message};
use windlass_core::tools::{
    ClientSideTool, DeferrablePolicy, TOOL_SEARCH, ToolDefinition, ToolExecutionResult, ToolHints,
    ToolResult,
};
use windlass_core::turn_request::TurnRequest;
use windlass_policy::{ApprovalAction, ApprovalRule, ApprovalRules};
use windlass_runtime::{
    CompactionSettings, ForkAt, ForkOptions, Replay, RuntimeBackends, StopReason,
};

use crate::support::{Bundle, Fixture, ScriptedCall, Setup, call, soon, tool};

fn ship(n: usize, deferrable: DeferrablePolicy) -> ClientSideTool {
    ClientSideTool {
        name: format!("ship__haul_{n}"),
        display_name: Some(format!("ship::haul_{n}")),
        description: format!("Hauls rope {n}."),
        parameters: json!({"type": "object", "required": ["metres"], "properties": {"metres": {"type": "integer"}}}),
        deferrable,
        ..ClientSideTool::default()
    }
}

/// A hundred deferred tools of a client, and one that is always offered.
fn hundred() -> Bundle {
    let mut bundle = Bundle::new("ship");
    let tools = (0..100).map(|n| ship(n, DeferrablePolicy::Always));
    bundle.definitions = tools.map(ToolDefinition::ClientSide).collect();
    bundle.tool(&tool("plain", |_, _| async {
        ToolExecutionResult::success("ok")
    }))
}

fn search(id: &str, query: &str) -> ScriptedCall {
    ScriptedCall::tools(vec![call(
        id,
        TOOL_SEARCH,
        json!({"query": query, "limit": 1}),
    )])
}

fn haul(id: &str, n: usize) -> ScriptedCall {
    let name = format!("ship__haul_{n}");
    ScriptedCall::tools(vec![call(id, &name, json!({"metres": 3}))])
}

fn offered(fixture: &Fixture, request: usize) -> Vec<String> {
    let request = &fixture.model.requests()[request];
    let tools = request.config.tools.iter();
    tools.map(|tool| tool.name().to_owned()).collect()
}

/// The offered tools by the journal, call by call.
async fn recorded(fixture: &Fixture) -> Vec<Vec<String>> {
    let events = fixture.events().await;
    let tools = events.iter().filter_map(|event| match &event.data {
        EventData::LlmGeneration(data) => Some(data.tools.clone()),
        _ => None,
    });
    tools.collect()
}

async fn assert_replays(fixture: &Fixture) {
    let report = soon(Replay::of(&fixture.runtime, fixture.session).run()).await;
    let report = report.unwrap();
    assert_eq!(report.divergence, None);
    assert!(report.reconfigured.is_empty(), "{report:?}");
}

#[tokio::test]
async fn found_tools_are_offered_from_the_next_call_and_after_a_crash() {
    let backends = RuntimeBackends::in_memory();
    let setup = || Setup::new([]).bundle(&hundred());
    let first = setup().backends(backends.clone()).build().await;
    first.model.rewrite([search("s", "haul 42"), haul("c", 42)]);
    let waiting = first.run("haul it").await;
    assert_eq!(waiting.stop_reason, StopReason::WaitingForToolResults);
    assert_eq!(offered(&first, 0), ["plain", TOOL_SEARCH]);
    let search_tool = first.model.requests()[0].config.tools[1].clone();
    assert!(
        search_tool
            .description()
            .contains("100 of them: ship (100)"),
        "{search_tool:?}"
    );
    let sent = serde_json::to_string(&first.model.requests()[0].config.tools).unwrap();
    assert!(!sent.contains("metres"), "no schema is sent");
    assert_eq!(offered(&first, 1), ["plain", TOOL_SEARCH, "ship__haul_42"]);
    let schema = &first.model.requests()[1].config.tools[2];
    assert_eq!(schema.parameters()["required"], json!(["metres"]));
    first.runtime.shutdown(std::time::Duration::ZERO).await;

    let later = Fixture {
        session: first.session,
        ..setup().backends(backends).build().await
    };
    later.model.rewrite([ScriptedCall::answer("hauled")]);
    later.resume().await.expect("a turn is open");
    let results = vec![ToolResult::success("c", "3 metres")];
    let turn = later.runtime.submit_tool_results(later.session, results);
    let ended = soon(turn.await.unwrap().wait()).await.unwrap();
    assert_eq!(ended.response, "hauled");
    // The next turn has it too.
    later.model.rewrite([ScriptedCall::answer("bye")]);
    later.run("thanks").await;
    for request in 0..2 {
        assert_eq!(
            offered(&later, request),
            ["plain", TOOL_SEARCH, "ship__haul_42"]
        );
    }
    let counts: Vec<_> = recorded(&later).await.iter().map(Vec::len).collect();
    assert_eq!(counts, [2, 3, 3, 3], "the record says what was offered");
    later.assert_sound().await;
    assert_replays(&later).await;
}

#[tokio::test]
async fn fork_has_the_tools_found_before_it() {
    let fixture = Setup::new([]).bundle(&hundred()).build().await;
    let before = fixture.run("hello").await;
    fixture
        .model
        .rewrite([search("s", "haul 7"), ScriptedCall::answer("found")]);
    fixture.run("search").await;
    for (at, expected) in [(ForkAt::Turn(before.turn_id), 2), (ForkAt::Latest, 3)] {
        let options = ForkOptions::default();
        let forked = fixture.runtime.fork_session(fixture.session, at, options);
        let forked = Fixture {
            session: soon(forked).await.unwrap(),
            ..fixture.clone()
        };
        forked.model.rewrite([ScriptedCall::answer("here")]);
        forked.run("continue").await;
        let last = forked.model.calls() - 1;
        assert_eq!(offered(&forked, last).len(), expected);
        assert_replays(&forked).await;
    }
}

#[tokio::test]
async fn call_of_a_deferred_tool_runs_and_the_tool_is_offered_from_then_on() {
    let fixture = Setup::new([]).bundle(&hundred()).build().await;
    fixture.model.rewrite([
        ScriptedCall::tools(vec![call("a", "ship__haul_3", json!({"metres": "many"}))]),
        ScriptedCall::tools(vec![call("b", "ship::haul_3", json!({"metres": 3}))]),
        ScriptedCall::answer("hauled"),
    ]);
    let waiting = fixture.run("haul").await;
    assert_eq!(waiting.stop_reason, StopReason::WaitingForToolResults);
    let sent = fixture.model.sent(1).join("\n");
    assert!(sent.contains("invalid arguments for tool"), "{sent}");
    assert_eq!(
        offered(&fixture, 1),
        ["plain", TOOL_SEARCH, "ship__haul_3"],
        "now it knows the schema"
    );
    let results = vec![ToolResult::success("b", "3 metres")];
    let turn = fixture
        .runtime
        .submit_tool_results(fixture.session, results);
    soon(turn.await.unwrap().wait()).await.unwrap();
    fixture.assert_sound().await;
    assert_replays(&fixture).await;
}

#[tokio::test]
async fn a_tool_with_the_name_of_the_search_is_refused_where_tools_are_deferred() {
    let own = tool(TOOL_SEARCH, |_, _| async {
        ToolExecutionResult::success("mine")
    });
    let alone = Setup::new([search("s", "x"), ScriptedCall::answer("ok")])
        .tool(&own)
        .build()
        .await;
    alone.run("search").await;
    assert_eq!(own.runs(), 1, "nothing is deferred, so the name is free");
    let both = Setup::new([]).tool(&own).bundle(&hundred()).build().await;
    let error = both.try_run("search").await.unwrap_err().to_string();
    assert!(error.contains("give it another name"), "{error}");
}

#[tokio::test]
async fn refused_search_tool_disables_deferral() {
    let deny = ApprovalRule {
        tool: TOOL_SEARCH.to_owned(),
        arguments: std::collections::BTreeMap::new(),
        command: None,
        action: ApprovalAction::Deny,
    };
    let refused = Setup::new([]).bundle(&hundred()).settings(|settings| {
        settings.approvals = std::sync::Arc::new(ApprovalRules {
            rules: vec![deny],
            ..ApprovalRules::default()
        });
    });
    let refused = refused.build().await;
    refused.run("hello").await;
    assert_eq!(offered(&refused, 0).len(), 101);
    let fixture = Setup::new([]).bundle(&hundred()).build().await;
    let input = InputMessage::user("hello").with_turn_request(TurnRequest {
        disallowed_tools: vec!["tool_*".to_owned()],
        ..TurnRequest::default()
    });
    soon(fixture.runtime.run_turn(fixture.session, input))
        .await
        .unwrap();
    assert_eq!(offered(&fixture, 0).len(), 101);
}

#[tokio::test]
async fn tools_of_a_capability_that_has_many_are_deferred_and_run() {
    let many = |above: Option<usize>| {
        let mut bundle = Bundle::new("many");
        for n in 0..30 {
            let hints = ToolHints::default().with_readonly(true);
            let one = tool(&format!("many_{n}"), move |_, _| async move {
                ToolExecutionResult::success(format!("did {n}"))
            });
            bundle = bundle.tool(&one.hints(hints));
        }
        Setup::new([])
            .bundle(&bundle)
            .settings(move |settings| settings.defer_above = above)
    };
    for (above, expected) in [(None, 30), (Some(30), 30), (Some(24), 1)] {
        let fixture = many(above).build().await;
        fixture.run("hello").await;
        assert_eq!(offered(&fixture, 0).len(), expected, "{above:?}");
    }
    let fixture = many(Some(24)).build().await;
    let run = ScriptedCall::tools(vec![call("c", "many_5", json!({}))]);
    fixture
        .model
        .rewrite([search("s", "many_5"), run, ScriptedCall::answer("done")]);
    assert_eq!(fixture.run("go").await.response, "done");
    assert_eq!(offered(&fixture, 1), [TOOL_SEARCH, "many_5"]);
    assert!(fixture.model.sent(2).join("\n").contains("did 5"));
    assert_replays(&fixture).await;
}

#[tokio::test]
async fn hostile_searches_find_nothing() {
    let fixture = Setup::new([]).bundle(&hundred()).build().await;
    let huge = "(a+)+$ ".repeat(200_000);
    for query in ["", "^(.*)*$", huge.as_str()] {
        fixture
            .model
            .rewrite([search("s", query), ScriptedCall::answer("ok")]);
        assert!(fixture.run("search").await.success);
        let last = fixture.model.calls() - 1;
        assert_eq!(offered(&fixture, last), ["plain", TOOL_SEARCH]);
        let results: Vec<Message> = fixture.messages().await;
        let result = results.iter().rev().find_map(Message::tool_result_content);
        let result = result.and_then(|part| part.result.clone()).unwrap();
        assert_eq!(result["tools"], json!([]), "{result}");
    }
    fixture.assert_sound().await;
}

#[tokio::test]
async fn compaction_retains_found_tools() {
    let setup = Setup::new([]).bundle(&hundred()).settings(|settings| {
        settings.compaction = Some(CompactionSettings {
            window_tokens: Some(2_000),
            reserve_tokens: Some(200),
            keep_recent_tokens: None,
        });
    });
    let fixture = setup.build().await;
    fixture
        .model
        .rewrite([search("s", "haul 7"), ScriptedCall::answer("found")]);
    fixture.run("search").await;
    for _ in 0..4 {
        fixture.model.rewrite((0..3).map(|_| {
            let end = windlass_core::llm_driver_registry::LlmStreamEvent::Done(Box::default());
            ScriptedCall::new().text("ok").say(end)
        }));
        fixture.run(&"word ".repeat(600)).await;
    }
    let events = fixture.events().await;
    let mut events = events.iter();
    assert!(events.any(|event| event.event_type == "context.compacted"));
    let last = fixture.model.calls() - 1;
    assert!(!fixture.model.sent(last).join("\n").contains("tool_search"));
    assert_eq!(
        offered(&fixture, last),
        ["plain", TOOL_SEARCH, "ship__haul_7"]
    );
    assert_replays(&fixture).await;
}
