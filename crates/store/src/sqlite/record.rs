//! Events as stored records.

use std::sync::Arc;

use windlass_core::events::{
    Event, EventData, InputQueuedData, TurnCancelledData, TurnCompletedData, TurnFailedData,
    TurnStartedData,
};
use windlass_core::typed_id::TurnId;

use super::chain::{Digest, digest};
use super::error::Fault;
use super::numbers::uint;
use crate::journal::{JournalError, StreamKey};

/// The version of the records that are written. A change of the events' JSON that this version could not read raises it.
pub(crate) const RECORD_VERSION: u32 = 1;

/// Bytes above this are a blob of their own, so that the table of records stays quick to walk.
pub(crate) const MAX_INLINE_BYTES: usize = 32 * 1024;

/// Where the bytes of a record are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// In the row.
    Inline,
    /// In a blob; the row holds its name.
    Blob,
}

impl Form {
    pub(crate) const fn code(self) -> i64 {
        match self {
            Self::Inline => 0,
            Self::Blob => 1,
        }
    }
}

/// What an event does to the set of open turns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TurnChange {
    Opens(TurnId),
    Ends(TurnId),
}

/// An event, ready to be written. Made by whoever appends, so that the writer has less to do.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) seq: Option<u64>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: Digest,
    /// Whether it is a piece of text that a later record holds whole.
    pub(crate) is_chunk: bool,
    pub(crate) at: i64,
    pub(crate) turn: Option<TurnChange>,
}

impl Encoded {
    pub(crate) fn new(event: &Event) -> Result<Self, Fault> {
        let bytes = serde_json::to_vec(event)
            .map_err(|error| Fault::unavailable(format!("an event has no JSON: {error}")))?;
        Ok(Self {
            seq: event.sequence,
            digest: digest(&bytes),
            is_chunk: event.is_ephemeral(),
            at: event.ts.timestamp_millis(),
            turn: turn_change(event),
            bytes,
        })
    }

    pub(crate) fn form(&self) -> Form {
        if self.bytes.len() > MAX_INLINE_BYTES {
            Form::Blob
        } else {
            Form::Inline
        }
    }
}

pub(crate) fn turn_change(event: &Event) -> Option<TurnChange> {
    match &event.data {
        EventData::TurnStarted(TurnStartedData { turn_id, .. })
        | EventData::InputQueued(InputQueuedData { turn_id, .. }) => {
            Some(TurnChange::Opens(*turn_id))
        }
        EventData::TurnCompleted(TurnCompletedData { turn_id, .. })
        | EventData::TurnFailed(TurnFailedData { turn_id, .. })
        | EventData::TurnCancelled(TurnCancelledData { turn_id, .. }) => {
            Some(TurnChange::Ends(*turn_id))
        }
        _ => None,
    }
}

/// A record as it is stored, with its bytes at hand.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) seq: u64,
    pub(crate) version: u32,
    pub(crate) chain: Digest,
    /// `None` when the row names a blob that is not there.
    pub(crate) bytes: Option<Vec<u8>>,
    /// The name of the blob, where the bytes are one.
    pub(crate) blob: Option<Vec<u8>>,
}

/// The columns that [`Stored::from_row`] reads, of `records` left-joined with `blobs`.
pub(crate) const STORED_COLUMNS: &str = "records.seq, records.version, records.form, records.chain, \
     CASE records.form WHEN 1 THEN blobs.bytes ELSE records.body END, \
     CASE records.form WHEN 1 THEN records.body END";

/// Where those columns come from.
pub(crate) const STORED_FROM: &str =
    "records LEFT JOIN blobs ON records.form = 1 AND blobs.hash = records.body";

impl Stored {
    pub(crate) fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: uint(row, 0)?,
            version: row.get(1)?,
            // A link of another length fits nothing, like a wrong one.
            chain: row.get_ref(3)?.as_blob()?.try_into().unwrap_or_default(),
            bytes: row.get(4)?,
            blob: row.get(5)?,
        })
    }

    /// Returns the bytes and their digest; says what is wrong where they are not there.
    pub(crate) fn checked_bytes(&self) -> Result<(&[u8], Digest), String> {
        let Some(bytes) = &self.bytes else {
            return Err("its blob is missing".to_owned());
        };
        let digest = digest(bytes);
        match &self.blob {
            Some(name) if name[..] != digest => Err("its blob was changed".to_owned()),
            _ => Ok((bytes, digest)),
        }
    }

    /// Reads the event. Whoever calls it has checked the chain.
    pub(crate) fn decode(&self, stream: &StreamKey) -> Result<Arc<Event>, JournalError> {
        if self.version != RECORD_VERSION {
            return Err(JournalError::UnknownVersion {
                stream: stream.to_string(),
                seq: self.seq,
                version: self.version,
            });
        }
        let damaged = |what: String| JournalError::Damaged {
            stream: stream.to_string(),
            seq: self.seq,
            what,
        };
        let (bytes, _) = self.checked_bytes().map_err(damaged)?;
        let event: Event = serde_json::from_slice(bytes)
            .map_err(|error| damaged(format!("it cannot be read: {error}")))?;
        if event.sequence != Some(self.seq) {
            return Err(damaged(format!(
                "it says that it is number {}",
                event.seq()
            )));
        }
        Ok(Arc::new(event))
    }
}
