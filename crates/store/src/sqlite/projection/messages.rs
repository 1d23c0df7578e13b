//! Listing the places of messages.

use rusqlite::Connection;
use windlass_core::message::MessageRole;
use windlass_core::typed_id::MessageId;

use super::super::SqliteStore;
use super::super::error::{Fault, SqliteError};
use super::super::journal::find;
use super::batches::Table;
use super::load::{fold, ready, thread};
use super::rows::{MESSAGE_COLUMNS, MessageRow};
use super::sources::{Sources, range};
use crate::journal::{Listed, StreamKey};

/// One message of a transcript: where it stands, and which event holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageEntry {
    /// Its place in the transcript, counted from 0.
    pub index: u64,
    /// The message.
    pub id: MessageId,
    /// Who speaks.
    pub role: MessageRole,
    /// The number of the event that brought it.
    pub seq: u64,
}

impl From<MessageRow> for MessageEntry {
    fn from(row: MessageRow) -> Self {
        Self {
            index: row.place,
            id: row.id,
            role: row.role,
            seq: row.seq,
        }
    }
}

impl SqliteStore {
    /// Lists the messages of a transcript from a place on, oldest first; `next` is the offset of the page behind.
    pub async fn messages(
        &self,
        stream: &StreamKey,
        offset: u64,
        limit: usize,
    ) -> Result<Listed<MessageEntry, u64>, SqliteError> {
        let key = stream.clone();
        let listed = self
            .inner
            .readers
            .read(move |reader| list(reader, &key, offset, limit));
        Ok(listed.await?)
    }
}

fn list(
    reader: &Connection,
    name: &StreamKey,
    offset: u64,
    limit: usize,
) -> Result<Listed<MessageEntry, u64>, Fault> {
    ready(reader)?;
    let transaction = reader.unchecked_transaction()?;
    let mut rows = Vec::new();
    if let Some(stream) = find(&transaction, name)? {
        let stream = stream.stream;
        let stored = thread(&transaction, stream)?.map_or(0, |row| row.upto.messages);
        let end = offset.saturating_add(limit as u64).saturating_add(1);
        let messages = (Table::Messages, MESSAGE_COLUMNS);
        let places = offset..end.min(stored);
        let sources = Sources::of(&transaction, name, stream)?;
        rows = range(&transaction, messages, &sources, places, MessageRow::read)?;
        if end > stored {
            let newer = fold(&transaction, name, stream)?.into_rows().messages;
            let newer = newer.into_iter();
            rows.extend(newer.filter(|row| (offset..end).contains(&row.place)));
        }
    }
    let entries = rows.into_iter().map(MessageEntry::from).collect();
    Ok(Listed::cut(entries, limit, |entry: &MessageEntry| {
        entry.index + 1
    }))
}
