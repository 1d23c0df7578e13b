//! Tools of MCP servers in turns: discovered once, recorded when they change, and reused by a resumed turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use windlass_core::events::EventData;
use windlass_core::mcp::{
    DiscoveredTool, DiscoveredTools, McpConnector, McpFailure, McpScope, ScopedMcpServer,
    ScopedMcpServers,
};
use windlass_core::tools::{BuiltinTool, Tool, ToolDefinition, ToolExecutionResult, ToolPolicy};
use windlass_runtime::{Replay, RuntimeBackends, StopReason};

use crate::support::{Bundle, Fixture, ScriptedCall, Setup, call, soon, tool};

/// Servers whose tools a test sets.
#[derive(Default)]
struct Servers {
    offers: Mutex<Vec<&'static str>>,
    fails: Mutex<Option<&'static str>>,
    asked: AtomicUsize,
    seen: Mutex<Vec<String>>,
    is_closed: AtomicUsize,
    /// The operator requires approval for everything.
    is_strict: bool,
}

/// The servers' key, which must not appear anywhere.
const KEY: &str = "rope-and-tar-7391";

impl Servers {
    fn offering(names: &[&'static str]) -> Arc<Self> {
        let servers = Arc::new(Self::default());
        servers.offer(names);
        servers
    }

    fn offer(&self, names: &[&'static str]) {
        *self.offers.lock().unwrap() = names.to_vec();
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl McpConnector for Servers {
    async fn discover(
        &self,
        servers: &ScopedMcpServers,
        _scope: &McpScope,
    ) -> Arc<DiscoveredTools> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        *self.seen.lock().unwrap() = servers.keys().cloned().collect();
        let offers = self.offers.lock().unwrap().clone();
        let tools = offers.into_iter().map(|name| DiscoveredTool {
            server: "ship".to_owned(),
            tool: name.to_owned(),
            digest: name.to_owned(),
            definition: ToolDefinition::Builtin(BuiltinTool {
                name: format!("mcp__ship__{name}"),
                description: format!("Hauls with {KEY}."),
                parameters: json!({"type": "object", "properties": {"rope": {"const": KEY}}}),
                policy: match name {
                    "asks" => ToolPolicy::RequiresApproval,
                    _ => ToolPolicy::Auto,
                },
                ..BuiltinTool::default()
            }),
        });
        let failure = self.fails.lock().unwrap().map(|reason| McpFailure {
            server: "wreck".to_owned(),
            reason: reason.to_owned(),
        });
        let found = DiscoveredTools::new(tools.collect(), failure.into_iter().collect());
        Arc::new(found)
    }

    fn tool(
        &self,
        recorded: &DiscoveredTool,
        _servers: &ScopedMcpServers,
        _scope: &McpScope,
    ) -> Arc<dyn Tool> {
        let said = format!("{} of {}", recorded.tool, recorded.digest);
        let tool = tool(recorded.definition.name(), move |arguments, _| {
            let said = match arguments["shows"].as_str() {
                Some(shows) => ToolExecutionResult::tool_error(format!("a key: {shows}")),
                None => ToolExecutionResult::success(json!({ "said": said, "key": KEY })),
            };
            async move { said }
        });
        Arc::new(if self.is_strict {
            tool.policy(ToolPolicy::RequiresApproval)
        } else {
            tool
        })
    }

    fn secrets(&self, _servers: &ScopedMcpServers) -> Vec<(String, String)> {
        vec![("ship_token".to_owned(), KEY.to_owned())]
    }

    async fn close(&self) {
        self.is_closed.fetch_add(1, Ordering::SeqCst);
    }
}

fn with(servers: &Arc<Servers>) -> Setup {
    Setup::default().mcp(Arc::clone(servers) as _)
}

/// The recorded tool names, list by list.
async fn recorded(fixture: &Fixture) -> Vec<Vec<String>> {
    let events = fixture.events().await;
    let lists = events.iter().filter_map(|event| match &event.data {
        EventData::ToolsDiscovered(data) => {
            Some(data.tools.iter().map(|tool| tool.tool.clone()).collect())
        }
        _ => None,
    });
    lists.collect()
}

fn offered(fixture: &Fixture, call: usize) -> Vec<String> {
    let request = &fixture.model.requests()[call];
    let tools = request.config.tools.iter();
    tools.map(|tool| tool.name().to_owned()).collect()
}

async fn assert_replays(fixture: &Fixture, asked: usize, servers: &Servers) {
    let replay = Replay::of(&fixture.runtime, fixture.session);
    let report = soon(replay.run()).await.unwrap();
    assert_eq!(report.divergence, None);
    assert_eq!(report.events, fixture.events().await.len());
    assert!(report.reconfigured.is_empty(), "{report:?}");
    assert_eq!(servers.asked(), asked, "a replay asks no server");
}

#[tokio::test]
async fn server_tools_are_recorded_on_change_and_replayed() {
    let servers = Servers::offering(&["haul", "drop"]);
    let fixture = with(&servers).build().await;
    for _ in 0..3 {
        fixture.run("go").await;
    }
    assert_eq!(recorded(&fixture).await, [["haul", "drop"]]);
    servers.offer(&["haul"]);
    fixture.model.rewrite([
        ScriptedCall::tools(vec![call("c", "mcp__ship__haul", json!({}))]),
        ScriptedCall::answer("hauled"),
    ]);
    assert!(fixture.run("go").await.success);
    fixture.run("go").await;
    // An empty list is a change as well.
    servers.offer(&[]);
    fixture.run("go").await;
    fixture.run("go").await;
    let lists = recorded(&fixture).await;
    assert_eq!(lists, [vec!["haul", "drop"], vec!["haul"], vec![]]);
    assert_eq!(offered(&fixture, 0), ["mcp__ship__haul", "mcp__ship__drop"]);
    assert!(offered(&fixture, fixture.model.calls() - 1).is_empty());
    assert_eq!(servers.asked(), 7, "once for each turn");
    fixture.assert_sound().await;
    assert_replays(&fixture, 7, &servers).await;
}

#[tokio::test]
async fn resumed_turn_has_its_recorded_tools() {
    let backends = RuntimeBackends::in_memory();
    let before = Servers::offering(&["asks", "haul"]);
    let fixture = with(&before).backends(backends.clone()).build().await;
    fixture.run("first").await;
    fixture.model.rewrite([ScriptedCall::tools(vec![call(
        "c",
        "mcp__ship__asks",
        json!({}),
    )])]);
    let waiting = fixture.run("go").await;
    assert_eq!(waiting.stop_reason, StopReason::WaitingForApproval);
    fixture.runtime.shutdown(std::time::Duration::ZERO).await;
    assert_eq!(before.is_closed.load(Ordering::SeqCst), 1);

    let after = Servers::offering(&["other"]);
    let later = with(&after).backends(backends).build().await;
    let later = Fixture {
        session: fixture.session,
        ..later
    };
    later.model.rewrite([ScriptedCall::answer("done")]);
    later.resume().await.expect("a turn is open");
    let decided = later.runtime.decide_tool_call(later.session, "c", true);
    let turn = decided.await.unwrap();
    let ended = soon(turn.wait()).await.unwrap();
    assert_eq!(ended.response, "done");
    assert_eq!(after.asked(), 0, "what it began with is on record");
    assert_eq!(offered(&later, 0), ["mcp__ship__asks", "mcp__ship__haul"]);
    assert!(later.model.sent(0).join("\n").contains("asks of asks"));
    // The next turn gets the current tools.
    later.run("and now").await;
    assert_eq!(offered(&later, 1), ["mcp__ship__other"]);
    assert_eq!(recorded(&later).await.len(), 2);
    assert_replays(&later, 1, &after).await;
}

#[tokio::test]
async fn failing_server_is_recorded_once_and_the_turn_continues() {
    let servers = Servers::offering(&["haul"]);
    *servers.fails.lock().unwrap() = Some("no water");
    let fixture = with(&servers).build().await;
    assert!(fixture.run("go").await.success);
    *servers.fails.lock().unwrap() = Some("still no water");
    assert!(fixture.run("go").await.success);
    let events = fixture.events().await;
    let failures: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::ToolsDiscovered(data) => Some(data.failures.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0][0].reason, "no water");
}

#[tokio::test]
async fn servers_of_records_and_capabilities_are_queried_with_masked_keys() {
    let servers = Servers::offering(&["haul"]);
    let ours = |name: &str| ScopedMcpServers::from([(name.to_owned(), ScopedMcpServer::default())]);
    let mut bundle = Bundle::new("brings-a-server");
    bundle.mcp_servers = ours("of-capability");
    let setup = with(&servers).bundle(&bundle);
    let fixture = setup
        .session(move |session| session.session_mcp_servers(ours("of-session")))
        .build()
        .await;
    fixture
        .model
        .rewrite([ScriptedCall::answer("the token is rope-and-tar-7391")]);
    fixture.run("go").await;
    assert_eq!(
        *servers.seen.lock().unwrap(),
        ["of-capability", "of-session"]
    );
    let events = format!("{:?}", fixture.events().await);
    assert!(!events.contains("7391"));
    let seen = fixture.runtime.load_context(fixture.session).await.unwrap();
    assert_eq!(seen.runtime_agent.tools[0].name(), "mcp__ship__haul");
    assert_eq!(servers.asked(), 1, "reading queries no server");
}

#[tokio::test]
async fn keys_in_server_descriptions_are_not_recorded() {
    let servers = Servers::offering(&["haul", KEY]);
    *servers.fails.lock().unwrap() = Some("rope-and-tar-7391 is refused");
    let fixture = with(&servers).build().await;
    // The key as base64.
    let encoded = "cm9wZS1hbmQtdGFyLTczOTE=";
    fixture.model.rewrite([
        ScriptedCall::tools(vec![
            call("a", "mcp__ship__haul", json!({})),
            call("b", "mcp__ship__haul", json!({ "shows": encoded })),
        ]),
        ScriptedCall::answer("hauled"),
    ]);
    assert!(fixture.run("go").await.success);
    let events = fixture.events().await;
    let found = events.iter().find_map(|event| match &event.data {
        EventData::ToolsDiscovered(data) => Some(data),
        _ => None,
    });
    let found = found.unwrap();
    let reasons: Vec<_> = found.failures.iter().map(|it| it.reason.as_str()).collect();
    let left_out = "a tool is left out: its name shows a key";
    assert_eq!(reasons, ["[secret:ship_token] is refused", left_out]);
    assert_eq!(found.tools.len(), 1);
    let haul = &found.tools[0].definition;
    assert_eq!(haul.description(), "Hauls with [secret:ship_token].");
    let sent = fixture.model.sent(1).join("\n");
    assert!(sent.contains("a key: [secret:ship_token]"), "{sent}");
    let seen = format!("{events:?}{sent}");
    assert!(!seen.contains("7391"), "{seen}");
    assert_replays(&fixture, 1, &servers).await;
}

#[tokio::test]
async fn resumed_turn_uses_the_current_approval_policy() {
    let backends = RuntimeBackends::in_memory();
    let before = Servers::offering(&["asks", "haul"]);
    let fixture = with(&before).backends(backends.clone()).build().await;
    fixture.model.rewrite([ScriptedCall::tools(vec![call(
        "c",
        "mcp__ship__asks",
        json!({}),
    )])]);
    let waiting = fixture.run("go").await;
    assert_eq!(waiting.stop_reason, StopReason::WaitingForApproval);
    fixture.runtime.shutdown(std::time::Duration::ZERO).await;

    let after = Arc::new(Servers {
        is_strict: true,
        ..Servers::default()
    });
    let later = with(&after).backends(backends).build().await;
    let later = Fixture {
        session: fixture.session,
        ..later
    };
    later.model.rewrite([ScriptedCall::tools(vec![call(
        "d",
        "mcp__ship__haul",
        json!({}),
    )])]);
    later.resume().await.expect("a turn is open");
    let decided = later.runtime.decide_tool_call(later.session, "c", true);
    let turn = decided.await.unwrap();
    let ended = soon(turn.wait()).await.unwrap();
    assert_eq!(ended.stop_reason, StopReason::WaitingForApproval);
}

#[tokio::test]
async fn changed_server_tools_are_offered_in_the_next_turn() {
    let servers = Servers::offering(&[]);
    let fixture = with(&servers).build().await;
    for (offers, expected) in [
        (&[][..], vec![]),
        (&["pull"], vec!["mcp__ship__pull"]),
        (
            &["pull", "push"],
            vec!["mcp__ship__pull", "mcp__ship__push"],
        ),
        (&[], vec![]),
    ] {
        servers.offer(offers);
        fixture.run("go").await;
        let requests = fixture.model.requests();
        let tools = requests.last().unwrap().config.tools.iter();
        let names: Vec<_> = tools.map(ToolDefinition::name).collect();
        assert_eq!(names, expected);
    }
}
