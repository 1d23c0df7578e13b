//! Tools of MCP servers over HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass_core::mcp::{McpConnector, McpScope, ScopedMcpServer, ScopedMcpServers};
use windlass_core::network_access::NetworkAccessList;
use windlass_core::tools::ToolExecutionResult;
use windlass_tools::mcp::McpClient;
use windlass_tools::{WebEgress, WebRules};

use crate::mcp::{McpSession, scope, settings};
use crate::mcp_server::{PICTURE, ScriptedServer};
use crate::support::{TestWorkspace, soon};

/// A listening server.
struct HttpServer {
    server: ScriptedServer,
    /// The headers of the received requests.
    seen: Mutex<Vec<HeaderMap>>,
    /// The methods of the requests, and the word `left` for each client that disconnected during an answer.
    requests: Mutex<Vec<String>>,
    /// Answers that are sent when the rest of their stream is requested, by event ID.
    resumable: Mutex<BTreeMap<String, Value>>,
}

impl HttpServer {
    fn count(&self, method: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .filter(|requests| *requests == method)
            .count()
    }
}

/// A body that streams to the client.
struct ChannelBody(mpsc::Receiver<String>);

impl futures_core::Stream for ChannelBody {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let piece = self.0.poll_recv(cx);
        piece.map(|piece| piece.map(|piece| Ok(piece.into())))
    }
}

async fn handle(
    State(http_server): State<Arc<HttpServer>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    http_server.seen.lock().unwrap().push(headers.clone());
    if http_server.server.mode == "moved" {
        return (StatusCode::FOUND, [("location", "http://127.0.0.1:1/")]).into_response();
    }
    if http_server.server.mode == "locked" && !headers.contains_key("authorization") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    http_server.requests.lock().unwrap().push(method);
    if http_server.server.mode == "drip" {
        return drip(http_server);
    }
    if message.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    // Calls are streamed; other requests are answered at once.
    if message["method"] != "tools/call" || http_server.server.mode == "whole" {
        let answered =
            tokio::task::spawn_blocking(move || http_server.server.answer(&message, &mut |_| {}));
        let Some(answer) = answered.await.unwrap() else {
            return std::future::pending().await;
        };
        let headers = [
            ("content-type", "application/json"),
            ("mcp-session-id", "s1"),
        ];
        return (headers, answer.to_string()).into_response();
    }
    if http_server.server.mode == "resume" {
        return broken_off(&http_server, message).await;
    }
    let (send, pieces) = mpsc::channel(64);
    tokio::task::spawn_blocking(move || {
        let mut waiting = String::new();
        let mut tell = |message: Value| {
            waiting.push_str(&format!("data: {message}\n\n"));
            // A flood is sent in large pieces.
            if message["method"] != "notifications/message" || waiting.len() > 64 * 1024 {
                let _ = send.blocking_send(std::mem::take(&mut waiting));
            }
        };
        match http_server.server.answer(&message, &mut tell) {
            Some(answer) => tell(answer),
            // Hangs until the client disconnects.
            None => {
                while send.blocking_send(": still here\n".to_owned()).is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    });
    let body = Body::from_stream(ChannelBody(pieces));
    ([("content-type", "text/event-stream")], body).into_response()
}

/// Sends no event while the client is connected.
fn drip(http_server: Arc<HttpServer>) -> Response {
    let (send, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        while send.send(": still here\n".to_owned()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        http_server.requests.lock().unwrap().push("left".to_owned());
    });
    let body = Body::from_stream(ChannelBody(pieces));
    ([("content-type", "text/event-stream")], body).into_response()
}

/// Sends only the event ID with which the rest of the answer is requested.
async fn broken_off(http_server: &Arc<HttpServer>, message: Value) -> Response {
    let serving = Arc::clone(http_server);
    let answered =
        tokio::task::spawn_blocking(move || serving.server.answer(&message, &mut |_| {}));
    let answer = answered.await.unwrap().unwrap();
    let mut resumable = http_server.resumable.lock().unwrap();
    let id = format!("event-{}", resumable.len());
    let event = format!("id: {id}\nretry: 0\n\n");
    resumable.insert(id, answer);
    ([("content-type", "text/event-stream")], event).into_response()
}

/// Begins a stream and interrupts it if the mode requires it.
async fn stream(State(http_server): State<Arc<HttpServer>>, headers: HeaderMap) -> Response {
    if !["abort", "resume"].contains(&http_server.server.mode.as_str()) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    if let Some(id) = headers.get("last-event-id") {
        let resumable = http_server.resumable.lock().unwrap();
        let answer = &resumable[id.to_str().unwrap()];
        let event = format!("data: {answer}\n\n");
        return ([("content-type", "text/event-stream")], event).into_response();
    }
    http_server.requests.lock().unwrap().push("GET".to_owned());
    let (send, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        let _ = send.send("retry: 0\n\n".to_owned()).await;
        // Lets the first piece be sent.
        tokio::time::sleep(Duration::from_millis(5)).await;
    });
    let body = Body::from_stream(Broken(ChannelBody(pieces)));
    ([("content-type", "text/event-stream")], body).into_response()
}

/// A stream that fails instead of ending.
struct Broken(ChannelBody);

impl futures_core::Stream for Broken {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let piece = std::pin::Pin::new(&mut self.0).poll_next(cx);
        piece.map(|piece| match piece {
            Some(Ok(piece)) => Some(Ok(piece)),
            _ => Some(Err(std::io::Error::other("broken off"))),
        })
    }
}

async fn listen(mode: &str) -> (SocketAddr, Arc<HttpServer>) {
    let http_server = Arc::new(HttpServer {
        server: ScriptedServer::new(mode),
        seen: Mutex::default(),
        requests: Mutex::default(),
        resumable: Mutex::default(),
    });
    let methods = post(handle).get(stream).delete(|| async { StatusCode::OK });
    let routes = Router::new().route("/mcp", methods);
    let routes = routes.with_state(Arc::clone(&http_server));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, http_server)
}

fn at(address: SocketAddr) -> ScopedMcpServer {
    ScopedMcpServer {
        url: Some(format!("http://{address}/mcp")),
        timeout_ms: Some(2_000),
        tool_timeouts_ms: BTreeMap::from([("hang".to_owned(), 200)]),
        ..ScopedMcpServer::default()
    }
}

fn egress() -> WebEgress {
    let rules = WebRules::parse(&["127.0.0.1"], &[]).unwrap();
    WebEgress::new(Arc::new(rules))
}

async fn ship(server: ScopedMcpServer, scope: McpScope) -> McpSession {
    ship_by(egress(), server, scope).await
}

async fn ship_by(egress: WebEgress, server: ScopedMcpServer, scope: McpScope) -> McpSession {
    let mut ship = without_requests(egress, server, scope);
    ship.discover().await;
    ship
}

/// A client that has sent no request to its server yet.
fn without_requests(egress: WebEgress, server: ScopedMcpServer, scope: McpScope) -> McpSession {
    let workspace = TestWorkspace::new();
    let egress = Arc::new(egress);
    let (environments, shell) = (workspace.environments.clone(), workspace.settings.clone());
    let servers = ScopedMcpServers::from([("ship".to_owned(), server)]);
    let client = McpClient::new(environments, shell, egress, settings()).with_servers(servers);
    McpSession::without_requests(workspace, client, scope)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_listed_and_called_with_the_configured_headers() {
    let (address, http_server) = listen("locked").await;
    let error = ship(at(address), scope()).await.found.failures.clone();
    assert!(error[0].reason.contains("HTTP 401"), "{error:?}");
    let server = ScopedMcpServer {
        headers: BTreeMap::from([("Authorization".to_owned(), "Bearer 7391".to_owned())]),
        ..at(address)
    };
    let ship = ship(server, scope()).await;
    assert!(ship.found.failures.is_empty(), "{:?}", ship.found.failures);
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    assert_eq!(
        ship.call_text("slow").await.as_deref(),
        Ok("hauled"),
        "progress keeps it alive"
    );
    let shown = ship.call("picture", json!({})).await;
    let ToolExecutionResult::SuccessWithImages { images, .. } = shown else {
        panic!("{shown:?}")
    };
    assert_eq!(images[0].base64, PICTURE);
    let seen = http_server.seen.lock().unwrap();
    assert_eq!(seen.last().unwrap()["authorization"], "Bearer 7391");
    assert_eq!(seen.last().unwrap()["mcp-session-id"], "s1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_and_excess_messages_end_a_call() {
    let (address, _) = listen("").await;
    let mut server = at(address);
    server.timeout_ms = None;
    let ship = ship(server, scope()).await;
    let error = ship.call_text("hang").await.unwrap_err();
    assert!(error.contains("200 ms"), "{error}");
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    for tool in ["flood", "long"] {
        let error = ship.call_text(tool).await.unwrap_err();
        assert!(
            error.contains("message rate limit") || error.contains("too long"),
            "{error}"
        );
        assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirect_is_not_followed() {
    let (address, _) = listen("moved").await;
    let ship = ship(at(address), scope()).await;
    let [failure] = ship.found.failures.as_slice() else {
        panic!("{:?}", ship.found)
    };
    assert!(failure.reason.contains("redirects"), "{}", failure.reason);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_network_rules_apply_to_servers() {
    let (address, http_server) = listen("").await;
    let ruled = |list: NetworkAccessList| McpScope {
        network_access: Some(list),
        ..scope()
    };
    let elsewhere = ruled(NetworkAccessList::allow_only(["example.com"]));
    let failures = ship(at(address), elsewhere).await.found.failures.clone();
    assert!(failures[0].reason.contains("denied"), "{failures:?}");
    // A name that resolves to the private network.
    let mut server = at(address);
    server.url = Some(format!("http://localhost:{}/mcp", address.port()));
    let by_name = ruled(NetworkAccessList::allow_only(["localhost"]));
    let failures = ship(server, by_name).await.found.failures.clone();
    assert!(failures[0].reason.contains("denied"), "{failures:?}");
    assert!(
        http_server.seen.lock().unwrap().is_empty(),
        "nothing was sent"
    );
    let here = ruled(NetworkAccessList::allow_only(["127.0.0.1"]));
    let ship = ship(at(address), here).await;
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_may_take_longer_than_other_requests() {
    for mode in ["", "whole"] {
        let (address, _) = listen(mode).await;
        let server = ScopedMcpServer {
            timeout_ms: Some(60_000),
            ..at(address)
        };
        let egress = egress().with_default_timeout(Duration::from_millis(700));
        let ship = ship_by(egress, server, scope()).await;
        assert!(ship.found.failures.is_empty(), "{:?}", ship.found.failures);
        assert_eq!(
            ship.call_text("slow").await.as_deref(),
            Ok("hauled"),
            "{mode}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_call_ends_and_the_next_is_answered() {
    let (address, http_server) = listen("whole").await;
    let ship = ship(at(address), scope()).await;
    let error = ship.call_text("hang").await.unwrap_err();
    assert!(error.contains("200 ms"), "{error}");
    assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    assert_eq!(http_server.count("tools/call"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_streams_are_reopened_with_pauses() {
    let (address, http_server) = listen("abort").await;
    let began = std::time::Instant::now();
    let ship = ship(at(address), scope()).await;
    while http_server.count("GET") == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..50 {
        assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    }
    let streams = http_server.count("GET");
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!(
        streams <= 2 + seconds,
        "{streams} streams in {seconds} seconds"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_answers_are_resumed_independently_of_new_streams() {
    let (address, http_server) = listen("resume").await;
    let server = ScopedMcpServer {
        timeout_ms: Some(20_000),
        ..at(address)
    };
    let ship = ship(server, scope()).await;
    // The pauses before a stream that ends at once grow: it was opened twice, and the third attempt is two seconds away.
    let requests = async {
        while http_server.count("GET") < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), requests)
        .await
        .unwrap();
    for _ in 0..12 {
        assert_eq!(ship.call_text("echo").await.as_deref(), Ok("ahoy"));
    }
    assert_eq!(http_server.count("tools/call"), 12);
}

/// Starts six turns at the same time and returns the failure reason that each receives.
async fn six_turns(ship: &McpSession) -> Vec<String> {
    let none = ScopedMcpServers::new();
    let turn = || ship.client.discover(&none, &ship.scope);
    let (a, b, c, d, e, f) = tokio::join!(turn(), turn(), turn(), turn(), turn(), turn());
    let found = [a, b, c, d, e, f].into_iter();
    found
        .map(|found| found.failures[0].reason.clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_turns_share_one_connection_attempt() {
    for (mode, method, reason) in [
        ("mute", "initialize", "did not start within 1500 ms"),
        ("listless", "tools/list", "did not list its tools within"),
    ] {
        let (address, http_server) = listen(mode).await;
        let server = ScopedMcpServer {
            start_timeout_ms: Some(1_500),
            ..at(address)
        };
        let ship = without_requests(egress(), server, scope());
        for error in six_turns(&ship).await {
            assert!(error.contains(reason), "{mode}: {error}");
        }
        assert_eq!(http_server.count(method), 1, "{mode}");
        if mode == "listless" {
            // A failure is cached as long as a list.
            for error in six_turns(&ship).await {
                assert!(error.contains(reason), "{mode}: {error}");
            }
            assert_eq!(http_server.count(method), 1, "{mode}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_server_is_disconnected() {
    let (address, http_server) = listen("drip").await;
    let server = ScopedMcpServer {
        start_timeout_ms: Some(500),
        ..at(address)
    };
    let ship = ship(server, scope()).await;
    let error = &ship.found.failures[0].reason;
    assert!(error.contains("500 ms"), "{error}");
    soon("it is left", || http_server.count("left") == 1);
}
