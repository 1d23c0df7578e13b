//! Limits, fallback chains, base URLs, headers and keys.

use std::sync::Arc;

use windlass_core::error::{AgentLoopError, ErrorKind};
use windlass_core::llm_driver_registry::{
    DriverRegistry, LlmDriver, LlmMessage, LlmMessageRole, ProviderConfig, ProviderType,
};
use windlass_core::llmsim_driver::{LlmSimConfig, LlmSimDriver};
use windlass_models::settings::{Header, HttpSettings, KeyPlace, ProviderSettings};
use windlass_models::{FallbackDriver, FallbackLink, ModelSettings, register_drivers};
use windlass_testkit::{After, Answer, FakeServer, Reply, Wire};

use crate::support::{
    KEY, ask, base, call, collect, config, driver, driver_with, exchange, exchange_answer,
};

#[tokio::test]
async fn calls_beyond_the_provider_limit_wait() {
    let mut server = FakeServer::start().await.unwrap();
    let provider = ProviderSettings {
        max_parallel_calls: Some(1),
        ..ProviderSettings::default()
    };
    let wire = Wire::Anthropic;
    let driver = Arc::new(driver_with(
        wire,
        &server.url(),
        ModelSettings::default(),
        provider,
    ));
    let first = driver.stream(ask(wire));
    let events = wire.events(&Answer::text(&["x"]));
    let open = async {
        let mut exchange = server.next().await;
        exchange.begin_stream(&[]).await.unwrap();
        exchange
    };
    let (first, mut exchange) = tokio::join!(first, open);
    let waiting = {
        let driver = Arc::clone(&driver);
        tokio::spawn(async move { call(&*driver, ask(wire)).await })
    };
    // The second call is not sent while the first is open; otherwise it would arrive before the first has ended.
    for event in &events {
        exchange.chunk(event.as_bytes()).await.unwrap();
    }
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    exchange.finish().await.unwrap();
    assert_eq!(collect(first).await.text(), "x");
    let second = server.next().await;
    second.stream(&events).await.unwrap();
    assert_eq!(waiting.await.unwrap().text(), "x");
}

#[tokio::test]
async fn cancelled_call_releases_its_permit() {
    let mut server = FakeServer::start().await.unwrap();
    let provider = ProviderSettings {
        max_parallel_calls: Some(1),
        ..ProviderSettings::default()
    };
    let wire = Wire::OpenAi;
    let driver = driver_with(wire, &server.url(), ModelSettings::default(), provider);
    let open = async {
        let mut exchange = server.next().await;
        exchange.begin_stream(&[]).await.unwrap();
        exchange
    };
    let (stream, _exchange) = tokio::join!(driver.stream(ask(wire)), open);
    drop(stream);
    let events = wire.events(&Answer::text(&["next"]));
    let (got, _) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.stream(&events).await
    })
    .await;
    assert_eq!(got.text(), "next");
}

fn link(driver: impl LlmDriver + 'static, model: Option<&str>) -> FallbackLink {
    FallbackLink {
        driver: Arc::new(driver),
        model: model.map(str::to_owned),
    }
}

#[tokio::test]
async fn fallback_model_answers_when_the_first_fails() {
    let mut server = FakeServer::start().await.unwrap();
    let (first, second) = (Wire::OpenAi, Wire::Anthropic);
    let chain = FallbackDriver::new(vec![
        link(driver(first, &server.url()), None),
        link(driver(second, &server.url()), Some("claude-haiku-4-5")),
    ]);
    for fault in ["overloaded", "cut"] {
        let provider = async {
            let mut exchange = server.next().await;
            if fault == "overloaded" {
                let body = first.error(503, "busy").to_string();
                exchange.answer(503, &[], &body).await.unwrap();
            } else {
                exchange.begin_stream(&[]).await.unwrap();
                drop(exchange);
            }
            let exchange = server.next().await;
            let sent = exchange.request.json();
            let events = second.events(&Answer::text(&["here"]));
            exchange.stream(&events).await.unwrap();
            sent
        };
        let (got, sent) = tokio::join!(call(&chain, ask(first)), provider);
        assert_eq!(got.text(), "here");
        assert_eq!(sent["model"], "claude-haiku-4-5");
    }
}

#[tokio::test]
async fn no_fallback_after_text_was_shown() {
    let mut server = FakeServer::start().await.unwrap();
    let wire = Wire::OpenAiChat;
    let sim = LlmSimDriver::new(LlmSimConfig::fixed("never said"));
    let chain = FallbackDriver::new(vec![
        link(driver(wire, &server.url()), None),
        link(sim, None),
    ]);
    let events = wire.events(&Answer::text(&["Hel", "lo"]));
    let (got, _) = exchange(&chain, ask(wire), &mut server, async |mut exchange| {
        exchange.begin_stream(&[]).await?;
        for event in &events[..2] {
            exchange.chunk(event.as_bytes()).await?;
        }
        Ok(())
    })
    .await;
    assert_eq!(got.text(), "Hel");
    assert_eq!(got.provider_error().kind, ErrorKind::BrokenStream);
}

#[tokio::test]
async fn rejected_request_is_not_sent_to_the_fallback() {
    let mut server = FakeServer::start().await.unwrap();
    let wire = Wire::Gemini;
    let sim = LlmSimDriver::new(LlmSimConfig::fixed("never said"));
    let chain = FallbackDriver::new(vec![
        link(driver(wire, &server.url()), None),
        link(sim, None),
    ]);
    let (got, _) = exchange(&chain, ask(wire), &mut server, async |exchange| {
        let body = wire.error(400, "bad").to_string();
        exchange.answer(400, &[], &body).await
    })
    .await;
    assert_eq!(got.provider_error().kind, ErrorKind::BadRequest);
}

#[tokio::test]
async fn error_after_all_fallbacks_reports_whether_to_retry() {
    let mut server = FakeServer::start().await.unwrap();
    let wire = Wire::Anthropic;
    let chain = FallbackDriver::new(vec![
        link(driver(wire, &server.url()), None),
        link(driver(wire, &server.url()), Some("gone")),
    ]);
    let provider = async {
        let limited = server.next().await;
        let body = wire.error(429, "slow").to_string();
        limited
            .answer(429, &[("retry-after", "3")], &body)
            .await
            .unwrap();
        let missing = server.next().await;
        let body = wire.error(404, "gone").to_string();
        missing.answer(404, &[], &body).await.unwrap();
    };
    let (got, ()) = tokio::join!(call(&chain, ask(wire)), provider);
    assert_eq!(got.provider_error().kind, ErrorKind::RateLimited);
    assert!(got.provider_error().retry_after.is_some());
}

/// A server that answers every API with its own events and reports each caller.
async fn answering() -> FakeServer {
    FakeServer::answering(|request| {
        let path = request.path.split('?').next().unwrap_or_default();
        let wire = match path {
            path if path.ends_with("/responses") => Wire::OpenAi,
            path if path.ends_with("/chat/completions") => Wire::OpenAiChat,
            path if path.ends_with("/messages") => Wire::Anthropic,
            _ => Wire::Gemini,
        };
        let header = |name| request.header(name).unwrap_or("-").to_owned();
        let seen = format!(
            "{} {} {}",
            request.path,
            header("authorization"),
            header("api-key")
        );
        Reply {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            chunks: wire.events(&Answer::text(&[&seen])),
            after: After::End,
        }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn registered_drivers_have_addresses_and_key_headers() {
    let server = answering().await;
    let azure = ProviderSettings {
        query: vec![("api-version".to_owned(), "preview".to_owned())],
        ..ProviderSettings::default()
    };
    let mut registry = DriverRegistry::new();
    let settings = ModelSettings::default().with_provider(ProviderType::AzureOpenAI, azure);
    register_drivers(&mut registry, settings).unwrap();
    let bearer = format!("Bearer {KEY}");
    for (provider, wire, expected) in [
        (
            ProviderType::OpenAI,
            Wire::OpenAi,
            format!("/v1/responses {bearer} -"),
        ),
        (
            ProviderType::AzureOpenAI,
            Wire::OpenAi,
            format!("/v1/responses?api-version=preview - {KEY}"),
        ),
        (
            ProviderType::OpenAICompletions,
            Wire::OpenAiChat,
            format!("/v1/chat/completions {bearer} -"),
        ),
        (
            ProviderType::OpenRouter,
            Wire::OpenAiChat,
            format!("/v1/chat/completions {bearer} -"),
        ),
        (
            ProviderType::Anthropic,
            Wire::Anthropic,
            "/v1/messages - -".to_owned(),
        ),
        (
            ProviderType::Gemini,
            Wire::Gemini,
            "/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse - -".to_owned(),
        ),
    ] {
        let config = ProviderConfig {
            provider_type: provider,
            api_key: Some(KEY.to_owned()),
            base_url: Some(base(wire, &server.url())),
        };
        let driver = registry.create_driver(&config).unwrap();
        let got = call(&*driver, ask(wire)).await;
        assert_eq!(got.text(), expected, "{provider}");
    }
}

#[tokio::test]
async fn azure_without_an_address_sends_no_key() {
    let mut registry = DriverRegistry::new();
    register_drivers(&mut registry, ModelSettings::default()).unwrap();
    let config = ProviderConfig {
        provider_type: ProviderType::AzureOpenAI,
        api_key: Some(KEY.to_owned()),
        base_url: None,
    };
    let refused = registry.create_driver(&config).map(drop);
    assert!(
        matches!(refused, Err(AgentLoopError::Configuration(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn headers_can_be_added_and_the_key_omitted() {
    let server = answering().await;
    let provider = ProviderSettings {
        headers: vec![Header::new("API-Key", "from-a-gateway")],
        key_place: Some(KeyPlace::Nowhere),
        ..ProviderSettings::default()
    };
    assert!(!format!("{provider:?}").contains("from-a-gateway"));
    let driver = driver_with(
        Wire::OpenAiChat,
        &server.url(),
        ModelSettings::default(),
        provider,
    );
    let got = call(&driver, ask(Wire::OpenAiChat)).await;
    assert_eq!(got.text(), "/v1/chat/completions - from-a-gateway");
}

#[tokio::test]
async fn calls_use_the_configured_proxy() {
    let proxy = answering().await;
    let settings = ModelSettings {
        http: HttpSettings {
            proxy: Some(proxy.url()),
            ..HttpSettings::default()
        },
        ..ModelSettings::default()
    };
    let provider = ProviderSettings::default();
    let driver = driver_with(
        Wire::Anthropic,
        "http://provider.invalid",
        settings,
        provider,
    );
    let got = call(&driver, ask(Wire::Anthropic)).await;
    assert_eq!(got.text(), "http://provider.invalid/v1/messages - -");
}

#[tokio::test]
async fn unreadable_certificate_is_a_typed_error() {
    let settings = ModelSettings {
        http: HttpSettings {
            ca_certificates: vec![
                b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----".to_vec(),
            ],
            ..HttpSettings::default()
        },
        ..ModelSettings::default()
    };
    let driver = driver_with(
        Wire::OpenAi,
        "https://provider.invalid",
        settings,
        ProviderSettings::default(),
    );
    let got = call(&driver, ask(Wire::OpenAi)).await;
    assert!(
        matches!(got.error, Some(AgentLoopError::Configuration(_))),
        "{got:?}"
    );
}

#[tokio::test]
async fn redirect_does_not_forward_the_key() {
    let mut server = FakeServer::start().await.unwrap();
    let wire = Wire::Anthropic;
    let driver = driver(wire, &server.url());
    let elsewhere = format!("{}/elsewhere", server.url());
    let (got, _) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.answer(307, &[("location", &elsewhere)], "").await
    })
    .await;
    assert_eq!(got.provider_error().status, Some(307));
}

#[tokio::test]
async fn unreachable_address_is_a_network_error() {
    let server = FakeServer::start().await.unwrap();
    let url = server.url();
    drop(server);
    // The listener is closed when its task has been stopped.
    tokio::task::yield_now().await;
    for wire in Wire::ALL {
        let got = call(&driver(wire, &url), ask(wire)).await;
        assert_eq!(got.provider_error().kind, ErrorKind::Network, "{got:?}");
    }
}

#[tokio::test]
async fn plain_messages_are_sent_like_the_shared_history() {
    for wire in Wire::ALL {
        let (_, shared) = exchange_answer(wire, ask(wire), &Answer::text(&["x"])).await;
        let mut server = FakeServer::start().await.unwrap();
        let driver = driver(wire, &server.url());
        let messages = vec![
            LlmMessage::text(LlmMessageRole::System, "Be brief."),
            LlmMessage::text(LlmMessageRole::User, "hello"),
        ];
        let events = wire.events(&Answer::text(&["x"]));
        let config = config(wire);
        let provider = async {
            let exchange = server.next().await;
            let sent = exchange.request.json();
            exchange.stream(&events).await.unwrap();
            sent
        };
        let (response, sent) = tokio::join!(driver.chat_completion(messages, &config), provider);
        assert_eq!(response.unwrap().text, "x");
        if wire != Wire::OpenAi {
            assert_eq!(sent, shared.json());
        } else {
            // There is no session prompt, so the instructions are a message.
            assert_eq!(sent["input"][0]["role"], "system");
            assert_eq!(sent["input"][1], shared.json()["input"][0]);
        }
    }
}
