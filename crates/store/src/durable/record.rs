//! Events as stored records.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Display;
use std::sync::Arc;

use windlass_core::events::Event;

use super::chain::{Digest, digest};
use super::pack::{Reference, pack, unpack};
use super::window::Window;
use crate::journal::open_turns::TurnChange;
use crate::journal::{JournalError, StreamKey};

/// The version of the JSON that is written. A change of the events' JSON that this version could not read raises it.
pub const RECORD_VERSION: u32 = 1;

/// The version of records with the same JSON and references to earlier records.
pub const REFERRING_VERSION: u32 = 2;

/// Larger records are blobs, so that scans of the table of records stay quick.
pub const MAX_INLINE_BYTES: usize = 32 * 1024;

/// Most events have fewer bytes than this.
const USUAL_BYTES: usize = 1024;

/// The location of the bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In the row.
    Inline,
    /// In a blob; the row contains its digest.
    Blob,
    /// In the row, in their [short form](super::pack).
    Packed,
    /// The same with references to earlier records of the stream.
    Referring,
}

impl Form {
    pub const fn code(self) -> i64 {
        match self {
            Self::Inline => 0,
            Self::Blob => 1,
            Self::Packed => 2,
            Self::Referring => 3,
        }
    }

    fn of_code(code: i64) -> Option<Self> {
        [Self::Inline, Self::Blob, Self::Packed, Self::Referring]
            .into_iter()
            .find(|form| form.code() == code)
    }
}

/// An encoded event. The appending task encodes it, so that the writer has less to do.
#[derive(Debug)]
pub struct Encoded {
    pub seq: Option<u64>,
    /// How many bytes it has.
    pub size: usize,
    body: StoredBytes,
    pub digest: Digest,
    /// Whether it is a text chunk; a later record contains the whole text.
    pub is_chunk: bool,
    pub at: i64,
    pub turn: Option<TurnChange>,
}

/// The stored form of a record's bytes.
#[derive(Debug)]
enum StoredBytes {
    /// All of them: in the row, or as a blob where they are many.
    Whole(Vec<u8>),
    /// Their short form.
    Packed(Vec<u8>),
    /// The same with references. It is in the row whatever its size: a blob is found only by the digest of its bytes.
    Referring(Vec<u8>),
}

/// Encodes events. They may refer to records of the window and are added to it.
pub fn encode(events: &[Arc<Event>], window: &mut Window) -> Result<Vec<Encoded>, JournalError> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    let encode = |event| {
        bytes.clear();
        serde_json::to_writer(&mut bytes, Arc::as_ref(event))
            .map_err(|error| JournalError::Unavailable(format!("an event has no JSON: {error}")))?;
        Ok(Encoded::with_bytes(event, &bytes, window))
    };
    events.iter().map(encode).collect()
}

impl Encoded {
    /// Encodes an event from its JSON.
    pub fn with_bytes(event: &Arc<Event>, bytes: &[u8], window: &mut Window) -> Self {
        let (is_chunk, turn) = (event.is_ephemeral(), TurnChange::of(event));
        let mut references = Vec::new();
        if let Some(seq) = event.sequence {
            if !is_chunk {
                references = window.refer(seq, bytes);
            }
            window.pass(seq, turn);
        }
        let stored = match references.as_slice() {
            [] if bytes.len() <= MAX_INLINE_BYTES => pack(bytes, &[]).map(StoredBytes::Packed),
            [] => None,
            references => pack(bytes, references).map(StoredBytes::Referring),
        };
        Self {
            seq: event.sequence,
            size: bytes.len(),
            body: stored.unwrap_or_else(|| StoredBytes::Whole(bytes.to_vec())),
            digest: digest(bytes),
            is_chunk,
            at: event.ts.timestamp_millis(),
            turn,
        }
    }

    /// Encodes bytes that are no event.
    pub fn of_bytes(bytes: Vec<u8>, seq: u64, at: i64) -> Self {
        Self {
            seq: Some(seq),
            size: bytes.len(),
            digest: digest(&bytes),
            body: StoredBytes::Whole(bytes),
            is_chunk: false,
            at,
            turn: None,
        }
    }

    pub fn version(&self) -> u32 {
        match &self.body {
            StoredBytes::Referring(_) => REFERRING_VERSION,
            StoredBytes::Whole(_) | StoredBytes::Packed(_) => RECORD_VERSION,
        }
    }

    /// Returns the body of the row, and its form.
    pub fn body(&self) -> (Form, &[u8]) {
        match &self.body {
            StoredBytes::Packed(packed) => (Form::Packed, packed),
            StoredBytes::Referring(packed) => (Form::Referring, packed),
            StoredBytes::Whole(bytes) if self.blob().is_none() => (Form::Inline, bytes),
            StoredBytes::Whole(_) => (Form::Blob, &self.digest),
        }
    }

    /// Returns the bytes of a blob, where it has one.
    pub fn blob(&self) -> Option<&[u8]> {
        match &self.body {
            StoredBytes::Whole(bytes) if bytes.len() > MAX_INLINE_BYTES => Some(bytes),
            _ => None,
        }
    }
}

/// A stored record with its unpacked bytes.
#[derive(Debug)]
pub struct StoredRecord<'a> {
    pub seq: u64,
    pub version: u32,
    pub chain: Digest,
    /// The bytes, or the reason why they are unavailable.
    bytes: Result<&'a [u8], Cow<'static, str>>,
    /// The name of the blob, where the bytes are one.
    pub blob: Option<&'a [u8]>,
}

/// Returns the numbers of the earlier records to which a stored body refers; none if it cannot be unpacked. A store that cannot answer a
/// [`RecordSource`] at once reads them first.
pub fn referenced(form: i64, body: &[u8]) -> Vec<u64> {
    match Form::of_code(form) {
        Some(Form::Referring) => unpack(body, &mut Vec::new())
            .into_iter()
            .flatten()
            .map(|reference| reference.seq)
            .collect(),
        _ => Vec::new(),
    }
}

/// Access to bytes of a record that are not in its row.
pub trait RecordSource {
    type Error;

    /// The stream that contains the record.
    fn stream(&self) -> Result<i64, Self::Error>;

    /// Finds a blob by its digest.
    fn blob(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Finds the form and body of an earlier record of the same stream.
    fn record(&self, seq: u64) -> Result<Option<(i64, Vec<u8>)>, Self::Error>;
}

/// The bytes of the current record, and a cache of referenced texts.
#[derive(Debug, Default)]
pub struct RecordBuffer {
    bytes: Vec<u8>,
    /// By stream and number.
    texts: HashMap<(i64, u64), Vec<u8>>,
    /// How many bytes these texts have.
    text_bytes: usize,
}

/// How many bytes of texts a buffer remembers before it forgets them.
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;

impl RecordBuffer {
    /// Resolves the references of a record; returns the reason if one does not resolve.
    fn fill<S: RecordSource>(
        &mut self,
        seq: u64,
        references: Vec<Reference>,
        source: &S,
    ) -> Result<Result<(), Cow<'static, str>>, S::Error> {
        if references.is_empty() {
            return Ok(Ok(()));
        }
        let stream = source.stream()?;
        if self.text_bytes > MAX_TEXT_BYTES {
            self.texts.clear();
            self.text_bytes = 0;
        }
        for reference in references {
            let from = reference.seq;
            let text = match self.texts.entry((stream, from)) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let found = (from < seq).then(|| source.record(from)).transpose()?;
                    let text = found
                        .flatten()
                        .map(|(form, body)| own_text(form, body, source));
                    match text.transpose()?.flatten() {
                        Some(text) => {
                            self.text_bytes += text.len();
                            entry.insert(text)
                        }
                        None => {
                            let what = format!("it refers to record {from}, which is missing");
                            return Ok(Err(what.into()));
                        }
                    }
                }
            };
            let part = text
                .get(reference.start..)
                .and_then(|text| text.get(..reference.part.len()));
            let Some(part) = part else {
                let what = format!("it refers to a part of record {from} that is not there");
                return Ok(Err(what.into()));
            };
            self.bytes[reference.part].copy_from_slice(part);
        }
        Ok(Ok(()))
    }
}

/// Returns the text of a record, blank at its own references; `None` if it is unavailable.
fn own_text<S: RecordSource>(
    form: i64,
    body: Vec<u8>,
    source: &S,
) -> Result<Option<Vec<u8>>, S::Error> {
    Ok(match Form::of_code(form) {
        Some(Form::Inline) => Some(body),
        Some(Form::Blob) => source.blob(&body)?,
        Some(Form::Packed | Form::Referring) => {
            let mut text = Vec::new();
            unpack(&body, &mut text).map(|_| text)
        }
        None => None,
    })
}

impl<'a> StoredRecord<'a> {
    /// Reads the stored form of a record. The buffer is overwritten with bytes that the body does not contain directly.
    pub fn new<S: RecordSource>(
        (seq, version, chain): (u64, u32, Digest),
        (form, body): (i64, &'a [u8]),
        source: &S,
        buffer: &'a mut RecordBuffer,
    ) -> Result<Self, S::Error> {
        let form = Form::of_code(form);
        let bytes = match form {
            Some(Form::Inline) => Ok(body),
            Some(Form::Packed | Form::Referring) => match unpack(body, &mut buffer.bytes) {
                Some(references) => {
                    let filled = buffer.fill(seq, references, source)?;
                    filled.map(|()| &*buffer.bytes)
                }
                None => Err("it was changed".into()),
            },
            Some(Form::Blob) => match source.blob(body)? {
                Some(bytes) => {
                    buffer.bytes = bytes;
                    Ok(&*buffer.bytes)
                }
                None => Err("its blob is missing".into()),
            },
            None => Err("it has a form that this version does not know".into()),
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
    pub fn size(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len())
    }

    /// Returns the bytes and their digest, or the reason why they are unavailable.
    pub fn checked_bytes(&self) -> Result<(&[u8], Digest), String> {
        let bytes = *self.bytes.as_ref().map_err(|what| what.to_string())?;
        let digest = digest(bytes);
        match &self.blob {
            Some(name) if *name != digest => Err("its blob was changed".to_owned()),
            _ => Ok((bytes, digest)),
        }
    }

    /// Returns the version of the JSON, which is independent of the stored form.
    pub fn json_version(&self) -> u32 {
        match self.version {
            REFERRING_VERSION => RECORD_VERSION,
            version => version,
        }
    }

    /// Refuses a record that a newer version has written.
    pub fn check_version(&self, stream: &StreamKey) -> Result<(), JournalError> {
        if self.json_version() == RECORD_VERSION {
            return Ok(());
        }
        Err(JournalError::UnknownVersion {
            stream: stream.to_string(),
            seq: self.seq,
            version: self.version,
        })
    }

    /// Decodes the event. The caller has checked the chain.
    pub fn decode(&self, stream: &StreamKey) -> Result<Arc<Event>, JournalError> {
        self.check_version(stream)?;
        let damaged = |what: String| JournalError::damaged(stream, self.seq, what);
        // The chain covers bytes in the row. For a blob, this also checks its digest.
        let bytes = match (&self.bytes, self.blob) {
            (Ok(bytes), None) => *bytes,
            _ => self.checked_bytes().map_err(damaged)?.0,
        };
        let unreadable = |error: &dyn Display| damaged(format!("it cannot be read: {error}"));
        // Validates UTF-8 once for the whole record; parsing bytes would validate every string separately.
        let text = std::str::from_utf8(bytes).map_err(|error| unreadable(&error))?;
        let event: Event = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        if event.sequence != Some(self.seq) {
            return Err(damaged(format!("its event has number {}", event.seq())));
        }
        Ok(Arc::new(event))
    }
}
