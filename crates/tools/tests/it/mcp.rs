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
    CheckpointLimits, Checkpoints, CutOffCalls, OutputLimits, Outputs, Policy, UndoneTurn,
    end_leftovers,
};

use crate::mcp_server::{ACT, KEY, PICTURE};
use crate::support::{Place, soon, ways};

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
macro_rules! needs_a_server_in_sight {
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
pub(crate) struct Ship {
    pub(crate) client: McpClient,
    pub(crate) scope: McpScope,
    pub(crate) found: Arc<DiscoveredTools>,
    place: Place,
}

impl Ship {
    async fn with(place: Place, servers: ScopedMcpServers, settings: McpSettings) -> Self {
        let egress = Arc::new(DisabledEgressService);
        let (environments, shell) = (place.environments.clone(), place.settings.clone());
        let client = McpClient::new(environments, shell, egress, settings).with_servers(servers);
        Self::of(place, client, scope()).await
    }

    pub(crate) async fn of(place: Place, client: McpClient, scope: McpScope) -> Self {
        let mut ship = Self::unasked(place, client, scope);
        ship.again().await;
        ship
    }

    /// A client that has sent no request yet.
    pub(crate) fn unasked(place: Place, client: McpClient, scope: McpScope) -> Self {
        Self {
            client,
            scope,
            found: Arc::default(),
            place,
        }
    }

    async fn one(mode: &str) -> Self {
        let servers = ScopedMcpServers::from([("ship".to_owned(), server(mode))]);
        Self::with(Place::new(), servers, settings()).await
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        let tools = self.found.tools.iter();
        tools.map(|tool| tool.definition.name()).collect()
    }

    pub(crate) async fn again(&mut self) {
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

    pub(crate) async fn said(&self, tool: &str) -> Result<String, String> {
        match self.call(tool, json!({"text": "ahoy"})).await {
            ToolExecutionResult::Success(value) => Ok(value.as_str().unwrap().to_owned()),
            ToolExecutionResult::ToolError(told) => Err(told),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_listed_and_called_in_every_sandbox() {
    needs_a_server_in_sight!();
    for way in ways() {
        let mut place = Place::confined(way, Policy::default());
        let owner = format!("mcp-test-{}-{way:?}", std::process::id());
        place.settings.owner = Some(owner.clone());
        let servers = ScopedMcpServers::from([("ship".to_owned(), server(""))]);
        let ship = Ship::with(place, servers, settings()).await;
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
        assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
        // It has the server's variables and those of commands, and no others.
        let variables = ship.said("variables").await.unwrap();
        assert!(
            variables.contains(ACT) && !variables.contains("CARGO"),
            "{variables}"
        );
        ship.client.close().await;
        assert_eq!(end_leftovers(&owner), 0, "{way:?}");
        let told = ship.said("echo").await.unwrap_err();
        assert!(told.contains("shutting down"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_changes_is_taken_back_unless_its_word_is_trusted_that_it_only_reads() {
    needs_a_server_in_sight!();
    for trust_read_only in [false, true] {
        let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
        let kept = Checkpoints::open(data.path().join("kept"), CheckpointLimits::default());
        let kept = kept.unwrap();
        place.environments.keep_checkpoints(kept.clone());
        let (environments, made) = (place.environments.clone(), place.root().join("made.txt"));
        let server = ScopedMcpServer {
            trust_read_only,
            ..server("")
        };
        let servers = ScopedMcpServers::from([("ship".to_owned(), server)]);
        let ship = Ship::with(place, servers, settings()).await;
        let turn_id = TurnId::new();
        let mut context = ToolContext::new(ship.scope.session_id);
        context.event_context = Some(EventContext {
            turn_id: Some(turn_id),
            ..EventContext::default()
        });
        let called = ship.call_in(&context, "make", json!({})).await;
        assert!(
            matches!(&called, ToolExecutionResult::Success(said) if said == "made"),
            "{called:?}"
        );
        assert!(made.exists());
        let turn = UndoneTurn {
            turn_id,
            began: i64::MAX,
        };
        kept.undo(&environments, &[turn], CutOffCalls::Refuse)
            .unwrap();
        assert_eq!(made.exists(), trust_read_only);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_dropped_leaves_no_process() {
    needs_a_server_in_sight!();
    let mut marked = server("");
    let mark = format!("mark-{}", std::process::id());
    marked.args.push(mark.clone());
    let servers = ScopedMcpServers::from([("ship".to_owned(), marked)]);
    let ship = Ship::with(Place::new(), servers, settings()).await;
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
    let alive = || {
        let marked = |line: &[u8]| String::from_utf8_lossy(line).contains(&mark);
        !windlass_testkit::pids_of(marked).is_empty()
    };
    assert!(alive());
    drop(ship);
    soon("the server is gone", || !alive());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_shuts_down_waits_for_no_server_to_start() {
    needs_a_server_in_sight!();
    let place = Place::new();
    let mut mute = server("mute");
    let mark = format!("mute-{}", std::process::id());
    mute.args.push(mark.clone());
    // Longer than any test.
    mute.start_timeout_ms = Some(24 * 60 * 60 * 1000);
    let client = McpClient::new(
        place.environments.clone(),
        place.settings.clone(),
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
async fn approval_is_asked_for_unless_the_operator_says_otherwise() {
    let ship = Ship::one("").await;
    let asks = |ship: &Ship| {
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
    let ship = Ship::with(Place::new(), servers, settings()).await;
    assert!(
        ship.found
            .tools
            .iter()
            .all(|tool| tool.definition.policy() == ToolPolicy::Auto)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_keeps_a_call_alive_and_silence_ends_it() {
    needs_a_server_in_sight!();
    let patient = ScopedMcpServer {
        timeout_ms: Some(2_000),
        tool_timeouts_ms: BTreeMap::from([("hang".to_owned(), 200)]),
        ..server("")
    };
    let servers = ScopedMcpServers::from([("ship".to_owned(), patient)]);
    let ship = Ship::with(Place::new(), servers, settings()).await;
    // It takes three seconds, longer than the permitted silence.
    assert_eq!(ship.said("slow").await.as_deref(), Ok("hauled"));
    let told = ship.said("hang").await.unwrap_err();
    assert!(told.contains("`ship`") && told.contains("200 ms"), "{told}");
    // The connection is still open.
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashed_is_started_again_and_the_call_is_not_repeated() {
    needs_a_server_in_sight!();
    let ship = Ship::one("").await;
    let told = ship.said("crash").await.unwrap_err();
    assert!(
        told.contains("its program ended") && told.contains("the mast is broken"),
        "{told}"
    );
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_start_is_told_and_the_others_are_there() {
    needs_a_server_in_sight!();
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
    let mut ship = Ship::with(Place::new(), servers, slow).await;
    let why = |ship: &Ship, name: &str| {
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
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
    // It is not retried at once.
    let digest = ship.found.digest.clone();
    ship.again().await;
    assert!(
        why(&ship, "dead").contains("tried again in"),
        "{}",
        why(&ship, "dead")
    );
    assert_eq!(
        ship.found.digest, digest,
        "other words for the same are the same"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_changed_is_seen_by_the_next_turn() {
    needs_a_server_in_sight!();
    let mut ship = Ship::one("").await;
    let before = ship.found.digest.clone();
    ship.again().await;
    assert_eq!(ship.found.digest, before);
    assert_eq!(ship.said("change").await.as_deref(), Ok("changed"));
    // Tools recorded by the running turn can still be called.
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
    ship.again().await;
    assert!(
        ship.names().contains(&"mcp__ship__new"),
        "{:?}",
        ship.names()
    );
    assert_ne!(ship.found.digest, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_offer_the_same_as_before_give_the_very_same_value() {
    needs_a_server_in_sight!();
    let servers = ScopedMcpServers::from([("ship".to_owned(), server(""))]);
    // The server is queried each time and returns the same list.
    let wary = McpSettings {
        list_kept: Duration::ZERO,
        ..settings()
    };
    let mut ship = Ship::with(Place::new(), servers, wary).await;
    let before = Arc::clone(&ship.found);
    ship.again().await;
    assert!(Arc::ptr_eq(&before, &ship.found));
    // Another configuration gives other tools for the same list.
    let mut trusted = server("");
    trusted.approval = McpApproval::Never;
    let trusted = ScopedMcpServers::from([("ship".to_owned(), trusted)]);
    let other = ship.client.discover(&trusted, &ship.scope).await;
    assert_ne!(other.digest, before.digest);
    ship.again().await;
    assert!(Arc::ptr_eq(&before, &ship.found));
    assert_eq!(ship.said("change").await.as_deref(), Ok("changed"));
    ship.again().await;
    assert_ne!(ship.found.digest, before.digest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_not_what_it_was_is_not_called() {
    needs_a_server_in_sight!();
    let servers = ScopedMcpServers::from([("ship".to_owned(), server(""))]);
    let wary = McpSettings {
        list_kept: Duration::ZERO,
        ..settings()
    };
    let mut ship = Ship::with(Place::new(), servers, wary).await;
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
    assert_eq!(ship.said("lie").await.as_deref(), Ok("trust me"));
    let told = ship.said("echo").await.unwrap_err();
    assert!(
        told.contains("differently") && told.contains("nothing was called"),
        "{told}"
    );
    ship.again().await;
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_and_a_line_without_end_are_cut_off() {
    needs_a_server_in_sight!();
    for (tool, why) in [
        ("flood", "more than anybody could read"),
        ("long", "line of more than"),
    ] {
        let ship = Ship::one("").await;
        let told = ship.said(tool).await.unwrap_err();
        assert!(told.contains(why), "{told}");
        // The server starts again.
        assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_too_long_to_show_is_kept_whole() {
    needs_a_server_in_sight!();
    let mut with_key = server("");
    with_key
        .env
        .insert(KEY.to_owned(), "rope-and-tar-7391".to_owned());
    let servers = ScopedMcpServers::from([("ship".to_owned(), with_key)]);
    let ship = Ship::with(Place::new(), servers, settings()).await;
    let long = format!("first {} rope-and-tar-7391 last", "ä".repeat(30_000));
    let say = async || match ship.call("echo", json!({ "text": long })).await {
        ToolExecutionResult::Success(value) => value.as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(say().await, long, "where nothing is kept");
    let place = &ship.place;
    let kept = Outputs::open(place.outside().join("kept"), OutputLimits::default()).unwrap();
    place.environments.keep_outputs(kept);
    let said = say().await;
    assert!(said.len() < 34 * 1024, "{}", said.len());
    assert!(said.starts_with("first ä") && said.ends_with("ä [secret:SHIP_KEY] last"));
    let path = crate::outputs::path_in(&said);
    let file = place.outside().join("kept");
    let session = std::fs::read_dir(file).unwrap().next().unwrap().unwrap();
    let id = path.strip_prefix("output:").unwrap();
    let whole = std::fs::read_to_string(session.path().join(id)).unwrap();
    let expected = long.replace("rope-and-tar-7391", "[secret:SHIP_KEY]");
    assert_eq!(whole, expected, "but for the key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_server_offers_more_than_a_turn_can_take() {
    needs_a_server_in_sight!();
    let ship = Ship::one("many").await;
    assert_eq!(ship.found.tools.len(), 128);
    let [remark] = ship.found.failures.as_slice() else {
        panic!("{:?}", ship.found.failures)
    };
    assert!(remark.reason.contains("more than 128"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_whose_tools_would_have_the_same_names_are_refused() {
    needs_a_server_in_sight!();
    let servers = ScopedMcpServers::from([
        ("my ship".to_owned(), server("")),
        ("my_ship".to_owned(), server("")),
    ]);
    let ship = Ship::with(Place::new(), servers, settings()).await;
    let [failure] = ship.found.failures.as_slice() else {
        panic!("{:?}", ship.found.failures)
    };
    assert!(failure.reason.contains("same names"), "{}", failure.reason);
    assert!(ship.found.tools.iter().all(|tool| tool.server == "my ship"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_and_failures_reach_the_model() {
    needs_a_server_in_sight!();
    let ship = Ship::one("").await;
    let shown = ship.call("picture", json!({})).await;
    let ToolExecutionResult::SuccessWithImages { images, .. } = shown else {
        panic!("{shown:?}")
    };
    assert_eq!(
        (images[0].base64.as_str(), images[0].media_type.as_str()),
        (PICTURE, "image/png")
    );
    let told = ship.said("fail").await.unwrap_err();
    assert_eq!(told, "no wind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_no_longer_configured_is_told() {
    needs_a_server_in_sight!();
    let ship = Ship::one("").await;
    let place = Place::new();
    let other = McpClient::new(
        place.environments.clone(),
        place.settings.clone(),
        Arc::new(DisabledEgressService),
        settings(),
    );
    let tool = other.tool(&ship.found.tools[0], &ScopedMcpServers::new(), &scope());
    assert_eq!(tool.policy(), ToolPolicy::RequiresApproval);
    let called = tool.execute(json!({})).await;
    let ToolExecutionResult::ToolError(told) = called else {
        panic!("{called:?}")
    };
    assert!(told.contains("not configured any more"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_asks_before_it_calls_a_server_and_shows_how_far_it_is() {
    needs_a_server_in_sight!();
    let place = Place::new();
    let patient = ScopedMcpServer {
        timeout_ms: Some(2_000),
        ..server("")
    };
    let client = McpClient::new(
        place.environments.clone(),
        place.settings.clone(),
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
async fn a_server_that_dies_with_its_key_on_its_lips_is_on_record_without_it() {
    needs_a_server_in_sight!();
    let place = Place::new();
    let client = McpClient::new(
        place.environments.clone(),
        place.settings.clone(),
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
async fn what_the_operator_says_now_counts_for_tools_on_record() {
    needs_a_server_in_sight!();
    let trusted = |approval| {
        let server = ScopedMcpServer {
            approval,
            ..server("")
        };
        ScopedMcpServers::from([("ship".to_owned(), server)])
    };
    let before = Ship::with(Place::new(), trusted(McpApproval::Never), settings()).await;
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
