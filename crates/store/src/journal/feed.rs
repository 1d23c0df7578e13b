//! The feed: the records of all streams in one order.

use std::sync::Arc;

use windlass_core::events::Event;

use super::{Journal, JournalError, StreamKey};

/// The page size of [`all_events`].
const PAGE: usize = 1024;

/// A record in the feed.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEntry {
    /// The stream to which it was appended.
    pub stream: StreamKey,
    /// Its number in that stream.
    pub seq: u64,
    /// The event, or the reason why it cannot be read. A damaged record does not stop the records of other streams.
    pub event: Result<Arc<Event>, JournalError>,
}

/// A part of the feed.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedPage {
    /// The records. Those of one stream are in the order of their numbers.
    pub entries: Vec<FeedEntry>,
    /// The cursor of the next page; valid across restarts, and set even if this page is empty.
    pub next: String,
    /// Whether this page is the last one for now: wait for [`Journal::watch_all`] before the next one.
    pub is_end: bool,
}

/// Reads all retained events in the order of the feed.
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
