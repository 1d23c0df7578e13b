//! Talking to an agent.

use serde_json::Value;
use windlass_core::error::AgentLoopError;
use windlass_core::message::{InputMessage, Message};
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::SessionId;

use super::answer_stream::AnswerStream;
use super::builder::ConversationBuilder;
use super::error::ConversationError;
use super::reply::{PendingCall, Reply};
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
}

impl Conversation {
    /// Begins a conversation in a runtime of its own.
    pub fn builder() -> ConversationBuilder {
        ConversationBuilder::new()
    }

    /// Talks in a session that a runtime has already.
    #[must_use]
    pub fn on(runtime: &InProcessRuntime, session_id: SessionId) -> Self {
        Self {
            runtime: runtime.clone(),
            session_id,
        }
    }

    /// Says something and waits for the answer. Dropping the future stops the turn.
    ///
    /// A turn that fails, is stopped or runs into a limit is [`ConversationError::Stopped`]. One that waits for
    /// somebody is a reply with [`pending`](Reply::pending) calls.
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

    /// Allows a call that waits for approval, and waits for what the turn comes to.
    pub async fn approve(&mut self, call: &PendingCall) -> Result<Reply, ConversationError> {
        self.decide(call, true).await
    }

    /// Refuses a call that waits for approval; the agent is told, and the turn goes on.
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

    /// Gives the result of a call that this program runs itself, and waits for what the turn comes to.
    pub async fn answer(
        &mut self,
        call: &PendingCall,
        result: impl Into<Value>,
    ) -> Result<Reply, ConversationError> {
        self.resolve(ToolResult::success(&call.id, result)).await
    }

    /// Says why a call that this program runs itself failed, and waits for what the turn comes to.
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
    pub async fn messages(&self) -> Result<Vec<Message>, ConversationError> {
        Ok(self.runtime.messages(self.session_id).await?)
    }

    /// Reads a text file of the session; `None` when none is there.
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
    #[must_use]
    pub fn runtime(&self) -> &InProcessRuntime {
        &self.runtime
    }

    /// Returns the session.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }
}
