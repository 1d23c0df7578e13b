//! What lists show of a thread: small, and kept up to date event by event. It is stored too, with the number of the
//! newest event in it, so that a list reads what is newer and nothing else.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::events::{Event, EventData};
use windlass_core::items::{Change, ItemKind, ItemStep, TurnStatus, Wait, change};
use windlass_core::typed_id::{ExecId, SessionId, TurnId};
use windlass_protocol::{Thread, TurnEnvironmentParams};

use crate::store::StoredDigest;
use crate::{ids, view};

/// How much of a message a preview shows.
const PREVIEW_CHARS: usize = 140;
/// How many approvals of a thread are known by their ids. More cannot wait at once.
const MAX_APPROVALS: usize = 128;
/// Changes with what is stored. A digest of another version is made anew.
const VERSION: u32 = 1;

/// The newest turn of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latest {
    pub(crate) id: TurnId,
    /// The record that began it.
    pub(crate) seq: u64,
    pub(crate) status: TurnStatus,
    pub(crate) input_summary: String,
    pub(crate) environment: Option<TurnEnvironmentParams>,
    /// The digest of the request that started it.
    pub(crate) request: Option<String>,
}

/// Where a fork comes from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) parent: SessionId,
    pub(crate) sequence: u64,
    pub(crate) dropped: Option<TurnId>,
}

/// What lists show of a thread.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Digest {
    /// The newest event in it.
    pub(crate) seq: u64,
    /// What its clients have set. It can be large and seldom changes, so it is stored apart.
    #[serde(skip)]
    record: Option<Thread>,
    /// The event that brought it.
    pub(crate) record_seq: u64,
    updated_at: Option<DateTime<Utc>>,
    pub(crate) latest: Option<Latest>,
    pub(crate) preview: String,
    /// Those that somebody was asked for, the newest last.
    pub(crate) approvals: VecDeque<ExecId>,
    pub(crate) origin: Option<Origin>,
}

impl Digest {
    /// Moves on by one event; one that was seen before changes nothing.
    pub(crate) fn apply(&mut self, event: &Event) {
        if event.seq() <= self.seq {
            return;
        }
        self.seq = event.seq();
        match change(event) {
            Some(Change::Session(_)) => {
                if let Some(record) = view::record_of(event) {
                    self.record = Some(record);
                    self.record_seq = event.seq();
                    self.updated_at = Some(event.ts);
                }
                if let EventData::SessionForked(data) = &event.data {
                    self.origin = Some(Origin {
                        parent: data.parent_session_id,
                        sequence: data.parent_sequence,
                        dropped: data.dropped_turn_id,
                    });
                }
            }
            Some(Change::TurnStarted(turn)) => {
                self.updated_at = Some(event.ts);
                let labels = view::Labels::of(&turn);
                self.latest = Some(Latest {
                    id: turn.id,
                    seq: event.seq(),
                    status: turn.status,
                    environment: labels.environment,
                    request: labels.request,
                    input_summary: turn.outline.input_summary,
                });
            }
            Some(Change::TurnEnded(turn)) => {
                self.updated_at = Some(event.ts);
                if let Some(latest) = self.latest.as_mut().filter(|latest| latest.id == turn.id) {
                    latest.status = turn.status;
                }
            }
            Some(Change::Item(ItemStep::Started(item) | ItemStep::Ended(item)))
                if matches!(item.kind, ItemKind::UserMessage | ItemKind::AgentMessage) =>
            {
                let text = item.detail();
                if !text.is_empty() {
                    self.preview = text.chars().take(PREVIEW_CHARS).collect();
                }
            }
            Some(Change::Wait(wait)) => {
                if let Wait::ApprovalRequired(_) = wait.wait {
                    if self.approvals.len() >= MAX_APPROVALS {
                        self.approvals.pop_front();
                    }
                    self.approvals.push_back(wait.exec_id);
                }
            }
            _ => {}
        }
    }

    /// Moves on by one event if it is the next one. Who is told of some events only cannot know what lies between them.
    pub(crate) fn follow(&mut self, event: &Event) {
        if event.seq() == self.seq + 1 {
            self.apply(event);
        }
    }

    /// Writes it down; the record only where it is not the one that was written down before.
    pub(crate) fn stored(&self, written: u64) -> serde_json::Result<StoredDigest> {
        let record = self.record.as_ref().filter(|_| self.record_seq != written);
        let record = record.map(|record| serde_json::to_vec(&(self.record_seq, record)));
        Ok(StoredDigest {
            digest: serde_json::to_vec(&(VERSION, self))?,
            record: record.transpose()?,
        })
    }

    /// Reads what was written down; `None` where another version did it, or where the record is not the one that it
    /// belongs to.
    pub(crate) fn read(stored: &StoredDigest) -> Option<Self> {
        let (version, mut digest): (u32, Self) = serde_json::from_slice(&stored.digest).ok()?;
        if digest.record_seq > 0 {
            let record = stored.record.as_ref()?;
            let (seq, record): (u64, Thread) = serde_json::from_slice(record).ok()?;
            digest.record = Some(record).filter(|_| seq == digest.record_seq);
            digest.record.as_ref()?;
        }
        (version == VERSION).then_some(digest)
    }

    /// Tells whether a client has made the thread.
    pub(crate) fn is_thread(&self) -> bool {
        self.record.is_some()
    }

    /// Returns the thread as the wire shows it; `None` for a session that no client made.
    pub(crate) fn thread(&self) -> Option<Thread> {
        let mut thread = self.record.clone()?;
        if let Some(latest) = &self.latest {
            thread.latest_turn_id = Some(latest.id.to_string());
        }
        if let Some(at) = self.updated_at {
            thread.updated_at = ids::time(at);
        }
        Some(thread)
    }

    /// Tells whether a turn is the newest.
    pub(crate) fn is_latest(&self, turn_id: TurnId) -> bool {
        self.latest
            .as_ref()
            .is_some_and(|latest| latest.id == turn_id)
    }

    /// Returns the turn that runs.
    pub(crate) fn active(&self) -> Option<&Latest> {
        self.latest
            .as_ref()
            .filter(|latest| latest.status == TurnStatus::InProgress)
    }
}
