//! Records at the start of several streams. The streams share ownership, so the records are dropped with the last one.

use std::ops::ControlFlow;
use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;

use super::stream::{Piece, Record};

/// Immutable records, and the node before them.
#[derive(Debug, Default)]
pub(super) struct Node {
    before: Option<(Arc<Node>, u64)>,
    /// The number before the first record below. If it is greater than the last number of the preceding node, retention removed some.
    pruned: u64,
    records: Vec<Record>,
}

impl Node {
    /// Returns the number before the first one that is this node's.
    fn after(&self) -> u64 {
        self.before.as_ref().map_or(0, |(_, last)| *last)
    }
}

/// The shared beginning of a stream.
#[derive(Debug)]
pub(super) struct Shared {
    node: Arc<Node>,
    /// Up to here.
    pub(super) last: u64,
    /// The session ID under which a fork shows records of another session.
    taken: Option<Taken>,
}

/// Records up to `last`, which a fork shows under its own session ID.
#[derive(Debug, Clone, Copy)]
struct Taken {
    last: u64,
    session_id: SessionId,
}

impl Shared {
    /// Begins a fork with a node up to a number.
    pub(super) fn taken(node: Arc<Node>, last: u64, session_id: SessionId) -> Self {
        let taken = Taken { last, session_id };
        Self {
            node,
            last,
            taken: Some(taken),
        }
    }

    /// Adds records after the shared beginning of a stream.
    pub(super) fn behind(
        before: Option<Box<Self>>,
        pruned: u64,
        records: Vec<Record>,
        last: u64,
    ) -> Self {
        let taken = before.as_ref().and_then(|before| before.taken);
        let before = before.map(|before| (before.node, before.last));
        let node = Arc::new(Node {
            before,
            pruned,
            records,
        });
        Self { node, last, taken }
    }

    /// Returns the last record that was not the stream's own from the beginning.
    pub(super) fn last_taken(&self) -> u64 {
        self.taken.map_or(0, |taken| taken.last)
    }

    /// Returns the node that holds a number.
    pub(super) fn node_at(&self, seq: u64) -> Arc<Node> {
        let mut node = &self.node;
        while let Some((before, last)) = &node.before
            && seq <= *last
        {
            node = before;
        }
        Arc::clone(node)
    }

    /// Visits the records and gaps after a number until `take` breaks.
    pub(super) fn each(
        &self,
        after: u64,
        mut take: impl FnMut(Piece) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut parts = vec![(&*self.node, self.last)];
        while let Some((node, _)) = parts.last()
            && let Some((before, last)) = node.before.as_ref().filter(|(_, last)| after < *last)
        {
            parts.push((before, *last));
        }
        for (node, last) in parts.into_iter().rev() {
            let after = after.max(node.after());
            let pruned = node.pruned.min(last);
            if after < pruned {
                take(Piece::Gap(after + 1..=pruned))?;
            }
            let place = |seq: u64| usize::try_from(seq.saturating_sub(node.pruned));
            let (from, to) = (place(after), place(last));
            let records = node.records.get(from.unwrap_or(0)..to.unwrap_or(0));
            for record in records.unwrap_or_default() {
                take(Piece::Record(self.shown(record)))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Shows a record as the stream's own.
    fn shown(&self, record: &Record) -> Record {
        let event = &record.event;
        let taken = self.taken.filter(|taken| event.seq() <= taken.last);
        let Some(taken) = taken else {
            return record.clone();
        };
        Record {
            position: record.position,
            event: if event.session_id == taken.session_id {
                Arc::clone(event)
            } else {
                Arc::new(Event {
                    session_id: taken.session_id,
                    ..Event::clone(event)
                })
            },
        }
    }

    /// Gives the newest node up to its only owner, with what lies before it and its number; an error where it is not the
    /// stream's own, or not its alone.
    pub(super) fn into_own(self) -> Result<(Option<Self>, u64, Vec<Record>), Self> {
        let Self { node, last, taken } = self;
        let is_taken = taken.is_some_and(|taken| node.after() < taken.last);
        let again = |node| Self { node, last, taken };
        if is_taken {
            return Err(again(node));
        }
        let node = Arc::try_unwrap(node).map_err(again)?;
        let before = node.before.map(|(node, last)| Self { node, last, taken });
        Ok((before, node.pruned, node.records))
    }
}
