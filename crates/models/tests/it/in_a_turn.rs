//! The drivers in turns of the runtime.

use windlass_core::error::AgentLoopError;
use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_models::{ModelSettings, register_drivers};
use windlass_runtime::{
    Conversation, ConversationError, InProcessRuntime, InProcessRuntimeBuilder, RetryPolicy,
    RuntimeSettings,
};
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::support::{KEY, base, model};

/// The tool's result; too long to occur in an ID by chance.
const PRODUCT: &str = "123457370371";

async fn runtime(wire: Wire, url: &str) -> InProcessRuntime {
    let provider_type = match wire {
        Wire::OpenAi => LlmProviderType::Openai,
        Wire::OpenAiChat => LlmProviderType::OpenaiCompletions,
        Wire::Anthropic => LlmProviderType::Anthropic,
        Wire::Gemini => LlmProviderType::Gemini,
    };
    let mut drivers = DriverRegistry::new();
    register_drivers(&mut drivers, ModelSettings::default()).unwrap();
    InProcessRuntimeBuilder::new()
        .driver_registry(drivers)
        .default_model(ModelWithProvider {
            model: model(wire).to_owned(),
            provider_type,
            api_key: Some(KEY.to_owned()),
            base_url: Some(base(wire, url)),
        })
        .single_session(|session| {
            session
                .harness("math", "You count.")
                .with_capability("test_math")
                .agent("counter", "Use tools.")
        })
        .build()
        .await
        .unwrap()
}

#[tokio::test]
async fn provider_error_names_the_provider_and_a_remedy() {
    let name = "openai-chat/llama3.2";
    let mut server = FakeServer::start().await.unwrap();
    let url = format!("{}/v1", server.url());
    let host = server.url().replace("http://", "");
    let model = windlass_models::model_at(name, KEY, &url).unwrap();
    let mut chat = Conversation::builder().model(model).start().await.unwrap();
    let refusal = Wire::OpenAiChat.error(401, &format!("no such key: {KEY}"));
    let provider = async {
        let exchange = server.next().await;
        let refusal = refusal.to_string();
        exchange.answer(401, &[], &refusal).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(chat.say("Hi"), provider);
    let message = outcome.unwrap_err().to_string();
    for words in [name, &host, "status 401", "check the key"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert!(!message.contains(KEY), "{message}");

    // The server is stopped.
    drop(server);
    let settings = RuntimeSettings::default().retry(RetryPolicy {
        max_retries: 0,
        ..RetryPolicy::default()
    });
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap().to_string();
    drop(gone);
    let model = windlass_models::model_at(name, KEY, format!("http://{address}/v1")).unwrap();
    let builder = Conversation::builder().model(model);
    let builder = builder.with_runtime(|runtime| runtime.settings(settings));
    let mut chat = builder.start().await.unwrap();
    let message = chat.say("Hi").await.unwrap_err().to_string();
    for words in [name, &address, "refused", "check that the address"] {
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[tokio::test]
async fn invalid_address_fails_before_any_output() {
    for url in [
        "",
        "localhost:1",
        "ftp://host/v1",
        "http://me:secret@host/v1",
    ] {
        let model = windlass_models::model("openai-chat/m", KEY).unwrap();
        let model = model.with_base_url(url);
        let started = Conversation::builder().model(model).start().await;
        let error = started.unwrap_err();
        assert!(
            matches!(
                error,
                ConversationError::Runtime(AgentLoopError::Configuration(_))
            ),
            "{error}"
        );
        let message = error.to_string();
        assert!(message.contains("of provider openai-chat"), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
}

#[tokio::test]
async fn model_can_correct_a_call_with_broken_arguments() {
    // Gemini parses calls itself and reports malformed ones.
    for wire in [Wire::OpenAi, Wire::OpenAiChat, Wire::Anthropic] {
        let mut server = FakeServer::start().await.unwrap();
        let runtime = runtime(wire, &server.url()).await;
        let session = runtime.default_session_id().unwrap();
        let provider = async {
            let mut requests = Vec::new();
            for answer in [
                Answer::default().with_call("call_1", "multiply", &["{\"a\": 123457, \"b\": "]),
                Answer::default().with_call(
                    "call_2",
                    "multiply",
                    &["{\"a\": 123457, \"b\": 1000003}"],
                ),
                Answer::text(&["Done."]),
            ] {
                let exchange = server.next().await;
                requests.push(exchange.request.json().to_string());
                exchange.stream(&wire.events(&answer)).await.unwrap();
            }
            requests
        };
        let turn = runtime.run_text_turn(session, "Multiply.");
        let (turn, requests) = tokio::join!(turn, provider);
        assert_eq!(turn.unwrap().response, "Done.", "{wire:?}");
        // The model gets its invalid call and the reason; the corrected call is executed.
        assert!(requests[1].contains("invalid_arguments"), "{}", requests[1]);
        assert!(!requests[1].contains(PRODUCT), "{}", requests[1]);
        assert!(requests[2].contains(PRODUCT), "{}", requests[2]);
    }
}
