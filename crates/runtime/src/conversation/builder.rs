//! The builder of a conversation.

use windlass_core::capabilities::Capability;
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::ModelWithDrivers;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::tools::{Tool, ToolDefinition};
use windlass_core::typed_id::SessionId;

use super::conversations::{Conversations, id_of};
use super::error::ConversationError;
use super::handle::Conversation;
#[cfg(feature = "sqlite")]
use super::store::DiskStoreOptions;
use super::store::OpenStore;
use super::tool_set::ToolSet;
use crate::backends::RuntimeBackends;
use crate::builder::{InProcessRuntimeBuilder, text_file};
use crate::builders::SingleSessionBuilder;

/// The capability that a conversation's own tools come from.
const OWN_TOOLS: &str = "conversation_tools";

/// Selects the conversation to open.
#[derive(Debug)]
enum OpenTarget {
    New,
    Id(SessionId),
    Named(String),
}

/// Builds a [`Conversation`] from a model, instructions and tools.
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
    target: OpenTarget,
    #[cfg(feature = "sqlite")]
    disk: Option<DiskStoreOptions>,
}

impl ConversationBuilder {
    pub(super) fn new() -> Self {
        Self {
            runtime: InProcessRuntimeBuilder::new(),
            session: SingleSessionBuilder::new(),
            tools: ToolSet::new(OWN_TOOLS).describe("The tools of this conversation."),
            target: OpenTarget::New,
            #[cfg(feature = "sqlite")]
            disk: None,
        }
    }

    /// Sets the model: either the value of `models::model("provider/model", key)` (feature `models`), which includes its drivers, or a model whose provider has
    /// a driver among [`drivers`](Self::drivers).
    ///
    /// ```
    /// use windlass_core::llm_driver_registry::DriverRegistry;
    /// use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
    /// # use windlass_core::llmsim_driver::{LlmSimConfig, LlmSimDriver};
    /// use windlass_runtime::Conversation;
    ///
    /// let mut drivers = DriverRegistry::new();
    /// drivers.register(LlmProviderType::Openai, |_key, _base_url| {
    ///     // A driver of your own.
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
    pub fn model(self, model: impl Into<ModelWithDrivers>) -> Self {
        self.with_runtime(|runtime| runtime.default_model(model))
    }
    /// Sets the drivers of model providers.
    pub fn drivers(self, drivers: DriverRegistry) -> Self {
        self.with_runtime(|runtime| runtime.driver_registry(drivers))
    }
    /// Uses a simulated model, which needs no key and no network.
    pub fn simulator(self, config: LlmSimConfig) -> Self {
        self.with_runtime(|runtime| runtime.llm_sim(config))
    }
    /// Sets the agent's system prompt.
    pub fn instructions(mut self, prompt: impl Into<String>) -> Self {
        self.session = self.session.agent("agent", prompt);
        self
    }
    /// Adds a tool.
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
    /// Adds a tool that this program runs itself, such as one of [`client_tool`](crate::client_tool).
    pub fn client_tool(mut self, tool: ToolDefinition) -> Self {
        self.session = self.session.session_tool(tool);
        self
    }
    /// Enables a registered capability, by its ID or with a configuration.
    pub fn capability(mut self, capability: impl Into<AgentCapabilityConfig>) -> Self {
        self.session = self.session.with_capability(capability);
        self
    }
    /// Adds a custom capability and enables it.
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
        self.with_runtime(|runtime| runtime.capability(capability))
            .capability(id)
    }
    /// Adds a text file to the session.
    pub fn file(mut self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.session = self.session.session_initial_file(text_file(path, content));
        self
    }
    /// Sets the store backends for records, events and files; the default is memory.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// use windlass_runtime::{Conversation, MemoryJournal, RuntimeBackends};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// // Any journal works; another runtime can open the conversations in it.
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
        self.with_runtime(|runtime| runtime.backends(backends))
    }
    /// Stores everything in a data directory, which is created if it does not exist. Only one process at a time may write there.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let data = directory.path().join("data");
    /// for process in 0..2 {
    ///     let builder = Conversation::builder().simulator(LlmSimConfig::echo());
    ///     let mut chat = builder.on_disk(&data).named("boat").start().await?;
    ///     assert_eq!(chat.messages().await?.len(), 2 * process);
    ///     chat.say("Hello?").await?;
    ///     chat.close().await;
    /// }
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn on_disk(self, directory: impl Into<std::path::PathBuf>) -> Self {
        self.on_disk_with(windlass_store::sqlite::SqliteOptions::new(directory))
    }
    /// Stores everything in a data directory with custom options, such as a key for the secrets of `session_storage`
    /// ([`with_secrets_key`](windlass_store::sqlite::SqliteOptions::with_secrets_key)).
    #[cfg(feature = "sqlite")]
    pub fn on_disk_with(mut self, options: windlass_store::sqlite::SqliteOptions) -> Self {
        self.disk = Some(DiskStoreOptions {
            options,
            is_read_only: false,
        });
        self
    }
    /// Opens a data directory read-only, even while another process writes there. No model is needed.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let data = directory.path().join("data");
    /// # let builder = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!"));
    /// # let mut chat = builder.on_disk(&data).named("boat").start().await?;
    /// # chat.say("Hi").await?;
    /// let chats = Conversation::builder().on_disk_read_only(&data).open().await?;
    /// for session in chats.list().await? {
    ///     let chat = chats.get(session.id).await?;
    ///     println!("{:?}: {} messages", session.title, chat.messages().await?.len());
    /// }
    /// # assert_eq!(chats.list().await?.len(), 1);
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn on_disk_read_only(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
        self.disk = Some(DiskStoreOptions {
            options: windlass_store::sqlite::SqliteOptions::new(directory),
            is_read_only: true,
        });
        self
    }
    /// Opens the conversation with this name, or creates it with the name as its title. The same name always maps to the same ID:
    /// [`SessionId::from_name`].
    ///
    /// Instructions, tools and capabilities come from this builder; messages and files of an existing conversation are unchanged.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_core::SessionId;
    /// use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let chat = Conversation::builder().simulator(LlmSimConfig::echo()).named("boat").start().await?;
    /// assert_eq!(chat.session_id(), SessionId::from_name("boat"));
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.target = OpenTarget::Named(name.into());
        self
    }
    /// Opens the conversation with this ID, or creates it, as [`named`](Self::named) does.
    pub fn session_id(mut self, id: SessionId) -> Self {
        self.target = OpenTarget::Id(id);
        self
    }
    /// Sets the maximum number of model calls per turn.
    pub fn max_iterations(mut self, limit: usize) -> Self {
        self.session = self.session.session_max_iterations(limit);
        self
    }
    /// Changes the underlying runtime in any other way.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// use windlass_runtime::{Conversation, RuntimeSettings};
    /// let settings = RuntimeSettings::default()
    ///     .turn_timeout(Some(Duration::from_secs(60)));
    /// let builder = Conversation::builder()
    ///     .simulator(LlmSimConfig::echo())
    ///     .with_runtime(|runtime| runtime.settings(settings));
    /// # let _ = builder;
    /// ```
    pub fn with_runtime(
        mut self,
        change: impl FnOnce(InProcessRuntimeBuilder) -> InProcessRuntimeBuilder,
    ) -> Self {
        self.runtime = change(self.runtime);
        self
    }

    /// Starts the conversation. Invalid parts are an error here, not later.
    ///
    /// ```
    /// use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// // There is no model.
    /// let error = Conversation::builder().start().await.unwrap_err();
    /// assert!(error.to_string().contains("no default model"));
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn start(self) -> Result<Conversation, ConversationError> {
        let (session_id, title) = match &self.target {
            OpenTarget::New => (SessionId::new(), None),
            OpenTarget::Id(id) => (*id, None),
            OpenTarget::Named(name) => (id_of(name)?, Some(name.clone())),
        };
        let builder = self.with_runtime(|runtime| runtime.default_session(session_id));
        let conversations = Box::pin(builder.open()).await?;
        Box::pin(conversations.open_or_create(session_id, title.as_deref())).await
    }

    /// Opens the store with all its conversations, and starts none.
    pub async fn open(mut self) -> Result<Conversations, ConversationError> {
        self.tools.check()?;
        #[cfg(feature = "sqlite")]
        let store = match self.disk.take() {
            Some(disk) => {
                if disk.is_read_only && !self.runtime.has_model() {
                    // This model is never called.
                    let unused = LlmSimConfig::error("the store is open for reading only");
                    self.runtime = self.runtime.llm_sim(unused);
                }
                let directory = disk.options.directory.clone();
                let (backends, store) = Box::pin(disk.open()).await?;
                // An agent must not read or change its own journal.
                #[cfg(feature = "tools")]
                self.runtime.hide(&directory);
                #[cfg(not(feature = "tools"))]
                drop(directory);
                self.runtime = self.runtime.backends(backends);
                store
            }
            None => OpenStore::default(),
        };
        #[cfg(not(feature = "sqlite"))]
        let store = OpenStore::default();
        if !self.tools.is_empty() {
            self.session = self.session.with_capability(OWN_TOOLS);
        }
        // Added even without tools: conversations of an earlier program may refer to it.
        self.runtime = self.runtime.capability(self.tools);
        Ok(Conversations {
            runtime: Box::pin(self.runtime.build()).await?,
            session: self.session,
            store,
        })
    }
}
