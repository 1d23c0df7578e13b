//! The embedding API's message store and event bus, as views over the journal.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData, EventRequest};
use windlass_core::message::{InputMessage, Message};
use windlass_core::message_filter::MessageQuery;
use windlass_core::traits::{EventEmitter, MessageRetriever};
use windlass_core::typed_id::{MessageId, SessionId};
use windlass_store::Journal;
use windlass_store::journal::all_events;

use crate::backends::{EventBus, RuntimeMessageStore};
use crate::errors::from_journal;
use crate::inner::Inner;
use crate::runtime::to_messages;

/// The runtime that a view belongs to, once it is built.
#[derive(Default)]
pub(crate) struct RuntimeLink(OnceLock<Weak<Inner>>);

impl RuntimeLink {
    pub(crate) fn attach(&self, inner: &Arc<Inner>) {
        // A view that is given to a second runtime still belongs to the first.
        let _ = self.0.set(Arc::downgrade(inner));
    }

    pub(crate) fn runtime(&self) -> Result<Arc<Inner>> {
        self.0.get().and_then(Weak::upgrade).ok_or_else(|| {
            AgentLoopError::config(
                "these backends belong to no runtime yet; build one with them first",
            )
        })
    }
}

/// Messages, as in the threads of the runtime.
#[derive(Default)]
pub(crate) struct JournalMessages {
    pub(crate) runtime_link: RuntimeLink,
}

#[async_trait]
impl MessageRetriever for JournalMessages {
    async fn get(&self, session_id: SessionId, message_id: MessageId) -> Result<Option<Message>> {
        let history = self.runtime_link.runtime()?.history(session_id).await?;
        // The newest messages are read most.
        let mut newest_first = history.iter().rev();
        let message = newest_first.find(|message| message.id == message_id);
        Ok(message.map(|message| Message::clone(message)))
    }
    async fn load(&self, session_id: SessionId) -> Result<Vec<Message>> {
        let history = self.runtime_link.runtime()?.history(session_id).await?;
        Ok(to_messages(history.iter()))
    }
    async fn load_filtered(&self, query: MessageQuery) -> Result<Vec<Message>> {
        let history = self
            .runtime_link
            .runtime()?
            .history(query.session_id)
            .await?;
        Ok(query.answer(history.iter().map(|message| &**message)))
    }
    async fn load_page(
        &self,
        session_id: SessionId,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Message>> {
        let history = self.runtime_link.runtime()?.history(session_id).await?;
        Ok(to_messages(history.page(offset, limit)))
    }
    async fn count(&self, session_id: SessionId) -> Result<usize> {
        Ok(self
            .runtime_link
            .runtime()?
            .history(session_id)
            .await?
            .len())
    }
}

#[async_trait]
impl RuntimeMessageStore for JournalMessages {
    async fn add_input_message(
        &self,
        session_id: SessionId,
        input: InputMessage,
    ) -> Result<Message> {
        let inner = self.runtime_link.runtime()?;
        let message =
            input.into_message(MessageId::from_uuid(inner.clock.uuid()), inner.clock.now());
        inner.import(session_id, message.clone()).await?;
        Ok(message)
    }
    async fn store_message(&self, session_id: SessionId, message: Message) -> Result<()> {
        self.runtime_link
            .runtime()?
            .import(session_id, message)
            .await
    }
}

/// Events, straight from the journal.
pub(crate) struct JournalEvents {
    journal: Arc<dyn Journal>,
    pub(crate) runtime_link: RuntimeLink,
}

impl JournalEvents {
    pub(crate) fn new(journal: Arc<dyn Journal>) -> Self {
        Self {
            journal,
            runtime_link: RuntimeLink::default(),
        }
    }
}

#[async_trait]
impl EventEmitter for JournalEvents {
    /// Records a host event; all other events are written by turns.
    async fn emit(&self, request: EventRequest) -> Result<Event> {
        match (request.context.exec_id, &request.data) {
            (Some(exec_id), _) => self.runtime_link.runtime()?.emit(exec_id, request).await,
            (None, EventData::Custom(_)) => Err(AgentLoopError::event(
                "a custom event belongs to a running step; set the context's `exec_id`",
            )),
            (None, data) => Err(AgentLoopError::event(format!(
                "`{}` events are written by turns alone",
                data.event_type()
            ))),
        }
    }
}

#[async_trait]
impl EventBus for JournalEvents {
    async fn collected_events(&self) -> Vec<Event> {
        let events = all_events(&*self.journal).await;
        let events = events.map_err(from_journal).unwrap_or_default();
        events.iter().map(|event| Event::clone(event)).collect()
    }
}
