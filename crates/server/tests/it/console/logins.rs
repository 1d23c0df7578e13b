//! Codes, sessions, and attacks on them.

use std::time::Duration;

use serde_json::json;
use windlass_server::PublicUrl;

use super::{Browser, ConsoleDaemon};
use crate::support::{TOKEN, TestDaemon, soon};

const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test]
async fn session_needs_its_cookie_and_its_key() {
    let daemon = ConsoleDaemon::start().await;
    let (browser, other) = (daemon.browser().await, daemon.browser().await);
    browser.client().get("/v1/threads").await.expect(200);
    let session = browser.client().get("/console/session").await.expect(200);
    assert_eq!(session, json!({"login": true, "scope": "admin"}));
    let created = browser.client().post("/v1/threads", json!({})).await;
    created.expect(201);
    let mixed = browser.without_key().with("x-windlass-key", &other.key);
    for (client, what) in [
        (browser.without_key(), "cookie without key"),
        (browser.without_cookie(), "key without cookie"),
        (mixed, "cookie and key of different sessions"),
        (daemon.page(), "neither"),
        (
            daemon
                .page()
                .with("cookie", &browser.cookie)
                .with("x-windlass-key", ""),
            "empty key",
        ),
        // The secrets are no tokens.
        (daemon.home.client(&browser.key), "key as a token"),
        (
            daemon
                .home
                .client(browser.cookie.split_once('=').unwrap().1),
            "cookie as a token",
        ),
    ] {
        for path in ["/v1/threads", "/v1/config", "/console/session"] {
            assert_eq!(client.get(path).await.status, 401, "{what}: {path}");
        }
    }
}

#[tokio::test]
async fn code_works_once_and_for_five_minutes() {
    let daemon = ConsoleDaemon::start().await;
    let code = daemon.logins.create_code().unwrap();
    assert!(code.len() == 32 && code.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let login = json!({ "code": code });
    daemon.log_in_with(login.clone()).await.expect(200);
    assert_eq!(daemon.log_in_with(login).await.code(), "unauthorized");
    let late = daemon.logins.create_code().unwrap();
    daemon.clock.advance(Duration::from_secs(5 * 60));
    let late = daemon.log_in_with(json!({ "code": late })).await;
    assert_eq!((late.status, late.code().as_str()), (401, "unauthorized"));
    assert_eq!(late.header("set-cookie"), None);
}

#[tokio::test]
async fn one_of_several_concurrent_logins_gets_the_code() {
    let daemon = ConsoleDaemon::start().await;
    let code = daemon.logins.create_code().unwrap();
    let logins = (0..6).map(|_| daemon.log_in_with(json!({ "code": code })));
    let replies = futures_util::future::join_all(logins).await;
    let accepted = replies.iter().filter(|reply| reply.status == 200);
    assert_eq!(accepted.count(), 1);
}

#[tokio::test]
async fn session_ends_by_logout_idleness_and_age() {
    let daemon = ConsoleDaemon::start().await;
    let (browser, idle) = (daemon.browser().await, daemon.browser().await);
    daemon.clock.advance(11 * HOUR);
    browser.client().get("/v1/threads").await.expect(200);
    // The use of a session is recorded in the background.
    soon(async {
        while daemon.logins.needs_note(&session_id(&daemon)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    daemon.clock.advance(2 * HOUR);
    assert_eq!(idle.client().get("/v1/threads").await.status, 401);
    browser.client().get("/v1/threads").await.expect(200);

    let thread = daemon.home.daemon.thread(json!({})).await;
    let mut events = browser.client().stream(&format!("{thread}/events")).await;
    let out = browser.client().post("/console/logout", json!({})).await;
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    out.expect(204);
    assert_eq!(browser.client().get("/v1/threads").await.status, 401);
    // Open streams of the session end.
    soon(events.rest()).await;

    let browser = daemon.browser().await;
    for _ in 0..3 * 30 {
        daemon.clock.advance(8 * HOUR);
        daemon.logins.note_use(&session_id(&daemon));
    }
    browser.client().get("/v1/threads").await.expect(200);
    daemon.clock.advance(HOUR);
    assert_eq!(browser.client().get("/v1/threads").await.status, 401);
}

/// Returns the ID of the oldest session.
fn session_id(daemon: &ConsoleDaemon) -> String {
    let file = daemon._directory.path().join("logins.json");
    let logins: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    logins["sessions"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn session_has_the_rights_of_its_token_and_ends_with_it() {
    let daemon = ConsoleDaemon::start().await;
    let (id, token) = daemon.home.token("client");
    let client = Browser::new(&daemon, daemon.log_in_with(json!({ "token": token })).await);
    let agent = daemon.home.agent("a");
    let agent = Browser::new(&daemon, daemon.log_in_with(json!({ "token": agent })).await);
    let operator = daemon.log_in_with(json!({ "token": TOKEN })).await;
    let operator = Browser::new(&daemon, operator);
    let route = "/v1/providers/none/switch";
    for (browser, usage, switch) in [
        (&operator, 200, 400),
        (&client, 200, 403),
        (&agent, 403, 403),
    ] {
        let session = browser.client();
        assert_eq!(session.get("/v1/usage").await.status, usage);
        assert_eq!(session.post(route, json!({})).await.status, switch);
    }
    let foreign = daemon.home.daemon.thread(json!({})).await;
    assert_eq!(agent.client().get(&foreign).await.status, 404);
    daemon.home.tokens.revoke(&id).unwrap();
    assert_eq!(client.client().get("/v1/threads").await.status, 401);
    agent.client().get("/v1/threads").await.expect(200);
    assert_eq!(daemon.logins.log_out_all().unwrap(), 3);
    assert_eq!(operator.client().get("/v1/threads").await.status, 401);
}

#[tokio::test]
async fn other_pages_cannot_log_in_or_use_a_session() {
    let daemon = ConsoleDaemon::start().await;
    let browser = daemon.browser().await;
    let plain = daemon.home.daemon.client.anonymous();
    let same_host = format!("http://127.0.0.1:{}", plain.address.port() ^ 1);
    // Origins of local clients may use tokens, and are other origins all the same.
    for origin in [
        Some("http://evil.example"),
        Some("http://localhost:3000"),
        Some("null"),
        Some(same_host.as_str()),
        None,
    ] {
        let page = match origin {
            Some(origin) => plain.with("origin", origin),
            None => plain.clone(),
        };
        let code = daemon.logins.create_code().unwrap();
        let login = page.post("/console/login", json!({ "code": code })).await;
        assert_eq!(login.status, 403, "{origin:?}");
        assert_eq!(login.header("set-cookie"), None);
        let thief = page
            .with("cookie", &browser.cookie)
            .with("x-windlass-key", &browser.key)
            .with("sec-fetch-site", "cross-site");
        assert_eq!(thief.get("/v1/threads").await.status, 401, "{origin:?}");
        let change = thief.post("/v1/threads", json!({})).await;
        assert!(matches!(change.status, 401 | 403), "{origin:?}");
        let out = thief.post("/console/logout", json!({})).await;
        assert!(matches!(out.status, 401 | 403), "{origin:?}");
    }
    let rebound = browser.client().with("host", "evil.example");
    for path in ["/console/", "/console/session", "/v1/threads"] {
        assert_eq!(rebound.get(path).await.code(), "foreign_host");
    }
    browser.client().get("/v1/threads").await.expect(200);
}

#[tokio::test]
async fn login_needs_a_private_connection() {
    let public: PublicUrl = "https://agents.example".parse().unwrap();
    let daemon = ConsoleDaemon::with(|settings| settings.public_url = Some(public)).await;
    let plain = daemon.home.daemon.client.anonymous();
    let open = |host: &str, scheme: &str| {
        plain
            .with("host", host)
            .with("origin", &format!("{scheme}://{host}"))
    };
    let code = daemon.logins.create_code().unwrap();
    let login = json!({ "code": code });
    let lan = open("192.0.2.7:7878", "http");
    assert_eq!(
        lan.post("/console/login", login.clone()).await.code(),
        "forbidden"
    );
    let page = lan.get("/console/").await;
    assert_eq!(page.status, 403);
    assert!(String::from_utf8_lossy(&page.body).contains("192.0.2.7:7878"));
    // The code is still valid.
    let tls = open("agents.example", "https");
    let logged_in = tls.post("/console/login", login).await;
    let cookie = logged_in.header("set-cookie").unwrap().to_owned();
    assert!(cookie.starts_with("__Host-windlass_console=") && cookie.contains("; Secure"));
    let key = logged_in.expect(200)["key"].as_str().unwrap().to_owned();
    let value = cookie.split(['=', ';']).nth(1).unwrap();
    let session = |client: &crate::support::Client, name: &str| {
        let pair = format!("{name}={value}");
        client.with("cookie", &pair).with("x-windlass-key", &key)
    };
    let secure = session(&tls, "__Host-windlass_console");
    secure.get("/v1/threads").await.expect(200);
    // Another subdomain, or a page without TLS, can set a cookie without the prefix.
    let injected = session(&tls, "windlass_console");
    assert_eq!(injected.get("/v1/threads").await.status, 401);
    let info = plain.get("/v1/runtime/info").await.expect(200);
    assert_eq!(info["console_url"], "https://agents.example/console/");
}

#[tokio::test]
async fn guesses_are_limited() {
    let daemon = ConsoleDaemon::start().await;
    let browser = daemon.browser().await;
    for _ in 0..10 {
        let guess = json!({ "token": "guess" });
        assert_eq!(daemon.log_in_with(guess).await.code(), "unauthorized");
    }
    let refused = daemon.log_in_with(json!({ "token": TOKEN })).await;
    assert_eq!(refused.code(), "limit_reached");
    assert!(refused.header("retry-after").is_some());
    // A code cannot be guessed, so guesses do not lock out its owner.
    let code = daemon.logins.create_code().unwrap();
    daemon
        .log_in_with(json!({ "code": code }))
        .await
        .expect(200);
    // Sessions are not affected.
    browser.client().get("/v1/threads").await.expect(200);
    daemon.clock.advance(Duration::from_secs(60));
    daemon
        .log_in_with(json!({ "token": TOKEN }))
        .await
        .expect(200);
}

#[tokio::test]
async fn many_logins_with_a_token_end_no_session_of_the_operator() {
    let daemon = ConsoleDaemon::start().await;
    let browser = daemon.browser().await;
    let (_, token) = daemon.home.token("client");
    for _ in 0..257 {
        let login = json!({ "token": token });
        daemon.log_in_with(login).await.expect(200);
    }
    browser.client().get("/v1/threads").await.expect(200);
}

#[tokio::test]
async fn invalid_login_is_refused_and_not_repeated() {
    let daemon = ConsoleDaemon::start().await;
    let page = daemon.page();
    for (body, status) in [
        (json!({}), 422),
        (json!({"code": "secret-1", "token": "secret-1"}), 422),
        (json!({"password": "secret-1"}), 400),
        (json!({"code": ["secret-1"]}), 400),
        (json!({ "code": "secret-1".repeat(1_000) }), 413),
    ] {
        let refused = page.post("/console/login", body).await;
        assert_eq!(refused.status, status, "{:?}", refused.body);
        assert!(!String::from_utf8_lossy(&refused.body).contains("secret-1"));
    }
    let form = page.with("content-type", "application/x-www-form-urlencoded");
    let refused = form.raw("POST", "/console/login", Some("code=1")).await;
    assert_eq!(refused.status, 415);
}

#[tokio::test]
async fn unreadable_logins_grant_nothing() {
    let daemon = ConsoleDaemon::start().await;
    let browser = daemon.browser().await;
    let code = daemon.logins.create_code().unwrap();
    std::fs::write(daemon._directory.path().join("logins.json"), "{").unwrap();
    let refused = browser.client().get("/v1/threads").await;
    assert_eq!(refused.code(), "tokens_unavailable");
    let login = daemon.log_in_with(json!({ "code": code })).await;
    assert_eq!(login.code(), "tokens_unavailable");
    daemon
        .home
        .daemon
        .client
        .get("/v1/threads")
        .await
        .expect(200);
}

#[tokio::test]
async fn daemon_without_logins_or_tokens_has_no_sessions() {
    let daemon = TestDaemon::start().await;
    let origin = format!("http://{}", daemon.client.address);
    let page = daemon.client.anonymous().with("origin", &origin);
    let login = page.post("/console/login", json!({ "token": TOKEN })).await;
    assert_eq!(login.code(), "forbidden");
    let open = crate::support::Setup::settings(|settings| {
        settings.access = windlass_server::Access::Open;
    });
    let open = open.start().await;
    let session = open.client.get("/console/session").await.expect(200);
    assert_eq!(session, json!({"login": false, "scope": "admin"}));
}
