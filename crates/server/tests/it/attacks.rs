//! Attacks by web pages, clients with limited tokens, and hostile values.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_server::Access;

use crate::support::{MultiTokenDaemon, Setup, TestDaemon, soon};

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[tokio::test]
async fn a10_dns_rebinding_page_gets_no_answer() {
    let setup = Setup::settings(|settings| {
        settings.access = Access::Open;
        settings.allowed_hosts = vec!["windlass.example".to_owned()];
    });
    let daemon = setup.start().await;
    for host in [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "127.0.0.1@evil.example",
        "",
        "a b",
    ] {
        let client = daemon.client.with("host", host);
        for reply in [
            client.get("/v1/threads").await,
            client.post("/v1/threads", json!({})).await,
        ] {
            assert_eq!(reply.status, 421, "{host}");
            assert_eq!(reply.code(), "foreign_host");
        }
    }
    let twice = daemon
        .client
        .with("host", "localhost")
        .with("host", "evil.example");
    assert_eq!(twice.get("/v1/threads").await.status, 421);
    for host in [
        "localhost",
        "LOCALHOST:7878",
        "app.localhost",
        "127.0.0.1",
        "[::1]:80",
        "192.168.1.5:7878",
        "windlass.example",
    ] {
        let client = daemon.client.with("host", host);
        client.get("/v1/threads").await.expect(200);
    }
}

#[tokio::test]
async fn a10_cross_origin_post_is_rejected_also_without_a_body() {
    let setup = Setup::settings(|settings| settings.access = Access::Open);
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let own = format!("http://{}", daemon.client.address);
    let fork = format!("{thread}/fork");
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let reply = daemon
            .client
            .with(name, value)
            .raw("POST", &fork, None)
            .await;
        assert_eq!(reply.status, 403, "{name}: {value}");
        assert_eq!(reply.code(), "forbidden");
    }
    for (name, value) in [("origin", own.as_str()), ("sec-fetch-site", "same-origin")] {
        let reply = daemon
            .client
            .with(name, value)
            .raw("POST", &fork, None)
            .await;
        assert_eq!(reply.status, 201, "{name}: {value}: {:?}", reply.body);
    }
}

#[tokio::test]
async fn a12_streams_end_when_their_token_is_revoked() {
    let home = MultiTokenDaemon::start().await;
    let (id, secret) = home.token("agent:a");
    let agent = home.client(&secret);
    let thread = agent.post("/v1/threads", json!({})).await.expect(201);
    let thread = thread["id"].as_str().unwrap();
    let mut stream = agent.stream(&format!("/v1/threads/{thread}/events")).await;
    stream.until_comment("caught-up").await;
    assert!(home.tokens.revoke(&id).unwrap());
    // Reads to the end of the response.
    soon(stream.rest()).await;
    assert_eq!(agent.get("/v1/threads").await.status, 401);
}

/// Connections that send nothing.
async fn idle(home: &MultiTokenDaemon, count: usize) -> Vec<TcpStream> {
    let mut idle = Vec::new();
    for _ in 0..count {
        idle.push(
            TcpStream::connect(home.daemon.client.address)
                .await
                .unwrap(),
        );
    }
    idle
}

#[tokio::test]
async fn a13_connections_without_a_token_do_not_lock_out_the_operator() {
    let home = MultiTokenDaemon::with(|settings| {
        settings.limits.connections = 4;
        settings.limits.token_time = Duration::from_secs(600);
    })
    .await;
    let mut strangers = idle(&home, 40).await;
    soon(home.daemon.client.get("/v1/threads"))
        .await
        .expect(200);
    // The oldest connection was closed first.
    let mut byte = [0];
    assert_eq!(soon(strangers[0].read(&mut byte)).await.unwrap_or(0), 0);
    // An authenticated connection stays open, however many others connect.
    let thread = home.daemon.thread(json!({})).await;
    let mut stream = home.daemon.events(&thread, 0).await;
    stream.until_comment("caught-up").await;
    let _more = idle(&home, 40).await;
    soon(
        home.daemon
            .client
            .post(&format!("{thread}/turns"), json!({"prompt": "hello"})),
    )
    .await
    .expect(201);
    stream.until("turn.completed").await;
}

#[tokio::test]
async fn a13_connection_must_present_a_token_quickly() {
    let home =
        MultiTokenDaemon::with(|settings| settings.limits.token_time = Duration::from_millis(200))
            .await;
    let thread = home.daemon.thread(json!({})).await;
    let mut known = home.daemon.events(&thread, 0).await;
    known.until_comment("caught-up").await;
    let mut byte = [0];
    for mut stranger in idle(&home, 3).await {
        assert_eq!(soon(stranger.read(&mut byte)).await.unwrap_or(0), 0);
    }
    // An invalid token does not count, and neither does a request that needs none.
    for (path, token) in [("/v1/threads", "wrong"), ("/health", "wrong")] {
        let mut stranger = idle(&home, 1).await.remove(0);
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stranger.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        soon(stranger.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 "), "{path}");
    }
    // The authenticated connection is still open.
    home.daemon
        .client
        .post(&format!("{thread}/turns"), json!({"prompt": "hello"}))
        .await
        .expect(201);
    known.until("turn.completed").await;
}

#[tokio::test]
async fn a20_one_token_cannot_use_all_streams() {
    let home = MultiTokenDaemon::with(|settings| settings.limits.subscribers_of_token = 2).await;
    let agent = home.client(&home.agent("a"));
    let thread = agent.post("/v1/threads", json!({})).await.expect(201);
    let path = format!("/v1/threads/{}/events", thread["id"].as_str().unwrap());
    let mut first = agent.stream(&path).await;
    first.until_comment("caught-up").await;
    let mut second = agent.stream(&path).await;
    second.until_comment("caught-up").await;
    let refused = agent.get(&path).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "limit_reached")
    );
    let other = home.client(&home.token("admin").1);
    other.stream(&path).await.until_comment("caught-up").await;
}

#[tokio::test]
async fn a20_one_token_cannot_exhaust_connections_or_body_memory() {
    let home = MultiTokenDaemon::with(|settings| {
        settings.limits.connections_of_token = 2;
        settings.limits.body_bytes_of_token = 1000;
    })
    .await;
    let agent = home.client(&home.agent("a"));
    let thread = agent.post("/v1/threads", json!({})).await.expect(201);
    let path = format!("/v1/threads/{}/events", thread["id"].as_str().unwrap());
    let mut first = agent.stream(&path).await;
    first.until_comment("caught-up").await;
    let large = json!({"system_prompt": "x".repeat(2000)});
    let refused = agent.post("/v1/threads", large.clone()).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "limit_reached")
    );
    let mut second = agent.stream(&path).await;
    second.until_comment("caught-up").await;
    let refused = agent.get("/v1/threads").await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "limit_reached")
    );
    // One token's usage does not reduce another's quota, and quota is released afterwards.
    home.daemon
        .client
        .post("/v1/threads", large)
        .await
        .expect(201);
    drop((first, second));
    soon(async {
        while agent.get("/v1/threads").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a14_schema_with_doubling_references_is_refused() {
    let daemon = TestDaemon::start().await;
    let mut definitions = json!({"d0": {"type": "string"}});
    for level in 1..40 {
        let below = format!("#/$defs/d{}", level - 1);
        definitions[format!("d{level}")] = json!({"allOf": [{"$ref": below}, {"$ref": below}]});
    }
    let tool = |schema: Value| json!({"dynamic_tools": [{"name": "t", "description": "d", "input_schema": schema}]});
    let doubling = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d39"}},
        "$defs": definitions
    });
    let refused = daemon.client.post("/v1/threads", tool(doubling)).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (422, "invalid_tool_spec")
    );
    // A recursive schema is accepted as before.
    let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}}});
    daemon
        .client
        .post("/v1/threads", tool(tree))
        .await
        .expect(201);
}

#[tokio::test]
async fn a15_excessive_nesting_is_refused() {
    let daemon = TestDaemon::start().await;
    for depth in [65, 120, 127, 5_000, 1_000_000] {
        let body = format!("{{\"title\":\"t\",\"dynamic_tools\":{}}}", nested(depth));
        let refused = daemon.client.raw("POST", "/v1/threads", Some(&body)).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "invalid_json"),
            "{depth}"
        );
    }
}

#[tokio::test]
async fn a18_unknown_policy_grants_no_rights() {
    let daemon = TestDaemon::start().await;
    let root = tempfile::tempdir().unwrap();
    let make = |policy: Value| {
        let body = json!({"id": "e", "root": root.path(), "policy": policy});
        daemon.client.post("/v1/environments", body)
    };
    for policy in [
        json!({"writ": false}),
        json!({"write": false, "Shell": false}),
        json!([]),
        json!([false, false, "deny"]),
        json!("none"),
        json!(null),
    ] {
        let refused = make(policy.clone()).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (422, "invalid_field"),
            "{policy}"
        );
    }
    make(json!({"write": false})).await.expect(201);
}

#[tokio::test]
async fn names_of_ignored_fields_are_echoed_up_to_a_limit() {
    let daemon = TestDaemon::start().await;
    let mut body = serde_json::Map::new();
    for number in 0..1000 {
        body.insert(format!("unknown_{number}"), json!(1));
    }
    body.insert("x".repeat(10_000), json!(1));
    let reply = daemon.client.post("/v1/threads", Value::Object(body)).await;
    assert_eq!(reply.status, 201);
    assert!(reply.header("x-windlass-ignored").unwrap().len() < 2_000);
}

#[tokio::test]
async fn endless_body_times_out() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let setup = Setup::settings(|settings| {
        settings.limits.body_time = std::time::Duration::from_millis(100);
        settings.access = Access::Open;
    });
    let daemon = setup.start().await;
    let mut socket = tokio::net::TcpStream::connect(daemon.client.address)
        .await
        .unwrap();
    let head = "POST /v1/threads HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    soon(socket.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[tokio::test]
async fn a20_one_agent_cannot_use_the_whole_thread_quota() {
    let home = MultiTokenDaemon::with(|settings| settings.limits.threads_of_agent = 2).await;
    let (one, other) = (home.client(&home.agent("a")), home.client(&home.agent("b")));
    let first = one.post("/v1/threads", json!({})).await.expect(201);
    let path = format!("/v1/threads/{}/fork", first["id"].as_str().unwrap());
    one.post(&path, json!({})).await.expect(201);
    for path in ["/v1/threads", &path] {
        let refused = one.post(path, json!({})).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (429, "limit_reached")
        );
    }
    other.post("/v1/threads", json!({})).await.expect(201);
    home.daemon.thread(json!({})).await;
}

#[tokio::test]
async fn token_revoked_while_a_body_arrives_is_rejected() {
    let home = MultiTokenDaemon::start().await;
    for keyed in ["", "idempotency-key: once\r\n"] {
        let (id, secret) = home.token("client");
        let thread = home.daemon.thread(json!({})).await;
        let body = r#"{"prompt":"hello"}"#;
        let head = format!(
            "POST {thread}/turns HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {secret}\r\n{keyed}\
             connection: close\r\nexpect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(home.daemon.client.address)
            .await
            .unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server asks for the body only after it has accepted the token.
        let mut status_line = [0; 12];
        soon(stream.read_exact(&mut status_line)).await.unwrap();
        assert_eq!(&status_line, b"HTTP/1.1 100");
        stream.write_all(&body.as_bytes()[..5]).await.unwrap();
        assert!(home.tokens.revoke(&id).unwrap());
        stream.write_all(&body.as_bytes()[5..]).await.unwrap();
        let mut answer = Vec::new();
        soon(stream.read_to_end(&mut answer)).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("HTTP/1.1 401"), "{keyed:?}: {answer}");
        let detail = home.daemon.detail(&thread).await;
        assert_eq!(detail["turns"], json!([]));
    }
}

#[tokio::test]
async fn open_daemon_trusts_only_configured_origins() {
    let setup = Setup::settings(|settings| {
        settings.access = Access::Open;
        settings.cors_origins = vec!["http://dashboard.example".to_owned()];
    });
    let daemon = setup.start().await;
    let own = format!("http://{}", daemon.client.address);
    for (name, value, status) in [
        ("origin", "http://localhost:3000", 403),
        ("origin", "tauri://localhost", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("origin", own.as_str(), 200),
        ("origin", "http://dashboard.example", 200),
        ("sec-fetch-site", "same-origin", 200),
        ("sec-fetch-site", "none", 200),
    ] {
        let client = daemon.client.with(name, value);
        for path in ["/v1/threads", "/v1/apps/mcp/tools"] {
            let reply = client.get(path).await;
            assert_eq!(reply.status, status, "{name}: {value}: {path}");
        }
        let reply = client.post("/v1/threads", json!({})).await;
        let expected = if status == 200 { 201 } else { 403 };
        assert_eq!(reply.status, expected, "{name}: {value}");
    }
    let connect = daemon.client.get("/v1/apps/mcp/tools?connect=true").await;
    assert_eq!(connect.status, 400, "a GET starts no program");
    let page = daemon.client.with("origin", "http://localhost:3000");
    let preflight = page
        .with("access-control-request-method", "POST")
        .raw("OPTIONS", "/v1/threads", None)
        .await;
    assert_eq!(preflight.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn page_of_a_known_origin_can_read_with_a_token() {
    let daemon = TestDaemon::start().await;
    let page = daemon.client.with("origin", "http://localhost:3000");
    let reply = page.get("/v1/threads").await;
    assert_eq!(
        reply.header("access-control-allow-origin"),
        Some("http://localhost:3000")
    );
    reply.expect(200);
}
