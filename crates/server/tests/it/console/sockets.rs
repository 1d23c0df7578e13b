//! The socket of a page.

use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use super::{Browser, ConsoleDaemon};
use crate::rpc::socket::RpcSocket;

/// Opens a socket as a page of an origin would; the error is the status of the refusal.
async fn connect(
    daemon: &ConsoleDaemon,
    origin: &str,
    cookie: Option<&str>,
) -> Result<RpcSocket, u16> {
    let address = daemon.home.daemon.client.address;
    let mut request = format!("ws://{address}/v1/rpc")
        .into_client_request()
        .unwrap();
    let headers = request.headers_mut();
    headers.insert("origin", HeaderValue::from_str(origin).unwrap());
    if let Some(cookie) = cookie {
        headers.insert("cookie", HeaderValue::from_str(cookie).unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    match client_async(request, stream).await {
        Ok((ws, _)) => Ok(RpcSocket::over(ws)),
        Err(Error::Http(refusal)) => Err(refusal.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

fn own_origin(daemon: &ConsoleDaemon) -> String {
    format!("http://{}", daemon.home.daemon.client.address)
}

#[tokio::test]
async fn session_of_the_operator_reads_all_runs() {
    let daemon = ConsoleDaemon::start().await;
    let browser = daemon.browser().await;
    let token = daemon.home.agent("a");
    let mut agent = daemon.home.bound("a", &token).await;
    let run = agent.start("a").await;
    let own = own_origin(&daemon);
    let mut page = connect(&daemon, &own, Some(&browser.cookie)).await.unwrap();
    page.ok("session.auth", json!({ "key": browser.key })).await;
    let runs = page.ok("runs.list", json!({})).await;
    assert_eq!(runs["runs"][0]["run_id"], run.as_str());
    let thread = page.ok("threads.create", json!({})).await;
    let id = thread["id"].as_str().unwrap();
    page.ok("events.subscribe", json!({ "thread_id": id }))
        .await;
}

#[tokio::test]
async fn session_has_the_role_of_its_token() {
    let daemon = ConsoleDaemon::start().await;
    let token = daemon.home.agent("a");
    let login = daemon.log_in_with(json!({ "token": token })).await;
    let browser = Browser::new(&daemon, login);
    let own = own_origin(&daemon);
    let mut page = connect(&daemon, &own, Some(&browser.cookie)).await.unwrap();
    page.ok("session.auth", json!({ "key": browser.key })).await;
    let foreign = daemon.home.daemon.thread(json!({})).await;
    let id = foreign.trim_start_matches("/v1/threads/");
    let refused = page.refused("events.subscribe", json!({ "thread_id": id }));
    assert_eq!(refused.await.1, "not_found");
    assert!(!page.start("a").await.is_empty());
    let refused = page.refused("runs.start", json!({"agent_id": "b", "intent": "x"}));
    refused.await;
}

#[tokio::test]
async fn cookie_or_key_alone_opens_nothing() {
    let daemon = ConsoleDaemon::start().await;
    let (browser, other) = (daemon.browser().await, daemon.browser().await);
    let own = own_origin(&daemon);
    for (cookie, key) in [
        (None, browser.key.as_str()),
        (Some(browser.cookie.as_str()), ""),
        (Some(browser.cookie.as_str()), other.key.as_str()),
        (Some("windlass_console=0"), browser.key.as_str()),
    ] {
        let mut page = connect(&daemon, &own, cookie).await.unwrap();
        let refused = page.refused("session.auth", json!({ "key": key })).await;
        assert_eq!(refused.1, "auth_failed");
        let refused = page.refused("runs.list", json!({})).await;
        assert_eq!(refused.1, "auth_required");
    }
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        let refused = connect(&daemon, origin, Some(&browser.cookie)).await;
        assert_eq!(refused.err(), Some(403), "{origin}");
    }
    // The origin of a local client may connect, and the cookie is not for it.
    let page = connect(&daemon, "http://localhost:3000", Some(&browser.cookie));
    let refused = page
        .await
        .unwrap()
        .refused("session.auth", json!({ "key": browser.key }))
        .await;
    assert_eq!(refused.1, "auth_failed");
}

#[tokio::test]
async fn logout_closes_the_socket() {
    let daemon = ConsoleDaemon::start().await;
    let browser = daemon.browser().await;
    let own = own_origin(&daemon);
    let mut page = connect(&daemon, &own, Some(&browser.cookie)).await.unwrap();
    page.ok("session.auth", json!({ "key": browser.key })).await;
    let out = browser.client().post("/console/logout", json!({})).await;
    out.expect(204);
    assert_eq!(page.frame().await.unwrap_err().0, 1008);
}
