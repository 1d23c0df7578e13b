//! Outcome of a subagent, read from its journal, so that it is the same after a restart.

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

/// Number of records read at a time.
const AT_ONCE: usize = 512;
/// Pause after a thread stopped without a result.
const PAUSE: Duration = Duration::from_secs(1);

/// How a subagent's turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChildEnd {
    Completed,
    Failed { code: Option<String>, error: String },
    Cancelled { reason: Option<String> },
}

/// The recorded state of the turn in which a subagent works for its parent. Turns that others start in the subagent's session are ignored.
pub(super) struct ChildRecord {
    stream: StreamKey,
    after: u64,
    turn_id: Option<TurnId>,
    /// The newest text of the subagent.
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
        record.read_more(journal).await?;
        Ok(record)
    }

    /// Returns whether the session has no records.
    pub(super) fn is_empty(&self) -> bool {
        self.after == 0
    }

    /// Returns whether the turn has begun.
    pub(super) fn has_turn(&self) -> bool {
        self.turn_id.is_some()
    }

    async fn read_more(&mut self, journal: &dyn Journal) -> Result<()> {
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

    /// Waits until the turn has ended. A parked turn is visible in its own session; the wait continues here.
    pub(super) async fn wait(&mut self, inner: &Arc<Inner>, child: SessionId) -> Result<()> {
        let journal = Arc::clone(&inner.backends.journal);
        let runtime = InProcessRuntime {
            inner: Arc::clone(inner),
        };
        let head = journal.watch(&self.stream).await;
        let mut head = head.map_err(from_journal)?;
        loop {
            head.borrow_and_update();
            self.read_more(&*journal).await?;
            if self.end.is_some() {
                return Ok(());
            }
            match runtime.resume_open_turn(child).await {
                Ok(Some(mut turn)) => match turn.outcome().await {
                    Ok(result) if result.waiting_for.is_some() => {
                        let removed = || AgentLoopError::SessionNotFound(child);
                        head.changed().await.map_err(|_| removed())?;
                    }
                    Ok(_) => {}
                    Err(_) => inner.clock.sleep(PAUSE).await,
                },
                // The turn ended in the meantime.
                Ok(None) => {
                    self.read_more(&*journal).await?;
                    return match self.end {
                        Some(_) => Ok(()),
                        None => Err(AgentLoopError::NoActiveTurn(child)),
                    };
                }
                Err(AgentLoopError::StoreUnavailable(_)) => inner.clock.sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }
}
