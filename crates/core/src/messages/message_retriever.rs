//! Reads the messages of a session.

use async_trait::async_trait;

use crate::error::Result;
use crate::message::Message;
use crate::message_filter::MessageQuery;
use crate::traits::forward_arc;
use crate::typed_id::{MessageId, SessionId};

pub use crate::message_filter::{InjectionPosition, MessageFilter, MessageInjection};

/// Reads the messages of a session.
#[async_trait]
pub trait MessageRetriever: Send + Sync {
    /// Returns one message; `None` if the session has no such message.
    async fn get(&self, session_id: SessionId, message_id: MessageId) -> Result<Option<Message>>;
    /// Returns all messages, oldest first.
    async fn load(&self, session_id: SessionId) -> Result<Vec<Message>>;
    /// Returns the messages that match a query.
    async fn load_filtered(&self, query: MessageQuery) -> Result<Vec<Message>> {
        let messages = self.load(query.session_id).await?;
        Ok(query.answer(&messages))
    }
    /// Returns up to `limit` messages after the first `offset`.
    async fn load_page(
        &self,
        session_id: SessionId,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Message>> {
        let messages = self.load(session_id).await?;
        Ok(messages.into_iter().skip(offset).take(limit).collect())
    }
    /// Returns the number of messages.
    async fn count(&self, session_id: SessionId) -> Result<usize> {
        Ok(self.load(session_id).await?.len())
    }
}

forward_arc! { MessageRetriever {
    async fn get(&self, session_id: SessionId, message_id: MessageId) -> Result<Option<Message>>;
    async fn load(&self, session_id: SessionId) -> Result<Vec<Message>>;
    async fn load_filtered(&self, query: MessageQuery) -> Result<Vec<Message>>;
    async fn load_page(&self, session_id: SessionId, offset: usize, limit: usize) -> Result<Vec<Message>>;
    async fn count(&self, session_id: SessionId) -> Result<usize>;
}}
