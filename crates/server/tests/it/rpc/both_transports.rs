//! The socket and HTTP share their operations: same callers, same responses, same refusals.

use serde_json::{Value, json};
use windlass_core::ThreadRecord;
use windlass_core::events::SessionUpdatedData;
use windlass_protocol::operations::{OPERATIONS, RequiredScope};
use windlass_server::{TokenScope, socket_methods};

use super::{MultiTokenDaemon, open_daemon};
use crate::rpc::socket::RpcSocket;
use crate::support::{Client, TOKEN, soon, text};

/// Each method of the socket, and the route that shares its function.
const PAIRS: [(&str, &str, &str); 6] = [
    ("threads.create", "POST", "/v1/threads"),
    ("turns.start", "POST", "/v1/threads/{id}/turns"),
    (
        "turns.steer",
        "POST",
        "/v1/threads/{id}/turns/{turn_id}/steer",
    ),
    (
        "turns.interrupt",
        "POST",
        "/v1/threads/{id}/turns/{turn_id}/interrupt",
    ),
    ("events.subscribe", "GET", "/v1/threads/{id}/events"),
    ("tools.register", "PATCH", "/v1/threads/{id}"),
];

const UNKNOWN_THREAD: &str = "thr_00000000000000000000000000000000";
const NO_TURN: &str = "turn_00000000000000000000000000000000";

/// Sends the parameters of a method to its route.
async fn over_http(client: &Client, method: &str, params: &Value) -> (u16, Value) {
    let (_, verb, path) = PAIRS.iter().find(|pair| pair.0 == method).unwrap();
    let mut body = params.clone();
    let mut take = |name: &str| match body.as_object_mut().unwrap().remove(name) {
        Some(Value::String(id)) => id,
        _ => String::new(),
    };
    let path = path.replace("{id}", &take("thread_id"));
    let path = path.replace("{turn_id}", &take("turn_id"));
    if method == "tools.register" {
        body = json!({ "dynamic_tools": body["tools"] });
    }
    let path = match &body["since_seq"] {
        Value::Null => path,
        since => format!("{path}?since_seq={since}"),
    };
    let body = (*verb != "GET").then(|| body.to_string());
    let reply = client.raw(verb, &path, body.as_deref()).await;
    (reply.status, reply.json())
}

/// Masks IDs, times, and everything that depends on the progress of a turn.
fn masked(value: &Value) -> Value {
    const LATER: [&str; 5] = ["duration_ms", "ended_at", "error", "item_ids", "usage"];
    match value {
        Value::Object(fields) => {
            let compared = fields.iter().filter(|(name, _)| !LATER.contains(&&***name));
            let compared = compared.filter(|(name, _)| !name.ends_with("_at"));
            compared
                .map(|(name, value)| (name.clone(), masked(value)))
                .collect()
        }
        Value::Array(values) => values.iter().map(masked).collect(),
        Value::String(id) if id.starts_with("thr_") || id.starts_with("turn_") => {
            json!(id.split('_').next())
        }
        other => other.clone(),
    }
}

/// The socket's code for an HTTP status.
fn code(status: u16) -> i64 {
    match status {
        401 | 403 | 404 => -32002,
        409 => -32010,
        413 | 429 => -32009,
        400..=499 => -32602,
        _ => -32603,
    }
}

/// Sends a request over both transports and expects the same refusal; returns the status.
async fn refused_by_both(
    client: &Client,
    socket: &mut RpcSocket,
    method: &str,
    params: Value,
) -> u16 {
    let (status, http) = over_http(client, method, &params).await;
    assert!(status >= 400, "{method} {params}: {http}");
    let (found, _, message) = socket.refused(method, params.clone()).await;
    assert_eq!(found, code(status), "{method} {params}: {message}, {http}");
    assert_eq!(
        message,
        text(&http["error"]["message"]),
        "{method} {params}"
    );
    status
}

#[test]
fn each_method_has_the_scope_of_its_route() {
    let of_route = |verb: &str, path: &str| {
        let mut operations = OPERATIONS.iter();
        let found = operations.find(|it| it.method.as_str() == verb && it.path == path);
        found.unwrap_or_else(|| panic!("{verb} {path}")).scope
    };
    let expected: Vec<(&str, RequiredScope)> = PAIRS
        .iter()
        .map(|(method, verb, path)| (*method, of_route(verb, path)))
        .collect();
    assert_eq!(socket_methods(), expected);
}

#[tokio::test]
async fn equal_requests_have_equal_answers() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let mut ids = Vec::new();
    let mut both = async |method: &str, params: [Value; 2]| {
        let [of_http, of_socket] = params;
        let (status, http) = over_http(&daemon.client, method, &of_http).await;
        assert!(status < 300, "{method}: {http}");
        let answer = socket.ok(method, of_socket).await;
        assert_eq!(masked(&http), masked(&answer), "{method}");
        [http, answer]
    };
    let create = json!({"title": "both", "mode": "plan", "unknown_field": 1});
    let threads = both("threads.create", [create.clone(), create]).await;
    ids.extend(threads.map(|thread| thread["id"].clone()));
    let of = |more: [Value; 2]| {
        let mut more = more.into_iter();
        [0, 1].map(|n| {
            let mut params = more.next().unwrap();
            params["thread_id"] = ids[n].clone();
            params
        })
    };
    let start = json!({"prompt": "SLOW please", "input_summary": "slow", "unknown_field": 1});
    let turns = both("turns.start", of([start.clone(), start])).await;
    let steer = |turn: &Value| json!({"turn_id": turn["turn"]["id"], "prompt": "and this"});
    both("turns.steer", of([steer(&turns[0]), steer(&turns[1])])).await;
    let stop = |turn: &Value| json!({"turn_id": turn["turn"]["id"]});
    let stopped = both("turns.interrupt", of([stop(&turns[0]), stop(&turns[1])])).await;
    assert_eq!(stopped[0]["status"], "interrupted");
    for id in &ids {
        let path = format!("/v1/threads/{}", text(id));
        let mut events = daemon.events(&path, 0).await;
        events.until("turn.completed").await;
    }

    // The socket's response differs; the operation is the same.
    let tool = json!({"name": "echo", "description": "", "input_schema": {"type": "object"}});
    let params = of([json!({"tools": [tool]}), json!({"tools": [tool]})]);
    over_http(&daemon.client, "tools.register", &params[0]).await;
    let registered = socket.ok("tools.register", params[1].clone()).await;
    assert_eq!(
        registered,
        json!({"thread_id": ids[1], "tools_registered": 1})
    );
    let mut registered = Vec::new();
    for id in &ids {
        let thread = daemon.detail(&format!("/v1/threads/{}", text(id))).await;
        registered.push(thread["thread"]["dynamic_tools"].clone());
    }
    assert_eq!(registered[0][0]["name"], "echo");
    assert_eq!(registered[0], registered[1]);
}

#[tokio::test]
async fn equal_events_from_any_cursor_on_both_transports() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let id = thread.rsplit('/').next().unwrap();
    for since in [0, 4] {
        let mut events = daemon.events(&thread, since).await;
        let frames = events.until("turn.completed").await;
        let params = json!({"thread_id": id, "since_seq": since});
        let answer = socket.ok("events.subscribe", params).await;
        assert_eq!(
            answer,
            json!({"thread_id": id, "since_seq": since, "subscribed": true})
        );
        for frame in frames {
            let event = match socket.others.pop_front() {
                Some(event) => event,
                None => socket.frame().await.unwrap(),
            };
            assert_eq!(event["method"], "threads.event");
            assert_eq!(
                event["params"],
                json!({"thread_id": id, "event": frame.data})
            );
        }
        // Each stream stays open; the next uses its own connection.
        socket = RpcSocket::connect(daemon.client.address).await;
    }
}

#[tokio::test]
async fn equal_refusals_on_both_transports() {
    let daemon = open_daemon(|_| {}).await;
    let (client, mut socket) = (
        &daemon.client,
        RpcSocket::connect(daemon.client.address).await,
    );
    let thread = daemon.thread(json!({})).await;
    let id = thread.rsplit('/').next().unwrap();
    let turn = daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    let turn = turn.rsplit('/').next().unwrap();
    let tools = json!([{"name": "no schema", "description": "", "input_schema": {}}]);
    for (method, params, expected) in [
        ("threads.create", json!({"mode": "none"}), 422),
        ("threads.create", json!({"title": 7}), 422),
        ("threads.create", json!({"workspace": "/"}), 422),
        (
            "turns.start",
            json!({"thread_id": UNKNOWN_THREAD, "prompt": "x"}),
            404,
        ),
        ("turns.start", json!({"thread_id": id, "prompt": " "}), 400),
        ("turns.start", json!({"thread_id": id, "prompt": 7}), 422),
        ("turns.start", json!({"thread_id": id, "prompt": "x"}), 409),
        (
            "turns.start",
            json!({"thread_id": id, "prompt": "x", "environment_id": "none"}),
            404,
        ),
        (
            "turns.steer",
            json!({"thread_id": UNKNOWN_THREAD, "turn_id": turn, "prompt": "x"}),
            404,
        ),
        (
            "turns.steer",
            json!({"thread_id": id, "turn_id": NO_TURN, "prompt": "x"}),
            409,
        ),
        (
            "turns.steer",
            json!({"thread_id": id, "turn_id": turn, "prompt": ""}),
            400,
        ),
        (
            "turns.interrupt",
            json!({"thread_id": UNKNOWN_THREAD, "turn_id": turn}),
            404,
        ),
        (
            "turns.interrupt",
            json!({"thread_id": id, "turn_id": NO_TURN}),
            409,
        ),
        (
            "events.subscribe",
            json!({"thread_id": UNKNOWN_THREAD}),
            404,
        ),
        (
            "tools.register",
            json!({"thread_id": UNKNOWN_THREAD, "tools": []}),
            404,
        ),
        (
            "tools.register",
            json!({"thread_id": id, "tools": [{}]}),
            422,
        ),
        (
            "tools.register",
            json!({"thread_id": id, "tools": tools}),
            422,
        ),
    ] {
        let status = refused_by_both(client, &mut socket, method, params.clone()).await;
        assert_eq!(status, expected, "{method} {params}");
    }
}

#[tokio::test]
async fn agent_restrictions_are_equal_on_both_transports() {
    let mut home = MultiTokenDaemon::start().await;
    home.daemon.client.token = Some(TOKEN.to_owned());
    let token = home.agent("agent-A");
    let of_host = home.daemon.thread(json!({})).await;
    let id = of_host.rsplit('/').next().unwrap();
    let turn = home
        .daemon
        .turn(&of_host, json!({"prompt": "SLOW please"}))
        .await;
    let turn = turn.rsplit('/').next().unwrap();
    let mut events = home.daemon.events(&of_host, 0).await;
    let message = events.until("item.delta").await.pop().unwrap();
    let client = Client {
        token: Some(token.clone()),
        ..home.daemon.client.clone()
    };
    let mut agent = home.bound("agent-A", &token).await;
    for (method, may_call) in socket_methods() {
        if may_call == RequiredScope::Owner {
            let params = json!({"thread_id": id, "turn_id": turn, "prompt": "x", "tools": [], "since_seq": 0});
            let status = refused_by_both(&client, &mut agent, method, params).await;
            assert_eq!(status, 404, "{method}");
        }
    }
    let trusting = json!({"auto_approve": true});
    let status = refused_by_both(&client, &mut agent, "threads.create", trusting).await;
    assert_eq!(status, 403);
    let own = agent.ok("threads.create", json!({})).await;
    assert_eq!(own["agent"], "agent-A");
    let trusting = json!({"thread_id": own["id"], "prompt": "x", "mode": "yolo"});
    let status = refused_by_both(&client, &mut agent, "turns.start", trusting).await;
    assert_eq!(status, 403);
    let untouched = home.daemon.detail(&of_host).await;
    assert_eq!(untouched["latest_seq"].as_u64(), message.id);
}

#[tokio::test]
async fn invalid_cursor_is_refused() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = daemon.thread(json!({})).await;
    let id = thread.rsplit('/').next().unwrap();
    for wrong in [json!(-1), json!(1.5), json!("1"), json!(true), json!([])] {
        let params = json!({"thread_id": id, "since_seq": wrong});
        let (found, reason, message) = socket.refused("events.subscribe", params).await;
        assert_eq!((found, reason.as_str()), (-32602, "invalid_params"));
        assert!(message.contains("since_seq"), "{message}");
    }
    for none in [
        json!({"thread_id": id}),
        json!({"thread_id": id, "since_seq": null}),
    ] {
        let answer = socket.ok("events.subscribe", none).await;
        assert_eq!(answer["since_seq"], 0);
    }
}

#[tokio::test]
async fn subscription_ends_with_its_connection_even_if_the_client_does_not_read() {
    let daemon = open_daemon(|settings| settings.limits.subscribers = 1).await;
    let thread = daemon
        .thread(json!({"system_prompt": "x".repeat(10_000)}))
        .await;
    let id = thread.rsplit('/').next().unwrap();
    let session_id = id.replace("thr_", "session_").parse().unwrap();
    let record = ThreadRecord {
        system_prompt: Some("x".repeat(10_000)),
        ..ThreadRecord::default()
    };
    for number in 0..2_000 {
        let data = SessionUpdatedData {
            title: Some(number.to_string()),
            record: Some(Box::new(record.clone())),
            changed_fields: None,
        };
        daemon.runtime.note_session(session_id, data).await.unwrap();
    }
    let figure = async |name: &str| {
        let figures = daemon.client.get("/metrics").await.body;
        let figures = String::from_utf8_lossy(&figures).into_owned();
        let line = figures.lines().find(|line| line.starts_with(name));
        line.unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let params = json!({"thread_id": id});
    let mut slow = RpcSocket::connect(daemon.client.address).await;
    slow.post("events.subscribe", params.clone()).await;
    let mut other = RpcSocket::connect(daemon.client.address).await;
    soon(async { while figure("windlass_subscribers").await == 0 {} }).await;
    assert_eq!(
        other.refused("events.subscribe", params.clone()).await.0,
        -32009
    );
    soon(async { while figure("windlass_events_sent_total").await < 300 {} }).await;
    slow.vanish();
    soon(async { while figure("windlass_subscribers").await > 0 {} }).await;
    let sent = figure("windlass_events_sent_total").await;
    assert!(
        sent < 2_000,
        "{sent} were read for a client that takes nothing"
    );
    other.ok("events.subscribe", params).await;
}

#[tokio::test]
async fn revoked_token_is_refused_at_the_next_request_on_both_transports() {
    let home = MultiTokenDaemon::start().await;
    for scope in ["agent:a", "client", "admin"] {
        let scope: TokenScope = scope.parse().unwrap();
        let (record, token) = home.tokens.create(scope.clone(), None).unwrap();
        let client = Client {
            token: Some(token.clone()),
            ..home.daemon.client.clone()
        };
        let mut socket = home.silent().await;
        let shown = match scope {
            TokenScope::Admin => "host_token",
            TokenScope::Client | TokenScope::Agent(_) => "token",
        };
        socket.ok("session.auth", json!({ shown: token })).await;
        socket.ok("threads.create", json!({})).await;
        home.tokens.revoke(&record.id).unwrap();
        assert_eq!(client.get("/v1/threads").await.status, 401);
        socket.post("threads.create", json!({})).await;
        // The event may have arrived before the request.
        let closed = match socket.frame().await {
            Ok(refused) => {
                assert_eq!(refused["error"]["code"], -32001, "{scope}");
                socket.frame().await
            }
            closed => closed,
        };
        assert_eq!(closed.unwrap_err().0, 1008, "{scope}");
    }
}
