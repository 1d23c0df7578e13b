//! The engine that tasks, automations and fleets share: one stream of the journal, its only writer, and the open jobs in memory.
//!
//! A kind of job is a [`Machine`]: what its events do to the state of a job, which rows hold that state, and what of it is in memory. A
//! record says what changed, and the rows that are committed with it hold the state that follows. So nothing reads a stream from
//! its beginning, and retention may prune old records.

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
use crate::retention::{Added, KeepNewest};
use crate::rows::{JobStore, VERSION, put, take_out};
use windlass_core::Clock;

/// How long a step that failed waits for the next try.
const RETRY_STEP: TimeDelta = TimeDelta::seconds(1);

/// One kind of job. The value holds what of its open jobs is in memory.
pub(crate) trait Machine: Default + Send {
    /// Identifies a job.
    type Id: Copy + Display + DeserializeOwned;
    /// A job.
    type State: Clone + Send;
    /// What happens to a job.
    type Event: Serialize + DeserializeOwned + Send;

    /// The stream of its records.
    const STREAM: &'static str;
    /// The field of a record that has the id of its job.
    const ID_FIELD: &'static str;
    /// Rows of ended jobs and of their indexes.
    const ENDED_ROWS: &'static [&'static str];
    /// Rows that identify repeated requests.
    const REQUEST_ROWS: &'static str;

    /// Returns the name of an event's records.
    fn name(event: &Self::Event) -> &'static str;

    fn id(job: &Self::State) -> Self::Id;

    /// Makes a job from its first event; `None` from any other event.
    fn begin(id: Self::Id, at: DateTime<Utc>, event: &Self::Event) -> Option<Self::State>;

    fn evolve(job: &mut Self::State, at: DateTime<Utc>, event: &Self::Event);

    /// Reads the open jobs in place of those in memory. Costs as much as there are, however many have ended.
    fn load(&mut self, store: &JobStore) -> impl Future<Output = Result<(), JobError>> + Send;

    /// Adds the rows of a changed job.
    fn rows(change: &Change<Self>, commit: &mut Commit) -> Result<(), JobError>;

    /// Applies a change to what is in memory.
    fn apply(&mut self, change: &Change<Self>, at: DateTime<Utc>);

    /// Adds the rows that depend on all jobs, after all changes of the commit are applied.
    fn shared_rows(&self, _: &[Change<Self>], _: &mut Commit) -> Result<(), JobError> {
        Ok(())
    }
}

/// A job before and after some events.
pub(crate) struct Change<M: Machine> {
    pub(crate) before: Option<M::State>,
    pub(crate) events: Vec<M::Event>,
    pub(crate) after: M::State,
    /// Identifies the request that asked for it, if it can be repeated.
    pub(crate) request: Option<String>,
}

impl<M: Machine> Change<M> {
    /// Makes a job.
    pub(crate) fn begin(
        id: M::Id,
        event: M::Event,
        request: Option<String>,
        now: DateTime<Utc>,
    ) -> Result<Self, JobError> {
        let after = M::begin(id, now, &event)
            .ok_or_else(|| JobError::Storage(format!("{} begins no job", M::name(&event))))?;
        Ok(Self {
            before: None,
            events: vec![event],
            after,
            request,
        })
    }

    /// Applies events to a job.
    pub(crate) fn of(job: M::State, events: Vec<M::Event>, now: DateTime<Utc>) -> Self {
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
    ended: Vec<Added>,
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
    pub(crate) fn record<M: Machine>(
        &mut self,
        id: M::Id,
        event: &M::Event,
    ) -> Result<(), JobError> {
        let unreadable = |error: serde_json::Error| JobError::Storage(error.to_string());
        let mut payload = serde_json::Map::new();
        payload.insert("version".to_owned(), VERSION.into());
        payload.insert(M::ID_FIELD.to_owned(), id.to_string().into());
        if let Value::Object(fields) = serde_json::to_value(event).map_err(unreadable)? {
            payload.extend(fields);
        }
        self.entries.push(CustomData {
            name: M::name(event).to_owned(),
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
        self.ended.push(Added::new(owner, &row));
        self.rows.push(row);
        Ok(())
    }

    /// Removes a row.
    pub(crate) fn remove(&mut self, kind: &'static str, key: impl Into<String>) {
        self.rows.push(take_out(kind, key.into()));
    }
}

/// Reads the job and the event of a record.
pub(crate) fn read_record<M: Machine>(event: &Event) -> Result<(M::Id, M::Event), JobError> {
    let corrupt = |what: String| JobError::Corrupt {
        kind: "journal",
        name: event.id.to_string(),
        what,
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
    writer: Mutex<Writer<M>>,
    /// Wakes the loop: there may be something to start or to stop.
    wake: Notify,
    /// Counts changes.
    changes: watch::Sender<u64>,
}

impl<M> std::fmt::Debug for Ledger<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl<M: Machine> Ledger<M> {
    /// Claims the stream and reads the open jobs.
    pub(crate) async fn open(
        store: JobStore,
        clock: Arc<dyn Clock>,
        keep: KeepNewest,
    ) -> Result<Self, JobError> {
        let stream = StreamKey::new(M::STREAM);
        let claim = store.journal.claim(&stream).await?;
        let mut writer = Writer {
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
    pub(crate) async fn lock(&self) -> Result<MutexGuard<'_, Writer<M>>, JobError> {
        let mut writer = self.writer.lock().await;
        if !writer.is_sound()? {
            writer.reopen().await?;
            writer.open.load(&self.store).await?;
            writer.state = WriterState::Sound;
        }
        Ok(writer)
    }

    /// Returns the open jobs for reading only, so that reads are answered also when nothing can be written, on a full disk for
    /// example. If it is unknown whether the last write is durable, they are read again, and stay unsure.
    pub(crate) async fn look(&self) -> Result<MutexGuard<'_, Writer<M>>, JobError> {
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
pub(crate) struct Writer<M> {
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
    /// An append failed, or its caller went away: it is unknown whether it is durable.
    Unsure,
    /// Another process has claimed the stream.
    Replaced,
}

impl<M: Machine> Writer<M> {
    /// Returns whether what is in memory can be trusted. If not, it must be read again after [`Self::reopen`].
    fn is_sound(&self) -> Result<bool, JobError> {
        match self.state {
            WriterState::Sound => Ok(true),
            WriterState::Unsure => Ok(false),
            WriterState::Replaced => Err(JobError::Replaced),
        }
    }

    /// Claims the stream again. Nothing that was on its way can become durable after that.
    async fn reopen(&mut self) -> Result<(), JobError> {
        self.claim = self.store.journal.claim(&self.stream).await?;
        self.head = self.claim.head;
        Ok(())
    }

    /// Returns the number that the next record will have.
    pub(crate) const fn next_seq(&self) -> u64 {
        self.head + 1
    }

    /// Makes changes durable, all or none; returns the jobs after them. What is in memory changes first: nothing reads it before the
    /// append has ended, and after a failed one it is read again.
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
        // Stays so if this future is dropped while the append is on its way.
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
