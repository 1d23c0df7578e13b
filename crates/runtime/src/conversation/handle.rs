//! The handle of a conversation.

use serde_json::Value;
use windlass_core::error::AgentLoopError;
use windlass_core::message::{InputMessage, Message};
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::SessionId;

use super::answer_stream::AnswerStream;
use super::builder::ConversationBuilder;
use super::conversations;
use super::error::ConversationError;
use super::reply::{PendingCall, Reply};
use super::store::OpenStore;
use crate::runtime::InProcessRuntime;
use crate::turn_result::{TurnHandle, TurnResult};

/// One conversation with an agent.
///
/// ```
/// use windlass_core::llmsim_driver::LlmSimConfig;
/// use windlass_runtime::Conversation;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
/// let reply = chat.say("Hi").await?;
/// assert_eq!(reply.text, "Hello!");
/// # Ok::<(), windlass_runtime::ConversationError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Conversation {
    runtime: InProcessRuntime,
    session_id: SessionId,
    store: OpenStore,
}

impl Conversation {
    /// Creates a builder for a conversation with its own runtime.
    pub fn builder() -> ConversationBuilder {
        ConversationBuilder::new()
    }

    /// Uses a session of an existing runtime.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// use windlass_runtime::{Conversation, InProcessRuntimeBuilder};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let runtime = InProcessRuntimeBuilder::new()
    ///     .llm_sim(LlmSimConfig::fixed("Hello!"))
    ///     .single_session(|session| session.agent("greeter", "You greet people."))
    ///     .build()
    ///     .await?;
    /// let session = runtime.default_session_id().expect("single_session makes one");
    /// let mut chat = Conversation::on(&runtime, session);
    /// assert_eq!(chat.say("Hi").await?.text, "Hello!");
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn on(runtime: &InProcessRuntime, session_id: SessionId) -> Self {
        Self::new(runtime, session_id, OpenStore::default())
    }

    pub(super) fn new(runtime: &InProcessRuntime, session_id: SessionId, store: OpenStore) -> Self {
        Self {
            runtime: runtime.clone(),
            session_id,
            store,
        }
    }

    /// Sends an input and waits for the answer. Dropping the future cancels the turn.
    ///
    /// A turn that fails, is cancelled or reaches a limit returns [`ConversationError::Stopped`]. A parked turn returns a reply with
    /// [`pending`](Reply::pending) calls.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
    /// let reply = chat.say("Hi").await?;
    /// assert_eq!(reply.text, "Hello!");
    /// assert_eq!(reply.turn.iterations, 1);
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn say(
        &mut self,
        input: impl Into<InputMessage>,
    ) -> Result<Reply, ConversationError> {
        let turn = self.runtime.run_turn(self.session_id, input).await?;
        self.reply(turn).await
    }

    /// Sends an input and streams the answer. Dropping the stream before its end cancels the turn.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
    /// let mut answer = chat.stream("Hi").await?;
    /// let mut text = String::new();
    /// while let Some(piece) = answer.next().await {
    ///     text.push_str(&piece);
    /// }
    /// assert_eq!(text, answer.finish().await?.text);
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn stream(
        &mut self,
        input: impl Into<InputMessage>,
    ) -> Result<AnswerStream, ConversationError> {
        Ok(AnswerStream::begin(&self.runtime, self.session_id, input.into()).await?)
    }

    /// Resumes the turn that a previous process left open, or starts a queued input, and waits for the result. Returns `None` if there is neither.
    ///
    /// A parked turn returns a reply with [`pending`](Reply::pending) calls again. From here on this process executes the turn; dropping the future
    /// does not cancel it.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
    /// if let Some(reply) = chat.resume().await? {
    ///     println!("Resumed: {reply}");
    /// }
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn resume(&mut self) -> Result<Option<Reply>, ConversationError> {
        match self.runtime.resume_open_turn(self.session_id).await? {
            Some(handle) => self.wait(handle).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the pending calls, including those of a turn that a previous process left open. No turn is resumed.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
    /// # use windlass_runtime::{Conversation, tool_fn};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let script = LlmSimConfig::scripted(vec![
    /// #     SimTurn::ToolCalls(vec![SimToolCall::new("pay", json!({}))]),
    /// #     SimTurn::Assistant("It is paid.".into()),
    /// # ]);
    /// # let pay = tool_fn("pay", "Pays", json!({ "type": "object" }), |_, _| async { Ok("paid") });
    /// # let mut chat = Conversation::builder().simulator(script).tool(pay.requires_approval()).start().await?;
    /// let waiting = chat.say("Pay the bill.").await?;
    /// assert_eq!(chat.pending().await?, waiting.pending);
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn pending(&self) -> Result<Vec<PendingCall>, ConversationError> {
        let turn = self.runtime.open_turn(self.session_id).await?;
        Ok(turn.map_or_else(Vec::new, |turn| turn.pending))
    }

    /// Approves a call that waits for approval, and waits for the turn's result.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
    /// # use windlass_runtime::{Conversation, tool_fn};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let script = LlmSimConfig::scripted(vec![
    /// #     SimTurn::ToolCalls(vec![SimToolCall::new("pay", json!({}))]),
    /// #     SimTurn::Assistant("It is paid.".into()),
    /// # ]);
    /// # let pay = tool_fn("pay", "Pays", json!({ "type": "object" }), |_, _| async { Ok("paid") });
    /// # let mut chat = Conversation::builder().simulator(script).tool(pay.requires_approval()).start().await?;
    /// let waiting = chat.say("Pay the bill.").await?;
    /// let reply = chat.approve(&waiting.pending[0]).await?;
    /// assert_eq!(reply.text, "It is paid.");
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn approve(&mut self, call: &PendingCall) -> Result<Reply, ConversationError> {
        self.decide(call, true).await
    }

    /// Denies a call that waits for approval. The model receives the denial and the turn continues.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
    /// # use windlass_runtime::{Conversation, tool_fn};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let script = LlmSimConfig::scripted(vec![
    /// #     SimTurn::ToolCalls(vec![SimToolCall::new("pay", json!({}))]),
    /// #     SimTurn::Assistant("Then not.".into()),
    /// # ]);
    /// # let pay = tool_fn("pay", "Pays", json!({ "type": "object" }), |_, _| async { Ok("paid") });
    /// # let mut chat = Conversation::builder().simulator(script).tool(pay.requires_approval()).start().await?;
    /// let waiting = chat.say("Pay the bill.").await?;
    /// let reply = chat.refuse(&waiting.pending[0]).await?;
    /// assert_eq!(reply.text, "Then not.");
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn refuse(&mut self, call: &PendingCall) -> Result<Reply, ConversationError> {
        self.decide(call, false).await
    }

    async fn decide(
        &mut self,
        call: &PendingCall,
        approve: bool,
    ) -> Result<Reply, ConversationError> {
        let decided = self
            .runtime
            .decide_tool_call(self.session_id, &call.id, approve);
        self.wait(decided.await?).await
    }

    /// Sends the result of a call that this program runs itself, or the answer to a tool's question, and waits for the turn's result.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
    /// # use windlass_runtime::{Conversation, client_tool};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let script = LlmSimConfig::scripted(vec![
    /// #     SimTurn::ToolCalls(vec![SimToolCall::new("ask_user", json!({}))]),
    /// #     SimTurn::Assistant("Blue it is.".into()),
    /// # ]);
    /// # let ask = client_tool("ask_user", "Asks the user", json!({ "type": "object" }));
    /// # let mut chat = Conversation::builder().simulator(script).client_tool(ask).start().await?;
    /// let waiting = chat.say("Paint my boat.").await?;
    /// let reply = chat.answer(&waiting.pending[0], "blue").await?;
    /// assert_eq!(reply.text, "Blue it is.");
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn answer(
        &mut self,
        call: &PendingCall,
        result: impl Into<Value>,
    ) -> Result<Reply, ConversationError> {
        let question = self.runtime.question_of(self.session_id, &call.id).await?;
        let Some(request_id) = question else {
            return self.resolve(ToolResult::success(&call.id, result)).await;
        };
        let answered = self
            .runtime
            .answer_user_input(self.session_id, request_id, result.into());
        self.wait(answered.await?).await
    }

    /// Reports why a call that this program runs itself failed, and waits for the turn's result.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
    /// # use windlass_runtime::{Conversation, client_tool};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let script = LlmSimConfig::scripted(vec![
    /// #     SimTurn::ToolCalls(vec![SimToolCall::new("ask_user", json!({}))]),
    /// #     SimTurn::Assistant("I shall guess.".into()),
    /// # ]);
    /// # let ask = client_tool("ask_user", "Asks the user", json!({ "type": "object" }));
    /// # let mut chat = Conversation::builder().simulator(script).client_tool(ask).start().await?;
    /// let waiting = chat.say("Paint my boat.").await?;
    /// let reply = chat.answer_error(&waiting.pending[0], "the user is away").await?;
    /// assert_eq!(reply.text, "I shall guess.");
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn answer_error(
        &mut self,
        call: &PendingCall,
        error: impl Into<String>,
    ) -> Result<Reply, ConversationError> {
        self.resolve(ToolResult::failure(&call.id, error)).await
    }

    async fn resolve(&mut self, result: ToolResult) -> Result<Reply, ConversationError> {
        let results = vec![result];
        let submitted = self.runtime.submit_tool_results(self.session_id, results);
        self.wait(submitted.await?).await
    }

    async fn wait(&self, handle: TurnHandle) -> Result<Reply, ConversationError> {
        self.reply(handle.wait().await?).await
    }

    async fn reply(&self, turn: TurnResult) -> Result<Reply, ConversationError> {
        let reply = Reply::new(&self.runtime, self.session_id, turn).await?;
        reply.or_stopped()
    }

    /// Returns the messages so far, oldest first.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
    /// chat.say("Hi").await?;
    /// let messages = chat.messages().await?;
    /// let texts: Vec<_> = messages.iter().filter_map(|message| message.text()).collect();
    /// assert_eq!(texts, ["Hi", "Hello!"]);
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn messages(&self) -> Result<Vec<Message>, ConversationError> {
        Ok(self.runtime.messages(self.session_id).await?)
    }

    /// Reads a text file of the session; `None` if it does not exist.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let chat = Conversation::builder()
    ///     .simulator(LlmSimConfig::echo())
    ///     .file("/log.md", "Launched.")
    ///     .start()
    ///     .await?;
    /// assert_eq!(chat.read_file("/log.md").await?.as_deref(), Some("Launched."));
    /// assert_eq!(chat.read_file("/none.md").await?, None);
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn read_file(&self, path: &str) -> Result<Option<String>, ConversationError> {
        let file = self.runtime.read_file(self.session_id, path).await?;
        match file {
            Some(file) if file.encoding != "text" => Err(ConversationError::from(
                AgentLoopError::tool(format!("{path} is not a text file")),
            )),
            file => Ok(file.and_then(|file| file.content)),
        }
    }

    /// Returns the underlying runtime.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
    /// chat.say("Hi").await?;
    /// let events = chat.runtime().events_for(chat.session_id()).await?;
    /// assert_eq!(events[0].event_type, "turn.started");
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &InProcessRuntime {
        &self.runtime
    }

    /// Stops all work of the runtime in order, so that the next process resumes an open turn without counting a crash. Also closes the store that
    /// [`on_disk`](super::ConversationBuilder) opened, so that another process can open it.
    ///
    /// Without this call, the store closes shortly after its last conversation is dropped.
    pub async fn close(self) {
        conversations::close(&self.runtime, self.store).await;
    }

    /// Returns the session.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }
}
