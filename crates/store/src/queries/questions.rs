//! Parameters of queries.

use super::rows::ThreadRow;
use crate::journal::StreamKey;

/// Which threads are meant, by the host's record of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Include {
    /// Those that have a record and are not archived.
    Current,
    /// Threads whose record marks them as archived.
    Archived,
    /// All that have a record.
    Recorded,
    /// Also sessions without a record of the host.
    #[default]
    All,
}

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadState {
    /// No turn is open.
    Idle,
    /// A turn works.
    Running,
    /// A turn waits for an approval, an answer or a tool result.
    Waiting,
}

/// A page of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadQuery {
    /// Which ones by their record.
    pub include: Include,
    /// Only those that do one of these things; all where it is empty.
    pub states: Vec<ThreadState>,
    /// Only those of an agent.
    pub agent: Option<String>,
    /// Only threads with this text in their name, title, model, newest input or preview, ignoring case. Reads all rows.
    pub search: Option<String>,
    /// Where the page before ended: its [`next`](super::Listed::next).
    pub after: Option<String>,
    /// How many at most.
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
    pub(crate) fn takes(&self, thread: &ThreadRow) -> bool {
        let is_included = match self.include {
            Include::All => true,
            Include::Recorded => thread.record.is_some(),
            Include::Current => thread.record.is_some() && !thread.is_archived(),
            Include::Archived => thread.is_archived(),
        };
        is_included
            && (self.states.is_empty() || self.states.contains(&thread.state))
            && (self.agent.as_deref()).is_none_or(|agent| thread.agent() == Some(agent))
            && (self.search.as_deref()).is_none_or(|text| thread.has(text))
    }
}

/// In which order turns come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The one that began last comes first.
    #[default]
    NewestFirst,
    /// The one that began first comes first.
    OldestFirst,
}

/// A page of turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnQuery {
    /// Stream of the thread.
    pub stream: StreamKey,
    /// In which order.
    pub order: Order,
    /// Where the page before ended: its [`next`](super::Listed::next).
    pub after: Option<String>,
    /// How many at most.
    pub limit: usize,
}
