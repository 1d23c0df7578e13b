//! Talking to an agent.

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
use crate::turn_result::TurnHandle;

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
    /// Begins a conversation in a runtime of its own.
    pub fn builder() -> ConversationBuilder {
        ConversationBuilder::new()
    }

    /// Talks in a session that a runtime has already.
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
        Self::of(runtime, session_id, OpenStore::default())
    }

    pub(super) fn of(runtime: &InProcessRuntime, session_id: SessionId, store: OpenStore) -> Self {
        Self {
            runtime: runtime.clone(),
            session_id,
            store,
        }
    }

    /// Says something and waits for the answer. Dropping the future stops the turn.
    ///
    /// A turn that fails, is stopped or runs into a limit is [`ConversationError::Stopped`]. One that waits for
    /// somebody is a reply with [`pending`](Reply::pending) calls.
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
        Reply::of(&self.runtime, self.session_id, turn)
            .await?
            .or_stopped()
    }

    /// Says something and reads the answer as it is written. Dropping the answer before its end stops the turn.
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

    /// Takes up the turn that an earlier process left open, or an input that still waits for its turn, and waits for what it
    /// comes to; `None` where nothing is open.
    ///
    /// A turn that waits for somebody is a reply with [`pending`](Reply::pending) calls again. From here on the process is at
    /// work on the turn; dropping the future stops nothing.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
    /// if let Some(reply) = chat.resume().await? {
    ///     println!("It went on: {reply}");
    /// }
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn resume(&mut self) -> Result<Option<Reply>, ConversationError> {
        match self.runtime.resume_open_turn(self.session_id).await? {
            Some(handle) => self.reply(handle).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the calls that wait for somebody, also those of a turn that an earlier process left open. Looking takes up
    /// nothing.
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

    /// Allows a call that waits for approval, and waits for what the turn comes to.
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

    /// Refuses a call that waits for approval; the agent is told, and the turn goes on.
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
        let handle = decided.await?;
        self.reply(handle).await
    }

    /// Gives the result of a call that this program runs itself, or the answer to a question that a tool asks, and waits for
    /// what the turn comes to.
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
        let handle = answered.await?;
        self.reply(handle).await
    }

    /// Says why a call that this program runs itself failed, and waits for what the turn comes to.
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
        let handle = submitted.await?;
        self.reply(handle).await
    }

    async fn reply(&mut self, handle: TurnHandle) -> Result<Reply, ConversationError> {
        let turn = handle.wait().await?;
        Reply::of(&self.runtime, self.session_id, turn)
            .await?
            .or_stopped()
    }

    /// Returns what was said so far, oldest first.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
    /// chat.say("Hi").await?;
    /// let messages = chat.messages().await?;
    /// let said: Vec<_> = messages.iter().filter_map(|message| message.text()).collect();
    /// assert_eq!(said, ["Hi", "Hello!"]);
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn messages(&self) -> Result<Vec<Message>, ConversationError> {
        Ok(self.runtime.messages(self.session_id).await?)
    }

    /// Reads a text file of the session; `None` when none is there.
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

    /// Returns the runtime below, for everything else.
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

    /// Stops all work of the runtime in order, so that an open turn goes on at the next start without counting as a crash,
    /// and closes the store that [`on_disk`](super::ConversationBuilder) opened, so that another process can have it.
    ///
    /// Without it, the store is closed soon after the last conversation of it is dropped.
    pub async fn close(self) {
        conversations::close(&self.runtime, self.store).await;
    }

    /// Returns the session.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }
}
