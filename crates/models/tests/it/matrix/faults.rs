//! Errors, stalls, broken streams and cancellation.

use std::time::Duration;

use serde_json::Value;
use windlass_core::error::ErrorKind;
use windlass_core::llm_driver_registry::{LlmDriver, LlmStreamEvent};
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::support::{
    CollectedAnswer, KEY, ask, call, collect, driver, exchange, exchange_answer, next,
};

/// Makes the provider answer with an error.
async fn refused(
    wire: Wire,
    status: u16,
    headers: &[(&str, &str)],
    body: &Value,
) -> CollectedAnswer {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let body = body.to_string();
    let (got, _) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.answer(status, headers, &body).await
    })
    .await;
    assert_eq!(got.provider_error().status, Some(status));
    got
}

pub(super) async fn error_401(wire: Wire) {
    let body = wire.error(401, &format!("Incorrect API key provided: {KEY}."));
    let got = refused(wire, 401, &[("x-request-id", "req_9")], &body).await;
    let error = got.provider_error();
    assert_eq!(error.kind, ErrorKind::Auth);
    let id = if wire == Wire::Anthropic {
        "req_1"
    } else {
        "req_9"
    };
    assert_eq!(error.request_id.as_deref(), Some(id));
    let shown = format!(
        "{} {:?} {:?}",
        error,
        error,
        driver(wire, "http://127.0.0.1:1")
    );
    assert!(
        shown.contains("Incorrect API key") && !shown.contains(KEY),
        "{shown}"
    );
}

pub(super) async fn error_404(wire: Wire) {
    let got = refused(wire, 404, &[], &wire.error(404, "no such model")).await;
    assert_eq!(got.provider_error().kind, ErrorKind::ModelMissing);
    assert_eq!(got.provider_error().message, "no such model");
}

pub(super) async fn error_429_with_retry_after(wire: Wire) {
    let got = refused(
        wire,
        429,
        &[("retry-after", "7")],
        &wire.error(429, "slow down"),
    )
    .await;
    let error = got.provider_error();
    assert_eq!(error.kind, ErrorKind::RateLimited);
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert!(error.code.is_some());
}

pub(super) async fn error_500_then_success(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let body = wire.error(500, "oops").to_string();
    let (got, first) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.answer(500, &[], &body).await
    })
    .await;
    assert_eq!(got.provider_error().kind, ErrorKind::Server);
    assert!(got.error.unwrap().kind().is_transient());
    let events = wire.events(&Answer::text(&["fine"]));
    let (got, second) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.stream(&events).await
    })
    .await;
    assert_eq!(got.text(), "fine");
    assert_eq!(first.json(), second.json());
}

pub(super) async fn overloaded(wire: Wire) {
    let status = wire.overloaded();
    let got = refused(wire, status, &[], &wire.error(status, "busy")).await;
    assert_eq!(got.provider_error().kind, ErrorKind::Overloaded);
    assert!(got.error.unwrap().kind().is_transient());
}

pub(super) async fn overloaded_in_the_stream(wire: Wire) {
    let mut events = wire.events(&Answer::text(&["Hel", "lo"]));
    // The events that end the answer follow the text.
    let at = events
        .iter()
        .position(|event| event.contains("\"lo\""))
        .unwrap();
    events.truncate(at);
    events.push(wire.error_event());
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let (got, _) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.stream(&events).await
    })
    .await;
    assert_eq!(got.text(), "Hel");
    assert_eq!(got.provider_error().kind, ErrorKind::Overloaded);
}

pub(super) async fn too_long(wire: Wire) {
    let (status, body) = wire.too_long();
    let got = refused(wire, status, &[], &body).await;
    assert_eq!(got.provider_error().kind, ErrorKind::TooLarge);
    assert!(got.error.unwrap().is_request_too_large());
}

pub(super) async fn refused_by_filter(wire: Wire) {
    let stop = match wire {
        Wire::OpenAi | Wire::OpenAiChat => "content_filter",
        Wire::Anthropic => "refusal",
        Wire::Gemini => "SAFETY",
    };
    let (got, _) = exchange_answer(wire, ask(wire), &Answer::default().with_stop(stop)).await;
    assert_eq!(got.provider_error().kind, ErrorKind::Refused);
    assert!(!got.error.unwrap().kind().is_transient());
    // Delivered text is preserved.
    let (got, _) = exchange_answer(wire, ask(wire), &Answer::text(&["Once"]).with_stop(stop)).await;
    assert_eq!(
        (got.text().as_str(), got.finish_reason()),
        ("Once", "refusal")
    );
}

pub(super) async fn out_of_room(wire: Wire) {
    let stop = match wire {
        Wire::OpenAi => "max_output_tokens",
        Wire::OpenAiChat => "length",
        Wire::Anthropic => "max_tokens",
        Wire::Gemini => "MAX_TOKENS",
    };
    let (got, _) = exchange_answer(wire, ask(wire), &Answer::text(&["Once"]).with_stop(stop)).await;
    assert_eq!(
        (got.text().as_str(), got.finish_reason()),
        ("Once", "length")
    );
}

pub(super) async fn stall_before_the_stream(wire: Wire) {
    for with_head in [false, true] {
        let mut server = FakeServer::start().await.unwrap();
        let driver = driver(wire, &server.url());
        let stalled = tokio::spawn(async move { call(&driver, ask(wire)).await });
        let mut exchange = server.next().await;
        if with_head {
            exchange.begin_stream(&[]).await.unwrap();
        }
        // From here on, time advances only while all tasks wait.
        tokio::time::pause();
        let got = stalled.await.unwrap();
        assert_eq!(got.provider_error().kind, ErrorKind::Stalled);
        tokio::time::resume();
        exchange.closed().await;
    }
}

pub(super) async fn stall_in_the_stream(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let events = wire.events(&Answer::text(&["Hel", "lo"]));
    let last_event = events
        .iter()
        .position(|event| event.contains("\"Hel\""))
        .unwrap();
    let provider = async {
        let mut exchange = server.next().await;
        exchange.begin_stream(&[]).await.unwrap();
        for event in &events[..=last_event] {
            exchange.chunk(event.as_bytes()).await.unwrap();
        }
        exchange
    };
    let (stream, mut exchange) = tokio::join!(driver.stream(ask(wire)), provider);
    let mut stream = stream.unwrap();
    let first = next(&mut stream).await.unwrap().unwrap();
    assert_eq!(first, LlmStreamEvent::TextDelta("Hel".to_owned()));
    tokio::time::pause();
    let got = collect(Ok(stream)).await;
    assert_eq!(got.provider_error().kind, ErrorKind::Stalled);
    tokio::time::resume();
    exchange.closed().await;
}

pub(super) async fn cut_stream(wire: Wire) {
    let events = wire.events(&Answer::text(&["Hel", "lo"]));
    let last_event = events
        .iter()
        .position(|event| event.contains("\"Hel\""))
        .unwrap();
    for politely in [false, true] {
        let mut server = FakeServer::start().await.unwrap();
        let driver = driver(wire, &server.url());
        let (got, _) = exchange(&driver, ask(wire), &mut server, async |mut exchange| {
            exchange.begin_stream(&[]).await?;
            for event in &events[..=last_event] {
                exchange.chunk(event.as_bytes()).await?;
            }
            exchange
                .chunk(&events[last_event + 1].as_bytes()[..20])
                .await?;
            if politely {
                exchange.finish().await
            } else {
                Ok(())
            }
        })
        .await;
        assert_eq!(got.text(), "Hel");
        assert_eq!(
            got.provider_error().kind,
            ErrorKind::BrokenStream,
            "{got:?}"
        );
    }
}

pub(super) async fn garbage(wire: Wire) {
    for garbage in [
        "data: not json\n\n",
        "data: {\"a\":\n\n",
        "\u{0}\u{1}\n\n",
        "<html></html>",
    ] {
        let mut server = FakeServer::start().await.unwrap();
        let driver = driver(wire, &server.url());
        let events = [garbage.to_owned()];
        let (got, _) = exchange(&driver, ask(wire), &mut server, async |exchange| {
            exchange.stream(&events).await
        })
        .await;
        assert_eq!(
            got.provider_error().kind,
            ErrorKind::BrokenStream,
            "{garbage}"
        );
    }
}

/// Maximum time until a connection is closed, generous for a busy machine.
const GENEROUS: Duration = Duration::from_secs(20);

pub(super) async fn cancel_in_the_stream(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let events = wire.events(&Answer::text(&["Hel", "lo"]));
    let last_event = events
        .iter()
        .position(|event| event.contains("\"Hel\""))
        .unwrap();
    let provider = async {
        let mut exchange = server.next().await;
        exchange.begin_stream(&[]).await.unwrap();
        for event in &events[..=last_event] {
            exchange.chunk(event.as_bytes()).await.unwrap();
        }
        exchange
    };
    let (stream, mut exchange) = tokio::join!(driver.stream(ask(wire)), provider);
    let mut stream = stream.unwrap();
    next(&mut stream).await.unwrap().unwrap();
    drop(stream);
    tokio::time::timeout(GENEROUS, exchange.closed())
        .await
        .unwrap();
}

pub(super) async fn cancel_before_the_stream(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let calling = tokio::spawn(async move { call(&driver, ask(wire)).await });
    let mut exchange = server.next().await;
    calling.abort();
    tokio::time::timeout(GENEROUS, exchange.closed())
        .await
        .unwrap();
}
