//! What a list of threads shows, and pages of lists.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use windlass_core::events::TokenUsage;
use windlass_core::items::TurnStatus;
use windlass_core::session::SessionStatus;
use windlass_core::typed_id::TurnId;

use super::StreamKey;

/// Which threads are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadFilter {
    /// All that have a record.
    #[default]
    All,
    /// Those in which a turn runs or waits for somebody.
    Open,
    /// Those in which no turn is open.
    Idle,
}

impl ThreadFilter {
    pub(crate) fn takes(self, is_open: bool) -> bool {
        match self {
            Self::All => true,
            Self::Open => is_open,
            Self::Idle => !is_open,
        }
    }
}

/// One thread, as a list shows it. Counts and usage are those of the newest activity.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadEntry {
    /// Its stream.
    pub stream: StreamKey,
    /// Whether a turn is open.
    pub is_open: bool,
    /// Whether the open turn waits for somebody.
    pub is_waiting: bool,
    /// The turn that started last.
    pub latest_turn: Option<TurnId>,
    /// How far that turn is.
    pub latest_status: Option<TurnStatus>,
    /// When a turn last started, ended, or began or ceased to wait.
    pub activity: DateTime<Utc>,
    /// The number of the newest record.
    pub head: u64,
    /// When the newest record was written.
    pub newest_at: DateTime<Utc>,
    /// How many turns have started.
    pub turns: u64,
    /// How many items the ended turns have.
    pub items: u64,
    /// How many messages were said, those included that a rewind took out of the conversation.
    pub messages: u64,
    /// What the ended turns used.
    pub usage: Option<TokenUsage>,
    /// Its place in the list.
    pub cursor: ThreadCursor,
}

impl ThreadEntry {
    /// Returns the open turn.
    #[must_use]
    pub fn open_turn(&self) -> Option<TurnId> {
        self.latest_turn.filter(|_| self.is_open)
    }

    /// Returns what the session of the thread is doing.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        match (self.is_waiting, self.is_open, self.turns) {
            (true, _, _) => SessionStatus::WaitingForToolResults,
            (false, true, _) => SessionStatus::Active,
            (false, false, 0) => SessionStatus::Started,
            (false, false, _) => SessionStatus::Idle,
        }
    }
}

/// A place in the list of threads. Its text form can be handed out and read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadCursor {
    pub(crate) activity: i64,
    pub(crate) stream: u64,
}

impl ThreadCursor {
    /// Behind which the whole list lies.
    pub(crate) const START: Self = Self {
        activity: i64::MAX,
        stream: u64::MAX,
    };
}

impl fmt::Display for ThreadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.activity, self.stream)
    }
}

impl FromStr for ThreadCursor {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (activity, stream) = text.split_once('.').unwrap_or((text, ""));
        Ok(Self {
            activity: activity.parse()?,
            stream: stream.parse()?,
        })
    }
}

/// Which part of a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window<C> {
    /// Where the page before ended; `None` for the first one.
    pub after: Option<C>,
    /// How many entries at most.
    pub limit: usize,
}

impl<C> Window<C> {
    /// Asks for the first page.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self { after: None, limit }
    }

    /// Asks for the page behind a cursor.
    #[must_use]
    pub const fn after(cursor: C, limit: usize) -> Self {
        Self {
            after: Some(cursor),
            limit,
        }
    }
}

/// Part of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T, C> {
    /// The entries.
    pub entries: Vec<T>,
    /// Where the next page begins; `None` behind the last entry.
    pub next: Option<C>,
}

impl<T, C> Listed<T, C> {
    /// Cuts a page out of entries of which one too many was asked for.
    pub(crate) fn cut(mut entries: Vec<T>, limit: usize, cursor: impl Fn(&T) -> C) -> Self {
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| has_more).map(cursor);
        Self { entries, next }
    }
}

impl Listed<ThreadEntry, ThreadCursor> {
    /// Makes a page of threads in any order.
    pub(crate) fn of_threads(
        mut entries: Vec<ThreadEntry>,
        filter: ThreadFilter,
        window: &Window<ThreadCursor>,
    ) -> Self {
        let after = window.after.unwrap_or(ThreadCursor::START);
        entries.retain(|entry| filter.takes(entry.is_open) && entry.cursor < after);
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.cursor));
        Self::cut(entries, window.limit, |entry| entry.cursor)
    }
}
