//! Parameters of queries.

use super::rows::ThreadRow;
use crate::journal::StreamKey;

/// A selection of threads by their host record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Include {
    /// Threads with a record that are not archived.
    Current,
    /// Threads whose record marks them as archived.
    Archived,
    /// All threads with a record.
    Recorded,
    /// All threads, including sessions without a host record.
    #[default]
    All,
}

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadState {
    /// No turn is open.
    Idle,
    /// A turn is running and waits for no external input.
    Running,
    /// A turn waits for an approval, an answer or a tool result.
    Waiting,
}

/// A page of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadQuery {
    /// Selection by host record.
    pub include: Include,
    /// Only threads in one of these states; all if empty.
    pub states: Vec<ThreadState>,
    /// Only threads of this agent.
    pub agent: Option<String>,
    /// Only threads with this text in their name, title, model, newest input or preview, ignoring case. Reads all rows.
    pub search: Option<String>,
    /// The [`next`](super::Listed::next) cursor of the previous page.
    pub after: Option<String>,
    /// Maximum number of entries.
    pub limit: usize,
}

impl ThreadQuery {
    /// Returns a query for the first threads of the list.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self {
            include: Include::All,
            states: Vec::new(),
            agent: None,
            search: None,
            after: None,
            limit,
        }
    }

    /// Returns whether a thread matches.
    pub(crate) fn matches(&self, thread: &ThreadRow) -> bool {
        let is_included = match self.include {
            Include::All => true,
            Include::Recorded => thread.record.is_some(),
            Include::Current => thread.record.is_some() && !thread.is_archived(),
            Include::Archived => thread.is_archived(),
        };
        is_included
            && (self.states.is_empty() || self.states.contains(&thread.state))
            && (self.agent.as_deref()).is_none_or(|agent| thread.agent() == Some(agent))
            && (self.search.as_deref()).is_none_or(|text| thread.matches(text))
    }
}

/// The order of listed turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The turn that began last is first.
    #[default]
    NewestFirst,
    /// The turn that began first is first.
    OldestFirst,
}

/// A page of turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnQuery {
    /// Stream of the thread.
    pub stream: StreamKey,
    pub order: Order,
    /// Only turns that began with this record or an earlier one.
    pub upto: Option<u64>,
    /// The [`next`](super::Listed::next) cursor of the previous page.
    pub after: Option<String>,
    /// Maximum number of entries.
    pub limit: usize,
}
