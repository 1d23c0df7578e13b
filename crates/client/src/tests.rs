//! The client against a scripted server on a loopback port.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use windlass_protocol::operations::{
    EventsQuery, FleetEventsQuery, IdPath, RunPath, ThreadsQuery, TurnPath,
};
use windlass_protocol::{
    Call, CallError, ErrorBody, ErrorCode, EventPayload, RuntimeApi, StartTurn,
};

use crate::backoff::Backoff;
use crate::{Client, Connect, Connection, TcpConnector};

/// The answer to one request.
enum ScriptedReply {
    /// A whole response.
    Response(String),
    /// A chunked body that ends properly.
    Body(String),
    /// A chunked body that is cut after these bytes.
    Cut(Vec<u8>),
}

/// Answers one request per connection in the order of its replies, then stops listening.
struct ScriptedServer {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedServer {
    async fn start(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, replies.into_iter().collect())
    }

    fn on(listener: TcpListener, mut replies: VecDeque<ScriptedReply>) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let received = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Some(reply) = replies.pop_front() {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read_request(&mut stream).await;
                received.lock().unwrap().push(request);
                // The client may have left.
                let _ = answer(&mut stream, reply).await;
            }
        });
        Self { address, requests }
    }

    fn client(&self) -> Client {
        quick(Client::new(TcpConnector::new(&self.address), None))
    }

    fn request(&self, index: usize) -> String {
        self.requests.lock().unwrap()[index].clone()
    }

    /// Returns the method and the target of each request.
    fn request_lines(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let lines = requests.iter().map(|request| {
            let line = request.lines().next().unwrap();
            line.strip_suffix(" HTTP/1.1").unwrap().to_owned()
        });
        lines.collect()
    }
}

fn quick(mut client: Client) -> Client {
    client.reconnect = Some(Backoff {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(2),
    });
    client
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        let count = stream.read(&mut part).await.unwrap();
        assert!(count > 0, "the request is cut: {text}");
        request.extend_from_slice(&part[..count]);
    }
}

async fn answer(stream: &mut TcpStream, reply: ScriptedReply) -> io::Result<()> {
    let (body, is_whole) = match reply {
        ScriptedReply::Response(response) => return stream.write_all(response.as_bytes()).await,
        ScriptedReply::Body(body) => (body.into_bytes(), true),
        ScriptedReply::Cut(body) => (body, false),
    };
    let mut response = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    if !body.is_empty() {
        response.extend(format!("{:x}\r\n", body.len()).bytes());
        response.extend(body);
        response.extend(b"\r\n");
    }
    if is_whole {
        response.extend(b"0\r\n\r\n");
    }
    stream.write_all(&response).await
}

fn response(status: u16, headers: &str, body: &str) -> ScriptedReply {
    let length = body.len();
    ScriptedReply::Response(format!(
        "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}"
    ))
}

fn refusal(code: ErrorCode) -> ScriptedReply {
    let body = ErrorBody::new(code, "no", None);
    response(code.status(), "", &serde_json::to_string(&body).unwrap())
}

fn frame(seq: u64) -> String {
    frame_of(
        seq,
        "approval.timeout",
        &json!({ "approval_id": "apr_1", "timeout_secs": 1 }),
    )
}

fn frame_of(seq: u64, name: &str, payload: &Value) -> String {
    let event = json!({
        "schema_version": 1, "seq": seq, "event": name, "kind": name, "thread_id": "thr_1", "turn_id": null,
        "item_id": null, "timestamp": "", "created_at": "", "payload": payload,
    });
    format!("id: {seq}\nevent: {name}\ndata: {event}\n\n")
}

fn frames(seqs: impl IntoIterator<Item = u64>) -> String {
    seqs.into_iter().map(frame).collect()
}

fn thread() -> IdPath {
    IdPath {
        id: "thr_1".to_owned(),
    }
}

/// Follows the thread for a number of events; returns their numbers.
async fn follow(client: &Client, count: usize) -> Vec<u64> {
    let mut events = client.stream_events(Call::new(thread(), ())).await.unwrap();
    let mut seqs = Vec::new();
    for _ in 0..count {
        seqs.push(events.next().await.unwrap().unwrap().seq);
    }
    seqs
}

#[tokio::test]
async fn stream_continues_after_a_cut_at_any_byte() {
    let body = ": caught-up 0\n\n".to_owned() + &frames(1..=3);
    for cut in 0..=body.len() {
        let delivered = body.as_bytes()[..cut].to_vec();
        let lines = String::from_utf8_lossy(&delivered).into_owned();
        // A line is whole with its end.
        let whole = lines
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let last = whole.filter(|line| line.starts_with("data:")).count() as u64;
        let server = ScriptedServer::start([
            ScriptedReply::Cut(delivered),
            ScriptedReply::Cut(frames(last + 1..=4).into()),
        ]);
        let server = server.await;
        assert_eq!(follow(&server.client(), 4).await, [1, 2, 3, 4], "{cut}");
        let expected = match (last, cut >= ": caught-up 0\n".len()) {
            (0, false) => "GET /v1/threads/thr_1/events".to_owned(),
            (last, _) => format!("GET /v1/threads/thr_1/events?since_seq={last}"),
        };
        assert_eq!(server.request_lines()[1], expected, "{cut}");
    }
}

#[tokio::test]
async fn stream_continues_after_the_daemon_closed_it() {
    let closed = frames(1..=2) + ": shutdown\n\n";
    let server = ScriptedServer::start([
        ScriptedReply::Body(closed),
        ScriptedReply::Body(frames(3..=3)),
    ])
    .await;
    assert_eq!(follow(&server.client(), 3).await, [1, 2, 3]);
}

#[tokio::test]
async fn temporary_refusals_are_retried() {
    let server = ScriptedServer::start([
        ScriptedReply::Cut(frames(1..=1).into()),
        refusal(ErrorCode::ShuttingDown),
        refusal(ErrorCode::StoreUnavailable),
        refusal(ErrorCode::LimitReached),
        response(502, "", "<html>bad gateway</html>"),
        ScriptedReply::Cut(Vec::new()),
        ScriptedReply::Cut(frames(2..=2).into()),
    ])
    .await;
    assert_eq!(follow(&server.client(), 2).await, [1, 2]);
}

#[tokio::test]
async fn stream_of_a_removed_thread_ends() {
    let removed = refusal(ErrorCode::ThreadNotFound);
    let server = ScriptedServer::start([ScriptedReply::Body(frames(1..=1)), removed]).await;
    let client = server.client();
    let mut events = client.stream_events(Call::new(thread(), ())).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().seq, 1);
    assert!(events.next().await.unwrap().is_none());
    assert!(events.next().await.unwrap().is_none());
}

#[tokio::test]
async fn refused_reconnect_is_an_error_and_the_end() {
    for code in [ErrorCode::Unauthorized, ErrorCode::Internal] {
        let server =
            ScriptedServer::start([ScriptedReply::Body(frames(1..=1)), refusal(code)]).await;
        let client = server.client();
        let mut events = client.stream_events(Call::new(thread(), ())).await.unwrap();
        assert_eq!(events.next().await.unwrap().unwrap().seq, 1);
        assert_eq!(events.next().await.unwrap_err().code(), Some(code));
        assert!(events.next().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn first_request_is_not_retried() {
    let server = ScriptedServer::start([refusal(ErrorCode::StoreUnavailable)]).await;
    let client = server.client();
    let refused = client.stream_events(Call::new(thread(), ())).await;
    let code = refused.err().and_then(|error| error.code());
    assert_eq!(code, Some(ErrorCode::StoreUnavailable));
}

/// Reports how often the port refused a connection.
struct CountingConnector(TcpConnector, watch::Sender<usize>);

#[async_trait]
impl Connect for CountingConnector {
    async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        let connected = self.0.connect().await;
        if connected.is_err() {
            self.1.send_modify(|count| *count += 1);
        }
        connected
    }
}

#[tokio::test]
async fn stream_continues_with_the_next_daemon_on_the_port() {
    let first = ScriptedServer::start([ScriptedReply::Cut(frames(1..=2).into())]).await;
    let (count, mut refused) = watch::channel(0);
    let connect = CountingConnector(TcpConnector::new(&first.address), count);
    let client = quick(Client::new(connect, None));
    let address = first.address.clone();
    let second = tokio::spawn(async move {
        refused.wait_for(|count| *count >= 3).await.unwrap();
        let listener = TcpListener::bind(&address).await.unwrap();
        ScriptedServer::on(listener, [ScriptedReply::Cut(frames(3..=3).into())].into())
    });
    assert_eq!(follow(&client, 3).await, [1, 2, 3]);
    let lines = second.await.unwrap().request_lines();
    assert_eq!(lines, ["GET /v1/threads/thr_1/events?since_seq=2"]);
}

#[tokio::test]
async fn reconnect_sends_the_query_without_the_replay_limit() {
    let server = ScriptedServer::start([
        ScriptedReply::Cut(b": caught-up 41\n\n".to_vec()),
        ScriptedReply::Cut(frames(42..=42).into()),
    ])
    .await;
    let client = server.client();
    let query = EventsQuery {
        replay_limit: Some(0),
        include: Some("tool_output".to_owned()),
        ..EventsQuery::default()
    };
    let call = Call::new(thread(), ()).with_query(query);
    let mut events = client.stream_events(call).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().seq, 42);
    assert_eq!(
        server.request_lines(),
        [
            "GET /v1/threads/thr_1/events?replay_limit=0&include=tool_output",
            "GET /v1/threads/thr_1/events?since_seq=41&include=tool_output",
        ]
    );
}

#[tokio::test]
async fn dropped_wait_does_not_stop_a_reconnect() {
    let server = ScriptedServer::start([
        ScriptedReply::Cut(frames(1..=1).into()),
        refusal(ErrorCode::ShuttingDown),
        ScriptedReply::Cut(frames(2..=2).into()),
    ])
    .await;
    let mut client = server.client();
    client.reconnect = Some(Backoff {
        first: Duration::from_millis(20),
        longest: Duration::from_millis(20),
    });
    let mut events = client.stream_events(Call::new(thread(), ())).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().seq, 1);
    let second = async {
        loop {
            tokio::select! {
                biased;
                event = events.next() => return event.unwrap().unwrap().seq,
                () = tokio::task::yield_now() => {}
            }
        }
    };
    let second = tokio::time::timeout(Duration::from_secs(30), second).await;
    assert_eq!(second.unwrap(), 2);
}

#[tokio::test]
async fn stream_without_reconnect_ends_with_its_connection() {
    let server = ScriptedServer::start([
        ScriptedReply::Body(frames(1..=1)),
        ScriptedReply::Cut(frames(1..=1).into()),
    ]);
    let server = server.await;
    let client = server.client().without_reconnect();
    let mut events = client.stream_events(Call::new(thread(), ())).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().seq, 1);
    assert!(events.next().await.unwrap().is_none());
    let mut events = client.stream_events(Call::new(thread(), ())).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().seq, 1);
    assert!(events.next().await.unwrap_err().is_lost());
    assert!(events.next().await.unwrap().is_none());
}

#[tokio::test]
async fn event_of_a_newer_server_is_passed_on() {
    let known = json!({ "approval_id": "apr_1", "timeout_secs": 1, "reason": "holidays" });
    let body = frame_of(1, "thread.renamed", &json!({ "title": "x" }))
        + &frame_of(2, "approval.timeout", &known);
    let server = ScriptedServer::start([ScriptedReply::Cut(body.into())]).await;
    let client = server.client();
    let mut events = client.stream_events(Call::new(thread(), ())).await.unwrap();
    let unknown = events.next().await.unwrap().unwrap();
    assert!(matches!(unknown.payload, EventPayload::Unknown(_)));
    let event = events.next().await.unwrap().unwrap();
    assert_eq!(event.payload.name(), "approval.timeout");
    let received: Value = serde_json::from_str(&event.received.unwrap()).unwrap();
    assert_eq!(received["payload"], known);
}

fn fleet_frame(cursor: &str) -> String {
    let event = json!({
        "cursor": cursor, "event": "fleet.task.terminal", "run_id": "run_1", "timestamp": "", "payload": {},
    });
    format!("id: {cursor}\nevent: fleet.task.terminal\ndata: {event}\n\n")
}

/// Follows a fleet run to its end; returns the cursors of its events.
async fn follow_fleet(client: &Client) -> Vec<String> {
    let path = RunPath {
        run_id: "run_1".to_owned(),
    };
    let query = FleetEventsQuery {
        limit: Some(5),
        ..FleetEventsQuery::default()
    };
    let call = Call::new(path, ()).with_query(query);
    let mut events = client.stream_fleet_events(call).await.unwrap();
    let mut cursors = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        cursors.push(event.cursor);
    }
    cursors
}

#[tokio::test]
async fn fleet_stream_continues_and_ends_with_its_run() {
    let server = ScriptedServer::start([
        ScriptedReply::Cut(fleet_frame("a").into()),
        // The daemon shuts down before and after an event.
        ScriptedReply::Body(": shutdown\n\n".to_owned()),
        ScriptedReply::Body(fleet_frame("b")),
        ScriptedReply::Body(fleet_frame("c")),
        ScriptedReply::Body(String::new()),
    ])
    .await;
    assert_eq!(follow_fleet(&server.client()).await, ["a", "b", "c"]);
    let target = "GET /v1/fleet/runs/run_1/events";
    assert_eq!(
        server.request_lines(),
        [
            format!("{target}?limit=5"),
            format!("{target}?after=a&limit=5"),
            format!("{target}?after=a&limit=5"),
            format!("{target}?after=b&limit=5"),
            format!("{target}?after=c&limit=5"),
        ]
    );
}

#[tokio::test]
async fn request_has_its_body_token_and_key() {
    let server = ScriptedServer::start([refusal(ErrorCode::TurnActive)]).await;
    let client = Client::new(
        TcpConnector::new(&server.address),
        Some("secret".to_owned()),
    );
    let prompt = StartTurn {
        prompt: "hi".to_owned(),
        ..StartTurn::default()
    };
    let call = Call::new(thread(), prompt).with_key("key-1");
    let refused = client.start_turn(call).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::TurnActive));
    let request = server.request(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("POST /v1/threads/thr_1/turns HTTP/1.1\r\n"),
        "{head}"
    );
    for header in [
        "authorization: Bearer secret",
        "idempotency-key: key-1",
        "content-type: application/json",
    ] {
        assert!(head.lines().any(|line| line == header), "{head}");
    }
    assert_eq!(body, r#"{"prompt":"hi"}"#);
}

#[tokio::test]
async fn request_without_a_body_has_no_type() {
    let server = ScriptedServer::start([response(204, "", "")]).await;
    let deleted = server.client().delete_thread(Call::new(thread(), ())).await;
    deleted.unwrap();
    let request = server.request(0);
    assert!(
        request.starts_with("DELETE /v1/threads/thr_1 "),
        "{request}"
    );
    assert!(!request.contains("content-type"), "{request}");
}

#[tokio::test]
async fn responses_are_read_by_their_form() {
    let next = "x-windlass-next-cursor: abc\r\n";
    let server = ScriptedServer::start([
        response(200, next, "[]"),
        response(200, "", "[]"),
        response(200, "", "windlass_up 1\n"),
        response(
            200,
            "",
            r#"{"status":"ok","service":"windlass","mode":"x"}"#,
        ),
        ScriptedReply::Cut(b"{\"thread\":{}}\n{".to_vec()),
    ])
    .await;
    let client = server.client();
    for expected in [Some("abc"), None] {
        let query = ThreadsQuery {
            cursor: Some("a b".to_owned()),
            ..ThreadsQuery::default()
        };
        let page = client.list_threads(Call::new((), ()).with_query(query));
        let page = page.await.unwrap();
        assert!(page.entries.is_empty());
        assert_eq!(page.next.as_deref(), expected);
    }
    assert_eq!(server.request_lines()[0], "GET /v1/threads?cursor=a%20b");
    let metrics = client.get_metrics(Call::new((), ())).await.unwrap();
    assert_eq!(metrics, "windlass_up 1\n");
    let health = client.get_health(Call::new((), ())).await.unwrap();
    assert_eq!(health.status, "ok");
    let mut lines = client.export_thread(Call::new(thread(), ())).await.unwrap();
    let part = lines.next().await.unwrap().unwrap();
    assert_eq!(part, b"{\"thread\":{}}\n{");
    assert!(lines.next().await.unwrap_err().is_lost());
}

#[tokio::test]
async fn failures_have_distinct_errors() {
    let server = ScriptedServer::start([
        response(500, "", &"x".repeat(1000)),
        response(200, "", "{}"),
        response(200, "", "no json"),
    ])
    .await;
    let client = server.client();
    let path = || TurnPath {
        id: "thr_1".to_owned(),
        turn_id: "turn_1".to_owned(),
    };
    let failed = client.get_turn(Call::new(path(), ())).await.unwrap_err();
    assert!(
        matches!(&failed, CallError::Status { status: 500, text } if text.len() == 400),
        "{failed:?}"
    );
    for _ in 0..2 {
        let failed = client.get_turn(Call::new(path(), ())).await.unwrap_err();
        assert!(matches!(failed, CallError::Unreadable(_)), "{failed:?}");
    }
    // The server has stopped.
    let failed = loop {
        let failed = client.get_turn(Call::new(path(), ())).await.unwrap_err();
        if matches!(failed, CallError::Unreachable(_)) {
            break failed;
        }
    };
    assert!(failed.is_lost());
    let unnamed = client.get_thread(Call::new(IdPath::default(), ())).await;
    assert!(matches!(unnamed, Err(CallError::InvalidRequest(_))));
}
