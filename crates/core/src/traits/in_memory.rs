//! In-memory stores, for tests and for programs without persistent state.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use uuid::Uuid;

use crate::agent::Agent;
use crate::error::{AgentLoopError, Result};
use crate::events::{Event, EventRequest};
use crate::harness::Harness;
use crate::llm_models::ModelWithProvider;
use crate::lock::Shared;
use crate::message::{InputMessage, Message};
use crate::message_filter::MessageQuery;
use crate::message_retriever::MessageRetriever;
use crate::traits::{AgentStore, EventEmitter, HarnessStore, LlmProviderStore};
use crate::typed_id::{AgentId, EventId, HarnessId, MessageId, ModelId, SessionId};

/// Agents in memory.
#[derive(Debug, Clone, Default)]
pub struct InMemoryAgentStore {
    agents: Shared<BTreeMap<AgentId, Agent>>,
}

impl InMemoryAgentStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds or replaces an agent.
    pub async fn add_agent(&self, agent: Agent) {
        self.agents.write().insert(agent.public_id, agent);
    }
    /// Removes an agent.
    pub fn remove_agent(&self, id: AgentId) -> Option<Agent> {
        self.agents.write().remove(&id)
    }
    /// Returns all agents, oldest id first.
    #[must_use]
    pub fn list(&self) -> Vec<Agent> {
        self.agents.read().values().cloned().collect()
    }
}

#[async_trait]
impl AgentStore for InMemoryAgentStore {
    async fn get_agent(&self, agent_id: AgentId) -> Result<Option<Agent>> {
        Ok(self.agents.read().get(&agent_id).cloned())
    }
}

/// Harnesses in memory; chains are followed through the parents.
#[derive(Debug, Clone, Default)]
pub struct InMemoryHarnessStore {
    harnesses: Shared<BTreeMap<HarnessId, Harness>>,
}

impl InMemoryHarnessStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds or replaces a harness.
    pub async fn add_harness(&self, harness: Harness) {
        self.harnesses.write().insert(harness.id, harness);
    }
    /// Removes a harness.
    pub fn remove_harness(&self, id: HarnessId) -> Option<Harness> {
        self.harnesses.write().remove(&id)
    }
    /// Returns all harnesses, oldest id first.
    #[must_use]
    pub fn list(&self) -> Vec<Harness> {
        self.harnesses.read().values().cloned().collect()
    }
}

#[async_trait]
impl HarnessStore for InMemoryHarnessStore {
    async fn get_harness_chain(&self, harness_id: HarnessId) -> Result<Vec<Harness>> {
        let harnesses = self.harnesses.read();
        let mut chain: Vec<Harness> = Vec::new();
        let mut next = Some(harness_id);
        while let Some(id) = next {
            if chain.iter().any(|harness| harness.id == id) {
                return Err(AgentLoopError::config(format!(
                    "harness {id} inherits from itself"
                )));
            }
            let Some(harness) = harnesses.get(&id) else {
                return match chain.last() {
                    None => Ok(Vec::new()),
                    Some(child) => Err(AgentLoopError::config(format!(
                        "harness {} inherits from {id}, which does not exist",
                        child.id
                    ))),
                };
            };
            chain.push(harness.clone());
            next = harness.parent_harness_id;
        }
        chain.reverse();
        Ok(chain)
    }
}

#[derive(Debug, Default)]
struct Models {
    by_id: HashMap<ModelId, ModelWithProvider>,
    default: Option<ModelWithProvider>,
}

/// Models in memory.
#[derive(Debug, Clone, Default)]
pub struct InMemoryLlmProviderStore {
    models: Shared<Models>,
}

impl InMemoryLlmProviderStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds or replaces a model.
    pub async fn add_model(&self, id: ModelId, model: ModelWithProvider) {
        self.models.write().by_id.insert(id, model);
    }
    /// Sets the model for turns that name none.
    pub async fn set_default_model(&self, model: ModelWithProvider) {
        self.models.write().default = Some(model);
    }
}

#[async_trait]
impl LlmProviderStore for InMemoryLlmProviderStore {
    async fn get_model_with_provider(
        &self,
        model_id: ModelId,
    ) -> Result<Option<ModelWithProvider>> {
        Ok(self.models.read().by_id.get(&model_id).cloned())
    }
    async fn get_default_model(&self) -> Result<Option<ModelWithProvider>> {
        Ok(self.models.read().default.clone())
    }
}

/// Messages in memory.
#[derive(Debug, Clone, Default)]
pub struct InMemoryMessageRetriever {
    messages: Shared<HashMap<SessionId, Vec<Message>>>,
}

impl InMemoryMessageRetriever {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds an input as a message and returns it.
    pub async fn add(&self, session_id: SessionId, input: InputMessage) -> Result<Message> {
        let message = input.into_message(MessageId::new(), chrono::Utc::now());
        self.store(session_id, message.clone()).await?;
        Ok(message)
    }
    /// Adds a message.
    pub async fn store(&self, session_id: SessionId, message: Message) -> Result<()> {
        let mut messages = self.messages.write();
        messages.entry(session_id).or_default().push(message);
        Ok(())
    }
    /// Replaces all messages of a session.
    pub async fn seed(&self, session_id: SessionId, messages: Vec<Message>) {
        self.messages.write().insert(session_id, messages);
    }
    /// Removes all messages of a session.
    pub async fn clear_session(&self, session_id: SessionId) {
        self.messages.write().remove(&session_id);
    }

    fn with<R>(&self, session_id: SessionId, read: impl FnOnce(&[Message]) -> R) -> R {
        let messages = self.messages.read();
        read(messages.get(&session_id).map_or(&[], Vec::as_slice))
    }
}

#[async_trait]
impl MessageRetriever for InMemoryMessageRetriever {
    async fn get(&self, session_id: SessionId, message_id: MessageId) -> Result<Option<Message>> {
        Ok(self.with(session_id, |messages| {
            messages.iter().find(|m| m.id == message_id).cloned()
        }))
    }
    async fn load(&self, session_id: SessionId) -> Result<Vec<Message>> {
        Ok(self.with(session_id, <[Message]>::to_vec))
    }
    async fn load_filtered(&self, query: MessageQuery) -> Result<Vec<Message>> {
        Ok(self.with(query.session_id, |messages| query.answer(messages)))
    }
    async fn load_page(
        &self,
        session_id: SessionId,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Message>> {
        Ok(self.with(session_id, |messages| {
            messages.iter().skip(offset).take(limit).cloned().collect()
        }))
    }
    async fn count(&self, session_id: SessionId) -> Result<usize> {
        Ok(self.with(session_id, <[Message]>::len))
    }
}

/// Events in memory, numbered per session.
#[derive(Debug, Clone, Default)]
pub struct InMemoryEventEmitter {
    events: Shared<Vec<Event>>,
}

impl InMemoryEventEmitter {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Returns all events in the order of their emission.
    pub async fn events(&self) -> Vec<Event> {
        self.events.read().clone()
    }
    /// Returns the number of events.
    pub async fn event_count(&self) -> usize {
        self.events.read().len()
    }
    /// Returns the events of one type.
    pub async fn events_by_type(&self, event_type: &str) -> Vec<Event> {
        self.select(|event| event.event_type == event_type)
    }
    /// Returns the events of one session.
    pub async fn events_for_session(&self, session_id: Uuid) -> Vec<Event> {
        self.select(|event| event.session_id == session_id)
    }
    fn select(&self, is_selected: impl Fn(&Event) -> bool) -> Vec<Event> {
        let events = self.events.read();
        events
            .iter()
            .filter(|it| is_selected(it))
            .cloned()
            .collect()
    }
    /// Removes all events.
    pub async fn clear(&self) {
        self.events.write().clear();
    }
}

#[async_trait]
impl EventEmitter for InMemoryEventEmitter {
    async fn emit(&self, request: EventRequest) -> Result<Event> {
        let mut events = self.events.write();
        let mut newest = events.iter().rev();
        let last = newest.find(|event| event.session_id == request.session_id);
        let sequence = last.map_or(0, Event::seq) + 1;
        let event = request.into_event(EventId::new(), Some(sequence));
        events.push(event.clone());
        Ok(event)
    }
}
