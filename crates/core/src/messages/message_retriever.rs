//! Reads the messages of a session.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::message::Message;
use crate::message_filter::MessageQuery;
use crate::typed_id::{MessageId, SessionId};

pub use crate::message_filter::{InjectionPosition, MessageFilter, MessageInjection};

/// Reads the messages of a session.
#[async_trait]
pub trait MessageRetriever: Send + Sync {
    /// Returns one message.
    async fn get(&self, session_id: SessionId, message_id: MessageId) -> Result<Option<Message>>;
    /// Returns all messages, oldest first.
    async fn load(&self, session_id: SessionId) -> Result<Vec<Message>>;
    /// Answers a question.
    async fn load_filtered(&self, query: MessageQuery) -> Result<Vec<Message>> {
        let messages = self.load(query.session_id).await?;
        Ok(query.answer(&messages))
    }
    /// Returns one page.
    async fn load_page(
        &self,
        session_id: SessionId,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Message>> {
        let messages = self.load(session_id).await?;
        Ok(messages.into_iter().skip(offset).take(limit).collect())
    }
    /// Returns how many there are.
    async fn count(&self, session_id: SessionId) -> Result<usize> {
        Ok(self.load(session_id).await?.len())
    }
}

#[async_trait]
impl<T: MessageRetriever + ?Sized> MessageRetriever for Arc<T> {
    async fn get(&self, session_id: SessionId, message_id: MessageId) -> Result<Option<Message>> {
        (**self).get(session_id, message_id).await
    }
    async fn load(&self, session_id: SessionId) -> Result<Vec<Message>> {
        (**self).load(session_id).await
    }
    async fn load_filtered(&self, query: MessageQuery) -> Result<Vec<Message>> {
        (**self).load_filtered(query).await
    }
    async fn load_page(
        &self,
        session_id: SessionId,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Message>> {
        (**self).load_page(session_id, offset, limit).await
    }
    async fn count(&self, session_id: SessionId) -> Result<usize> {
        (**self).count(session_id).await
    }
}
