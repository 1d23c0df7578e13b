//! Pages of lists.

use std::fmt;
use std::str::FromStr;

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
    pub(super) fn cut(mut entries: Vec<T>, limit: usize, cursor: impl Fn(&T) -> C) -> Self {
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| has_more).map(cursor);
        Self { entries, next }
    }
}

/// A place in the list of threads. Its text form can be handed out and read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadCursor {
    pub(super) activity: i64,
    pub(super) stream: u64,
}

impl ThreadCursor {
    /// Behind which the whole list lies.
    pub(super) const END: Self = Self {
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
