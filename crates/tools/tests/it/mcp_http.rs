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
use windlass_core::mcp::{McpScope, ScopedMcpServer, ScopedMcpServers};
use windlass_core::network_access::NetworkAccessList;
use windlass_core::tools::ToolExecutionResult;
use windlass_tools::mcp::McpClient;
use windlass_tools::{WebEgress, WebRules};

use crate::mcp::{Ship, scope, settings};
use crate::mcp_server::{PICTURE, Server};
use crate::support::Place;

/// A server that listens.
struct Harbour {
    server: Server,
    /// The headers of the requests that came.
    seen: Mutex<Vec<HeaderMap>>,
}

/// What streams to the client.
struct Pieces(mpsc::Receiver<String>);

impl futures_core::Stream for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let piece = self.0.poll_recv(cx);
        piece.map(|piece| piece.map(|piece| Ok(piece.into())))
    }
}

async fn handle(State(harbour): State<Arc<Harbour>>, headers: HeaderMap, body: Bytes) -> Response {
    harbour.seen.lock().unwrap().push(headers.clone());
    if harbour.server.mode == "moved" {
        return (StatusCode::FOUND, [("location", "http://127.0.0.1:1/")]).into_response();
    }
    if harbour.server.mode == "locked" && !headers.contains_key("authorization") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    if message.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    // Calls stream, and all else is answered whole.
    if message["method"] != "tools/call" {
        let answer = harbour
            .server
            .answer(&message, &mut |_| {})
            .unwrap_or_default();
        let headers = [
            ("content-type", "application/json"),
            ("mcp-session-id", "s1"),
        ];
        return (headers, answer.to_string()).into_response();
    }
    let (send, pieces) = mpsc::channel(64);
    tokio::task::spawn_blocking(move || {
        let mut waiting = String::new();
        let mut tell = |message: Value| {
            waiting.push_str(&format!("data: {message}\n\n"));
            // A flood comes in large pieces.
            if message["method"] != "notifications/message" || waiting.len() > 64 * 1024 {
                let _ = send.blocking_send(std::mem::take(&mut waiting));
            }
        };
        match harbour.server.answer(&message, &mut tell) {
            Some(answer) => tell(answer),
            // It hangs until nobody waits any more.
            None => {
                while send.blocking_send(": still here\n".to_owned()).is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    });
    let body = Body::from_stream(Pieces(pieces));
    ([("content-type", "text/event-stream")], body).into_response()
}

async fn listen(mode: &str) -> (SocketAddr, Arc<Harbour>) {
    let harbour = Arc::new(Harbour {
        server: Server::new(mode),
        seen: Mutex::default(),
    });
    let routes = Router::new().route("/mcp", post(handle).delete(|| async { StatusCode::OK }));
    let routes = routes.with_state(Arc::clone(&harbour));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, harbour)
}

fn at(address: SocketAddr) -> ScopedMcpServer {
    ScopedMcpServer {
        url: Some(format!("http://{address}/mcp")),
        timeout_ms: Some(2_000),
        tool_timeouts_ms: BTreeMap::from([("hang".to_owned(), 200)]),
        ..ScopedMcpServer::default()
    }
}

async fn ship(server: ScopedMcpServer, scope: McpScope) -> Ship {
    let place = Place::new();
    let rules = WebRules::parse(&["127.0.0.1"], &[]).unwrap();
    let egress = Arc::new(WebEgress::new(Arc::new(rules)));
    let (environments, shell) = (place.environments.clone(), place.settings.clone());
    let servers = ScopedMcpServers::from([("ship".to_owned(), server)]);
    let client = McpClient::new(environments, shell, egress, settings()).with_servers(servers);
    Ship::of(place, client, scope).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_listed_and_called_with_the_configured_headers() {
    let (address, harbour) = listen("locked").await;
    let told = ship(at(address), scope()).await.found.failures;
    assert!(told[0].reason.contains("HTTP 401"), "{told:?}");
    let server = ScopedMcpServer {
        headers: BTreeMap::from([("Authorization".to_owned(), "Bearer 7391".to_owned())]),
        ..at(address)
    };
    let ship = ship(server, scope()).await;
    assert!(ship.found.failures.is_empty(), "{:?}", ship.found.failures);
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
    assert_eq!(
        ship.said("slow").await.as_deref(),
        Ok("hauled"),
        "progress keeps it alive"
    );
    let shown = ship.call("picture", json!({})).await;
    let ToolExecutionResult::SuccessWithImages { images, .. } = shown else {
        panic!("{shown:?}")
    };
    assert_eq!(images[0].base64, PICTURE);
    let seen = harbour.seen.lock().unwrap();
    assert_eq!(seen.last().unwrap()["authorization"], "Bearer 7391");
    assert_eq!(seen.last().unwrap()["mcp-session-id"], "s1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_and_floods_end_a_call_and_the_next_is_answered() {
    let (address, _) = listen("").await;
    let mut server = at(address);
    server.timeout_ms = None;
    let ship = ship(server, scope()).await;
    let told = ship.said("hang").await.unwrap_err();
    assert!(told.contains("200 ms"), "{told}");
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
    for tool in ["flood", "long"] {
        let told = ship.said(tool).await.unwrap_err();
        assert!(
            told.contains("more than anybody could read") || told.contains("too long"),
            "{told}"
        );
        assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed() {
    let (address, _) = listen("moved").await;
    let ship = ship(at(address), scope()).await;
    let [failure] = ship.found.failures.as_slice() else {
        panic!("{:?}", ship.found)
    };
    assert!(failure.reason.contains("redirects"), "{}", failure.reason);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_of_the_session_hold_for_its_servers() {
    let (address, harbour) = listen("").await;
    let ruled = |list: NetworkAccessList| McpScope {
        network_access: Some(list),
        ..scope()
    };
    let elsewhere = ruled(NetworkAccessList::allow_only(["example.com"]));
    let failures = ship(at(address), elsewhere).await.found.failures;
    assert!(failures[0].reason.contains("denied"), "{failures:?}");
    // A name that leads into the private network.
    let mut server = at(address);
    server.url = Some(format!("http://localhost:{}/mcp", address.port()));
    let by_name = ruled(NetworkAccessList::allow_only(["localhost"]));
    let failures = ship(server, by_name).await.found.failures;
    assert!(failures[0].reason.contains("denied"), "{failures:?}");
    assert!(harbour.seen.lock().unwrap().is_empty(), "nothing was sent");
    let here = ruled(NetworkAccessList::allow_only(["127.0.0.1"]));
    let ship = ship(at(address), here).await;
    assert_eq!(ship.said("echo").await.as_deref(), Ok("ahoy"));
}
