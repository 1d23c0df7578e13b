//! Stable tools are defined once and reused by later turns; a change of their inputs takes effect at the next turn.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::capabilities::Capability;
use windlass_core::mcp::{
    DiscoveredTool, DiscoveredTools, McpConnector, McpScope, ScopedMcpServers,
};
use windlass_core::message::InputMessage;
use windlass_core::tools::{BuiltinTool, Tool, ToolDefinition, ToolExecutionResult};
use windlass_core::turn_request::TurnRequest;

use windlass_runtime::{ForkAt, ForkOptions};

use crate::support::{Fixture, ScriptedCall, Setup, call, soon, tool};

/// A capability with a tool that is named after its inputs.
#[derive(Clone, Default)]
struct Steady {
    revision: Arc<AtomicU64>,
    asked: Arc<AtomicUsize>,
    /// It does not declare the inputs of its tools.
    is_silent: bool,
}

impl Steady {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Capability for Steady {
    fn id(&self) -> &str {
        "steady"
    }
    fn name(&self) -> &str {
        "Steady"
    }
    fn description(&self) -> &str {
        "a capability of the tests"
    }
    fn tools_revision(&self) -> Option<u64> {
        (!self.is_silent).then(|| self.revision.load(Ordering::SeqCst))
    }
    fn tools_with_config(&self, config: &Value) -> Vec<Box<dyn Tool>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let revision = self.revision.load(Ordering::SeqCst);
        let word = config["word"].as_str().unwrap_or("tool").to_owned();
        let named = move |word: &str| -> Box<dyn Tool> {
            let name = format!("{word}_{revision}");
            let said = name.clone();
            Box::new(tool(&name, move |_, _| {
                let said = ToolExecutionResult::success(said.as_str());
                async move { said }
            }))
        };
        vec![named(&word), named("other")]
    }
}

async fn process(capability: &Steady, calls: Vec<ScriptedCall>) -> Fixture {
    let setup = Setup::new(calls);
    let (model, clock) = (setup.model.clone(), setup.clock.clone());
    let setup = setup.session(|session| session.with_capability("steady"));
    let runtime = setup.builder().capability(capability.clone()).build().await;
    let runtime = runtime.unwrap();
    Fixture {
        session: runtime.default_session_id().unwrap(),
        runtime,
        model,
        clock,
    }
}

/// The tools that were offered in the newest model call.
fn offered(fixture: &Fixture) -> Vec<String> {
    let requests = fixture.model.requests();
    let tools = requests.last().unwrap().config.tools.iter();
    tools.map(|tool| tool.name().to_owned()).collect()
}

async fn ask(fixture: &Fixture, request: TurnRequest) {
    let input = InputMessage::user("go").with_turn_request(request);
    let turn = soon(fixture.runtime.run_turn(fixture.session, input)).await;
    assert!(turn.unwrap().success);
}

#[tokio::test]
async fn stable_tools_are_built_once_and_others_every_turn() {
    for (is_silent, asked) in [(false, 1), (true, 3)] {
        let capability = Steady {
            is_silent,
            ..Steady::default()
        };
        let calls = (0..3).flat_map(|_| {
            let calls = vec![call("c", "tool_0", json!({}))];
            [
                ScriptedCall::tools(calls),
                ScriptedCall::new().text("done").done(),
            ]
        });
        let fixture = process(&capability, calls.collect()).await;
        for _ in 0..3 {
            assert!(fixture.run("go").await.success);
        }
        assert_eq!(capability.asked(), asked, "{is_silent}");
        let messages = fixture.messages().await;
        let results = messages
            .iter()
            .filter_map(|message| message.tool_result_content()?.result.clone());
        assert_eq!(results.collect::<Vec<_>>(), ["tool_0", "tool_0", "tool_0"]);
    }
}

#[tokio::test]
async fn changed_capability_offers_its_new_tools_in_the_next_turn() {
    let capability = Steady::default();
    let calls = vec![
        ScriptedCall::new().text("done").done(),
        ScriptedCall::tools(vec![call("c", "tool_1", json!({}))]),
    ];
    let fixture = process(&capability, calls).await;
    fixture.run("go").await;
    assert_eq!(offered(&fixture), ["tool_0", "other_0"]);
    capability.revision.store(1, Ordering::SeqCst);
    fixture.run("go").await;
    assert_eq!(offered(&fixture), ["tool_1", "other_1"]);
    let messages = fixture.messages().await;
    let mut results = messages
        .iter()
        .filter_map(|message| message.tool_result_content()?.result.clone());
    assert_eq!(results.next().unwrap(), "tool_1");
    // The earlier tools are still cached.
    capability.revision.store(0, Ordering::SeqCst);
    fixture.run("go").await;
    assert_eq!(offered(&fixture), ["tool_0", "other_0"]);
    assert_eq!(capability.asked(), 2);
}

#[tokio::test]
async fn requested_tools_apply_to_one_turn() {
    let capability = Steady::default();
    let fixture = process(&capability, Vec::new()).await;
    let without = TurnRequest {
        disallowed_tools: vec!["other*".to_owned()],
        ..TurnRequest::default()
    };
    let only = TurnRequest {
        allowed_tools: Some(vec!["other*".to_owned()]),
        ..TurnRequest::default()
    };
    let client = ToolDefinition::client_side("hail", "Hails", json!({}));
    let ToolDefinition::ClientSide(client) = client else {
        panic!("it is another kind of tool")
    };
    let more = TurnRequest {
        tools: vec![client],
        ..TurnRequest::default()
    };
    for (request, expected) in [
        (TurnRequest::default(), vec!["tool_0", "other_0"]),
        (without, vec!["tool_0"]),
        (only, vec!["other_0"]),
        (more, vec!["tool_0", "other_0", "hail"]),
        (TurnRequest::default(), vec!["tool_0", "other_0"]),
    ] {
        ask(&fixture, request.clone()).await;
        assert_eq!(offered(&fixture), expected, "{request:?}");
    }
    assert_eq!(capability.asked(), 4);
}

#[tokio::test]
async fn cached_tools_depend_on_configuration_and_session_tools() {
    use windlass_core::capability_types::AgentCapabilityConfig;
    use windlass_runtime::SessionBuilder;

    let capability = Steady::default();
    let fixture = process(&capability, Vec::new()).await;
    let first = fixture.runtime.session(fixture.session).await.unwrap();
    for (word, expected) in [("ahoy", "ahoy_0"), ("avast", "avast_0"), ("ahoy", "ahoy_0")] {
        let config = AgentCapabilityConfig::with_config("steady", json!({ "word": word }));
        let mut session = SessionBuilder::new(first.harness_id).build();
        session.capabilities = vec![config];
        session.tools = vec![ToolDefinition::client_side(word, "", json!({}))];
        let id = session.id;
        fixture.runtime.add_session(session).await.unwrap();
        soon(fixture.runtime.run_text_turn(id, "go")).await.unwrap();
        assert_eq!(offered(&fixture), [expected, "other_0", word]);
    }
    assert_eq!(capability.asked(), 2);
}

/// A server whose tool list stays the same `Arc` until the test changes it.
#[derive(Default)]
struct Ship {
    found: Mutex<Arc<DiscoveredTools>>,
    made: AtomicUsize,
    /// The key that it receives, if any.
    key: Option<&'static str>,
}

impl Ship {
    fn offer(&self, tool: &str) {
        let tool = DiscoveredTool {
            server: "ship".to_owned(),
            tool: tool.to_owned(),
            digest: tool.to_owned(),
            definition: ToolDefinition::Builtin(BuiltinTool {
                name: tool.to_owned(),
                ..BuiltinTool::default()
            }),
        };
        *self.found.lock().unwrap() = Arc::new(DiscoveredTools::new(vec![tool], Vec::new()));
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl McpConnector for Ship {
    async fn discover(&self, _: &ScopedMcpServers, _: &McpScope) -> Arc<DiscoveredTools> {
        Arc::clone(&self.found.lock().unwrap())
    }
    fn tool(
        &self,
        recorded: &DiscoveredTool,
        _: &ScopedMcpServers,
        scope: &McpScope,
    ) -> Arc<dyn Tool> {
        self.made.fetch_add(1, Ordering::SeqCst);
        let said = format!("{} for {}", recorded.tool, scope.session_id);
        Arc::new(tool(&recorded.tool, move |_, _| {
            let said = ToolExecutionResult::success(said.as_str());
            async move { said }
        }))
    }
    fn secrets(&self, _: &ScopedMcpServers) -> Vec<(String, String)> {
        let key = self
            .key
            .map(|key| ("ship_token".to_owned(), key.to_owned()));
        key.into_iter().collect()
    }
}

fn hauls(times: usize, name: &str) -> Vec<ScriptedCall> {
    let each = |_| {
        let calls = vec![call("c", name, json!({}))];
        [
            ScriptedCall::tools(calls),
            ScriptedCall::new().text("done").done(),
        ]
    };
    (0..times).flat_map(each).collect()
}

/// The results of its calls.
async fn results(fixture: &Fixture) -> Vec<Value> {
    let messages = fixture.messages().await;
    let results = messages
        .iter()
        .filter_map(|message| message.tool_result_content()?.result.clone());
    results.collect()
}

#[tokio::test]
async fn server_tools_are_cached_unless_the_list_changes_or_has_keys() {
    for (key, made) in [(None, [1, 2]), (Some("rope-and-tar-7391"), [3, 4])] {
        let ship = Arc::new(Ship {
            key,
            ..Ship::default()
        });
        ship.offer("haul");
        let setup = Setup::new(hauls(3, "haul")).mcp(Arc::clone(&ship) as _);
        let fixture = setup.build().await;
        for _ in 0..3 {
            assert!(fixture.run("go").await.success);
        }
        assert_eq!(ship.made(), made[0], "{key:?}");
        let said = json!(format!("haul for {}", fixture.session));
        assert_eq!(results(&fixture).await, vec![said; 3]);
        ship.offer("drop");
        fixture.model.rewrite(hauls(1, "drop"));
        assert!(fixture.run("go").await.success);
        assert_eq!(ship.made(), made[1], "{key:?}");
        assert_eq!(offered(&fixture), ["drop"]);
    }
}

#[tokio::test]
async fn server_tools_are_cached_per_session() {
    let ship = Arc::new(Ship::default());
    ship.offer("haul");
    let setup = Setup::new(hauls(2, "haul")).mcp(Arc::clone(&ship) as _);
    let first = setup.build().await;
    assert!(first.run("go").await.success);
    let (at, options) = (ForkAt::Latest, ForkOptions::new());
    let other = first.runtime.fork_session(first.session, at, options);
    let other = Fixture {
        session: soon(other).await.unwrap(),
        ..first.clone()
    };
    assert!(other.run("go").await.success);
    assert_eq!(ship.made(), 2);
    let said = [&first, &other].map(|of| json!(format!("haul for {}", of.session)));
    assert_eq!(results(&other).await, said);
}
