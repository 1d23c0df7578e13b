//! The drivers inside of the runtime, where a turn is carried to its end.

use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_models::{ModelSettings, register_drivers};
use windlass_runtime::{InProcessRuntime, InProcessRuntimeBuilder};
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::support::{KEY, base, model};

/// What the tool makes of its arguments; long enough to be in no id.
const PRODUCT: &str = "123457370371";

async fn runtime(wire: Wire, url: &str) -> InProcessRuntime {
    let provider_type = match wire {
        Wire::OpenAi => LlmProviderType::Openai,
        Wire::OpenAiChat => LlmProviderType::OpenaiCompletions,
        Wire::Anthropic => LlmProviderType::Anthropic,
        Wire::Gemini => LlmProviderType::Gemini,
    };
    let mut drivers = DriverRegistry::new();
    register_drivers(&mut drivers, ModelSettings::default());
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
async fn a_model_can_mend_a_call_with_broken_arguments() {
    // Gemini reads calls itself, and says so when it cannot.
    for wire in [Wire::OpenAi, Wire::OpenAiChat, Wire::Anthropic] {
        let mut server = FakeServer::start().await.unwrap();
        let runtime = runtime(wire, &server.url()).await;
        let session = runtime.default_session_id().unwrap();
        let provider = async {
            let mut asked = Vec::new();
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
                asked.push(exchange.request.json().to_string());
                exchange.stream(&wire.events(&answer)).await.unwrap();
            }
            asked
        };
        let turn = runtime.run_text_turn(session, "Multiply.");
        let (turn, asked) = tokio::join!(turn, provider);
        assert_eq!(turn.unwrap().response, "Done.", "{wire:?}");
        // The model reads what it wrote and why that is no call; then the call is carried out.
        assert!(asked[1].contains("invalid_arguments"), "{}", asked[1]);
        assert!(!asked[1].contains(PRODUCT), "{}", asked[1]);
        assert!(asked[2].contains(PRODUCT), "{}", asked[2]);
    }
}
