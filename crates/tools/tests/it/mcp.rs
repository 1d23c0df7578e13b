//! Tools of MCP servers that are programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::egress::DisabledEgressService;
use windlass_core::events::{EventContext, EventData};
use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
use windlass_core::mcp::{
    DiscoveredTools, McpApproval, McpConnector, McpScope, McpTransportType, ScopedMcpServer,
    ScopedMcpServers,
};
use windlass_core::tools::{ToolExecutionResult, ToolPolicy};
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_runtime::{Conversation, Need};
use windlass_tools::mcp::{McpClient, McpSettings};
use windlass_tools::{
    CheckpointLimits, Checkpoints, CutOffCalls, OutputLimits, Outputs, Policy, TurnToUndo,
    end_leftovers,
};

use crate::mcp_server::{ACT, KEY, PICTURE};
use crate::support::{TestWorkspace, soon, ways};

/// A test server.
pub(crate) fn server(mode: &str) -> ScopedMcpServer {
    let me = std::env::current_exe().unwrap();
    let words = ["--exact", "mcp_server::act", "--nocapture"];
    ScopedMcpServer {
        transport_type: McpTransportType::Stdio,
        command: Some(me.to_str().unwrap().to_owned()),
        args: words.map(str::to_owned).to_vec(),
        env: BTreeMap::from([(ACT.to_owned(), mode.to_owned())]),
        ..ScopedMcpServer::default()
    }
}

/// Skips a test if its server, this test binary, is in a directory that sandboxes replace.
macro_rules! skip_if_server_is_hidden {
    () => {
        let me = std::env::current_exe().unwrap();
        if me.starts_with("/tmp") {
            let why = "the checkout is below /tmp, of which a sandbox has its own";
            return windlass_testkit::skipped("servers of MCP that are programs", why);
        }
    };
}

pub(crate) fn scope() -> McpScope {
    McpScope {
        session_id: SessionId::new(),
        owner: None,
        environment: None,
        network_access: None,
    }
}

/// Settings that cache lists only briefly, so that tests need not wait.
pub(crate) fn settings() -> McpSettings {
    McpSettings {
        back_off: Duration::from_millis(1),
        ..McpSettings::default()
    }
}

/// A client, its discovered tools, and calls of them.
pub(crate) struct McpSession {
    pub(crate) client: McpClient,
    pub(crate) scope: McpScope,
    pub(crate) found: Arc<DiscoveredTools>,
    workspace: TestWorkspace,
}

impl McpSession {
    async fn with(
        workspace: TestWorkspace,
        servers: ScopedMcpServers,
        settings: McpSettings,
    ) -> Self {
        let egress = Arc::new(DisabledEgressService);
        let (environments, shell) = (workspace.environments.clone(), workspace.settings.clone());
        let client = McpClient::new(environments, shell, egress, settings).with_servers(servers);
        Self::of(workspace, client, scope()).await
    }

    pub(crate) async fn of(workspace: TestWorkspace, client: McpClient, scope: McpScope) -> Self {
        let mut ship = Self::without_requests(workspace, client, scope);
        ship.discover().await;
        ship
    }

    /// A client that has sent no request yet.
    pub(crate) fn without_requests(
        workspace: TestWorkspace,
        client: McpClient,
        scope: McpScope,
    ) -> Self {
        Self {
            client,
            scope,
            found: Arc::default(),
            workspace,
        }
    }

    async fn one(mode: &str) -> Self {
        let servers = ScopedMcpServers::from([("ship".to_owned(), server(mode))]);
        Self::with(TestWorkspace::new(), servers, settings()).await
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        let tools = self.found.tools.iter();
        tools.map(|tool| tool.definition.name()).collect()
    }

    pub(crate) async fn discover(&mut self) {
        self.found = self
            .client
            .discover(&ScopedMcpServers::new(), &self.scope)
            .await;
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolExecutionResult {
        let context = ToolContext::new(self.scope.session_id);
        self.call_in(&context, tool, arguments).await
    }

    async fn call_in(
        &self,
        context: &ToolContext,
        tool: &str,
        arguments: Value,
    ) -> ToolExecutionResult {
        let mut tools = self.found.tools.iter();
        let recorded = tools.find(|recorded| recorded.tool == tool).unwrap();
        let tool = self
            .client
            .tool(recorded, &ScopedMcpServers::new(), &self.scope);
        tool.execute_with_context(arguments, context).await
    }

    pub(crate) async fn call_text(&self, tool: &str) -> Result<String, String> {
        match self.call(tool, json!({"text": "ahoy"})).await {
            ToolExecutionResult::Success(value) => Ok(value.as_str().unwrap().to_owned()),
            ToolExecutionResult::ToolError(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_listed_and_called_in_every_sandbox() {
    skip_if_server_is_hidden!();
    for way in ways() {
        let mut workspace = TestWorkspace::confined(way, Policy::default());
        let owner = format!("mcp-test-{}-{way:?}", std::process::id());
        workspace.settings.owner = Some(owner.clone());
        let servers = ScopedMcpServers::from([("ship".to_owned(), server(""))]);
        let ship = McpSession::with(workspace, servers, settings()).await;
        assert!(
            ship.found.failures.is_empty(),
            "{way:?}: {:?}",
            ship.found.failures
        );
        assert!(
            ship.names().contains(&"mcp__ship__echo"),
            "{:?}",
            ship.names()
        );
        assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
        // It has the server's variables and those of commands, and no others.
        let variables = ship.call_text("variables").await.unwrap();
        assert!(
            variables.contains(ACT) && !variables.contains("CARGO"),
            "{variables}"
        );
        ship.client.close().await;
        assert_eq!(end_leftovers(&owner), 0, "{way:?}");
        let error = ship.call_text("echo").await.unwrap_err();
        assert!(error.contains("shutting down"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_changes_are_undone_unless_read_only_is_trusted() {
    skip_if_server_is_hidden!();
    for trust_read_only in [false, true] {
        let (workspace, data) = (TestWorkspace::new(), tempfile::tempdir().unwrap());
        let store = Checkpoints::open(data.path().join("store"), CheckpointLimits::default());
        let store = store.unwrap();
        workspace.environments.enable_checkpoints(store.clone());
        let (environments, made) = (
            workspace.environments.clone(),
            workspace.root().join("made.txt"),
        );
        let server = ScopedMcpServer {
            trust_read_only,
            ..server("")
        };
        let servers = ScopedMcpServers::from([("ship".to_owned(), server)]);
        let ship = McpSession::with(workspace, servers, settings()).await;
        let turn_id = TurnId::new();
        let mut context = ToolContext::new(ship.scope.session_id);
        context.event_context = Some(EventContext {
            turn_id: Some(turn_id),
            ..EventContext::default()
        });
        let called = ship.call_in(&context, "make", json!({})).await;
        assert!(
            matches!(&called, ToolExecutionResult::Success(call_text) if call_text == "made"),
            "{called:?}"
        );
        assert!(made.exists());
        let turn = TurnToUndo {
            turn_id,
            began: i64::MAX,
        };
        store
            .undo(&environments, &[turn], CutOffCalls::Refuse)
            .unwrap();
        assert_eq!(made.exists(), trust_read_only);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_client_leaves_no_process() {
    skip_if_server_is_hidden!();
    let mut marked = server("");
    let mark = format!("mark-{}", std::process::id());
    marked.args.push(mark.clone());
    let servers = ScopedMcpServers::from([("ship".to_owned(), marked)]);
    let ship = McpSession::with(TestWorkspace::new(), servers, settings()).await;
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    let alive = || {
        let marked = |line: &[u8]| String::from_utf8_lossy(line).contains(&mark);
        !windlass_testkit::pids_of(marked).is_empty()
    };
    assert!(alive());
    drop(ship);
    soon("the server is gone", || !alive());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_does_not_wait_for_a_starting_server() {
    skip_if_server_is_hidden!();
    let workspace = TestWorkspace::new();
    let mut mute = server("mute");
    let mark = format!("mute-{}", std::process::id());
    mute.args.push(mark.clone());
    // Longer than any test.
    mute.start_timeout_ms = Some(24 * 60 * 60 * 1000);
    let client = McpClient::new(
        workspace.environments.clone(),
        workspace.settings.clone(),
        Arc::new(DisabledEgressService),
        settings(),
    );
    let servers = ScopedMcpServers::from([("ship".to_owned(), mute)]);
    let client = Arc::new(client.with_servers(servers));
    let asking = {
        let client = Arc::clone(&client);
        tokio::spawn(async move { client.discover(&ScopedMcpServers::new(), &scope()).await })
    };
    let alive = || {
        let marked = |line: &[u8]| String::from_utf8_lossy(line).contains(&mark);
        !windlass_testkit::pids_of(marked).is_empty()
    };
    soon("the server starts", alive);
    client.close().await;
    let found = asking.await.unwrap();
    assert!(
        found.failures[0].reason.contains("shutting down"),
        "{found:?}"
    );
    soon("the server is gone", || !alive());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_need_approval_unless_the_operator_disables_it() {
    let ship = McpSession::one("").await;
    let asks = |ship: &McpSession| {
        ship.found
            .tools
            .iter()
            .all(|tool| tool.definition.policy() == ToolPolicy::RequiresApproval)
    };
    assert!(asks(&ship));
    let trusted = ScopedMcpServer {
        approval: McpApproval::Never,
        ..server("")
    };
    let servers = ScopedMcpServers::from([("ship".to_owned(), trusted)]);
    let ship = McpSession::with(TestWorkspace::new(), servers, settings()).await;
    assert!(
        ship.found
            .tools
            .iter()
            .all(|tool| tool.definition.policy() == ToolPolicy::Auto)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_extends_a_call_and_silence_ends_it() {
    skip_if_server_is_hidden!();
    let patient = ScopedMcpServer {
        timeout_ms: Some(2_000),
        tool_timeouts_ms: BTreeMap::from([("hang".to_owned(), 200)]),
        ..server("")
    };
    let servers = ScopedMcpServers::from([("ship".to_owned(), patient)]);
    let ship = McpSession::with(TestWorkspace::new(), servers, settings()).await;
    // It takes three seconds, longer than the permitted silence.
    assert_eq!(ship.call_text("slow").await.as_deref(), Ok("hauled"));
    let error = ship.call_text("hang").await.unwrap_err();
    assert!(
        error.contains("`ship`") && error.contains("200 ms"),
        "{error}"
    );
    // The connection is still open.
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_server_is_restarted_and_the_call_is_not_repeated() {
    skip_if_server_is_hidden!();
    let ship = McpSession::one("").await;
    let error = ship.call_text("crash").await.unwrap_err();
    assert!(
        error.contains("its program ended") && error.contains("the mast is broken"),
        "{error}"
    );
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_server_is_reported_and_the_others_work() {
    skip_if_server_is_hidden!();
    let mute = ScopedMcpServer {
        start_timeout_ms: Some(300),
        ..server("mute")
    };
    let none = ScopedMcpServer {
        command: Some("/no/such/program".to_owned()),
        ..server("")
    };
    let servers = ScopedMcpServers::from([
        ("dead".to_owned(), server("dead")),
        ("mute".to_owned(), mute),
        ("none".to_owned(), none),
        ("ship".to_owned(), server("")),
    ]);
    let slow = McpSettings {
        back_off: Duration::from_secs(30),
        ..McpSettings::default()
    };
    let mut ship = McpSession::with(TestWorkspace::new(), servers, slow).await;
    let why = |ship: &McpSession, name: &str| {
        let mut failures = ship.found.failures.iter();
        failures
            .find(|failure| failure.server == name)
            .unwrap()
            .reason
            .clone()
    };
    assert_eq!(ship.found.failures.len(), 3, "{:?}", ship.found.failures);
    assert!(
        why(&ship, "dead").contains("no water under the keel"),
        "{}",
        why(&ship, "dead")
    );
    assert!(why(&ship, "mute").contains("300 ms"));
    assert!(why(&ship, "none").contains("/no/such/program"));
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    // It is not retried at once.
    let digest = ship.found.digest.clone();
    ship.discover().await;
    assert!(
        why(&ship, "dead").contains("is retried in"),
        "{}",
        why(&ship, "dead")
    );
    assert_eq!(
        ship.found.digest, digest,
        "the digest does not depend on the error text"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_tool_list_is_used_by_the_next_turn() {
    skip_if_server_is_hidden!();
    let mut ship = McpSession::one("").await;
    let before = ship.found.digest.clone();
    ship.discover().await;
    assert_eq!(ship.found.digest, before);
    assert_eq!(ship.call_text("change").await.as_deref(), Ok("changed"));
    // Tools recorded by the running turn can still be called.
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    ship.discover().await;
    assert!(
        ship.names().contains(&"mcp__ship__new"),
        "{:?}",
        ship.names()
    );
    assert_ne!(ship.found.digest, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unchanged_tool_list_gives_the_cached_value() {
    skip_if_server_is_hidden!();
    let servers = ScopedMcpServers::from([("ship".to_owned(), server(""))]);
    // The server is queried each time and returns the same list.
    let wary = McpSettings {
        list_cache_time: Duration::ZERO,
        ..settings()
    };
    let mut ship = McpSession::with(TestWorkspace::new(), servers, wary).await;
    let before = Arc::clone(&ship.found);
    ship.discover().await;
    assert!(Arc::ptr_eq(&before, &ship.found));
    // Another configuration gives other tools for the same list.
    let mut trusted = server("");
    trusted.approval = McpApproval::Never;
    let trusted = ScopedMcpServers::from([("ship".to_owned(), trusted)]);
    let other = ship.client.discover(&trusted, &ship.scope).await;
    assert_ne!(other.digest, before.digest);
    ship.discover().await;
    assert!(Arc::ptr_eq(&before, &ship.found));
    assert_eq!(ship.call_text("change").await.as_deref(), Ok("changed"));
    ship.discover().await;
    assert_ne!(ship.found.digest, before.digest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_tool_is_not_called() {
    skip_if_server_is_hidden!();
    let servers = ScopedMcpServers::from([("ship".to_owned(), server(""))]);
    let wary = McpSettings {
        list_cache_time: Duration::ZERO,
        ..settings()
    };
    let mut ship = McpSession::with(TestWorkspace::new(), servers, wary).await;
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    assert_eq!(ship.call_text("lie").await.as_deref(), Ok("trust me"));
    let error = ship.call_text("echo").await.unwrap_err();
    assert!(
        error.contains("differently") && error.contains("nothing was called"),
        "{error}"
    );
    ship.discover().await;
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excess_messages_and_endless_lines_are_cut_off() {
    skip_if_server_is_hidden!();
    for (tool, why) in [
        ("flood", "message rate limit"),
        ("long", "line of more than"),
    ] {
        let ship = McpSession::one("").await;
        let error = ship.call_text(tool).await.unwrap_err();
        assert!(error.contains(why), "{error}");
        // The server starts again.
        assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_answer_is_stored_completely() {
    skip_if_server_is_hidden!();
    let mut with_key = server("");
    with_key
        .env
        .insert(KEY.to_owned(), "rope-and-tar-7391".to_owned());
    let servers = ScopedMcpServers::from([("ship".to_owned(), with_key)]);
    let ship = McpSession::with(TestWorkspace::new(), servers, settings()).await;
    let long = format!("first {} rope-and-tar-7391 last", "ä".repeat(30_000));
    let say = async || match ship.call("echo", json!({ "text": long })).await {
        ToolExecutionResult::Success(value) => value.as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(say().await, long, "without an output store");
    let workspace = &ship.workspace;
    let store = Outputs::open(workspace.outside().join("store"), OutputLimits::default()).unwrap();
    workspace.environments.enable_outputs(store);
    let call_text = say().await;
    assert!(call_text.len() < 34 * 1024, "{}", call_text.len());
    assert!(call_text.starts_with("first ä") && call_text.ends_with("ä [secret:SHIP_KEY] last"));
    let path = crate::outputs::path_in(&call_text);
    let file = workspace.outside().join("store");
    let session = std::fs::read_dir(file).unwrap().next().unwrap().unwrap();
    let id = path.strip_prefix("output:").unwrap();
    let whole = std::fs::read_to_string(session.path().join(id)).unwrap();
    let expected = long.replace("rope-and-tar-7391", "[secret:SHIP_KEY]");
    assert_eq!(whole, expected, "but for the key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn number_of_tools_is_limited() {
    skip_if_server_is_hidden!();
    let ship = McpSession::one("many").await;
    assert_eq!(ship.found.tools.len(), 128);
    let [remark] = ship.found.failures.as_slice() else {
        panic!("{:?}", ship.found.failures)
    };
    assert!(remark.reason.contains("more than 128"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_with_colliding_tool_names_are_refused() {
    skip_if_server_is_hidden!();
    let servers = ScopedMcpServers::from([
        ("my ship".to_owned(), server("")),
        ("my_ship".to_owned(), server("")),
    ]);
    let ship = McpSession::with(TestWorkspace::new(), servers, settings()).await;
    let [failure] = ship.found.failures.as_slice() else {
        panic!("{:?}", ship.found.failures)
    };
    assert!(failure.reason.contains("same names"), "{}", failure.reason);
    assert!(ship.found.tools.iter().all(|tool| tool.server == "my ship"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_and_failures_reach_the_model() {
    skip_if_server_is_hidden!();
    let ship = McpSession::one("").await;
    let shown = ship.call("picture", json!({})).await;
    let ToolExecutionResult::SuccessWithImages { images, .. } = shown else {
        panic!("{shown:?}")
    };
    assert_eq!(
        (images[0].base64.as_str(), images[0].media_type.as_str()),
        (PICTURE, "image/png")
    );
    let error = ship.call_text("fail").await.unwrap_err();
    assert_eq!(error, "no wind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unconfigured_server_is_reported() {
    skip_if_server_is_hidden!();
    let ship = McpSession::one("").await;
    let workspace = TestWorkspace::new();
    let other = McpClient::new(
        workspace.environments.clone(),
        workspace.settings.clone(),
        Arc::new(DisabledEgressService),
        settings(),
    );
    let tool = other.tool(&ship.found.tools[0], &ScopedMcpServers::new(), &scope());
    assert_eq!(tool.policy(), ToolPolicy::RequiresApproval);
    let called = tool.execute(json!({})).await;
    let ToolExecutionResult::ToolError(error) = called else {
        panic!("{called:?}")
    };
    assert!(error.contains("no longer configured"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_waits_for_approval_and_reports_progress() {
    skip_if_server_is_hidden!();
    let workspace = TestWorkspace::new();
    let patient = ScopedMcpServer {
        timeout_ms: Some(2_000),
        ..server("")
    };
    let client = McpClient::new(
        workspace.environments.clone(),
        workspace.settings.clone(),
        Arc::new(DisabledEgressService),
        settings(),
    );
    let client = client.with_servers(ScopedMcpServers::from([("ship".to_owned(), patient)]));
    let calls = vec![SimToolCall::new("mcp__ship__slow", json!({}))];
    let script = vec![SimTurn::ToolCalls(calls), SimTurn::Assistant("done".into())];
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(script))
        .with_runtime(|runtime| runtime.mcp(Arc::new(client)))
        .start()
        .await
        .unwrap();
    let waiting = chat.say("haul").await.unwrap();
    let call = waiting.pending[0].clone();
    assert_eq!(call.need, Need::Approval);
    let reply = chat.approve(&call).await.unwrap();
    assert_eq!(reply.text, "done");
    let runtime = chat.runtime();
    let events = runtime.events_for(chat.session_id()).await.unwrap();
    let mut results = events.iter().filter_map(|event| match &event.data {
        EventData::ToolCompleted(data) => Some(data.success),
        _ => None,
    });
    assert_eq!(results.next(), Some(true));
    let mut progress = events.iter().filter_map(|event| match &event.data {
        EventData::ToolProgress(data) => Some(data.message.as_str()),
        _ => None,
    });
    assert_eq!(progress.next(), Some("0 of 10: hauling"));
    runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_in_the_stderr_of_a_server_is_masked() {
    skip_if_server_is_hidden!();
    let workspace = TestWorkspace::new();
    let client = McpClient::new(
        workspace.environments.clone(),
        workspace.settings.clone(),
        Arc::new(DisabledEgressService),
        settings(),
    );
    let mut leaky = server("leak");
    leaky
        .env
        .insert(KEY.to_owned(), "rope-and-tar-7391".to_owned());
    let client = client.with_servers(ScopedMcpServers::from([("ship".to_owned(), leaky)]));
    let script = vec![SimTurn::Assistant("done".into())];
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(script))
        .with_runtime(|runtime| runtime.mcp(Arc::new(client)))
        .start()
        .await
        .unwrap();
    chat.say("haul").await.unwrap();
    let runtime = chat.runtime();
    let events = runtime.events_for(chat.session_id()).await.unwrap();
    let mut reasons = events.iter().filter_map(|event| match &event.data {
        EventData::ToolsDiscovered(data) => Some(data.failures[0].reason.as_str()),
        _ => None,
    });
    let reason = reasons.next().unwrap();
    assert!(
        reason.contains("the key [secret:ship_SHIP_KEY] is refused"),
        "{reason}"
    );
    assert!(!format!("{events:?}").contains("7391"));
    runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn current_approval_setting_applies_to_recorded_tools() {
    skip_if_server_is_hidden!();
    let trusted = |approval| {
        let server = ScopedMcpServer {
            approval,
            ..server("")
        };
        ScopedMcpServers::from([("ship".to_owned(), server)])
    };
    let before = McpSession::with(
        TestWorkspace::new(),
        trusted(McpApproval::Never),
        settings(),
    )
    .await;
    for (now, policy) in [
        (McpApproval::Never, ToolPolicy::Auto),
        (McpApproval::Ask, ToolPolicy::RequiresApproval),
    ] {
        let tool = before
            .client
            .tool(&before.found.tools[0], &trusted(now), &scope());
        assert_eq!(tool.policy(), policy);
    }
}
