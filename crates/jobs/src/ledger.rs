//! The engine that tasks, automations and fleets share: one stream of the journal, its only writer, and the open jobs in memory.
//!
//! A [`JobKind`] defines how events change a job, which rows store its state, and which part of it is in memory. A record contains
//! the change, and the rows in the same commit contain the resulting state. Nothing reads a stream from its beginning, so retention
//! may prune old records.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, Notify, watch};
use windlass_core::events::{CustomData, Event, EventContext, EventData, EventRequest};
use windlass_core::typed_id::{EventId, SessionId};
use windlass_store::{Batch, Claim, RowWrite, StreamKey};

use crate::error::JobError;
use crate::retention::{KeepNewest, RetainedRow};
use crate::rows::{JobStore, VERSION, put, remove_row};
use windlass_core::Clock;

/// Delay before a failed step is retried.
const RETRY_STEP: TimeDelta = TimeDelta::seconds(1);

/// One kind of job. The value contains the in-memory state of its open jobs.
pub(crate) trait JobKind: Default + Send {
    /// ID of a job.
    type Id: Copy + Display + DeserializeOwned;
    /// The stored state of a job.
    type State: Clone + Send;
    /// A change of a job.
    type Event: Serialize + DeserializeOwned + Send;

    /// The stream of its records.
    const STREAM: &'static str;
    /// First part of the names of its records; the second is the `event` field of the serialized event.
    const RECORD_PREFIX: &'static str;
    /// The field of a record that contains the ID of its job.
    const ID_FIELD: &'static str;
    /// Rows of ended jobs and of their indexes.
    const ENDED_ROWS: &'static [&'static str];
    /// Rows that identify repeated requests.
    const REQUEST_ROWS: &'static str;

    fn id(job: &Self::State) -> Self::Id;

    /// Creates a job from its first event; `None` from any other event.
    fn begin(id: Self::Id, at: DateTime<Utc>, event: &Self::Event) -> Option<Self::State>;

    fn evolve(job: &mut Self::State, at: DateTime<Utc>, event: &Self::Event);

    /// Replaces the open jobs in memory by the stored ones. The cost does not depend on the number of ended jobs.
    fn load(&mut self, store: &JobStore) -> impl Future<Output = Result<(), JobError>> + Send;

    /// Adds the rows of a changed job.
    fn rows(change: &Change<Self>, commit: &mut Commit) -> Result<(), JobError>;

    /// Applies a change to the state in memory.
    fn apply(&mut self, change: &Change<Self>, at: DateTime<Utc>);

    /// Adds the rows that depend on all jobs, after all changes of the commit are applied.
    fn shared_rows(&self, _: &[Change<Self>], _: &mut Commit) -> Result<(), JobError> {
        Ok(())
    }
}

/// A job before and after some events.
pub(crate) struct Change<M: JobKind> {
    pub(crate) before: Option<M::State>,
    pub(crate) events: Vec<M::Event>,
    pub(crate) after: M::State,
    /// Key of the request that created it, if the request can be repeated.
    pub(crate) request: Option<String>,
}

impl<M: JobKind> Change<M> {
    /// Creates a job.
    pub(crate) fn begin(
        id: M::Id,
        event: M::Event,
        request: Option<String>,
        now: DateTime<Utc>,
    ) -> Result<Self, JobError> {
        let after = M::begin(id, now, &event)
            .ok_or_else(|| JobError::Storage("the first event creates no job".to_owned()))?;
        Ok(Self {
            before: None,
            events: vec![event],
            after,
            request,
        })
    }

    /// Applies events to a job.
    pub(crate) fn apply(job: M::State, events: Vec<M::Event>, now: DateTime<Utc>) -> Self {
        let mut after = job.clone();
        for event in &events {
            M::evolve(&mut after, now, event);
        }
        Self {
            before: Some(job),
            events,
            after,
            request: None,
        }
    }
}

/// Records and rows that become durable together.
pub(crate) struct Commit {
    /// The time of its records.
    pub(crate) at: DateTime<Utc>,
    entries: Vec<CustomData>,
    rows: Vec<RowWrite>,
    ended: Vec<RetainedRow>,
}

impl Commit {
    pub(crate) const fn at(at: DateTime<Utc>) -> Self {
        Self {
            at,
            entries: Vec::new(),
            rows: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Adds a record.
    pub(crate) fn record<M: JobKind>(
        &mut self,
        id: M::Id,
        event: &M::Event,
    ) -> Result<(), JobError> {
        let unreadable = |error: serde_json::Error| JobError::Storage(error.to_string());
        let mut payload = serde_json::Map::new();
        payload.insert("version".to_owned(), VERSION.into());
        payload.insert(M::ID_FIELD.to_owned(), id.to_string().into());
        let event = serde_json::to_value(event).map_err(unreadable)?;
        let kind = event["event"].as_str().unwrap_or_default();
        let name = format!("{}.{kind}", M::RECORD_PREFIX);
        if let Value::Object(fields) = event {
            payload.extend(fields);
        }
        self.entries.push(CustomData {
            name,
            payload: Value::Object(payload),
        });
        Ok(())
    }

    /// Writes a row.
    pub(crate) fn put(
        &mut self,
        kind: &'static str,
        key: impl Into<String>,
        value: &impl Serialize,
    ) -> Result<(), JobError> {
        self.rows.push(put(kind, key.into(), value)?);
        Ok(())
    }

    /// Writes a row of an ended job, of which the newest of each owner are retained.
    pub(crate) fn put_ended(
        &mut self,
        owner: &str,
        kind: &'static str,
        key: impl Into<String>,
        value: &impl Serialize,
    ) -> Result<(), JobError> {
        let row = put(kind, key.into(), value)?;
        self.ended.push(RetainedRow::new(owner, &row));
        self.rows.push(row);
        Ok(())
    }

    /// Removes a row.
    pub(crate) fn remove(&mut self, kind: &'static str, key: impl Into<String>) {
        self.rows.push(remove_row(kind, key.into()));
    }
}

/// Reads the job and the event of a record.
pub(crate) fn read_record<M: JobKind>(event: &Event) -> Result<(M::Id, M::Event), JobError> {
    let corrupt = |reason: String| JobError::Corrupt {
        kind: "journal",
        name: event.id.to_string(),
        reason,
    };
    let EventData::Custom(custom) = &event.data else {
        return Err(corrupt(format!(
            "it is a record of type {}",
            event.event_type
        )));
    };
    let version = custom.payload.get("version").and_then(Value::as_u64);
    if version != Some(u64::from(VERSION)) {
        return Err(corrupt(format!("it has version {version:?}")));
    }
    let unreadable = |error: serde_json::Error| corrupt(error.to_string());
    let id = custom.payload.get(M::ID_FIELD).cloned().unwrap_or_default();
    Ok((
        serde_json::from_value(id).map_err(unreadable)?,
        serde_json::from_value(custom.payload.clone()).map_err(unreadable)?,
    ))
}

/// All jobs of one kind.
pub(crate) struct Ledger<M> {
    pub(crate) store: JobStore,
    clock: Arc<dyn Clock>,
    writer: Mutex<LedgerWriter<M>>,
    /// Wakes the loop: there may be something to start or to stop.
    wake: Notify,
    /// Number of changes so far.
    changes: watch::Sender<u64>,
}

impl<M: JobKind> Ledger<M> {
    /// Claims the stream and reads the open jobs.
    pub(crate) async fn open(
        store: JobStore,
        clock: Arc<dyn Clock>,
        keep: KeepNewest,
    ) -> Result<Self, JobError> {
        let stream = StreamKey::new(M::STREAM);
        let claim = store.journal.claim(&stream).await?;
        let mut writer = LedgerWriter {
            store: store.clone(),
            session_id: SessionId::from_name(M::STREAM),
            stream,
            head: claim.head,
            claim,
            state: WriterState::Sound,
            keep,
            open: M::default(),
        };
        writer.open.load(&store).await?;
        Ok(Self {
            store,
            clock,
            writer: Mutex::new(writer),
            wake: Notify::new(),
            changes: watch::Sender::new(0),
        })
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Acquires the right to change jobs. If it is unknown whether the last write is durable, the stream is claimed and the open
    /// jobs are read again.
    pub(crate) async fn lock(&self) -> Result<MutexGuard<'_, LedgerWriter<M>>, JobError> {
        let mut writer = self.writer.lock().await;
        if !writer.is_sound()? {
            writer.reopen().await?;
            writer.open.load(&self.store).await?;
            writer.state = WriterState::Sound;
        }
        Ok(writer)
    }

    /// Returns the open jobs for reading only, which works even if writes fail, for example on a full disk. If it is unknown whether
    /// the last write is durable, they are read again and stay unsure.
    pub(crate) async fn read(&self) -> Result<MutexGuard<'_, LedgerWriter<M>>, JobError> {
        let mut writer = self.writer.lock().await;
        if !writer.is_sound()? {
            writer.open.load(&self.store).await?;
        }
        Ok(writer)
    }

    /// Wakes the loop.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Wakes the loop and notifies watchers.
    pub(crate) fn wake_and_notify(&self) {
        self.wake();
        self.notify_changed();
    }

    /// Notifies watchers that a job has changed.
    pub(crate) fn notify_changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until the loop is woken or a time comes.
    pub(crate) async fn sleep(&self, due: Option<DateTime<Utc>>) {
        let time = async {
            match due {
                Some(due) => self.clock.sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.wake.notified() => {}
            () = time => {}
        }
    }

    /// Returns when the loop's next step is due. A failed step is retried, unless another process has claimed the stream.
    pub(crate) fn due_after(
        &self,
        step: Result<Option<DateTime<Utc>>, JobError>,
    ) -> Result<Option<DateTime<Utc>>, JobError> {
        match step {
            Err(error) if error != JobError::Replaced => {
                tracing::warn!(stream = M::STREAM, %error, "a step of jobs failed and will be retried");
                Ok(Some(self.now() + RETRY_STEP))
            }
            step => step,
        }
    }

    /// Removes ended jobs that are older than `age`; returns how many.
    pub(crate) async fn forget(&self, age: Duration) -> Result<usize, JobError> {
        self.store.forget(self.now(), age, M::ENDED_ROWS).await
    }

    /// Forgets repeatable requests that are older than `age`; returns how many.
    pub(crate) async fn forget_requests(&self, age: Duration) -> Result<usize, JobError> {
        let kinds = &[M::REQUEST_ROWS];
        self.store.forget(self.now(), age, kinds).await
    }
}

/// The right to write to a stream, with the open jobs.
pub(crate) struct LedgerWriter<M> {
    store: JobStore,
    stream: StreamKey,
    session_id: SessionId,
    claim: Claim,
    head: u64,
    state: WriterState,
    keep: KeepNewest,
    pub(crate) open: M,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriterState {
    Sound,
    /// An append failed or its future was dropped: it is unknown whether it is durable.
    Unsure,
    /// Another process has claimed the stream.
    Replaced,
}

impl<M: JobKind> LedgerWriter<M> {
    /// Returns whether the state in memory is valid. If not, it must be read again after [`Self::reopen`].
    fn is_sound(&self) -> Result<bool, JobError> {
        match self.state {
            WriterState::Sound => Ok(true),
            WriterState::Unsure => Ok(false),
            WriterState::Replaced => Err(JobError::Replaced),
        }
    }

    /// Claims the stream again. No append in flight can become durable after that.
    async fn reopen(&mut self) -> Result<(), JobError> {
        self.claim = self.store.journal.claim(&self.stream).await?;
        self.head = self.claim.head;
        Ok(())
    }

    /// Returns the sequence number of the next record.
    pub(crate) const fn next_seq(&self) -> u64 {
        self.head + 1
    }

    /// Makes changes durable, all or none; returns the changed jobs. The state in memory changes first: nothing reads it before the
    /// append has ended, and after a failed append it is read again.
    pub(crate) async fn write(
        &mut self,
        now: DateTime<Utc>,
        changes: Vec<Change<M>>,
    ) -> Result<Vec<M::State>, JobError> {
        let mut commit = Commit::at(now);
        for change in &changes {
            for event in &change.events {
                commit.record::<M>(M::id(&change.after), event)?;
            }
            M::rows(change, &mut commit)?;
        }
        let ended = std::mem::take(&mut commit.ended);
        commit.rows.extend(self.keep.add(&self.store, ended).await?);
        self.state = WriterState::Unsure;
        for change in &changes {
            self.open.apply(change, now);
        }
        self.open.shared_rows(&changes, &mut commit)?;
        self.append(commit).await?;
        Ok(changes.into_iter().map(|change| change.after).collect())
    }

    /// Makes records and rows durable, all or none.
    pub(crate) async fn append(&mut self, commit: Commit) -> Result<(), JobError> {
        let first_seq = self.next_seq();
        let count = commit.entries.len() as u64;
        let numbered = (first_seq..).zip(commit.entries);
        let records = numbered.map(|(seq, entry)| self.event(commit.at, seq, entry));
        let batch = Batch {
            first_seq,
            records: records.collect(),
            puts: commit.rows,
            ..Batch::default()
        };
        // Remains so if this future is dropped during the append.
        self.state = WriterState::Unsure;
        match self.store.journal.append(&self.claim, batch).await {
            Ok(()) => {
                self.head += count;
                self.state = WriterState::Sound;
                Ok(())
            }
            Err(error) => {
                let error = JobError::from(error);
                if error == JobError::Replaced {
                    self.state = WriterState::Replaced;
                }
                Err(error)
            }
        }
    }

    fn event(&self, at: DateTime<Utc>, seq: u64, data: CustomData) -> Arc<Event> {
        let mut request = EventRequest::new(self.session_id, EventContext::default(), data);
        request.ts = at;
        let id = EventId::from_name(&format!("{}#{seq}", self.stream));
        Arc::new(request.into_event(id, Some(seq)))
    }
}
