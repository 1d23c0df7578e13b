//! A stream of the journal, and the rows that become durable with its records.
//!
//! Each kind of work has one stream. A record says what changed; the rows that come with it hold the state that follows, so
//! that nobody has to read the stream from its beginning. Retention may prune old records: the rows stand for them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};
use windlass_core::events::{CustomData, Event, EventContext, EventRequest};
use windlass_core::typed_id::{EventId, SessionId};
use windlass_store::{Batch, Claim, HostRecord, HostRecords, Journal, Put, StreamKey};

use crate::error::WorkError;

/// The version of rows and of the payloads of records.
const VERSION: u32 = 1;
/// How many rows are read at a time. One may have a few hundred kilobytes.
pub(crate) const PAGE: usize = 32;
/// How many are read at a time where those before were small, and what is small.
const PAGE_OF_SMALL: usize = 128;
const SMALL_ROW: usize = 4 * 1024;

/// Where work is kept: the journal, and the rows that its appends write.
#[derive(Clone)]
pub struct WorkStore {
    /// The log.
    pub journal: Arc<dyn Journal>,
    /// The rows; those of the same store.
    pub records: Arc<dyn HostRecords>,
}

impl std::fmt::Debug for WorkStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkStore").finish_non_exhaustive()
    }
}

/// A row or payload as it is stored.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    value: T,
}

/// The version alone.
#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

/// Returns how many rows to read next after some that had so many bytes: more where they are small.
pub(crate) const fn rows_after(bytes: usize, rows: usize) -> usize {
    match bytes <= rows * SMALL_ROW {
        true => PAGE_OF_SMALL,
        false => PAGE,
    }
}

/// Makes a row.
pub(crate) fn put(
    kind: &'static str,
    key: String,
    value: &impl Serialize,
) -> Result<Put, WorkError> {
    let body = serde_json::to_vec(&Versioned {
        version: VERSION,
        value,
    });
    let body = body.map_err(|error| WorkError::Storage(error.to_string()))?;
    Ok(Put {
        kind,
        key,
        value: Some(Bytes::from(body)),
    })
}

/// Takes a row out.
pub(crate) fn take_out(kind: &'static str, key: String) -> Put {
    Put {
        kind,
        key,
        value: None,
    }
}

/// Reads a row. What this program does not know is refused.
pub(crate) fn read_row<T: DeserializeOwned>(
    kind: &'static str,
    record: &HostRecord,
) -> Result<T, WorkError> {
    let corrupt = |what: String| WorkError::Corrupt {
        kind,
        name: record.name.clone(),
        what,
    };
    let found: VersionOnly =
        serde_json::from_slice(&record.body).map_err(|error| corrupt(error.to_string()))?;
    if found.version != VERSION {
        return Err(corrupt(format!(
            "it has version {}, which this program does not know",
            found.version
        )));
    }
    let read: Versioned<T> =
        serde_json::from_slice(&record.body).map_err(|error| corrupt(error.to_string()))?;
    Ok(read.value)
}

/// Reads a row, or leaves it alone where it cannot be read: it keeps nobody from the others, and the log names it.
pub(crate) fn readable<T: DeserializeOwned>(kind: &'static str, record: &HostRecord) -> Option<T> {
    let read = read_row(kind, record);
    read.inspect_err(|error| tracing::error!(%error, "a record of work is left out"))
        .ok()
}

impl WorkStore {
    /// Finds a row.
    pub(crate) async fn row<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        name: &str,
    ) -> Result<Option<T>, WorkError> {
        let found = self.records.get(kind, name).await?;
        found.map(|record| read_row(kind, &record)).transpose()
    }

    /// Finds a row; `None` also where it cannot be read, which the log says.
    pub(crate) async fn readable_row<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        name: &str,
    ) -> Result<Option<T>, WorkError> {
        let found = self.records.get(kind, name).await?;
        Ok(found.and_then(|record| readable(kind, &record)))
    }

    /// Goes through all rows of a kind that can be read, a page at a time, the greatest name first.
    pub(crate) async fn each<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        mut take: impl FnMut(T) + Send,
    ) -> Result<(), WorkError> {
        let mut before: Option<String> = None;
        let mut count = PAGE;
        loop {
            let page = self.records.page(kind, before.as_deref(), count).await?;
            let rows = page.iter().filter_map(|record| readable(kind, record));
            rows.for_each(&mut take);
            match page.last() {
                Some(last) if page.len() == count => before = Some(last.name.clone()),
                _ => return Ok(()),
            }
            count = rows_after(
                page.iter().map(|record| record.body.len()).sum(),
                page.len(),
            );
        }
    }

    /// Takes out rows that are older than this, of several kinds; returns how many there were of the first.
    pub(crate) async fn forget(
        &self,
        now: DateTime<Utc>,
        age: Duration,
        kinds: &[&'static str],
    ) -> Result<usize, WorkError> {
        let age = TimeDelta::from_std(age).unwrap_or(TimeDelta::MAX);
        let before = now.checked_sub_signed(age);
        let before = before.unwrap_or(DateTime::<Utc>::MIN_UTC);
        let mut first = None;
        for kind in kinds {
            let count = self.records.trim(kind, before, usize::MAX).await?;
            first.get_or_insert(count);
        }
        Ok(first.unwrap_or_default())
    }
}

/// What a record says, before it has a number.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) payload: Value,
}

impl Entry {
    pub(crate) fn new(name: &'static str, payload: &impl Serialize) -> Result<Self, WorkError> {
        let payload = serde_json::to_value(Versioned {
            version: VERSION,
            value: payload,
        });
        let payload = payload.map_err(|error| WorkError::Storage(error.to_string()))?;
        Ok(Self { name, payload })
    }
}

/// Reads what a record of a stream of work says.
pub(crate) fn read_entry<T: DeserializeOwned>(event: &Event) -> Result<T, WorkError> {
    let corrupt = |what: String| WorkError::Corrupt {
        kind: "journal",
        name: event.id.to_string(),
        what,
    };
    let windlass_core::events::EventData::Custom(custom) = &event.data else {
        return Err(corrupt(format!(
            "it is a record of type {}",
            event.event_type
        )));
    };
    let version = custom.payload.get("version").and_then(Value::as_u64);
    if version != Some(u64::from(VERSION)) {
        return Err(corrupt(format!("it has version {version:?}")));
    }
    let read: Versioned<T> = serde_json::from_value(custom.payload.clone())
        .map_err(|error| corrupt(error.to_string()))?;
    Ok(read.value)
}

/// What the one writer of a stream has in memory.
pub(crate) trait Writer {
    fn ledger(&mut self) -> &mut Ledger;

    /// Reads what is open, in place of what was in memory.
    fn load(&mut self, store: &WorkStore) -> impl Future<Output = Result<(), WorkError>> + Send;
}

/// Looks at what is open, without the right to change it: whoever only reads is answered also where nothing can be written, on a full
/// disk for example. Where nobody knows whether the last write is durable, what is in memory is read again, and stays in doubt.
pub(crate) async fn look<'a, W: Writer>(
    writer: &'a Mutex<W>,
    store: &WorkStore,
) -> Result<MutexGuard<'a, W>, WorkError> {
    let mut writer = writer.lock().await;
    if !writer.ledger().is_sound()? {
        writer.load(store).await?;
    }
    Ok(writer)
}

/// Takes the right to change something. What is in memory is read again where nobody knows whether the last write is durable.
pub(crate) async fn lock<'a, W: Writer>(
    writer: &'a Mutex<W>,
    store: &WorkStore,
) -> Result<MutexGuard<'a, W>, WorkError> {
    let mut writer = writer.lock().await;
    if !writer.ledger().is_sound()? {
        writer.ledger().reopen().await?;
        writer.load(store).await?;
        writer.ledger().state = LedgerState::Sound;
    }
    Ok(writer)
}

/// The right to write to a stream.
pub(crate) struct Ledger {
    store: WorkStore,
    stream: StreamKey,
    session_id: SessionId,
    claim: Claim,
    head: u64,
    state: LedgerState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LedgerState {
    Sound,
    /// An append failed, or whoever waited for it went away: nobody knows whether it is durable.
    Unsure,
    /// Somebody else has the right now.
    Replaced,
}

impl Ledger {
    /// Takes the right to write.
    pub(crate) async fn open(store: &WorkStore, name: &'static str) -> Result<Self, WorkError> {
        let stream = StreamKey::new(name);
        let claim = store.journal.claim(&stream).await?;
        Ok(Self {
            store: store.clone(),
            session_id: SessionId::from_name(name),
            stream,
            head: claim.head,
            claim,
            state: LedgerState::Sound,
        })
    }

    /// Tells whether what is in memory can be trusted. Where it cannot, it has to be read again after [`Self::reopen`].
    fn is_sound(&self) -> Result<bool, WorkError> {
        match self.state {
            LedgerState::Sound => Ok(true),
            LedgerState::Unsure => Ok(false),
            LedgerState::Replaced => Err(WorkError::Replaced),
        }
    }

    /// Takes the right to write again, after which nothing that was on its way can become durable any more.
    async fn reopen(&mut self) -> Result<(), WorkError> {
        self.claim = self.store.journal.claim(&self.stream).await?;
        self.head = self.claim.head;
        Ok(())
    }

    /// Returns where it writes.
    pub(crate) const fn store(&self) -> &WorkStore {
        &self.store
    }

    /// Returns the number that the next record will have.
    pub(crate) fn next_seq(&self) -> u64 {
        self.head + 1
    }

    /// Makes records and rows durable, all or none.
    pub(crate) async fn append(
        &mut self,
        at: DateTime<Utc>,
        entries: Vec<Entry>,
        puts: Vec<Put>,
    ) -> Result<(), WorkError> {
        let first_seq = self.head + 1;
        let count = entries.len() as u64;
        let numbered = (first_seq..).zip(entries);
        let records = numbered.map(|(seq, entry)| self.event(at, seq, entry));
        let batch = Batch {
            first_seq,
            records: records.collect(),
            puts,
            ..Batch::default()
        };
        // Stays so where this future is dropped while the append is on its way.
        self.state = LedgerState::Unsure;
        match self.store.journal.append(&self.claim, batch).await {
            Ok(()) => {
                self.head += count;
                self.state = LedgerState::Sound;
                Ok(())
            }
            Err(error) => {
                let error = WorkError::from(error);
                if error == WorkError::Replaced {
                    self.state = LedgerState::Replaced;
                }
                Err(error)
            }
        }
    }

    fn event(&self, at: DateTime<Utc>, seq: u64, entry: Entry) -> Arc<Event> {
        let data = CustomData {
            name: entry.name.to_owned(),
            payload: entry.payload,
        };
        let mut request = EventRequest::new(self.session_id, EventContext::default(), data);
        request.ts = at;
        let id = EventId::from_name(&format!("{}#{seq}", self.stream));
        Arc::new(request.into_event(id, Some(seq)))
    }
}
