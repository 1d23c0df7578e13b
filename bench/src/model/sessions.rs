//! The side of Windlass: sessions whose model is the fake server.

use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::{AgentLoopError, SessionId};
use windlass_models::{ModelSettings, register_drivers};
use windlass_runtime::{
    AgentBuilder, HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, SessionBuilder,
};
use windlass_testkit::Wire;

use super::Result;

pub const PROMPT: &str = "What is 6 * 7? Use the tools that you have and tell me the result.";
pub const KEY: &str = "bench-key";

/// Sessions of one runtime.
pub struct Sessions {
    pub runtime: InProcessRuntime,
    pub ids: Vec<SessionId>,
}

impl Sessions {
    pub async fn start(wire: Wire, url: &str, count: usize) -> Result<Self> {
        let harness = HarnessBuilder::new("math", "You are a math assistant.")
            .capability("test_math")
            .build();
        let agent = AgentBuilder::new("a", "Use tools.").build();
        let (harness_id, agent_id) = (harness.id, agent.public_id);
        let mut builder = InProcessRuntimeBuilder::new()
            .driver_registry(driver_registry()?)
            .default_model(model(wire, url))
            .harness(harness)
            .agent(agent);
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            let session = SessionBuilder::new(harness_id).agent(agent_id).build();
            ids.push(session.id);
            builder = builder.session(session);
        }
        let runtime = builder.build().await?;
        Ok(Self { runtime, ids })
    }
}

pub async fn turn(runtime: &InProcessRuntime, id: SessionId) -> Result<()> {
    let turn = runtime.run_text_turn(id, PROMPT).await?;
    if turn.success {
        Ok(())
    } else {
        Err(AgentLoopError::llm(turn.error.unwrap_or_default()))
    }
}

pub fn driver_registry() -> Result<DriverRegistry> {
    let mut drivers = DriverRegistry::new();
    register_drivers(&mut drivers, ModelSettings::default())?;
    Ok(drivers)
}

pub fn model(wire: Wire, url: &str) -> ModelWithProvider {
    let (provider_type, model) = match wire {
        Wire::OpenAi => (LlmProviderType::Openai, "gpt-5-mini"),
        Wire::OpenAiChat => (LlmProviderType::OpenaiCompletions, "gpt-5-mini"),
        Wire::Anthropic => (LlmProviderType::Anthropic, "claude-haiku-4-5"),
        Wire::Gemini => (LlmProviderType::Gemini, "gemini-3.5-flash"),
    };
    ModelWithProvider {
        model: model.to_owned(),
        provider_type,
        api_key: Some(KEY.to_owned()),
        base_url: Some(url.to_owned()),
    }
}
