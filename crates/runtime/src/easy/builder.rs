//! Begins a conversation.

use windlass_core::capabilities::Capability;
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::error::AgentLoopError;
use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::ModelWithProvider;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::session_file::InitialFile;
use windlass_core::tools::{Tool, ToolDefinition};

use super::conversation::Conversation;
use super::error::ConversationError;
use super::tool_set::ToolSet;
use crate::backends::RuntimeBackends;
use crate::builder::InProcessRuntimeBuilder;
use crate::builders::SingleSessionBuilder;

/// The capability that a conversation's own tools come from.
const OWN_TOOLS: &str = "conversation_tools";

/// Begins a [`Conversation`]: a model, instructions, tools, and off it goes.
///
/// ```
/// use windlass_core::llmsim_driver::LlmSimConfig;
/// use windlass_runtime::Conversation;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let chat = Conversation::builder()
///     .simulator(LlmSimConfig::echo())
///     .instructions("You look after a boat.")
///     .capability("session_file_system")
///     .file("/log.md", "Launched.")
///     .start()
///     .await?;
/// assert_eq!(chat.read_file("/log.md").await?.as_deref(), Some("Launched."));
/// # Ok::<(), windlass_runtime::ConversationError>(())
/// # }).unwrap();
/// ```
#[must_use = "nothing happens before `start`"]
#[derive(Debug)]
pub struct ConversationBuilder {
    runtime: InProcessRuntimeBuilder,
    session: SingleSessionBuilder,
    tools: ToolSet,
}

impl ConversationBuilder {
    pub(super) fn new() -> Self {
        Self {
            runtime: InProcessRuntimeBuilder::new(),
            session: SingleSessionBuilder::new(),
            tools: ToolSet::new(OWN_TOOLS).describe("The tools of this conversation."),
        }
    }

    fn runtime(
        mut self,
        change: impl FnOnce(InProcessRuntimeBuilder) -> InProcessRuntimeBuilder,
    ) -> Self {
        self.runtime = change(self.runtime);
        self
    }

    /// Talks to this model; its provider needs a driver among [`drivers`](Self::drivers).
    ///
    /// ```
    /// use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};
    /// use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
    /// # use windlass_core::llmsim_driver::{LlmSimConfig, LlmSimDriver};
    /// use windlass_runtime::Conversation;
    ///
    /// let mut drivers = DriverRegistry::new();
    /// drivers.register(ProviderType::OpenAI, |_key, _base_url| {
    ///     // A driver of your own, or of a crate that speaks to the provider.
    /// #     Box::new(LlmSimDriver::new(LlmSimConfig::fixed("Hello!")))
    /// });
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let mut chat = Conversation::builder()
    ///     .drivers(drivers)
    ///     .model(ModelWithProvider {
    ///         model: "gpt-5".into(),
    ///         provider_type: LlmProviderType::Openai,
    ///         api_key: Some("sk-…".into()),
    ///         base_url: None,
    ///     })
    ///     .start()
    ///     .await?;
    /// assert_eq!(chat.say("Hi").await?.text, "Hello!");
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub fn model(self, model: ModelWithProvider) -> Self {
        self.runtime(|runtime| runtime.default_model(model))
    }
    /// Sets how to speak to providers of models.
    pub fn drivers(self, drivers: DriverRegistry) -> Self {
        self.runtime(|runtime| runtime.driver_registry(drivers))
    }
    /// Talks to a simulated model, without key and network.
    pub fn simulator(self, config: LlmSimConfig) -> Self {
        self.runtime(|runtime| runtime.llm_sim(config))
    }
    /// Tells the agent who it is and what to do.
    pub fn instructions(mut self, prompt: impl Into<String>) -> Self {
        self.session = self.session.agent("agent", prompt);
        self
    }
    /// Gives the agent a tool.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// use windlass_runtime::{Conversation, tool_fn};
    /// let schema = json!({ "type": "object" });
    /// let dice = tool_fn("dice", "Throws a die", schema, |_, _| async { Ok(4) });
    /// let builder = Conversation::builder().simulator(LlmSimConfig::echo()).tool(dice);
    /// # let _ = builder;
    /// ```
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools = self.tools.tool(tool);
        self
    }
    /// Gives the agent a tool that this program runs itself, such as one of [`client_tool`](crate::client_tool).
    pub fn client_tool(mut self, tool: ToolDefinition) -> Self {
        self.session = self.session.session_tool(tool);
        self
    }
    /// Enables a capability that the platform knows, by its id or with a configuration.
    pub fn capability(mut self, capability: impl Into<AgentCapabilityConfig>) -> Self {
        self.session = self.session.with_capability(capability);
        self
    }
    /// Adds a capability of the program's own and enables it.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// use windlass_runtime::{Conversation, ToolSet, tool_fn};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let die = tool_fn("die", "Throws a die", json!({ "type": "object" }), |_, _| async { Ok(4) });
    /// let coin = tool_fn("coin", "Tosses a coin", json!({ "type": "object" }), |_, _| async { Ok("heads") });
    /// let games = ToolSet::new("games").describe("Games of chance.").tool(die).tool(coin);
    /// let chat = Conversation::builder()
    ///     .simulator(LlmSimConfig::echo())
    ///     .add_capability(games)
    ///     .start()
    ///     .await?;
    /// let context = chat.runtime().load_context(chat.session_id()).await?;
    /// assert_eq!(context.runtime_agent.tools.len(), 2);
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub fn add_capability(self, capability: impl Capability + 'static) -> Self {
        let id = capability.id().to_owned();
        self.runtime(|runtime| runtime.capability(capability))
            .capability(id)
    }
    /// Puts a text file into the session.
    pub fn file(mut self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.session = self.session.session_initial_file(InitialFile {
            path: path.into(),
            content: content.into(),
            encoding: "text".to_owned(),
            is_readonly: false,
        });
        self
    }
    /// Keeps records, events and files elsewhere than in memory.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// use windlass_runtime::{Conversation, MemoryJournal, RuntimeBackends};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// // The journal can be any; conversations in it can be taken up by another runtime.
    /// let backends = RuntimeBackends::on_journal(Arc::new(MemoryJournal::new()));
    /// let chat = Conversation::builder()
    ///     .simulator(LlmSimConfig::echo())
    ///     .backends(backends)
    ///     .start()
    ///     .await?;
    /// # let _ = chat;
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub fn backends(self, backends: RuntimeBackends) -> Self {
        self.runtime(|runtime| runtime.backends(backends))
    }
    /// Limits how many model calls a turn may make.
    pub fn max_iterations(mut self, limit: usize) -> Self {
        self.session = self.session.session_max_iterations(limit);
        self
    }
    /// Changes the runtime below in any other way.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// use windlass_runtime::{Conversation, RuntimeSettings};
    /// let settings = RuntimeSettings {
    ///     turn_timeout: Some(Duration::from_secs(60)),
    ///     ..RuntimeSettings::default()
    /// };
    /// let builder = Conversation::builder()
    ///     .simulator(LlmSimConfig::echo())
    ///     .with_runtime(|runtime| runtime.settings(settings));
    /// # let _ = builder;
    /// ```
    pub fn with_runtime(
        self,
        change: impl FnOnce(InProcessRuntimeBuilder) -> InProcessRuntimeBuilder,
    ) -> Self {
        self.runtime(change)
    }

    /// Begins the conversation. What is wrong with its parts is an error here, not later.
    ///
    /// ```
    /// use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// // Nothing to talk to.
    /// let error = Conversation::builder().start().await.unwrap_err();
    /// assert!(error.to_string().contains("no default model"));
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn start(mut self) -> Result<Conversation, ConversationError> {
        if !self.tools.is_empty() {
            self = Self {
                tools: ToolSet::new(OWN_TOOLS),
                runtime: self.runtime.capability(self.tools),
                session: self.session.with_capability(OWN_TOOLS),
            };
        }
        let session = self.session;
        let runtime = self.runtime.single_session(|_| session).build().await?;
        let session_id = runtime.default_session_id().ok_or_else(|| {
            ConversationError::from(AgentLoopError::config("the conversation has no session"))
        })?;
        Ok(Conversation::on(&runtime, session_id))
    }
}
