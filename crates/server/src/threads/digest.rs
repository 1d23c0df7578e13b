//! What lists show of a thread: small, and kept up to date event by event.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use windlass_core::events::{Event, EventData, TokenUsage};
use windlass_core::items::{Change, ItemKind, ItemStep, TurnStatus, Wait, change};
use windlass_core::typed_id::{ExecId, SessionId, TurnId};
use windlass_protocol::{Thread, TurnEnvironmentParams};

use crate::{ids, view};

/// How much of a message a preview shows.
const PREVIEW_CHARS: usize = 140;

/// The newest turn of a thread.
#[derive(Debug, Clone)]
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

/// What a turn used.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) at: DateTime<Utc>,
    pub(crate) model: String,
    pub(crate) provider: String,
    pub(crate) usage: TokenUsage,
}

/// Where a fork comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) parent: SessionId,
    pub(crate) sequence: u64,
    pub(crate) dropped: Option<TurnId>,
}

/// What lists show of a thread.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    pub(crate) seq: u64,
    record: Option<Thread>,
    updated_at: Option<DateTime<Utc>>,
    pub(crate) latest: Option<Latest>,
    pub(crate) preview: String,
    pub(crate) ended: Vec<Ended>,
    pub(crate) approvals: HashSet<ExecId>,
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
                let shown = view::turn(&turn);
                self.ended.push(Ended {
                    at: event.ts,
                    model: shown.effective_model.unwrap_or_default(),
                    provider: shown.effective_provider.unwrap_or_default(),
                    usage: turn.usage.unwrap_or_default(),
                });
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
                    self.approvals.insert(wait.exec_id);
                }
            }
            _ => {}
        }
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

    /// Returns the turn that runs.
    pub(crate) fn active(&self) -> Option<&Latest> {
        self.latest
            .as_ref()
            .filter(|latest| latest.status == TurnStatus::InProgress)
    }
}
