//! The in-process Runtime API: the same answers as over HTTP, with the rights of its caller.

use serde_json::{Value, json};
use windlass_protocol::api::{Call, CallError, RuntimeApi};
use windlass_protocol::operations::{ExportQuery, IdPath, ThreadsQuery, TurnPath};
use windlass_protocol::{CreateThread, ErrorCode, EventName, StartTurn};
use windlass_server::{ApiCaller, InProcess, TokenScope};

use crate::support::TestDaemon;

fn at(id: &str) -> IdPath {
    IdPath { id: id.to_owned() }
}

fn json_of(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

fn code<T>(refused: Result<T, CallError>) -> Option<ErrorCode> {
    refused.err().and_then(|error| error.code())
}

#[tokio::test]
async fn api_in_process_answers_as_over_http() {
    let daemon = TestDaemon::start().await;
    let api = &daemon.api;
    let request = CreateThread {
        title: Some("both".to_owned()),
        ..CreateThread::default()
    };
    let thread = api.create_thread(Call::new((), request)).await.unwrap();
    let path = format!("/v1/threads/{}", thread.id);

    let mut over_http = daemon.events(&path, 0).await;
    let request = StartTurn {
        prompt: "hello".to_owned(),
        ..StartTurn::default()
    };
    let started = Call::new(at(&thread.id), request);
    let started = api.start_turn(started).await.unwrap();
    let frames = over_http.until("turn.completed").await;
    let mut events = api
        .stream_events(Call::new(at(&thread.id), ()))
        .await
        .unwrap();
    for frame in frames {
        let event = events.next().await.unwrap().unwrap();
        assert_eq!(json_of(event), frame.data);
    }

    let detail = api.get_thread(Call::new(at(&thread.id), ())).await.unwrap();
    assert_eq!(json_of(&detail), daemon.detail(&path).await);
    let turn = TurnPath {
        id: thread.id.clone(),
        turn_id: started.turn.id.clone(),
    };
    let turn = api.get_turn(Call::new(turn, ())).await.unwrap();
    let same = format!("{path}/turns/{}", started.turn.id);
    assert_eq!(json_of(turn), daemon.client.get(&same).await.expect(200));

    let export = Call::new(at(&thread.id), ()).with_query(ExportQuery::default());
    let mut lines = api.export_thread(export).await.unwrap();
    let mut exported = Vec::new();
    while let Some(line) = lines.next().await.unwrap() {
        exported.extend(line);
    }
    let same = daemon.client.raw("GET", &format!("{path}/export"), None);
    assert_eq!(
        String::from_utf8(exported).unwrap(),
        String::from_utf8(same.await.body.to_vec()).unwrap()
    );
}

#[tokio::test]
async fn list_in_process_has_the_cursor_of_its_next_page() {
    let daemon = TestDaemon::start().await;
    for _ in 0..3 {
        daemon.thread(json!({})).await;
    }
    let mut query = ThreadsQuery {
        limit: Some(2),
        ..ThreadsQuery::default()
    };
    let page = Call::new((), ()).with_query(query.clone());
    let page = daemon.api.list_threads(page).await.unwrap();
    assert_eq!(page.entries.len(), 2);
    query.cursor = page.next;
    let last = Call::new((), ()).with_query(query);
    let last = daemon.api.list_threads(last).await.unwrap();
    assert_eq!((last.entries.len(), last.next), (1, None));
}

#[tokio::test]
async fn request_with_a_repeated_key_is_executed_once_in_process() {
    let daemon = TestDaemon::start().await;
    let api = &daemon.api;
    let titled = |title: &str| {
        let request = CreateThread {
            title: Some(title.to_owned()),
            ..CreateThread::default()
        };
        Call::new((), request).with_key("a-key")
    };
    let first = api.create_thread(titled("one")).await.unwrap();
    let again = api.create_thread(titled("one")).await.unwrap();
    assert_eq!(first, again);
    let other = api.create_thread(titled("two")).await;
    assert_eq!(code(other), Some(ErrorCode::IdempotencyConflict));
    let fork = || Call::new(at(&first.id), Default::default()).with_key("fork");
    let fork = (api.fork_thread(fork()).await, api.fork_thread(fork()).await);
    assert_eq!(fork.0.unwrap().id, fork.1.unwrap().id);
    let all = api.list_threads(Call::new((), ())).await.unwrap();
    assert_eq!(all.entries.len(), 2);
}

#[tokio::test]
async fn client_in_process_has_the_rights_of_its_caller() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .api
        .create_thread(Call::new((), CreateThread::default()));
    let thread = thread.await.unwrap();
    let agent = |id: &str| {
        daemon.api.with_caller(ApiCaller {
            session: None,
            token_id: None,
            scope: TokenScope::Agent(id.to_owned()),
        })
    };
    let config = |api: InProcess| async move { api.get_config(Call::new((), ())).await };
    assert_eq!(code(config(agent("a")).await), Some(ErrorCode::Forbidden));
    config(daemon.api.clone()).await.unwrap();
    let a = agent("a");
    let foreign = a.get_thread(Call::new(at(&thread.id), ())).await;
    assert_eq!(code(foreign), Some(ErrorCode::ThreadNotFound));
    let own = a.create_thread(Call::new((), CreateThread::default()));
    let own = own.await.unwrap();
    assert_eq!(own.agent.as_deref(), Some("a"));
    a.get_thread(Call::new(at(&own.id), ())).await.unwrap();
    let anonymous = daemon.api.with_caller(ApiCaller::anonymous());
    anonymous.get_health(Call::new((), ())).await.unwrap();
    let foreign = anonymous.get_thread(Call::new(at(&own.id), ())).await;
    assert_eq!(code(foreign), Some(ErrorCode::ThreadNotFound));
}

#[tokio::test]
async fn event_stream_in_process_ends_when_the_daemon_stops() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .api
        .create_thread(Call::new((), CreateThread::default()));
    let thread = thread.await.unwrap();
    let events = daemon.api.stream_events(Call::new(at(&thread.id), ()));
    let mut events = events.await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert_eq!(first.payload.name(), EventName::ThreadStarted.as_str());
    daemon.stop.cancel();
    assert!(events.next().await.unwrap().is_none());
}
