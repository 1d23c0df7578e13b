//! All conversations of a store.

use std::time::Duration;

use windlass_core::agent::Agent;
use windlass_core::error::AgentLoopError;
use windlass_core::harness::Harness;
use windlass_core::session::Session;
use windlass_core::typed_id::SessionId;

use super::error::ConversationError;
use super::handle::Conversation;
use super::reply::PendingCall;
use super::store::OpenStore;
use crate::builders::SingleSessionBuilder;
use crate::runtime::{InProcessRuntime, has_same_json, open_session, reopen_session};

/// How long running tools have to finish when a conversation is closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// All conversations of a store, opened by [`ConversationBuilder::open`](super::ConversationBuilder::open).
///
/// ```
/// use windlass_core::llmsim_driver::LlmSimConfig;
/// use windlass_runtime::Conversation;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let chats = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).open().await?;
/// chats.named("Ada").await?.say("Hi").await?;
/// chats.named("Ben").await?;
///
/// for session in chats.list().await? {
///     println!("{} {:?} {}", session.id, session.title, session.status);
/// }
/// assert_eq!(chats.named("Ada").await?.messages().await?.len(), 2);
/// # Ok::<(), windlass_runtime::ConversationError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Conversations {
    pub(super) runtime: InProcessRuntime,
    pub(super) session: SingleSessionBuilder,
    pub(super) store: OpenStore,
}

impl Conversations {
    /// Returns the records of all conversations, oldest first: IDs, titles, times and status.
    pub async fn list(&self) -> Result<Vec<Session>, ConversationError> {
        let mut sessions = self.runtime.list_sessions().await?;
        sessions.sort_by_key(|session| (session.created_at, session.id));
        Ok(sessions)
    }

    /// Creates a new conversation.
    pub async fn begin(&self) -> Result<Conversation, ConversationError> {
        self.open_or_create(SessionId::new(), None).await
    }

    /// Opens the conversation with this name, or creates it.
    pub async fn named(&self, name: &str) -> Result<Conversation, ConversationError> {
        self.open_or_create(id_of(name)?, Some(name)).await
    }

    /// Returns an existing conversation with its recorded settings.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_core::SessionId;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let chats = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).open().await?;
    /// # chats.begin().await?;
    /// for session in chats.list().await? {
    ///     let mut chat = chats.get(session.id).await?;
    ///     assert_eq!(chat.say("Hi").await?.text, "Hello!");
    /// }
    /// assert!(chats.get(SessionId::new()).await.is_err());
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn get(&self, session_id: SessionId) -> Result<Conversation, ConversationError> {
        self.runtime.inner.slot(session_id).await?;
        Ok(Conversation::new(
            &self.runtime,
            session_id,
            self.store.clone(),
        ))
    }

    /// Returns the pending calls of all conversations. No turn is resumed.
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
    /// # let builder = Conversation::builder().simulator(script).tool(pay.requires_approval());
    /// # let chats = builder.open().await?;
    /// # chats.named("Ada").await?.say("Pay the bill.").await?;
    /// for (session_id, call) in chats.pending().await? {
    ///     let reply = chats.get(session_id).await?.approve(&call).await?;
    ///     assert_eq!(reply.text, "It is paid.");
    /// }
    /// assert!(chats.pending().await?.is_empty());
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn pending(&self) -> Result<Vec<(SessionId, PendingCall)>, ConversationError> {
        let mut pending = Vec::new();
        for session_id in self.runtime.unfinished_sessions().await? {
            let turn = self.runtime.open_turn(session_id).await?;
            let calls = turn.map_or_else(Vec::new, |turn| turn.pending);
            pending.extend(calls.into_iter().map(|call| (session_id, call)));
        }
        Ok(pending)
    }

    /// Returns the underlying runtime.
    #[must_use]
    pub fn runtime(&self) -> &InProcessRuntime {
        &self.runtime
    }

    /// Stops all work in order and closes the store, as [`Conversation::close`] does.
    pub async fn close(self) {
        close(&self.runtime, self.store).await;
    }

    /// Opens the conversation with this ID, or creates it.
    pub(super) async fn open_or_create(
        &self,
        session_id: SessionId,
        title: Option<&str>,
    ) -> Result<Conversation, ConversationError> {
        if self.store.is_read_only() {
            return self.get(session_id).await;
        }
        let mut builder = self.session.clone().with_own_records(session_id);
        if let Some(title) = title {
            builder = builder.session_title(title);
        }
        let (harness, agent, session) = builder.build();
        let inner = &self.runtime.inner;
        let earlier = inner.backends.session_store.get_session(session_id).await?;
        self.store_harness(harness).await?;
        self.store_agent(agent).await?;
        match earlier {
            None => open_session(inner, session).await?,
            // The program's current settings apply; the state of the conversation is unchanged.
            Some(earlier) => {
                let session = Session {
                    harness_id: session.harness_id,
                    agent_id: session.agent_id,
                    tools: session.tools,
                    max_iterations: session.max_iterations,
                    ..earlier.clone()
                };
                reopen_session(inner, &earlier, session).await?;
            }
        }
        Ok(Conversation::new(
            &self.runtime,
            session_id,
            self.store.clone(),
        ))
    }

    /// Writes the harness of a conversation, unless it is unchanged.
    async fn store_harness(&self, harness: Harness) -> Result<(), AgentLoopError> {
        let store = &self.runtime.inner.backends.harness_store;
        let chain = store.get_harness_chain(harness.id).await?;
        let dated = chain.last().map(|earlier| Harness {
            created_at: earlier.created_at,
            updated_at: earlier.updated_at,
            ..harness.clone()
        });
        match chain.last().zip(dated.as_ref()) {
            Some((earlier, dated)) if has_same_json(earlier, dated) => Ok(()),
            _ => store.add_harness(harness).await,
        }
    }

    /// Writes the agent of a conversation, unless it is unchanged.
    async fn store_agent(&self, agent: Agent) -> Result<(), AgentLoopError> {
        let store = &self.runtime.inner.backends.agent_store;
        let earlier = store.get_agent(agent.public_id).await?;
        let dated = earlier.as_ref().map(|earlier| Agent {
            created_at: earlier.created_at,
            updated_at: earlier.updated_at,
            ..agent.clone()
        });
        match earlier.as_ref().zip(dated.as_ref()) {
            Some((earlier, dated)) if has_same_json(earlier, dated) => Ok(()),
            _ => store.add_agent(agent).await,
        }
    }
}

/// Returns the ID of the conversation with a name.
pub(super) fn id_of(name: &str) -> Result<SessionId, AgentLoopError> {
    if name.is_empty() {
        return Err(AgentLoopError::config(
            "the name of a conversation is empty; give it one, or none at all",
        ));
    }
    Ok(SessionId::from_name(name))
}

pub(super) async fn close(runtime: &InProcessRuntime, store: OpenStore) {
    runtime.shutdown(PATIENCE).await;
    store.close().await;
}
