//! Events as stored records.

use std::fmt::Display;
use std::sync::Arc;

use windlass_core::events::Event;

use super::chain::{Digest, digest};
use super::pack::{pack, unpack};
use crate::journal::open_turns::TurnChange;
use crate::journal::{JournalError, StreamKey};

/// The version of the records that are written. A change of the events' JSON that this version could not read raises it.
pub(crate) const RECORD_VERSION: u32 = 1;

/// Bytes above this are a blob of their own, so that the table of records stays quick to walk.
pub(crate) const MAX_INLINE_BYTES: usize = 32 * 1024;

/// Most events have fewer bytes than this.
const USUAL_BYTES: usize = 1024;

/// Where the bytes of a record are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// In the row.
    Inline,
    /// In a blob; the row holds its name.
    Blob,
    /// In the row, in their [short form](super::pack).
    Packed,
}

impl Form {
    pub(crate) const fn code(self) -> i64 {
        match self {
            Self::Inline => 0,
            Self::Blob => 1,
            Self::Packed => 2,
        }
    }

    fn of_code(code: i64) -> Option<Self> {
        [Self::Inline, Self::Blob, Self::Packed]
            .into_iter()
            .find(|form| form.code() == code)
    }
}

/// An event, ready to be written. Made by whoever appends, so that the writer has less to do.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) seq: Option<u64>,
    /// How many bytes it has.
    pub(crate) size: usize,
    kept: StoredBytes,
    pub(crate) digest: Digest,
    /// Whether it is a piece of text that a later record holds whole.
    pub(crate) is_chunk: bool,
    pub(crate) at: i64,
    pub(crate) turn: Option<TurnChange>,
}

/// What is stored of a record's bytes.
#[derive(Debug)]
enum StoredBytes {
    /// All of them: in the row, or as a blob where they are many.
    Whole(Vec<u8>),
    /// Their short form.
    Packed(Vec<u8>),
}

/// Makes events ready to be written, one after the other in the same buffer.
pub(crate) fn encode(events: &[Arc<Event>]) -> Result<Vec<Encoded>, JournalError> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    let encode = |event| {
        bytes.clear();
        serde_json::to_writer(&mut bytes, Arc::as_ref(event))
            .map_err(|error| JournalError::Unavailable(format!("an event has no JSON: {error}")))?;
        Ok(Encoded::with_bytes(event, &bytes))
    };
    events.iter().map(encode).collect()
}

impl Encoded {
    /// Takes an event whose JSON is at hand.
    pub(crate) fn with_bytes(event: &Arc<Event>, bytes: &[u8]) -> Self {
        let is_inline = bytes.len() <= MAX_INLINE_BYTES;
        let packed = is_inline.then(|| pack(bytes)).flatten();
        Self {
            seq: event.sequence,
            size: bytes.len(),
            kept: packed.map_or_else(|| StoredBytes::Whole(bytes.to_vec()), StoredBytes::Packed),
            digest: digest(bytes),
            is_chunk: event.is_ephemeral(),
            at: event.ts.timestamp_millis(),
            turn: TurnChange::of(event),
        }
    }

    /// Takes bytes that are no event.
    pub(crate) fn of_bytes(bytes: Vec<u8>, seq: u64, at: i64) -> Self {
        Self {
            seq: Some(seq),
            size: bytes.len(),
            digest: digest(&bytes),
            kept: StoredBytes::Whole(bytes),
            is_chunk: false,
            at,
            turn: None,
        }
    }

    /// Returns what goes into the row, and what that is.
    pub(crate) fn body(&self) -> (Form, &[u8]) {
        match &self.kept {
            StoredBytes::Packed(packed) => (Form::Packed, packed),
            StoredBytes::Whole(bytes) if self.blob().is_none() => (Form::Inline, bytes),
            StoredBytes::Whole(_) => (Form::Blob, &self.digest),
        }
    }

    /// Returns the bytes of a blob, where it has one.
    pub(crate) fn blob(&self) -> Option<&[u8]> {
        match &self.kept {
            StoredBytes::Whole(bytes) if bytes.len() > MAX_INLINE_BYTES => Some(bytes),
            _ => None,
        }
    }
}

/// A record as it is stored, with its bytes at hand.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) seq: u64,
    pub(crate) version: u32,
    pub(crate) chain: Digest,
    /// What is wrong where they cannot be had.
    bytes: Result<&'a [u8], &'static str>,
    /// The name of the blob, where the bytes are one.
    pub(crate) blob: Option<&'a [u8]>,
}

impl<'a> Stored<'a> {
    /// Takes what is stored of a record; `blob` finds bytes by their name. The buffer holds the bytes that are not in the body as
    /// such; what it held before is gone.
    pub(crate) fn new<E>(
        (seq, version, chain): (u64, u32, Digest),
        (form, body): (i64, &'a [u8]),
        buffer: &'a mut Vec<u8>,
        blob: impl FnOnce(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Self, E> {
        let form = Form::of_code(form);
        let bytes = match form {
            Some(Form::Inline) => Ok(body),
            Some(Form::Packed) => match unpack(body, buffer) {
                Some(()) => Ok(&**buffer),
                None => Err("it was changed"),
            },
            Some(Form::Blob) => match blob(body)? {
                Some(bytes) => {
                    *buffer = bytes;
                    Ok(&**buffer)
                }
                None => Err("its blob is missing"),
            },
            None => Err("it has a form that this version does not know"),
        };
        Ok(Self {
            seq,
            version,
            chain,
            bytes,
            blob: (form == Some(Form::Blob)).then_some(body),
        })
    }

    /// Returns how many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.bytes.map_or(0, <[u8]>::len)
    }

    /// Returns the bytes and their digest; says what is wrong where they are not there.
    pub(crate) fn checked_bytes(&self) -> Result<(&[u8], Digest), String> {
        let bytes = self.bytes.map_err(str::to_owned)?;
        let digest = digest(bytes);
        match &self.blob {
            Some(name) if *name != digest => Err("its blob was changed".to_owned()),
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
        // The chain covers bytes in the row; whether a blob is the one that was named is asked here too.
        let bytes = match (self.bytes, self.blob) {
            (Ok(bytes), None) => bytes,
            _ => self.checked_bytes().map_err(damaged)?.0,
        };
        let unreadable = |error: &dyn Display| damaged(format!("it cannot be read: {error}"));
        // Looked at once as a whole: reading it as bytes would check every text in it for itself.
        let text = std::str::from_utf8(bytes).map_err(|error| unreadable(&error))?;
        let event: Event = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        if event.sequence != Some(self.seq) {
            return Err(damaged(format!(
                "it says that it is number {}",
                event.seq()
            )));
        }
        Ok(Arc::new(event))
    }
}
