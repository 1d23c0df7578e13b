//! Going another way from somewhere in a conversation.

use std::sync::Arc;

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventContext, EventData, SessionForkedData};
use windlass_core::session::{Session, SessionStatus};
use windlass_core::typed_id::{EventId, SessionId, TurnId};
use windlass_store::StreamKey;
use windlass_store::queries::{Order, TurnQuery};

use super::InProcessRuntime;
use super::copies::{copy_files, copy_values};
use crate::errors::{from_journal, from_query};
use crate::inner::Inner;
use crate::thread::Mail;

/// Among how many events behind the end of a turn its last record is.
const LAST_RECORDS: usize = 16;

/// Where a fork leaves its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkAt {
    /// At the end of a turn, also of one that was rewound since.
    Turn(TurnId),
    /// Where the conversation stands; no turn may be open or waiting.
    Latest,
    /// Before anything was said.
    Start,
}

/// What is different in a fork.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForkOptions {
    title: Option<String>,
}

impl ForkOptions {
    /// Begins with a fork like its parent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}

impl InProcessRuntime {
    /// Makes the conversation of a session end after an earlier turn again. What came later stays recorded, but no model
    /// sees it any more. Files and values stay as they are; no turn may be open or waiting.
    pub async fn rewind_session(&self, session_id: SessionId, turn_id: TurnId) -> Result<()> {
        let slot = self.inner.slot(session_id).await?;
        slot.ask(&self.inner, |reply| Mail::Rewind { turn_id, reply })
            .await
    }

    /// Makes a session that begins with the conversation of another one up to some place, and returns its id.
    ///
    /// It has the record, the files and the values of the other session as they are now, but not its secrets. From then
    /// on the two have nothing to do with each other. A file system that sessions share is shared by the fork too.
    pub async fn fork_session(
        &self,
        session_id: SessionId,
        at: ForkAt,
        options: ForkOptions,
    ) -> Result<SessionId> {
        let inner = Arc::clone(&self.inner);
        inner.slot(session_id).await?;
        // In a task of its own: whoever goes away leaves no half of a session behind.
        let forking = tokio::spawn(async move {
            let at_seq = fork_point(&inner, session_id, at).await?;
            let fork = Fork::new(&inner, session_id, at_seq);
            let forked = fork.make(options).await;
            if forked.is_err() {
                fork.unmake().await;
            }
            forked
        });
        forking
            .await
            .unwrap_or_else(|_| Err(AgentLoopError::store("a store panicked during the fork")))
    }
}

/// A session in the making.
struct Fork<'a> {
    inner: &'a Arc<Inner>,
    parent: SessionId,
    at_seq: u64,
    child: SessionId,
}

impl<'a> Fork<'a> {
    fn new(inner: &'a Arc<Inner>, parent: SessionId, at_seq: u64) -> Self {
        Self {
            inner,
            parent,
            at_seq,
            child: SessionId::from_uuid(inner.world.uuid()),
        }
    }

    /// The record comes last: until it is there, nobody sees the session.
    async fn make(&self, options: ForkOptions) -> Result<SessionId> {
        let Self { inner, child, .. } = *self;
        let backends = &inner.backends;
        let record = backends.session_store.get_session(self.parent).await?;
        let record = record.ok_or(AgentLoopError::SessionNotFound(self.parent))?;
        copy_files(inner.files.as_ref(), self.parent, child).await?;
        copy_values(backends.storage_store.as_ref(), self.parent, child).await?;
        let (from, to) = (StreamKey::from(self.parent), StreamKey::from(child));
        let forking = backends
            .journal
            .fork(&from, self.at_seq, &to, self.forked());
        forking.await.map_err(from_journal)?;
        let record = self.record(record, options, self.has_turns(&to).await?);
        backends.session_store.add_session(record).await?;
        Ok(child)
    }

    /// Tells whether the fork begins with a turn. It is looked up, because a thread that is opened reads all that was said.
    async fn has_turns(&self, fork: &StreamKey) -> Result<bool> {
        if self.at_seq == 0 {
            return Ok(false);
        }
        let query = TurnQuery {
            stream: fork.clone(),
            order: Order::NewestFirst,
            after: None,
            limit: 1,
        };
        let turns = self.inner.backends.queries()?.turns(query).await;
        Ok(!turns.map_err(from_query)?.entries.is_empty())
    }

    fn forked(&self) -> Event {
        let data = EventData::from(SessionForkedData {
            parent_session_id: self.parent,
            parent_sequence: self.at_seq,
            record: None,
            dropped_turn_id: None,
            depth: None,
        });
        Event {
            id: EventId::from_uuid(self.inner.world.uuid()),
            event_type: data.event_type().to_owned(),
            ts: self.inner.world.now(),
            session_id: self.child,
            context: EventContext::default(),
            data,
            metadata: None,
            tags: None,
            sequence: None,
        }
    }

    /// The fork of a session that works for another one works for nobody.
    fn record(&self, parent: Session, options: ForkOptions, has_turns: bool) -> Session {
        let now = self.inner.world.now();
        Session {
            id: self.child,
            title: options.title.or(parent.title),
            status: match has_turns {
                true => SessionStatus::Idle,
                false => SessionStatus::Started,
            },
            created_at: now,
            updated_at: now,
            // The first turn of the one is that of the other.
            started_at: parent.started_at.filter(|_| has_turns),
            finished_at: None,
            // What it shares was used by its parent.
            usage: None,
            parent_session_id: None,
            subagent_name: None,
            subagent_task: None,
            subagent_status: None,
            ..parent
        }
    }

    /// Takes back what was made before something failed.
    async fn unmake(&self) {
        let Self { inner, child, .. } = *self;
        let backends = &inner.backends;
        let unmade = [
            backends.session_store.remove_session(child).await.map(drop),
            inner.files.forget_session(child).await,
            backends.storage_store.forget_session(child).await,
            backends
                .journal
                .remove(&StreamKey::from(child))
                .await
                .map_err(from_journal)
                .map(drop),
        ];
        inner.take_slot(child);
        for error in unmade.into_iter().filter_map(Result::err) {
            tracing::warn!(session = %child, %error, "a part of a fork that failed is left behind");
        }
    }
}

/// Returns the number of the last event that a fork takes over.
pub(crate) async fn fork_point(inner: &Inner, session_id: SessionId, at: ForkAt) -> Result<u64> {
    let (journal, key) = (&inner.backends.journal, StreamKey::from(session_id));
    let busy = |turn_id| AgentLoopError::TurnBusy {
        session_id,
        turn_id,
    };
    let turn_id = match at {
        ForkAt::Start => return Ok(0),
        ForkAt::Turn(turn_id) => turn_id,
        ForkAt::Latest => {
            let standing = journal.standing(&key).await.map_err(from_journal)?;
            let open = standing.open.first();
            return open.map_or(Ok(standing.head), |turn_id| Err(busy(*turn_id)));
        }
    };
    let turn = inner.backends.queries()?.turn(&key, turn_id).await;
    let turn = turn.map_err(from_query)?;
    if let Some(end) = turn.and_then(|turn| turn.last_seq) {
        let reading = journal.read(&key, end, LAST_RECORDS).await;
        let events = reading.map_err(from_journal)?.events;
        if let Some(last) = events.iter().find(|event| is_last_of(event, turn_id)) {
            return Ok(last.seq());
        }
    }
    let standing = journal.standing(&key).await.map_err(from_journal)?;
    match standing.open.contains(&turn_id) {
        true => Err(busy(turn_id)),
        false => Err(AgentLoopError::TurnNotFound {
            session_id,
            turn_id,
        }),
    }
}

/// Tells whether an event is the last record of a turn that has begun; it comes with the end of the turn.
fn is_last_of(event: &Event, turn_id: TurnId) -> bool {
    matches!(event.data, EventData::SessionIdled(_)) && event.context.turn_id == Some(turn_id)
}
