//! The feed: the records of all streams in one order, for whoever follows everything.

use std::sync::Arc;

use windlass_core::events::Event;

use super::{Journal, JournalError, StreamKey};

/// How many records [`all_events`] takes at a time.
const PAGE: usize = 1024;

/// A record, as the feed brings it.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEntry {
    /// The stream that it was appended to.
    pub stream: StreamKey,
    /// Its number there.
    pub seq: u64,
    /// What it says, or why it cannot be read: one damaged record keeps nobody from those of other streams.
    pub event: Result<Arc<Event>, JournalError>,
}

/// A part of the feed.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedPage {
    /// The records, those of one stream in its order.
    pub entries: Vec<FeedEntry>,
    /// Where to go on, now or after a restart. It is there also where nothing new was found.
    pub next: String,
    /// Whether there was nothing behind this page: wait for [`Journal::watch_all`] before the next one.
    pub is_end: bool,
}

/// Reads all events that are kept, in the order of the feed.
pub async fn all_events(journal: &dyn Journal) -> Result<Vec<Arc<Event>>, JournalError> {
    let (mut events, mut after) = (Vec::new(), None);
    loop {
        let page = journal.read_after(after.as_deref(), PAGE).await?;
        for entry in page.entries {
            events.push(entry.event?);
        }
        if page.is_end {
            return Ok(events);
        }
        after = Some(page.next);
    }
}
