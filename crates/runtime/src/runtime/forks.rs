//! Forks and rewinds of conversations.

use std::sync::Arc;

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData, SessionForkedData};
use windlass_core::session::{Session, SessionStatus};
use windlass_core::thread_record::ThreadRecord;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_store::queries::{Order, TurnQuery};
use windlass_store::{JournalError, StreamKey};
use windlass_turn::Input;

use super::InProcessRuntime;
use super::copies::{copy_files, copy_values};
use super::fork_point::{ForkAt, fork_point};
use crate::errors::{from_journal, from_query};
use crate::inner::Inner;
use crate::thread::ThreadCommand;
use windlass_core::lock::lock;
use windlass_core::setters;

/// Number of events read at a time in search of the first turn.
const PAGE: usize = 64;

/// Differences between a fork and its parent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForkOptions {
    title: Option<String>,
    id: Option<SessionId>,
    record: Option<Box<ThreadRecord>>,
    dropped_turn: Option<TurnId>,
    depth: Option<u32>,
}

impl ForkOptions {
    /// Creates options for a fork like its parent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the title.
        title(impl Into<String>) |builder, title| builder.title = Some(title.into());
        /// Sets the ID of the new session, so that a retried request finds it. If that session already has events, it is unchanged and the fork is
        /// refused.
        id(SessionId) |builder, id| builder.id = Some(id);
        /// Sets the thread record of the new session, which is stored in the fork's own first event.
        record(ThreadRecord) |builder, record| builder.record = Some(Box::new(record));
        /// Sets the first turn that the fork does not have, by the host's ID of it.
        dropped_turn(TurnId) |builder, turn_id| builder.dropped_turn = Some(turn_id);
        /// Sets the number of turns that the host went back.
        depth(u32) |builder, depth| builder.depth = Some(depth);
    }
}

impl InProcessRuntime {
    /// Ends the conversation of a session after an earlier turn again. Later events stay recorded, but no model reads them. Files and values are
    /// unchanged; no turn may be open or parked.
    pub async fn rewind_session(&self, session_id: SessionId, turn_id: TurnId) -> Result<()> {
        let input = Box::new(Input::Rewind { turn_id });
        self.ask(session_id, |reply| ThreadCommand::Decide { input, reply })
            .await
    }

    /// Creates a session that begins with the conversation of another one up to a fork point, and returns its ID.
    ///
    /// It gets the record, the files and the values of the other session as they are now, but not its secrets. From then on the two are independent.
    /// A file system that sessions share is shared by the fork too.
    pub async fn fork_session(
        &self,
        session_id: SessionId,
        at: ForkAt,
        options: ForkOptions,
    ) -> Result<SessionId> {
        let inner = Arc::clone(&self.inner);
        inner.slot(session_id).await?;
        // Runs in its own task, so that a dropped caller leaves no partial session.
        let forking = tokio::spawn(async move {
            let at_seq = fork_point(&inner, session_id, at).await?;
            let fork = Fork::new(&inner, session_id, at_seq, options.id);
            let _making = ForkReservation::begin(&inner, session_id, fork.child)?;
            fork.create(options).await
        });
        forking
            .await
            .unwrap_or_else(|_| Err(AgentLoopError::store("a store panicked during the fork")))
    }
}

/// Reserves the ID of a new session until it is dropped.
struct ForkReservation<'a> {
    inner: &'a Inner,
    child: SessionId,
}

impl<'a> ForkReservation<'a> {
    fn begin(inner: &'a Inner, session_id: SessionId, child: SessionId) -> Result<Self> {
        if lock(&inner.forks).insert(child) {
            Ok(Self { inner, child })
        } else {
            Err(AgentLoopError::NotForkable {
                session_id,
                reason: format!("a fork with the session ID {child} is already being created"),
            })
        }
    }
}

impl Drop for ForkReservation<'_> {
    fn drop(&mut self) {
        lock(&self.inner.forks).remove(&self.child);
    }
}

/// A session that is being created.
struct Fork<'a> {
    inner: &'a Arc<Inner>,
    parent: SessionId,
    at_seq: u64,
    child: SessionId,
}

impl<'a> Fork<'a> {
    fn new(inner: &'a Arc<Inner>, parent: SessionId, at_seq: u64, id: Option<SessionId>) -> Self {
        Self {
            inner,
            parent,
            at_seq,
            child: id.unwrap_or_else(|| SessionId::from_uuid(inner.clock.uuid())),
        }
    }

    /// Creates the records and files of the new session first, and its events last. The fork becomes visible with that one journal commit.
    async fn create(&self, options: ForkOptions) -> Result<SessionId> {
        let backends = &self.inner.backends;
        let record = backends.session_store.get_session(self.parent).await?;
        let record = record.ok_or(AgentLoopError::SessionNotFound(self.parent))?;
        if options.id.is_some() {
            self.clear_child_id().await?;
        }
        let forked = self.forked(&options);
        let result = match self.prepare(record, options).await {
            Ok(()) => self.fork(forked).await,
            unprepared => unprepared,
        };
        if result.is_err() {
            self.remove_partial().await;
        }
        result.map(|()| self.child)
    }

    /// Ensures that no session exists with the fork's ID. A session without events may be left over from a process that was killed; it is removed.
    async fn clear_child_id(&self) -> Result<()> {
        let (backends, child) = (&self.inner.backends, self.child);
        let status = backends.journal.status(&StreamKey::from(child)).await;
        if status.map_err(from_journal)?.head > 0 {
            return Err(AgentLoopError::NotForkable {
                session_id: self.parent,
                reason: format!("the session {child} already exists"),
            });
        }
        if backends.session_store.has_session(child).await? {
            self.remove_partial().await;
        }
        Ok(())
    }

    async fn prepare(&self, record: Session, options: ForkOptions) -> Result<()> {
        let Self { inner, child, .. } = *self;
        let backends = &inner.backends;
        copy_files(inner.files.as_ref(), self.parent, child).await?;
        copy_values(backends.storage_store.as_ref(), self.parent, child).await?;
        let record = self.record(record, options, self.has_turns().await?);
        backends.session_store.add_session(record).await
    }

    async fn fork(&self, forked: Event) -> Result<()> {
        let (from, to) = (StreamKey::from(self.parent), StreamKey::from(self.child));
        let journal = &self.inner.backends.journal;
        let forking = journal.fork(&from, self.at_seq, &to, forked).await;
        forking
            .map(drop)
            .map_err(|error| from_fork_error(self.parent, error))
    }

    /// Returns whether the fork begins with a turn. This uses a query, because loading the thread would read the whole conversation.
    async fn has_turns(&self) -> Result<bool> {
        let Some(queries) = &self.inner.backends.queries else {
            return self.scan_for_turns().await;
        };
        let query = TurnQuery {
            stream: StreamKey::from(self.parent),
            order: Order::OldestFirst,
            upto: None,
            after: None,
            limit: 1,
        };
        let turns = queries.turns(query).await.map_err(from_query)?;
        Ok((turns.entries.first()).is_some_and(|turn| turn.first_seq <= self.at_seq))
    }

    /// The same for a host without queries: reads the journal up to the first turn.
    async fn scan_for_turns(&self) -> Result<bool> {
        let (key, mut after) = (StreamKey::from(self.parent), 0);
        loop {
            let page = self.inner.backends.journal.read(&key, after, PAGE).await;
            let events = page.map_err(from_journal)?.events;
            let is_turn = |event: &&Arc<Event>| matches!(event.data, EventData::TurnStarted(_));
            match (events.iter().find(is_turn), events.last()) {
                (Some(turn), _) => return Ok(turn.seq() <= self.at_seq),
                (None, Some(last)) if last.seq() < self.at_seq => after = last.seq(),
                _ => return Ok(false),
            }
        }
    }

    fn forked(&self, options: &ForkOptions) -> Event {
        let data = EventData::from(SessionForkedData {
            parent_session_id: self.parent,
            parent_sequence: self.at_seq,
            record: options.record.clone(),
            dropped_turn_id: options.dropped_turn,
            depth: options.depth,
        });
        self.inner.event(self.child, data)
    }

    /// The fork of a subagent's session has no parent turn.
    fn record(&self, parent: Session, options: ForkOptions, has_turns: bool) -> Session {
        let now = self.inner.clock.now();
        Session {
            id: self.child,
            title: options.title.or(parent.title),
            status: if has_turns {
                SessionStatus::Idle
            } else {
                SessionStatus::Started
            },
            created_at: now,
            updated_at: now,
            // The fork shares its parent's first turn.
            started_at: parent.started_at.filter(|_| has_turns),
            finished_at: None,
            // The parent has paid for the shared part.
            usage: None,
            parent_session_id: None,
            subagent_name: None,
            subagent_task: None,
            subagent_status: None,
            ..parent
        }
    }

    /// Removes everything that was created before a failure; the conversation was not.
    async fn remove_partial(&self) {
        let Self { inner, child, .. } = *self;
        let backends = &inner.backends;
        let unmade = [
            inner.files.forget_session(child).await,
            backends.storage_store.forget_session(child).await,
            backends.session_store.remove_session(child).await.map(drop),
        ];
        inner.take_slot(child);
        for error in unmade.into_iter().filter_map(Result::err) {
            tracing::warn!(session = %child, %error, "a part of a failed fork was not removed");
        }
    }
}

/// Converts the journal's error.
fn from_fork_error(session_id: SessionId, error: JournalError) -> AgentLoopError {
    match error {
        JournalError::NotForkable { reason, .. } => AgentLoopError::NotForkable {
            session_id,
            reason: reason.to_owned(),
        },
        JournalError::Removed(_) => AgentLoopError::SessionNotFound(session_id),
        error => from_journal(error),
    }
}
