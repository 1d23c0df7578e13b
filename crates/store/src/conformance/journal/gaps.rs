//! Pruned ranges are reported.

use std::ops::RangeInclusive;

use crate::conformance::check::{CheckOutcome, Violation};
use crate::journal::{Journal, StreamKey};

/// Checks a stream of which something was pruned: from every cursor and with every size of pages, events and gaps
/// together are all numbers, each once. Returns the gaps.
pub async fn gaps(
    journal: &dyn Journal,
    stream: &StreamKey,
) -> Result<Vec<RangeInclusive<u64>>, Violation> {
    let whole = journal.read(stream, 0, usize::MAX).await?;
    for after in 0..whole.head {
        for limit in [1, 2, 3, usize::MAX] {
            covers(journal, stream, after, limit).await?;
        }
    }
    Ok(whole.pruned)
}

async fn covers(
    journal: &dyn Journal,
    stream: &StreamKey,
    after: u64,
    limit: usize,
) -> CheckOutcome {
    let mut next = after + 1;
    let mut cursor = after;
    loop {
        let page = journal.read(stream, cursor, limit).await?;
        require!(page.events.len() <= limit, "a page is longer than {limit}");
        let mut gaps = page.pruned.into_iter().peekable();
        for event in page.events {
            while let Some(gap) = gaps.next_if(|gap| *gap.end() < event.seq()) {
                require_eq!(*gap.start(), next, "beginning of a gap after {after}");
                next = gap.end() + 1;
            }
            require_eq!(event.seq(), next, "number after {after}");
            next += 1;
            cursor = event.seq();
        }
        if let Some(gap) = gaps.next() {
            return Err(Violation(format!("the gap {gap:?} is behind its page")));
        }
        if cursor == page.head {
            require_eq!(next, page.head + 1, "the end");
            return Ok(());
        }
    }
}
