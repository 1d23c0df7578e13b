//! Subagents that are external agents.

use serde_json::json;
use windlass_core::backend::BackendSpec;
use windlass_core::turn_request::TurnRequest;
use windlass_runtime::{BackendRequest, SubagentSettings};

use super::fake::{AgentScript, Fake, FakeBackend};
use super::*;
use crate::support::{ScriptedCall, call};

async fn process(fake: &Arc<Fake>, backends: &[&str]) -> Fixture {
    built(setup(), fake, backends).await
}

fn setup() -> Setup {
    Setup::new([]).session(|session| {
        session
            .session_id(SessionId::from_seed(7))
            .with_capability("subagents")
    })
}

async fn built(setup: Setup, fake: &Arc<Fake>, backends: &[&str]) -> Fixture {
    let (model, clock) = (setup.model.clone(), setup.clock.clone());
    let host = |_: BackendRequest| Ok(BackendSpec::new("test", "/"));
    let settings = SubagentSettings {
        backends: backends.iter().map(|name| (*name).to_owned()).collect(),
        ..SubagentSettings::default()
    };
    let builder = setup
        .builder()
        .backend(Arc::new(FakeBackend(Arc::clone(fake))), Arc::new(host))
        .subagents(settings);
    Fixture {
        runtime: builder.build().await.unwrap(),
        session: SessionId::from_seed(7),
        model,
        clock,
    }
}

fn spawn() -> ScriptedCall {
    let arguments = json!({"prompt": "sail", "backend": "fake"});
    ScriptedCall::tools(vec![call("1", "spawn_agent", arguments)])
}

async fn first_result(fixture: &Fixture) -> serde_json::Value {
    let messages = fixture.messages().await;
    let mut results = messages
        .iter()
        .filter_map(|message| message.tool_result_content());
    let result = results.next().unwrap().result.clone();
    result.unwrap_or_default()
}

#[tokio::test]
async fn subagent_runs_on_an_external_agent() {
    let fake = Fake::new([AgentScript::says("I sail")]);
    let fixture = process(&fake, &["fake"]).await;
    fixture.model.when("go", spawn());
    assert!(fixture.run("go").await.success);
    let result = first_result(&fixture).await;
    assert_eq!(result["answer"], "I sail", "{result}");
    assert_eq!(fake.prompts(), ["sail"]);
    let child: SessionId = result["session_id"].as_str().unwrap().parse().unwrap();
    let of_child = Fixture {
        session: child,
        ..fixture.clone()
    };
    assert_eq!(count(&of_child, "backend.completed").await, 1);
}

#[tokio::test]
async fn restricted_turn_cannot_start_an_external_subagent() {
    use windlass_core::turn_environment::TurnEnvironment;
    let narrow = [
        TurnRequest {
            disallowed_tools: vec!["shell".to_owned()],
            ..TurnRequest::default()
        },
        TurnRequest {
            allowed_tools: Some(vec!["spawn_agent".to_owned()]),
            ..TurnRequest::default()
        },
        TurnRequest {
            environment: Some(TurnEnvironment::new("local", "/").read_only()),
            ..TurnRequest::default()
        },
        TurnRequest {
            environment: Some(TurnEnvironment::new("local", "/").without_shell()),
            ..TurnRequest::default()
        },
    ];
    for (request, backends) in narrow
        .into_iter()
        .map(|request| (request, ["fake"].as_slice()))
        .chain([(TurnRequest::default(), [].as_slice())])
    {
        let fake = Fake::new([]);
        let fixture = process(&fake, backends).await;
        fixture.model.when("go", spawn());
        let input = InputMessage::user("go").with_turn_request(request);
        let turn = soon(fixture.runtime.run_turn(fixture.session, input)).await;
        assert!(turn.unwrap().success);
        assert!(fake.opened().is_empty());
        let result = first_result(&fixture).await;
        assert!(result["error"].is_string(), "{result}");
        assert_eq!(fixture.runtime.list_sessions().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn deny_rules_prevent_external_subagents() {
    use windlass_policy::{ApprovalAction, ApprovalRule, ApprovalRules};
    let rule = ApprovalRule {
        tool: "shell".to_owned(),
        arguments: std::collections::BTreeMap::new(),
        command: None,
        action: ApprovalAction::Deny,
    };
    let fake = Fake::new([]);
    let rules = ApprovalRules {
        default: None,
        rules: vec![rule],
    };
    let setup = setup().settings(|settings| settings.approvals = Arc::new(rules));
    let fixture = built(setup, &fake, &["fake"]).await;
    fixture.model.when("go", spawn());
    assert!(fixture.run("go").await.success);
    assert!(fake.opened().is_empty());
    let result = first_result(&fixture).await;
    assert!(result["error"].is_string(), "{result}");
}

#[tokio::test]
async fn external_agent_turn_counts_usage_of_its_threads_subagents() {
    use windlass_core::budget::{Budget, Budgets};
    let limited = |tokens| TurnRequest {
        backend: Some("fake".to_owned()),
        budgets: Some(Budgets {
            thread: Budget {
                tokens: Some(tokens),
                ..Budget::default()
            },
            ..Budgets::default()
        }),
        ..TurnRequest::default()
    };
    let scripts = ["I sail", "I continue"].map(AgentScript::says);
    let fake = Fake::new(scripts);
    let setup = setup().settings(|settings| settings.reserve.tokens = 10);
    let fixture = built(setup, &fake, &["fake"]).await;
    fixture.model.when("go", spawn());
    assert!(fixture.run("go").await.success);
    // The two calls of the thread itself used 30, and its agent used more than nothing.
    for (tokens, is_allowed) in [(30 + 1, false), (100, true)] {
        let input = InputMessage::user("on").with_turn_request(limited(tokens));
        let turn = soon(fixture.runtime.run_turn(fixture.session, input)).await;
        let ran = turn.as_ref().is_ok_and(|turn| turn.success);
        assert_eq!(ran, is_allowed, "{turn:?}");
    }
    assert_eq!(fake.prompts().len(), 2);
}
