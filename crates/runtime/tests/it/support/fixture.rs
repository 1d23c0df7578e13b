//! A runtime with one session, ready for a test.

use std::sync::Arc;

use windlass_core::capabilities::Capability;
use windlass_core::error::Result;
use windlass_core::events::Event;
use windlass_core::llm_driver_registry::ProviderType;
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::mcp::McpConnector;
use windlass_core::message::Message;
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    InProcessRuntime, InProcessRuntimeBuilder, RuntimeBackends, RuntimeSettings,
    SingleSessionBuilder, StopReason, TurnHandle, TurnResult,
};

use super::{
    Bundle, FnTool, ScriptedCall, ScriptedModel, TestClock, assert_sound, assert_well_formed, soon,
};

type Shape = Box<dyn FnOnce(SingleSessionBuilder) -> SingleSessionBuilder>;

/// Differences from a runtime with one plain session.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) model: ScriptedModel,
    pub(crate) clock: TestClock,
    pub(crate) settings: RuntimeSettings,
    pub(crate) backends: Option<RuntimeBackends>,
    bundles: Vec<Bundle>,
    shape: Option<Shape>,
    mcp: Option<Arc<dyn McpConnector>>,
}

impl Setup {
    pub(crate) fn new(calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        Self {
            model: ScriptedModel::new(calls),
            ..Self::default()
        }
    }
    /// Uses an existing model.
    pub(crate) fn of(model: &ScriptedModel) -> Self {
        Self {
            model: model.clone(),
            ..Self::default()
        }
    }
    /// Enables a capability on the harness.
    pub(crate) fn bundle(mut self, bundle: &Bundle) -> Self {
        self.bundles.push(bundle.clone());
        self
    }
    /// Enables a tool.
    pub(crate) fn tool(self, tool: &FnTool) -> Self {
        let id = windlass_core::tools::Tool::name(tool).replace('_', "-");
        self.bundle(&Bundle::new(&format!("bundle-of-{id}")).tool(tool))
    }
    pub(crate) fn settings(mut self, change: impl FnOnce(&mut RuntimeSettings)) -> Self {
        change(&mut self.settings);
        self
    }
    pub(crate) fn backends(mut self, backends: RuntimeBackends) -> Self {
        self.backends = Some(backends);
        self
    }
    /// Sets the connector to MCP servers.
    pub(crate) fn mcp(mut self, connector: Arc<dyn McpConnector>) -> Self {
        self.mcp = Some(connector);
        self
    }
    pub(crate) fn session(
        mut self,
        shape: impl FnOnce(SingleSessionBuilder) -> SingleSessionBuilder + 'static,
    ) -> Self {
        self.shape = Some(Box::new(shape));
        self
    }

    /// Returns the builder, for tests that need more of it.
    pub(crate) fn builder(self) -> InProcessRuntimeBuilder {
        let Self {
            model,
            clock,
            settings,
            backends,
            bundles,
            shape,
            mcp,
        } = self;
        let mut builder = InProcessRuntimeBuilder::new()
            .settings(settings)
            .clock(Arc::new(clock))
            .default_model(scripted_model());
        let mut drivers = windlass_core::llm_driver_registry::DriverRegistry::new();
        model.register(&mut drivers, ProviderType::LlmSim);
        builder = builder.driver_registry(drivers);
        if let Some(backends) = backends {
            builder = builder.backends(backends);
        }
        if let Some(mcp) = mcp {
            builder = builder.mcp(mcp);
        }
        let ids: Vec<String> = bundles
            .iter()
            .map(|bundle| bundle.id().to_owned())
            .collect();
        for bundle in bundles {
            builder = builder.capability(bundle);
        }
        builder.single_session(|session| {
            let session = ids
                .into_iter()
                .fold(session.agent("agent", "Be brief."), |session, id| {
                    session.with_capability(id)
                });
            match shape {
                Some(shape) => shape(session),
                None => session,
            }
        })
    }

    pub(crate) async fn try_build(self) -> Result<Fixture> {
        let (model, clock) = (self.model.clone(), self.clock.clone());
        let runtime = self.builder().build().await?;
        let session = runtime
            .default_session_id()
            .expect("single_session makes one");
        Ok(Fixture {
            runtime,
            session,
            model,
            clock,
        })
    }

    pub(crate) async fn build(self) -> Fixture {
        self.try_build().await.expect("the setup is sound")
    }
}

/// The model that the scripted driver serves.
pub(crate) fn scripted_model() -> ModelWithProvider {
    ModelWithProvider {
        model: "scripted".to_owned(),
        provider_type: LlmProviderType::LlmSim,
        api_key: None,
        base_url: None,
    }
}

/// A runtime with one session.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) runtime: InProcessRuntime,
    pub(crate) session: SessionId,
    pub(crate) model: ScriptedModel,
    pub(crate) clock: TestClock,
}

impl Fixture {
    pub(crate) async fn try_run(&self, text: &str) -> Result<TurnResult> {
        soon(self.runtime.run_text_turn(self.session, text)).await
    }

    pub(crate) async fn run(&self, text: &str) -> TurnResult {
        self.try_run(text).await.expect("the turn is taken")
    }

    /// Runs a turn in its own task.
    pub(crate) fn start(&self, text: &str) -> tokio::task::JoinHandle<Result<TurnResult>> {
        let (fixture, text) = (self.clone(), text.to_owned());
        tokio::spawn(async move { fixture.try_run(&text).await })
    }

    /// Resumes the turn that a previous process left open.
    pub(crate) async fn resume(&self) -> Option<TurnHandle> {
        let resumed = self.runtime.resume_open_turn(self.session);
        soon(resumed).await.expect("the turn can be resumed")
    }

    pub(crate) async fn messages(&self) -> Vec<Message> {
        self.runtime
            .messages(self.session)
            .await
            .expect("the session is there")
    }

    pub(crate) async fn events(&self) -> Vec<Arc<Event>> {
        self.runtime
            .events_for(self.session)
            .await
            .expect("the session is there")
    }

    /// Invariants while no turn is open.
    pub(crate) async fn assert_sound(&self) {
        assert_well_formed(&self.messages().await);
        assert_sound(&self.events().await);
    }

    /// Asserts that the session can still run a turn.
    pub(crate) async fn assert_usable(&self) {
        self.model.rewrite([ScriptedCall::answer("still here")]);
        let turn = self.run("are you there?").await;
        assert_eq!(
            (turn.success, turn.response.as_str(), turn.stop_reason),
            (true, "still here", StopReason::Completed),
            "{:?}",
            turn.error
        );
        self.assert_sound().await;
    }
}
