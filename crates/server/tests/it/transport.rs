//! Errors, tokens, origins, bodies, repeated requests, limits, shutdown.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_server::{Access, ApiServer, HostWireStore, Settings, StartError};
use windlass_store::HostRecord;

use crate::support::{Setup, TOKEN, TestDaemon, soon};

#[tokio::test]
async fn r1_every_rejection_is_json_with_a_code() {
    let daemon = Setup::settings(|settings| settings.limits.body_bytes = 1000)
        .start()
        .await;
    let client = &daemon.client;
    let thread = daemon.thread(json!({})).await;
    let large = json!({ "title": "x".repeat(2000) }).to_string();
    let form = client.with("content-type", "text/plain");
    for (reply, status, code) in [
        (
            client.raw("POST", "/v1/threads", Some("{bad")).await,
            400,
            "invalid_json",
        ),
        (
            client.raw("POST", "/v1/threads", Some("[]")).await,
            422,
            "invalid_field",
        ),
        (
            client.post("/v1/threads", json!({"archived": "yes"})).await,
            422,
            "invalid_field",
        ),
        (
            client.get(&format!("{thread}/events?since_seq=abc")).await,
            400,
            "invalid_query",
        ),
        (
            client
                .get(&format!("{thread}/events?replay_limit=9999"))
                .await,
            400,
            "invalid_query",
        ),
        (
            client.get("/v1/threads?limit=x").await,
            400,
            "invalid_query",
        ),
        (
            client
                .get("/v1/usage?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z")
                .await,
            400,
            "invalid_query",
        ),
        (
            form.raw("POST", "/v1/threads", Some("{}")).await,
            415,
            "unsupported_media_type",
        ),
        (
            form.raw("POST", &format!("{thread}/turns"), Some("{}"))
                .await,
            415,
            "unsupported_media_type",
        ),
        (
            client.raw("POST", "/v1/threads", Some(&large)).await,
            413,
            "body_too_large",
        ),
        (client.get("/v1/nope").await, 404, "unknown_path"),
        (client.get("/nope").await, 404, "unknown_path"),
        (
            client.get("/v1/threads/thr_missing").await,
            404,
            "thread_not_found",
        ),
        (
            client
                .post(&format!("{thread}/turns"), json!({"prompt": "  "}))
                .await,
            400,
            "prompt_required",
        ),
        (
            client.post(&format!("{thread}/turns"), json!({})).await,
            422,
            "invalid_field",
        ),
        (client.patch(&thread, json!({})).await, 400, "no_changes"),
        (
            client.post("/v1/tasks", json!({})).await,
            422,
            "invalid_field",
        ),
    ] {
        assert_eq!((reply.status, reply.code().as_str()), (status, code));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("vary"), Some("origin"));
        assert!(reply.header("x-request-id").is_some());
    }
    let missing = client
        .post(&format!("{thread}/turns"), json!({}))
        .await
        .json();
    assert_eq!(missing["error"]["details"]["field"], "/prompt");
    let wrong = client
        .post(
            "/v1/threads",
            json!({"environments": [{"environment_id": 7, "cwd": "/"}]}),
        )
        .await
        .json();
    assert_eq!(
        wrong["error"]["details"]["field"],
        "/environments/0/environment_id"
    );
    daemon.say(&thread, "hello").await;
}

#[tokio::test]
async fn r2_wrong_method_gets_the_allowed_methods() {
    let daemon = TestDaemon::start().await;
    for (method, path, allowed) in [
        ("PUT", "/v1/threads", "GET,HEAD,POST"),
        ("GET", "/v1/threads/__probe__/undo", "POST"),
        ("PUT", "/v1/threads/thr_x", "DELETE,GET,HEAD,PATCH"),
        ("POST", "/health", "GET,HEAD"),
        ("PUT", "/v1/skills", "GET,HEAD"),
    ] {
        let reply = daemon.client.raw(method, path, None).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (405, "method_not_allowed"),
            "{path}"
        );
        let mut methods: Vec<_> = reply
            .header("allow")
            .unwrap()
            .split(',')
            .map(str::trim)
            .collect();
        methods.sort_unstable();
        assert_eq!(methods.join(","), allowed, "{path}");
    }
    let head = daemon.client.raw("HEAD", "/v1/threads", None).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn r4_only_known_origins_are_accepted_and_put_is_allowed() {
    let daemon = Setup::settings(|settings| {
        settings.cors_origins = vec!["https://console.example".to_owned(), "*".to_owned()];
    })
    .start()
    .await;
    let ask = |origin: &str| {
        daemon
            .client
            .anonymous()
            .with("origin", origin)
            .with("access-control-request-method", "PUT")
    };
    for origin in [
        "http://localhost:3000",
        "tauri://localhost",
        "https://tauri.localhost",
        "https://console.example",
    ] {
        let reply = ask(origin).raw("OPTIONS", "/v1/threads", None).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
        let methods = reply.header("access-control-allow-methods").unwrap();
        assert!(
            methods.contains("PUT") && methods.contains("PATCH"),
            "{methods}"
        );
        let headers = reply.header("access-control-allow-headers").unwrap();
        for name in [
            "authorization",
            "last-event-id",
            "idempotency-key",
            "x-codewhale-runtime-token",
        ] {
            assert!(headers.contains(name), "{headers}");
        }
    }
    let reply = ask("http://evil.example")
        .raw("OPTIONS", "/v1/threads", None)
        .await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), None);
    let reply = daemon
        .client
        .with("origin", "http://localhost:3000")
        .get("/v1/threads")
        .await;
    let exposed = reply.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("x-windlass-ignored"), "{exposed}");
}

#[tokio::test]
async fn r6_token_is_accepted_only_in_the_documented_places() {
    let daemon = TestDaemon::start().await;
    let anonymous = daemon.client.anonymous();
    for public in ["/health", "/ready", "/v1/runtime/info"] {
        assert_eq!(anonymous.get(public).await.status, 200, "{public}");
    }
    let cookie = format!("a=b; codewhale_runtime_token={}", TOKEN.replace('-', "%2D"));
    for carrier in [
        anonymous.with("authorization", &format!("bearer {TOKEN}")),
        anonymous.with("x-windlass-runtime-token", TOKEN),
        anonymous.with("x-codewhale-runtime-token", TOKEN),
        anonymous.with("x-deepseek-runtime-token", TOKEN),
        anonymous.with("cookie", &cookie),
        anonymous
            .with("cookie", &cookie)
            .with("sec-fetch-site", "same-origin"),
    ] {
        assert_eq!(carrier.get("/v1/threads").await.status, 200, "{carrier:?}");
    }
    for stranger in [
        anonymous.clone(),
        anonymous.with("authorization", "Bearer a-token-for-testz"),
        anonymous.with("authorization", &format!("Basic {TOKEN}")),
        anonymous.with("authorization", "Bearer"),
        anonymous.with("x-windlass-runtime-token", ""),
        anonymous
            .with("cookie", &cookie)
            .with("sec-fetch-site", "cross-site"),
        anonymous
            .with("cookie", &cookie)
            .with("origin", "http://localhost:3000"),
    ] {
        let reply = stranger.get(&format!("/v1/threads?token={TOKEN}")).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (401, "unauthorized"),
            "{stranger:?}"
        );
        let is_wrong = stranger
            .headers
            .iter()
            .any(|(_, value)| value.ends_with('z'));
        let expected = if is_wrong {
            "the token is invalid"
        } else {
            "runtime API bearer token required"
        };
        assert_eq!(reply.json()["error"]["message"], expected, "{stranger:?}");
        assert_eq!(stranger.get("/v1/nope").await.status, 401);
    }
}

#[tokio::test]
async fn r7_optional_body_may_be_missing() {
    let daemon = TestDaemon::start().await;
    let typed = daemon.client.with("content-type", "application/json");
    assert_eq!(
        daemon.client.raw("POST", "/v1/threads", None).await.status,
        201
    );
    assert_eq!(typed.raw("POST", "/v1/threads", None).await.status, 201);
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    for (verb, status) in [
        ("resume", 200),
        ("fork", 201),
        ("undo", 201),
        ("retry", 201),
    ] {
        let path = format!("{thread}/{verb}");
        for reply in [
            daemon.client.raw("POST", &path, None).await,
            typed.raw("POST", &path, None).await,
            daemon.client.post(&path, json!({})).await,
        ] {
            assert_eq!(reply.status, status, "{verb}: {:?}", reply.body);
        }
    }
    assert_eq!(typed.raw("GET", &thread, None).await.status, 200);
}

#[tokio::test]
async fn r8_ten_equal_requests_with_one_key_start_one_turn() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let keyed = daemon.client.with("idempotency-key", "once");
    let path = format!("{thread}/turns");
    let requests: Vec<_> = (0..10)
        .map(|_| tokio::spawn(keyed.post(&path, json!({"prompt": "SLOW please"}))))
        .collect();
    let mut answers = Vec::new();
    for request in requests {
        answers.push(request.await.unwrap().expect(201));
    }
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    let other = keyed.post(&path, json!({"prompt": "another"})).await;
    assert_eq!(
        (other.status, other.code().as_str()),
        (409, "idempotency_conflict")
    );
    daemon.model.open();
    let mut events = daemon.events(&thread, 0).await;
    events.until("turn.completed").await;
    assert_eq!(
        daemon.detail(&thread).await["turns"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let late = keyed.post(&path, json!({"prompt": "SLOW please"})).await;
    assert_eq!(late.header("idempotency-replayed"), Some("true"));
    assert_eq!(late.expect(201), answers[0]);
}

#[tokio::test]
async fn r9_unknown_fields_are_named() {
    let daemon = TestDaemon::start().await;
    let body = json!({"title": "T", "reasoning_effort": "low", "colour": 1, "flavour": 2});
    let reply = daemon.client.post("/v1/threads", body).await;
    assert_eq!(reply.header("x-windlass-ignored"), Some("colour,flavour"));
    let thread = reply.expect(201);
    assert_eq!(
        (&thread["title"], &thread["reasoning_effort"]),
        (&json!("T"), &json!("low"))
    );
    let path = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    daemon.say(&path, "hello").await;
    let requests = daemon.model.requests();
    assert_eq!(requests[0].config.reasoning_effort.as_deref(), Some("low"));
    let plain = daemon
        .client
        .post("/v1/threads", json!({"title": "T"}))
        .await;
    assert_eq!(plain.header("x-windlass-ignored"), None);
}

#[tokio::test]
async fn r10_unknown_mode_is_refused() {
    let daemon = TestDaemon::start().await;
    let reply = daemon
        .client
        .post("/v1/threads", json!({"mode": "plann"}))
        .await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (422, "invalid_field")
    );
    assert_eq!(reply.json()["error"]["details"]["field"], "/mode");
    let thread = daemon
        .client
        .post("/v1/threads", json!({"mode": "BYPASS"}))
        .await
        .expect(201);
    assert_eq!(thread["mode"], "yolo");
    let path = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    let reply = daemon
        .client
        .post(
            &format!("{path}/turns"),
            json!({"prompt": "x", "mode": "?"}),
        )
        .await;
    assert_eq!(reply.status, 422);
    assert_eq!(daemon.detail(&path).await["turns"], json!([]));
}

#[tokio::test]
async fn exceeded_limit_gets_retry_after() {
    let daemon = Setup::settings(|settings| {
        settings.limits.threads = 2;
        settings.limits.subscribers = 1;
    })
    .start()
    .await;
    let thread = daemon.thread(json!({})).await;
    daemon.thread(json!({})).await;
    let reply = daemon.client.post("/v1/threads", json!({})).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (429, "limit_reached")
    );
    assert_eq!(reply.header("retry-after"), Some("1"));
    let held = daemon.events(&thread, 0).await;
    let reply = daemon.client.get(&format!("{thread}/events")).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (429, "limit_reached")
    );
    drop(held);
    soon(async {
        // The slot is released when the daemon notices that the reader disconnected.
        loop {
            let figures = daemon.client.get("/metrics").await.body;
            if String::from_utf8_lossy(&figures).contains("\nwindlass_subscribers 0\n") {
                break;
            }
        }
    })
    .await;
    daemon.events(&thread, 0).await;
}

#[tokio::test]
async fn garbage_bytes_do_not_affect_other_clients() {
    let daemon = TestDaemon::start().await;
    for bytes in [
        &b"GET /v1/threads HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \xff\xfe\r\n\r\n"[..],
        &b"GET /v1/threads HTTP/1.1\r\nhost: localhost\r\ncookie: codewhale_runtime_token=%ff\r\n\r\n"[..],
        &b"\x00\x01\x02\r\n\r\n"[..],
        &b"POST /v1/threads HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n"[..],
    ] {
        let mut stream = TcpStream::connect(daemon.client.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = vec![0; 12];
        soon(stream.read_exact(&mut answer)).await.unwrap();
        assert!(
            answer.starts_with(b"HTTP/1.1 4"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(daemon.client.get("/health").await.status, 200);
}

#[tokio::test]
async fn stopping_daemon_notifies_its_readers_and_exits() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    events.until("thread.started").await;
    daemon.stop.cancel();
    assert_eq!(events.rest().await, []);
    assert!(
        events.comments.contains(&"shutdown".to_owned()),
        "{:?}",
        events.comments
    );
    soon(daemon.running).await.unwrap();
}

#[tokio::test]
async fn open_daemon_listens_only_on_loopback() {
    let daemon = Setup::settings(|settings| settings.access = Access::Open)
        .start()
        .await;
    assert_eq!(daemon.client.get("/v1/threads").await.status, 200);
    let info = daemon.client.get("/v1/runtime/info").await.expect(200);
    assert_eq!(info["auth_required"], false);
    assert_eq!(info["port"], daemon.client.address.port());
    let harness = windlass_runtime::HarnessBuilder::new("h", "").build();
    let mut settings = Settings::new(daemon.workspace.path(), harness.id, Access::Open);
    settings.host = "0.0.0.0".to_owned();
    daemon.runtime.add_harness(harness).await.unwrap();
    let store = std::sync::Arc::new(HostWireStore::in_memory(1));
    let refused = ApiServer::bind(daemon.runtime.clone(), settings, store).await;
    assert!(
        matches!(refused, Err(StartError::OpenToOtherMachines(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn unimplemented_groups_have_empty_lists() {
    let daemon = TestDaemon::start().await;
    for (path, empty) in [
        (
            "/v1/tasks",
            json!({"tasks": [], "counts": {"queued": 0, "running": 0, "completed": 0, "failed": 0, "canceled": 0}}),
        ),
        ("/v1/automations", json!([])),
        ("/v1/snapshots", json!([])),
        ("/v1/agent-runs", json!({"runs": []})),
    ] {
        assert_eq!(daemon.client.get(path).await.expect(200), empty, "{path}");
    }
    let later = daemon.client.get("/v1/fleet/workers").await;
    assert_eq!(later.status, 404);
    let status: Value = daemon.client.get("/v1/workspace/status").await.expect(200);
    assert_eq!(status["git_repo"], false);
}

#[tokio::test]
async fn internal_error_contains_only_its_request_id() {
    let setup = Setup::default();
    let session = HostRecord {
        name: "sess_00000000000000000000000000000001".to_owned(),
        body: br#"{"secret": "of the host"}"#.to_vec().into(),
    };
    let records = setup.store.records();
    let stored = records.put("saved_session", session, chrono::Utc::now());
    stored.await.unwrap();
    let daemon = setup.start().await;
    let reply = daemon.client.with("origin", "http://localhost:3000");
    let reply = reply
        .get("/v1/sessions/sess_00000000000000000000000000000001")
        .await;
    assert_eq!((reply.status, reply.code().as_str()), (500, "internal"));
    let named = reply.header("x-request-id").unwrap();
    let details = &reply.json()["error"]["details"];
    assert_eq!(*details, json!({ "request_id": named }));
    assert!(reply.header("access-control-allow-origin").is_some());
    assert!(!reply.body.windows(6).any(|word| word == b"secret"));
}

/// Returns whether this process may open both ends of 500 connections; if not, the test is reported as skipped.
fn can_connect_500_times(test: &str) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let is_enough = limit.current.is_none_or(|most| most >= 1_500);
    if !is_enough {
        windlass_testkit::skipped(test, "it needs 1500 file descriptors (ulimit -n)");
    }
    is_enough
}

#[tokio::test]
async fn five_hundred_connections_wait_for_a_busy_server() {
    if !can_connect_500_times("transport::five_hundred_connections_wait_for_a_busy_server") {
        return;
    }
    // Nothing accepts connections, so each must fit into the listener's queue.
    let listener = windlass_server::listen("127.0.0.1", 0).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..500 {
        waiting.push(soon(TcpStream::connect(address)).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_simultaneous_requests_are_all_answered() {
    if !can_connect_500_times("transport::five_hundred_simultaneous_requests_are_all_answered") {
        return;
    }
    let daemon = TestDaemon::start().await;
    let begin = std::sync::Arc::new(tokio::sync::Barrier::new(500));
    let requests = (0..500).map(|number| {
        let (client, begin) = (daemon.client.clone(), std::sync::Arc::clone(&begin));
        tokio::spawn(async move {
            begin.wait().await;
            match number % 2 {
                0 => client.get("/v1/threads").await.status,
                _ => client.anonymous().get("/health").await.status,
            }
        })
    });
    for request in requests.collect::<Vec<_>>() {
        assert_eq!(request.await.unwrap(), 200);
    }
}
