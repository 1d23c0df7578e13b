//! Tests of the short API and the built-in capabilities with a whole runtime.

mod built_ins;
mod conversation;
mod conversations;
#[cfg(feature = "sqlite")]
mod on_disk;
mod streaming;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::error::Result;
use windlass_core::llm_driver_registry::{
    DriverRegistry, LlmCallConfig, LlmDriver, LlmMessage, LlmRequest, LlmResponseStream,
    ProviderType,
};
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::llmsim_driver::{LlmSimConfig, LlmSimDriver, SimToolCall, SimTurn};

use super::{Conversation, ConversationBuilder};

/// The requests that a model received, in call order.
type RequestLog = Arc<Mutex<Vec<LlmRequest>>>;

/// The simulator, which also records the requests it receives.
struct RecordingDriver(LlmSimDriver, RequestLog);

#[async_trait]
impl LlmDriver for RecordingDriver {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        self.0.chat_completion_stream(messages, config).await
    }
    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        self.1.lock().unwrap().push(request.clone());
        self.0.stream(request).await
    }
}

/// Returns a conversation builder with a scripted model, and the requests that the model receives.
fn scripted(script: LlmSimConfig) -> (ConversationBuilder, RequestLog) {
    let requests = RequestLog::default();
    let mut drivers = DriverRegistry::new();
    let log = Arc::clone(&requests);
    drivers.register(ProviderType::LlmSim, move |_, _| {
        let driver = LlmSimDriver::new(script.clone());
        Box::new(RecordingDriver(driver, Arc::clone(&log)))
    });
    let model = ModelWithProvider {
        model: "scripted".into(),
        provider_type: LlmProviderType::LlmSim,
        api_key: None,
        base_url: None,
    };
    (
        Conversation::builder().model(model).drivers(drivers),
        requests,
    )
}

fn calls(tool: &str, arguments: Value) -> SimTurn {
    SimTurn::ToolCalls(vec![SimToolCall::new(tool, arguments)])
}

fn says(text: &str) -> SimTurn {
    SimTurn::Assistant(text.into())
}

/// The tool results of a conversation, in order: the value, or the error.
async fn results(chat: &Conversation) -> Vec<Value> {
    let messages = chat.messages().await.unwrap();
    let results = messages.iter().filter_map(|m| m.tool_result_content());
    results
        .map(|part| match (&part.error, &part.result) {
            (Some(error), _) => Value::from(error.clone()),
            (None, result) => result.clone().unwrap_or_default(),
        })
        .collect()
}
