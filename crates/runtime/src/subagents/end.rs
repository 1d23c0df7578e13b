//! What an agent came to: read from its journal, so that it is the same in every life of the process.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_core::items::plain_text;
use windlass_core::turn_request::TurnRequest;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_store::{Journal, StreamKey};

use crate::errors::from_journal;
use crate::inner::Inner;
use crate::runtime::InProcessRuntime;

/// How many records are read at a time.
const AT_ONCE: usize = 512;
/// How long a thread that stopped without a result is left to itself.
const PAUSE: Duration = Duration::from_secs(1);

/// How the turn of an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChildEnd {
    Completed,
    Failed { code: Option<String>, error: String },
    Cancelled { reason: Option<String> },
}

/// What is on record of the turn in which an agent works for another one. Turns that somebody else begins in its session do not count.
pub(super) struct ChildRecord {
    stream: StreamKey,
    after: u64,
    turn_id: Option<TurnId>,
    /// The last that it said.
    pub(super) answer: String,
    pub(super) end: Option<ChildEnd>,
}

impl ChildRecord {
    pub(super) async fn read(journal: &dyn Journal, child: SessionId) -> Result<Self> {
        let mut record = Self {
            stream: StreamKey::from(child),
            after: 0,
            turn_id: None,
            answer: String::new(),
            end: None,
        };
        record.read_on(journal).await?;
        Ok(record)
    }

    /// Tells whether nothing at all is on record of the session.
    pub(super) fn is_empty(&self) -> bool {
        self.after == 0
    }

    /// Tells whether the turn has begun.
    pub(super) fn has_turn(&self) -> bool {
        self.turn_id.is_some()
    }

    async fn read_on(&mut self, journal: &dyn Journal) -> Result<()> {
        while self.end.is_none() {
            let page = journal.read(&self.stream, self.after, AT_ONCE).await;
            let events = page.map_err(from_journal)?.events;
            let Some(last) = events.last() else { break };
            self.after = last.seq();
            events.iter().for_each(|event| self.take(event));
        }
        Ok(())
    }

    fn take(&mut self, event: &Event) {
        let turn_id = event.context.turn_id;
        if let EventData::InputMessage(data) = &event.data
            && let Some(TurnRequest {
                parent: Some(_), ..
            }) = data.message.turn_request()
        {
            self.turn_id = turn_id;
        }
        if self.end.is_some() || turn_id.is_none() || turn_id != self.turn_id {
            return;
        }
        match &event.data {
            EventData::OutputMessageCompleted(data) => {
                let text = plain_text(&data.message.content);
                if !text.trim().is_empty() {
                    self.answer = text.into_owned();
                }
            }
            EventData::OutputMessageReplaced(data) => {
                self.answer = plain_text(&data.message.content).into_owned();
            }
            EventData::TurnCompleted(_) => self.end = Some(ChildEnd::Completed),
            EventData::TurnFailed(data) => {
                self.end = Some(ChildEnd::Failed {
                    code: data.error_code.clone(),
                    error: data.error.clone(),
                });
            }
            EventData::TurnCancelled(data) => {
                let reason = data.reason.clone();
                self.end = Some(ChildEnd::Cancelled { reason });
            }
            _ => {}
        }
    }

    /// Waits until the turn has ended. While it waits for somebody, that is shown in its own session, and here nothing happens.
    pub(super) async fn wait(&mut self, inner: &Arc<Inner>, child: SessionId) -> Result<()> {
        let journal = Arc::clone(&inner.backends.journal);
        let runtime = InProcessRuntime {
            inner: Arc::clone(inner),
        };
        let bell = journal.watch(&self.stream).await;
        let mut bell = bell.map_err(from_journal)?;
        loop {
            bell.borrow_and_update();
            self.read_on(&*journal).await?;
            if self.end.is_some() {
                return Ok(());
            }
            match runtime.resume_open_turn(child).await {
                Ok(Some(mut turn)) => match turn.outcome().await {
                    Ok(result) if result.waiting_for.is_some() => {
                        let removed = || AgentLoopError::SessionNotFound(child);
                        bell.changed().await.map_err(|_| removed())?;
                    }
                    Ok(_) => {}
                    Err(_) => inner.world.sleep(PAUSE).await,
                },
                // It ended meanwhile.
                Ok(None) => {
                    self.read_on(&*journal).await?;
                    return match self.end {
                        Some(_) => Ok(()),
                        None => Err(AgentLoopError::NoActiveTurn(child)),
                    };
                }
                Err(AgentLoopError::StoreUnavailable(_)) => inner.world.sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }
}
