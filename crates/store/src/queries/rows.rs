//! Results of queries.

use std::ops::RangeInclusive;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use windlass_core::events::TokenUsage;
use windlass_core::items::{TurnLog, TurnStatus, TurnView, WaitKind};
use windlass_core::runs::{OWN_AGENT, OutcomeStatus, RunStatus, RunSummary, run_of_turn};
use windlass_core::session::SessionStatus;
use windlass_core::thread_record::ThreadRecord;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_request::TurnLabels;
use windlass_core::typed_id::{ExecId, SessionId, TurnId};

use super::questions::ThreadState;
use crate::journal::StreamKey;
use crate::runs::StoredRun;

/// A part of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T> {
    /// The entries of this page.
    pub entries: Vec<T>,
    /// The cursor of the next page; `None` on the last one.
    pub next: Option<String>,
}

impl<T> Listed<T> {
    /// Builds a page from entries that were read with a limit of one more.
    pub(crate) fn cut(mut entries: Vec<T>, limit: usize, cursor: impl Fn(&T) -> String) -> Self {
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| has_more).map(cursor);
        Self { entries, next }
    }

    /// Builds a page from entries with their keys, the greatest key first.
    pub(crate) fn descending<K: Copy + Ord>(
        mut keyed: Vec<(K, T)>,
        limit: usize,
        cursor: impl Fn(K) -> String,
    ) -> Self {
        keyed.sort_unstable_by_key(|(key, _)| std::cmp::Reverse(*key));
        let page = Listed::cut(keyed, limit, |(key, _)| cursor(*key));
        Self {
            entries: page.entries.into_iter().map(|(_, entry)| entry).collect(),
            next: page.next,
        }
    }
}

/// The newest record of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedThread {
    /// The event that contains it.
    pub seq: u64,
    /// The record as the host wrote it.
    pub record: ThreadRecord,
}

/// The origin of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct Origin {
    /// The session of the parent.
    pub parent: SessionId,
    /// The last shared record of the parent.
    pub sequence: u64,
    /// The first turn of the parent that the fork omits, if the host recorded it.
    pub dropped: Option<TurnId>,
}

/// The turn of a thread that began last.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct LatestTurn {
    /// ID of the turn.
    pub id: TurnId,
    /// The record that began it.
    pub first_seq: u64,
    pub status: TurnStatus,
    /// Its input in short.
    pub input_summary: String,
    /// The environment of its tools.
    pub environment: Option<TurnEnvironment>,
    /// Labels that the caller set.
    pub labels: Option<TurnLabels>,
}

/// A thread. Turns, items and usage are its own: those that a fork shares count for its parent.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRow {
    /// Stream of the thread.
    pub stream: StreamKey,
    /// The newest record that is in this row.
    pub seq: u64,
    /// When that was written, to the millisecond.
    pub at: DateTime<Utc>,
    /// When its first record was written.
    pub created_at: DateTime<Utc>,
    /// When it was created, its record changed, or a turn began or ended.
    pub updated_at: DateTime<Utc>,
    /// The current state.
    pub state: ThreadState,
    /// The turn that began last.
    pub latest: Option<LatestTurn>,
    /// The beginning of the newest message.
    pub preview: String,
    /// How many turns have begun.
    pub turns: u64,
    /// How many items its ended turns have.
    pub items: u64,
    /// The usage of its ended turns.
    pub usage: Option<TokenUsage>,
    /// Its record; `None` for a session that is not a thread of the API.
    pub record: Option<Arc<RecordedThread>>,
    /// Its origin, if it is a fork.
    pub origin: Option<Origin>,
}

impl ThreadRow {
    /// Returns the turn that is open.
    #[must_use]
    pub fn open_turn(&self) -> Option<&LatestTurn> {
        self.latest
            .as_ref()
            .filter(|_| self.state != ThreadState::Idle)
    }

    /// Returns the state of the thread's session.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        match (self.state, self.turns) {
            (ThreadState::Waiting, _) => SessionStatus::WaitingForToolResults,
            (ThreadState::Running, _) => SessionStatus::Active,
            (ThreadState::Idle, 0) => SessionStatus::Started,
            (ThreadState::Idle, _) => SessionStatus::Idle,
        }
    }

    fn thread(&self) -> Option<&ThreadRecord> {
        self.record.as_ref().map(|recorded| &recorded.record)
    }

    /// Returns the agent that owns the thread, by its record.
    #[must_use]
    pub fn agent(&self) -> Option<&str> {
        self.thread()?.owner.as_deref()
    }

    /// Returns whether its record is archived.
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.thread().is_some_and(|record| record.archived)
    }

    /// Returns whether a searchable field contains a text, ignoring case.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let input = self.latest.as_ref().map(|turn| turn.input_summary.as_str());
        let thread = self.thread();
        let fields = [
            Some(self.stream.as_str()),
            thread.and_then(|record| record.title.as_deref()).or(input),
            thread.map(|record| record.policy.model.as_str()),
            Some(self.preview.as_str()),
        ];
        let text = text.to_lowercase();
        let mut fields = fields.into_iter().flatten();
        fields.any(|field| field.to_lowercase().contains(&text))
    }
}

/// A turn. It is a run too.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRow {
    /// The thread that shows it.
    pub stream: StreamKey,
    /// Its position among all runs; later runs have greater ones.
    pub position: u64,
    /// The record that began it.
    pub first_seq: u64,
    /// The record that ended it.
    pub last_seq: Option<u64>,
    /// The newest record that changed this row.
    pub seq: u64,
    /// How far it is, its input, model, usage, items and times.
    pub view: TurnView,
    /// The agent that the session belonged to when it began.
    pub agent: Option<String>,
    /// Its purpose, in words.
    pub intent: String,
    /// Where its run is.
    pub run_status: RunStatus,
    /// The outcome of its run in one word.
    pub outcome: Option<OutcomeStatus>,
    /// How many records its run has between its start and its end.
    pub steps: u64,
    /// Its waits, in the order in which they began.
    pub waits: Vec<WaitRow>,
    /// Whether the thread has it from the one that it was forked from.
    pub is_shared: bool,
    /// Whether retention removed its records.
    pub is_pruned: bool,
}

impl TurnRow {
    /// Returns the model that answered; empty if no call reported one.
    #[must_use]
    pub fn model(&self) -> &str {
        self.view.outline.model.as_deref().unwrap_or_default()
    }

    /// Returns the provider of the model: from the turn's labels, else from its calls; empty if neither has it.
    #[must_use]
    pub fn provider(&self) -> &str {
        let outline = &self.view.outline;
        let labels = outline.labels.as_ref();
        let labelled = labels.and_then(|labels| labels.provider.as_deref());
        labelled.or(outline.provider.as_deref()).unwrap_or_default()
    }

    /// Returns the agent whose run it is.
    #[must_use]
    pub fn run_agent(&self) -> &str {
        self.agent.as_deref().unwrap_or(OWN_AGENT)
    }

    /// Shows it as a run.
    #[must_use]
    pub fn run(&self) -> TurnRun {
        TurnRun {
            position: self.position,
            stream: self.stream.clone(),
            turn_id: self.view.id,
            first_seq: self.first_seq,
            model: self.model().to_owned(),
            usage: self.view.usage,
            summary: RunSummary {
                run_id: run_of_turn(self.view.id),
                agent_id: self.run_agent().to_owned(),
                intent: self.intent.clone(),
                started_at: self.view.outline.started_at.unwrap_or_default(),
                ended_at: self.view.ended_at,
                status: self.run_status,
                outcome: self.outcome,
                turn_count: self.steps,
                session_id: self.stream.as_str().parse().ok(),
                waiting_for: self.view.waiting_for.clone(),
            },
        }
    }
}

/// A call that waits or waited for an approval, an answer or a tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitRow {
    /// Stream of the thread.
    pub stream: StreamKey,
    /// ID of the turn that contains the call.
    pub turn_id: TurnId,
    /// The call that waits.
    pub exec_id: ExecId,
    /// The kind of input that it waits for.
    pub kind: WaitKind,
    /// Number of the event that began the wait.
    pub seq: u64,
    /// Whether it still waits.
    pub is_open: bool,
}

/// A turn of a session in a list of runs. Its run records are derived from the events of its stream.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRun {
    /// Its position among all runs; later runs have greater ones.
    pub position: u64,
    /// The stream of its session.
    pub stream: StreamKey,
    /// ID of the turn.
    pub turn_id: TurnId,
    /// The number of the event that began it.
    pub first_seq: u64,
    /// The run's summary for lists.
    pub summary: RunSummary,
    /// The model that answered; empty if no call reported one.
    pub model: String,
    /// Its usage so far.
    pub usage: Option<TokenUsage>,
}

/// A run of either kind.
#[derive(Debug, Clone, PartialEq)]
pub enum RunRow {
    /// A run reported by an external program.
    Reported(StoredRun),
    /// A turn of one of our own sessions.
    Turn(TurnRun),
}

impl RunRow {
    /// Returns the summary for lists.
    #[must_use]
    pub fn summary(&self) -> &RunSummary {
        match self {
            Self::Reported(run) => &run.summary,
            Self::Turn(run) => &run.summary,
        }
    }

    /// Returns its position among all runs.
    #[must_use]
    pub fn position(&self) -> u64 {
        match self {
            Self::Reported(run) => run.position,
            Self::Turn(run) => run.position,
        }
    }

    /// Returns how many records it has.
    #[must_use]
    pub fn head(&self) -> u64 {
        let summary = self.summary();
        1 + summary.turn_count + u64::from(summary.status != RunStatus::InProgress)
    }
}

impl From<RunRow> for RunSummary {
    fn from(run: RunRow) -> Self {
        match run {
            RunRow::Reported(run) => run.summary,
            RunRow::Turn(run) => run.summary,
        }
    }
}

/// A turn with its items.
#[derive(Debug, Clone)]
pub struct TurnDetail {
    /// The turn's row.
    pub row: TurnRow,
    /// The turn's log, with its items and waits.
    pub log: TurnLog,
    /// Ranges of its records that were pruned.
    pub pruned: Vec<RangeInclusive<u64>>,
}

/// A thread with its newest turns, without their items.
#[derive(Debug, Clone)]
pub struct ThreadOutline {
    /// The thread's row.
    pub thread: ThreadRow,
    /// The turns, oldest first.
    pub turns: Vec<TurnRow>,
    /// Where older ones are, for [`turns`](super::Queries::turns) with the newest first; `None` where these are all.
    pub older: Option<String>,
}

/// A thread with its newest turns and their items.
#[derive(Debug, Clone)]
pub struct ThreadDetail {
    /// The thread's row.
    pub thread: ThreadRow,
    /// The turns, oldest first.
    pub turns: Vec<TurnDetail>,
    /// Where older ones are, for [`turns`](super::Queries::turns) with the newest first; `None` where these are all.
    pub older: Option<String>,
}

/// Numbers of threads by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// With a record of the host, and not archived.
    pub current: u64,
    /// With a record of the host that is archived.
    pub archived: u64,
    /// Without a record of the host.
    pub unrecorded: u64,
    /// In which a turn is open, those that wait included.
    pub open: u64,
    /// Threads with a turn that waits for an approval or an answer.
    pub waiting: u64,
}
