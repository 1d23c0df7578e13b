//! Records at the start of several streams. The streams share ownership, so the records are dropped with the last one.

use std::ops::ControlFlow;
use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;

use super::stream::{MemoryRecord, StreamPart};

/// Immutable records, and the node before them.
#[derive(Debug, Default)]
pub(super) struct RecordNode {
    before: Option<(Arc<RecordNode>, u64)>,
    /// The number before the first record below. If it is greater than the last number of the preceding node, retention removed some.
    pruned: u64,
    records: Vec<MemoryRecord>,
}

impl RecordNode {
    /// Returns the number before the first record of this node.
    fn after(&self) -> u64 {
        self.before.as_ref().map_or(0, |(_, last)| *last)
    }
}

/// The shared beginning of a stream.
#[derive(Debug)]
pub(super) struct SharedPrefix {
    node: Arc<RecordNode>,
    /// The last shared record.
    pub(super) last: u64,
    /// How a fork shows records of another session.
    fork: Option<ForkView>,
}

/// Records up to `last`, which a fork shows under its own session ID.
#[derive(Debug, Clone, Copy)]
struct ForkView {
    last: u64,
    session_id: SessionId,
}

impl SharedPrefix {
    /// Begins a fork with a node up to a number.
    pub(super) fn fork(node: Arc<RecordNode>, last: u64, session_id: SessionId) -> Self {
        Self {
            node,
            last,
            fork: Some(ForkView { last, session_id }),
        }
    }

    /// Adds records after the shared beginning of a stream.
    pub(super) fn extend(
        before: Option<Box<Self>>,
        pruned: u64,
        records: Vec<MemoryRecord>,
        last: u64,
    ) -> Self {
        let fork = before.as_ref().and_then(|before| before.fork);
        let before = before.map(|before| (before.node, before.last));
        let node = Arc::new(RecordNode {
            before,
            pruned,
            records,
        });
        Self { node, last, fork }
    }

    /// Returns the last record that a fork has from its parent; 0 if the stream is no fork.
    pub(super) fn last_forked(&self) -> u64 {
        self.fork.map_or(0, |fork| fork.last)
    }

    /// Returns the node that contains a number.
    pub(super) fn node_at(&self, seq: u64) -> Arc<RecordNode> {
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
        mut take: impl FnMut(StreamPart) -> ControlFlow<()>,
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
                take(StreamPart::Gap(after + 1..=pruned))?;
            }
            let index = |seq: u64| usize::try_from(seq.saturating_sub(node.pruned));
            let (from, to) = (index(after), index(last));
            let records = node.records.get(from.unwrap_or(0)..to.unwrap_or(0));
            for record in records.unwrap_or_default() {
                take(StreamPart::Record(self.shown(record)))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Shows a record as the stream's own.
    fn shown(&self, record: &MemoryRecord) -> MemoryRecord {
        let event = &record.event;
        let is_from_parent = |fork: &ForkView| event.seq() <= fork.last;
        match self.fork.filter(is_from_parent) {
            Some(fork) if event.session_id != fork.session_id => MemoryRecord {
                position: record.position,
                event: Arc::new(Event {
                    session_id: fork.session_id,
                    ..Event::clone(event)
                }),
            },
            _ => record.clone(),
        }
    }

    /// Takes the records of the newest node, with the preceding nodes and the number before its first record. Returns itself if another stream shares
    /// the node, or the stream has it from its parent.
    pub(super) fn into_own(self) -> Result<(Option<Self>, u64, Vec<MemoryRecord>), Self> {
        let Self { node, last, fork } = self;
        let is_from_parent = fork.is_some_and(|fork| node.after() < fork.last);
        let unchanged = |node| Self { node, last, fork };
        if is_from_parent {
            return Err(unchanged(node));
        }
        let node = Arc::try_unwrap(node).map_err(unchanged)?;
        let before = node.before.map(|(node, last)| Self { node, last, fork });
        Ok((before, node.pruned, node.records))
    }
}
